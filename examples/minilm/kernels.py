"""One MiniLM encoder layer as two NKI kernels: self-attention and MLP, each with residual and LayerNorm.

Layouts. A NeuronCore multiplies with the contraction axis on the 128 partitions, so an activation exists
in two forms: *token-major* [tokens, features], which LayerNorm and softmax want (they reduce along the free
axis), and *feature-major* [features, tokens], which a projection wants as its operand. 128x128 transposes on
the Tensor engine lead from one to the other.

    hidden [tokens, 384]  --transpose-->  feature-major  --W-->  q, k: feature-major   v: token-major
    scores[q, k] per head (contraction over 32 features: four heads share the array as four row tiles)
    softmax along k, transpose, times v  -->  context, token-major  --transpose, W-->  token-major
    + residual, LayerNorm

Tile limits used: contraction <= 128 partitions, stationary <= 128 columns, moving <= 512 columns, one PSUM
bank holds 512 fp32 per partition. Weights arrive as [in, out] (PyTorch keeps [out, in]) and biases of
feature-major results as [128, features / 128]: column j holds features 128 j to 128 j + 127. See weights.py.
"""

import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

P = 128  # partitions
HEAD_DIM = 32
HEADS_PER_TILE = P // HEAD_DIM
LAYER_NORM_EPSILON = 1e-12  # BERT's
TOKENS_PER_BLOCK = 512  # the widest moving operand


def load_rows(source):
    """[128 n, f] in HBM -> n SBUF tiles [128, f]."""
    rows, columns = source.shape
    tiles = []
    for i in range(rows // P):
        tile = nl.ndarray((P, columns), dtype=source.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source[i * P : (i + 1) * P, :])
        tiles.append(tile)
    return tiles


def load(source):
    """A tensor of at most 128 rows -> one SBUF tile."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def load_to_all_partitions(row):
    """[1, n] in HBM -> [128, n] in SBUF: every partition reads the same row (partition step 0)."""
    count = row.shape[1]
    tile = nl.ndarray((P, count), dtype=row.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=row.ap(pattern=[[0, P], [1, count]], offset=0))
    return tile


def to_feature_major(tiles, dtype):
    """n token-major tiles [128, f] -> f / 128 feature-major tiles [128, 128 n]."""
    features = tiles[0].shape[1]
    result = []
    for j in range(features // P):
        tile = nl.ndarray((P, P * len(tiles)), dtype=dtype, buffer=nl.sbuf)
        for i, source in enumerate(tiles):
            turned = nl.ndarray((P, P), dtype=source.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=source[:, j * P : (j + 1) * P])
            nisa.tensor_copy(dst=tile[:, i * P : (i + 1) * P], src=turned)
        result.append(tile)
    return result


def project_feature_major(x, weight, bias, op, dtype):
    """op(W^T x + b): x is feature-major tiles, the result too. bias: [128, out / 128], fp32."""
    tokens = x[0].shape[1]
    result = []
    for j in range(weight[0].shape[1] // P):
        acc = nl.ndarray((P, tokens), dtype=nl.float32, buffer=nl.psum)
        for k in range(len(x)):
            stationary = weight[k][:, j * P : (j + 1) * P]
            nisa.nc_matmul(dst=acc, stationary=stationary, moving=x[k], accumulate=k > 0)
        tile = nl.ndarray((P, tokens), dtype=dtype, buffer=nl.sbuf)
        nisa.activation(dst=tile, op=op, data=acc, bias=bias[:, j : j + 1])
        result.append(tile)
    return result


def project_token_major(x, weight, first_token):
    """x^T W for the 128 tokens from `first_token`: [128, out] in PSUM. x: feature-major tiles."""
    acc = nl.ndarray((P, weight[0].shape[1]), dtype=nl.float32, buffer=nl.psum)
    for k in range(len(x)):
        stationary = x[k][:, first_token : first_token + P]
        nisa.nc_matmul(dst=acc, stationary=stationary, moving=weight[k], accumulate=k > 0)
    return acc


def residual_layer_norm(projected, bias, residual, gamma, beta, dtype):
    """LayerNorm(projected + bias + residual) of a token-major tile [128, features], in fp32, rounded once."""
    features = residual.shape[1]
    total = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=projected, data2=bias, op=nl.add)
    nisa.tensor_tensor(dst=total, data1=total, data2=residual, op=nl.add)

    statistics = nl.ndarray((P, 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(dst=statistics, data=total)
    moments = nl.ndarray((P, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_aggr(dst=moments, data=statistics)
    scale = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=scale, data=moments[:, 1:2], op0=nl.add, operand0=LAYER_NORM_EPSILON, op1=nl.power, operand1=-0.5
    )

    normal = nl.ndarray((P, features), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=normal, data=total, op0=nl.subtract, operand0=moments[:, 0:1], op1=nl.multiply, operand1=scale
    )
    nisa.tensor_tensor(dst=normal, data1=normal, data2=gamma, op=nl.multiply)
    result = nl.ndarray((P, features), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=normal, data2=beta, op=nl.add)
    return result


def attention_logits(q, k, mask):
    """Scaled and masked scores of four heads: [128 queries, 4, 128 keys], fp32.

    q, k: [128 = 4 heads x 32 features, 128 tokens]; mask: [128, 4, 128], 0 or a large negative number per key.
    """
    scores = nl.ndarray((P, HEADS_PER_TILE, P), dtype=nl.float32, buffer=nl.psum)
    for head in range(HEADS_PER_TILE):
        rows = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
        # A head's contraction is only 32 long: as a row tile it takes a quarter of the array.
        nisa.nc_matmul(
            dst=scores[:, head, :],
            stationary=q[rows, :],
            moving=k[rows, :],
            accumulate=False,
            tile_position=(head * HEAD_DIM, 0),
            tile_size=(HEAD_DIM, P),
        )
    logits = nl.ndarray((P, HEADS_PER_TILE, P), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=logits, data=scores, op0=nl.multiply, operand0=HEAD_DIM**-0.5, op1=nl.add, operand1=mask
    )
    return logits


def exponentials(logits, dtype):
    """exp(logits - maximum) per query and head, in `dtype`, and one over their sums, [128, 4, 1] fp32."""
    negative_max = nl.ndarray((P, HEADS_PER_TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=negative_max, op=nl.maximum, data=logits, axis=2, negate=True)
    powers = nl.ndarray((P, HEADS_PER_TILE, P), dtype=dtype, buffer=nl.sbuf)
    sums = nl.ndarray((P, HEADS_PER_TILE), dtype=nl.float32, buffer=nl.sbuf)
    for head in range(HEADS_PER_TILE):
        nisa.activation(
            dst=powers[:, head, :],
            op=nl.exp,
            data=logits[:, head, :],
            bias=negative_max[:, head : head + 1],
            reduce_op=nl.add,
            reduce_res=sums[:, head : head + 1],
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
    inverse = nl.ndarray((P, HEADS_PER_TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=sums)
    return powers, inverse


def mix_values(powers, inverse, v, context):
    """context [128 queries, 4 x 32] = (powers times v) times inverse. v: [128 keys, 4 x 32].

    All heads share one PSUM bank, so that one copy and one multiplication serve four of them.
    """
    turned = nl.ndarray((P, HEADS_PER_TILE, P), dtype=powers.dtype, buffer=nl.psum)
    for head in range(HEADS_PER_TILE):
        nisa.nc_transpose(dst=turned[:, head, :], data=powers[:, head, :])
    keys_first = nl.ndarray((P, HEADS_PER_TILE, P), dtype=powers.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=keys_first, src=turned)
    mixed = nl.ndarray((P, HEADS_PER_TILE, HEAD_DIM), dtype=nl.float32, buffer=nl.psum)
    for head in range(HEADS_PER_TILE):
        moving = v[:, head * HEAD_DIM : (head + 1) * HEAD_DIM]
        nisa.nc_matmul(
            dst=mixed[:, head, :], stationary=keys_first[:, head, :], moving=moving, accumulate=False
        )
    by_head = context.reshape_dim(1, (HEADS_PER_TILE, HEAD_DIM))
    nisa.tensor_tensor(dst=by_head, data1=mixed, data2=inverse.broadcast(2, HEAD_DIM), op=nl.multiply)


@nki.jit
def self_attention(hidden, mask, wq, bq, wk, bk, wv, bv, wo, bo, gamma, beta):
    """LayerNorm(hidden + attention(hidden)) for sentences of 128 tokens.

    hidden: [128 * sentences, features]; mask: [sentences, 128] fp32; wq, wk, wv, wo: [features, features];
    bq, bk: [128, features / 128] fp32; bv, bo, gamma, beta: [1, features] fp32. Returns what hidden is.
    """
    tokens, features = hidden.shape
    dtype = hidden.dtype
    result = nl.ndarray((tokens, features), dtype=dtype, buffer=nl.shared_hbm)

    query_weight, key_weight = load_rows(wq), load_rows(wk)
    value_weight, out_weight = load_rows(wv), load_rows(wo)
    query_bias, key_bias = load(bq), load(bk)
    value_bias, out_bias = load_to_all_partitions(bv), load_to_all_partitions(bo)
    scale, shift = load_to_all_partitions(gamma), load_to_all_partitions(beta)

    for sentence in range(tokens // P):
        x = nl.ndarray((P, features), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=hidden[sentence * P : (sentence + 1) * P, :])
        # Every partition (query) and every head sees the same row of the mask.
        key_mask = nl.ndarray((P, HEADS_PER_TILE, P), dtype=nl.float32, buffer=nl.sbuf)
        repeated = mask.ap(pattern=[[0, P], [0, HEADS_PER_TILE], [1, P]], offset=sentence * P)
        nisa.dma_copy(dst=key_mask, src=repeated)

        x_turned = to_feature_major([x], dtype)
        query = project_feature_major(x_turned, query_weight, query_bias, nl.copy, dtype)
        key = project_feature_major(x_turned, key_weight, key_bias, nl.copy, dtype)
        value = nl.ndarray((P, features), dtype=dtype, buffer=nl.sbuf)
        projected = project_token_major(x_turned, value_weight, 0)
        nisa.tensor_tensor(dst=value, data1=projected, data2=value_bias, op=nl.add)

        context = nl.ndarray((P, features), dtype=dtype, buffer=nl.sbuf)
        # Step by step for all heads, not head by head: while one engine works on a group of four heads, the
        # others find work in another group.
        logits = []
        for j in range(features // P):
            logits.append(attention_logits(query[j], key[j], key_mask))
        softened = []
        for j in range(features // P):
            softened.append(exponentials(logits[j], dtype))
        for j in range(features // P):
            columns = slice(j * P, (j + 1) * P)
            powers, inverse = softened[j]
            mix_values(powers, inverse, value[:, columns], context[:, columns])

        projected = project_token_major(to_feature_major([context], dtype), out_weight, 0)
        normal = residual_layer_norm(projected, out_bias, x, scale, shift, dtype)
        nisa.dma_copy(dst=result[sentence * P : (sentence + 1) * P, :], src=normal)
    return result


@nki.jit
def mlp(hidden, w1, b1, w2, b2, gamma, beta):
    """LayerNorm(hidden + W2 gelu(W1 hidden + b1) + b2), exact (erf) GELU.

    hidden: [tokens, features], tokens a multiple of 128; w1: [features, inner]; b1: [128, inner / 128] fp32;
    w2: [inner, features]; b2, gamma, beta: [1, features] fp32. Returns hidden's shape and dtype.
    """
    tokens, features = hidden.shape
    dtype = hidden.dtype
    result = nl.ndarray((tokens, features), dtype=dtype, buffer=nl.shared_hbm)

    up, down, up_bias = load_rows(w1), load_rows(w2), load(b1)
    down_bias = load_to_all_partitions(b2)
    scale, shift = load_to_all_partitions(gamma), load_to_all_partitions(beta)

    for block in range(0, tokens, TOKENS_PER_BLOCK):
        end = min(block + TOKENS_PER_BLOCK, tokens)
        x = load_rows(hidden[block:end, :])
        inner = project_feature_major(to_feature_major(x, dtype), up, up_bias, nl.gelu, dtype)
        for i in range(len(x)):
            projected = project_token_major(inner, down, i * P)
            normal = residual_layer_norm(projected, down_bias, x[i], scale, shift, dtype)
            nisa.dma_copy(dst=result[block + i * P : block + (i + 1) * P, :], src=normal)
    return result
