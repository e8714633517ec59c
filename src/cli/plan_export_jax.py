"""A training step in the layout of a plan, for JAX: written by `opentrn plan --export jax`.

    python train.py --steps 2            # on as many devices as the plan has ranks
    python train.py --steps 2 --whole    # the same step on one device: its losses are the same
    python train.py --time               # predicted time and memory of a step, compiled and not run

Products read weights in the plan's precision; the optimizer keeps them in float32. The mesh has the plan's axes.
"""

from __future__ import annotations

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

PLAN = json.loads(r"""{{plan}}""")
MODEL, LAYOUT = PLAN["model"], PLAN["layout"]
DTYPE = {"bf16": jnp.bfloat16, "fp32": jnp.float32}[PLAN["precision"]]
PP, DP, CP, TP, SP = (LAYOUT[name] for name in ("pp", "dp", "cp", "tp", "sp"))
ZERO = LAYOUT["zero"] if DP * CP > 1 else 0  # of one rank of data parallelism nothing is in parts
# A stage has as many chunks of blocks; the blocks of each chunk in their order, and of the longest one.
VPP, BLOCKS = LAYOUT["vpp"], LAYOUT["blocks"]
LONGEST = max(BLOCKS)
HIDDEN, HEADS, KEY_HEADS, HEAD = MODEL["hidden"], MODEL["heads"], MODEL["kv_heads"], MODEL["head_dim"]
# Of latent attention (0: none): widths of what queries, and keys with values, are made of; features of a head that
# have no position, and that have one; and of its values.
QUERY_RANK, KV_RANK, NOPE = MODEL["query_rank"], MODEL["kv_rank"], MODEL["nope_dim"]
ROPE, VALUE, FFN, VOCABULARY = MODEL["rope_dim"], MODEL["value_dim"], MODEL["ffn"], MODEL["vocabulary"]
# Of experts: how many a token meets, and how many tokens of a sequence (or of a device's run of one) each takes.
EXPERTS, CHOSEN, EP, CAPACITY = MODEL["experts"], MODEL["active_experts"], LAYOUT["ep"], LAYOUT["capacity"]
# A query meets tokens before it, as many as a window has where a block has one; or all, of an encoder.
CAUSAL, WINDOW, WINDOWED = MODEL["causal"], MODEL["window"], MODEL["windowed"]
IS_JOINT = MODEL["streams"] > 1  # tokens are of images and of text, with weights of their own
IMAGES = MODEL["patch_features"] > 0 and not IS_JOINT  # tokens are patches, and the vocabulary is of what images are
SHARED, DENSE = MODEL["shared_ffn"], MODEL["dense_layers"]  # width of experts of all tokens; first blocks without any
# Axes that cut a batch; ranks that share a set of experts are next to each other.
BATCH = ("dp", "ep") if EXPERTS else ("dp",)
# Devices with tokens of their own: context parallelism cuts each sequence.
DATA = (*BATCH, "cp") if CP > 1 else BATCH
# Axes that cut a model's ends. Stages go through a step together, so all of them have a part of both ends' work.
ENDS = ("pp", "tp") if PP > 1 else ("tp",)
HIDDEN_EACH = 8  # of an encoder's tokens one
CHUNKS = ()  # the axes that cut the dimension of chunks


def shapes() -> dict:
    """Name -> (shape, axis of the mesh by dimension): how tensor parallelism cuts each weight.

    A layer of each stage is one weight, whose first dimension has those of all stages. Chunks are a dimension before.
    """
    if IS_JOINT:
        return {"layers": [streams_layer() for _ in range(LONGEST)], "ends": streams_ends()}  # noqa: F821
    ends = {**norm("norm"), **(image_ends() if IMAGES else word_ends())}  # noqa: F821
    layers = [one_layer(*kinds_of(i)) for i in range(LONGEST)]
    if PP > 1:
        layers = [{name: of_stages(*s) for name, s in layer.items()} for layer in layers]
    return {"layers": layers, "ends": ends}


def word_ends() -> dict:
    ends = {"embedding": ((VOCABULARY, HIDDEN), (None, ENDS))}
    if not MODEL["tied"]:
        ends["output"] = ((HIDDEN, VOCABULARY), (None, ENDS))
    if MODEL["positions"]:
        ends["positions"] = ((MODEL["positions"], HIDDEN), (None, ENDS))
    return ends


def of_stages(shape: tuple, axes: tuple) -> tuple:
    shape, axes = (PP * shape[0], *shape[1:]), ("pp" if axes[0] is None else ("pp", axes[0]), *axes[1:])
    return ((VPP, *shape), (CHUNKS, *axes)) if VPP > 1 else (shape, axes)


def norm(name: str, width: int = HIDDEN) -> dict:
    made = {name: ((width,), (None,))}
    return made if MODEL["root_mean_square"] else {**made, name + "_bias": made[name]}


def with_biases(weights: dict) -> dict:
    """Of products; a bias is cut as what its product gives."""
    if not MODEL["biases"]:
        return weights
    return {**weights, **{name + "_bias": ((s[0][-1],), (s[1][-1],)) for name, s in weights.items()}}


def attention_layer() -> dict:
    key_values = "tp" if KEY_HEADS % TP == 0 else None
    if not KV_RANK:
        of_keys = ((HIDDEN, KEY_HEADS * HEAD), (None, key_values))
        of_queries = {"q": ((HIDDEN, HEADS * HEAD), (None, "tp"))}
        return with_biases({**of_queries, "k": of_keys, "v": of_keys, "o": ((HEADS * HEAD, HIDDEN), ("tp", None))})
    of_queries = {"q_down": ((HIDDEN, QUERY_RANK), (None, None)), **norm("q_norm", QUERY_RANK)} if QUERY_RANK else {}
    return {
        **of_queries,
        "q": ((QUERY_RANK or HIDDEN, HEADS * (NOPE + ROPE)), (None, "tp")),
        "kv_down": ((HIDDEN, KV_RANK + ROPE), (None, None)),
        **norm("kv_norm", KV_RANK),
        "kv_up": ((KV_RANK, HEADS * (NOPE + VALUE)), (None, "tp")),
        "o": ((HEADS * VALUE, HIDDEN), ("tp", None)),
    }


def kinds_of(place: int) -> tuple[bool, bool]:
    """Whether a place of a chunk has a block without experts on some stage, and one with them on some."""
    numbers = [sum(BLOCKS[:chunk]) + place for chunk in range(PP * VPP) if place < BLOCKS[chunk]]
    is_dense = [not EXPERTS or number < DENSE for number in numbers]
    return any(is_dense), not all(is_dense)


def dense_chunks(place: int) -> int:
    """The first of all chunks, of which that place has no experts."""
    return sum(sum(BLOCKS[:chunk]) + place < DENSE for chunk in range(PP * VPP))


def one_layer(is_dense: bool, has_experts: bool) -> dict:
    """Stages do the same: where some have a block without experts and others one with them, all have both."""
    layer = {**norm("norm1"), **norm("norm2"), **attention_layer()}
    if has_experts:
        inner = MODEL["expert_ffn"]
        layer["router"] = ((HIDDEN, EXPERTS), (None, None))
        layer["up"] = ((EXPERTS, HIDDEN, inner), ("ep", None, "tp"))
        layer["down"] = ((EXPERTS, inner, HIDDEN), ("ep", "tp", None))
        if MODEL["biases"]:
            layer["router_bias"] = ((EXPERTS,), (None,))
            layer["up_bias"] = ((EXPERTS, inner), ("ep", "tp"))
            layer["down_bias"] = ((EXPERTS, HIDDEN), ("ep", None))
        if SHARED:
            layer["shared_up"] = ((HIDDEN, SHARED), (None, "tp"))
            layer["shared_down"] = ((SHARED, HIDDEN), ("tp", None))
    if is_dense:
        of = "dense_" if has_experts else ""
        weights = {of + "up": ((HIDDEN, FFN), (None, "tp")), of + "down": ((FFN, HIDDEN), ("tp", None))}
        layer |= with_biases(weights)
    if MODEL["gated"]:
        for name in [name for name in layer if name.removesuffix("_bias") in ("up", "shared_up", "dense_up")]:
            layer[name.replace("up", "gate")] = layer[name]
    return layer


def is_leaf(x: object) -> bool:
    return isinstance(x, tuple)


def axes_of(s: tuple) -> set[str]:
    """Those that cut a weight."""
    return {axis for cut in s[1] if cut for axis in ([cut] if isinstance(cut, str) else cut)}


def holders(s: tuple) -> tuple[str, ...]:
    """The axes of data parallelism along which all ranks have a weight: fewer have an expert's."""
    return tuple(axis for axis in DATA if axis not in axes_of(s))


def cut_over_data(s: tuple) -> int | None:
    """The dimension that ZeRO cuts of a weight and its optimizer state: the first that only stages cut, if any do."""
    shape, axes = s
    ranks = DP * CP // (EP if "ep" in axes_of(s) else 1)
    of_stage = lambda i: shape[i] // (PP if axes[i] == "pp" else 1)  # noqa: E731
    return next((i for i in range(len(shape)) if axes[i] in (None, "pp") and of_stage(i) % ranks == 0), None)


def spec(s: tuple, over_data: bool) -> P:
    cut = list(s[1])
    if over_data and (at := cut_over_data(s)) is not None:
        cut[at] = ("pp", *holders(s)) if cut[at] == "pp" else holders(s)
    return P(*cut)


def specs(over_data: bool) -> dict:
    return jax.tree.map(lambda s: spec(s, over_data), shapes(), is_leaf=is_leaf)


def attention_weights(q, k, first):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32) * q.shape[-1] ** -0.5
    if not CAUSAL:
        return jax.nn.softmax(scores, -1)
    if scores.shape[2] < scores.shape[3] and first is None:
        return jax.nn.softmax(in_window(scores), -1)  # noqa: F821
    counted = lambda axis: jax.lax.broadcasted_iota(jnp.int32, scores.shape[2:], axis)  # noqa: E731
    before = jnp.tril(jnp.ones(scores.shape[2:], bool)) if first is None else first + counted(0) >= counted(1)
    return jax.nn.softmax(jnp.where(before, scores, -1e30), -1)


# {{windows}}


def with_gradient(kept, gradient):
    """Both, as of the backward pass: what it makes of `kept` again is not made in the forward pass and kept too."""
    return jax.lax.optimization_barrier((kept, gradient))


@jax.custom_vjp
def attended(q, k, v, first):
    """Causal attention of [sequences, heads, tokens, head]; `first`: where queries begin that are not all."""
    return jnp.einsum("bhqk,bhkd->bhqd", attention_weights(q, k, first).astype(DTYPE), v)


def attended_forward(q, k, v, first):
    made = attended(q, k, v, first)
    return made, ((q, k, v, made), first)


def attended_backward(kept, gradient):
    """As flash attention: the weights are made again, and not kept, which would be most of the memory."""
    kept, first = kept
    (q, k, v, made), gradient = with_gradient(kept, gradient)
    weights = attention_weights(q, k, first)
    of_v = jnp.einsum("bhqk,bhqd->bhkd", weights.astype(DTYPE), gradient)
    of_weights = jnp.einsum("bhqd,bhkd->bhqk", gradient, v, preferred_element_type=jnp.float32)
    wide = jnp.float32
    of_row = jnp.sum(made.astype(wide) * gradient.astype(wide), -1, keepdims=True)
    of_scores = (weights * (of_weights - of_row) * q.shape[-1] ** -0.5).astype(DTYPE)
    return jnp.einsum("bhqk,bhkd->bhqd", of_scores, k), jnp.einsum("bhqk,bhqd->bhkd", of_scores, q), of_v, None


attended.defvjp(attended_forward, attended_backward)


def unit(x):
    """Rows of mean square 1 (and mean 0, where the model's norms have it) in float32, and what made them so."""
    wide = x.astype(jnp.float32)
    if not MODEL["root_mean_square"]:
        wide = wide - jnp.mean(wide, -1, keepdims=True)
    root = jax.lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)
    return wide * root, root


def product(x, w):
    """`w` may know better, as that it is to have its gradient later."""
    return product_now(x, w) if isinstance(w, jax.Array) else w.product(x)


@jax.custom_vjp
def product_now(x, w):
    return x @ w


def product_backward(kept, gradient):
    """As automatic differentiation has it, but for the weight's gradient, which it makes turned and turns back."""
    x, w = kept
    return jnp.einsum("bso,io->bsi", gradient, w), jnp.einsum("bsi,bso->io", x, gradient)


product_now.defvjp(lambda x, w: (x @ w, (x, w)), product_backward)


@jax.custom_vjp
def product_turned(x, w):
    """By a weight whose rows are what the product gives: the table of embeddings as an output layer."""
    return jnp.einsum("bsi,oi->bso", x, w)


def product_turned_backward(kept, gradient):
    x, w = kept
    return jnp.einsum("bso,oi->bsi", gradient, w), jnp.einsum("bso,bsi->oi", gradient, x)


product_turned.defvjp(lambda x, w: (product_turned(x, w), (x, w)), product_turned_backward)


@jax.custom_vjp
def normed(x, scale):
    return unit(x)[0].astype(DTYPE) * scale


def normed_backward(kept, gradient):
    """Of the input alone, which is kept as it is: what the norm made of it in float32 is made again."""
    (x, scale), gradient = with_gradient(kept, gradient)
    normal, root = unit(x)
    wide = gradient.astype(jnp.float32)
    of_scale = jnp.sum(wide * normal, tuple(range(x.ndim - 1))).astype(scale.dtype)
    of_normal = wide * scale.astype(jnp.float32)
    inner = of_normal - normal * jnp.mean(of_normal * normal, -1, keepdims=True)
    if not MODEL["root_mean_square"]:
        inner = inner - jnp.mean(of_normal, -1, keepdims=True)
    return (inner * root).astype(x.dtype), of_scale


normed.defvjp(lambda x, scale: (normed(x, scale), (x, scale)), normed_backward)


@jax.custom_vjp
def shifted(x, bias):
    return x + bias


def shifted_backward(bias, gradient):
    return gradient, jnp.sum(gradient.astype(jnp.float32), tuple(range(gradient.ndim - 1))).astype(bias.dtype)


shifted.defvjp(lambda x, bias: (shifted(x, bias), bias), shifted_backward)


def norm_of(x, w, name):
    return with_bias(normed(x, w[name]), w, name)


def linear(x, w, name):
    return with_bias(product(x, w[name]), w, name)


def with_bias(x, w, name):
    return shifted(x, w[name + "_bias"]) if name + "_bias" in w else x


@jax.custom_vjp
def gated(gate, up):
    """silu(gate) * up."""
    wide = gate.astype(jnp.float32)
    return (wide * jax.nn.sigmoid(wide) * up.astype(jnp.float32)).astype(DTYPE)


def gated_backward(kept, gradient):
    kept, gradient = with_gradient(kept, gradient)
    gate, up, wide = (each.astype(jnp.float32) for each in (*kept, gradient))
    share = jax.nn.sigmoid(gate)
    of_gate = wide * up * share * (1 + gate * (1 - share))
    return of_gate.astype(DTYPE), (wide * gate * share).astype(DTYPE)


gated.defvjp(lambda gate, up: (gated(gate, up), (gate, up)), gated_backward)


GELU_SCALE, GELU_CUBE = 2 * (2 / np.pi) ** 0.5, 0.044715


def gelu_share(wide):
    return jax.nn.sigmoid(wide * (GELU_SCALE * GELU_CUBE * (wide * wide) + GELU_SCALE))


@jax.custom_vjp
def gelu(up):
    """By tanh, as jax.nn.gelu; 1 + tanh(x) is 2 sigmoid(2 x)."""
    wide = up.astype(jnp.float32)
    return (wide * gelu_share(wide)).astype(DTYPE)


def gelu_backward(kept, gradient):
    up, gradient = with_gradient(kept, gradient)
    wide = up.astype(jnp.float32)
    share = gelu_share(wide)
    slope = wide * (3 * GELU_SCALE * GELU_CUBE * (wide * wide) + GELU_SCALE)
    return ((gradient.astype(jnp.float32) * (share * (1 + slope * (1 - share)))).astype(DTYPE),)


gelu.defvjp(lambda up: (gelu(up), up), gelu_backward)


# {{experts}}


def is_label(like, labels):
    return jax.lax.broadcasted_iota(jnp.int32, like.shape, like.ndim - 1) == labels[..., None]


def surprise_forward(logits, labels):
    """Where labels are is made of logits that are there, and made again behind them: it is as large as they are."""
    logits, labels = jax.lax.optimization_barrier((logits, labels))
    largest = jax.lax.pmax(jnp.max(logits, -1, keepdims=True), ENDS)
    raised = jnp.exp(logits - largest)
    total = jax.lax.psum(jnp.sum(raised, -1), ENDS)
    own = jax.lax.psum(jnp.sum(jnp.where(is_label(logits, labels), logits, 0), -1), ENDS)
    return jnp.log(total) + largest[..., 0] - own, (raised, total, labels)


@jax.custom_vjp
def surprise(logits, labels):
    """Minus the logarithm of what each token's label gets; labels count from this device's part of the vocabulary."""
    return surprise_forward(logits, labels)[0]


def surprise_backward(kept, gradient):
    (raised, total, labels), gradient = with_gradient(kept, gradient)
    of_label = is_label(raised, labels).astype(jnp.float32) * gradient[..., None]
    return raised * (gradient / total)[..., None] - of_label, None


surprise.defvjp(surprise_forward, surprise_backward)


def is_hidden(shape):
    """Every eighth token of a sequence, which an encoder finds out by the others."""
    return jax.lax.rem(jax.lax.broadcasted_iota(jnp.int32, shape, len(shape) - 1), HIDDEN_EACH) == 0


def given(tokens):
    """What is looked up: all but the last, which is a label alone; of an encoder the last row of the table in place
    of hidden ones."""
    tokens = tokens[..., :-1]
    return tokens if CAUSAL else jnp.where(is_hidden(tokens.shape), VOCABULARY - 1, tokens)


def updated(master, moment, square, gradient, count):
    """Adam's step by a sum of gradients of so many micro-batches: what is kept, and the weight as products read it.

    One weight after the other, so that no gradient is written to memory in float32.
    """
    gradient = gradient.astype(jnp.float32)
    moment = 0.9 * moment + (0.1 / count) * gradient
    square = 0.99 * square + (0.01 / count**2) * gradient * gradient
    master = master - 1e-3 * moment * jax.lax.rsqrt(square + 1e-12)
    return master, moment, square, master.astype(DTYPE)


def micro_batches_of(tokens):
    return len(jax.tree.leaves(tokens)[0])


class Step:
    """The step on a mesh of stages, data and tensor parallelism, as one device runs it: its parts in and out."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.tp = mesh.shape["tp"]
        self.stages = mesh.shape.get("pp", 1)
        self.ranks = mesh.size // self.tp // self.stages  # with tokens of their own
        self.length = PLAN["seq"] // mesh.shape.get("cp", 1)  # of what a device has of a sequence

    def first(self):
        """Of the tokens of a sequence that this device has; none where it has all."""
        return jax.lax.axis_index("cp") * self.length if CP > 1 else None

    def own(self, x, axis, more=0):
        """What is this device's of a sequence."""
        return jax.lax.dynamic_slice_in_dim(x, self.first(), self.length + more, axis) if CP > 1 else x

    def angles(self):
        """Cosines and sines by which the halves of a head turn, of the tokens that this device has."""
        half = (ROPE if KV_RANK else HEAD) // 2
        angles = np.outer(np.arange(PLAN["seq"]), 1e4 ** (-np.arange(half) / half))
        cosine, sine = np.cos(angles), np.sin(angles)
        table = lambda *halves: np.stack(halves, 1)[None, :, None].astype(np.float32)  # noqa: E731
        return tuple(self.own(table(*halves), 1) for halves in ((cosine, cosine), (-sine, sine)))

    def rotated(self, x):
        straight, swapped = self.turns
        pairs = x.astype(jnp.float32).reshape(*x.shape[:3], 2, -1)
        return (pairs * straight + jax.lax.rev(pairs, (3,)) * swapped).reshape(x.shape).astype(DTYPE)

    def whole_tokens(self, x):
        """With sequence parallelism a device has a part of each sequence between blocks, and all of it inside."""
        return jax.lax.all_gather(x, "tp", axis=1, tiled=True) if SP else x

    def summed(self, x):
        """What the devices of tensor parallelism add up to; with sequence parallelism each keeps its tokens."""
        return jax.lax.psum_scatter(x, "tp", scatter_dimension=1, tiled=True) if SP else jax.lax.psum(x, "tp")

    def attention(self, h, w, in_window):
        q, k, v = self.latent_heads(h, w) if KV_RANK else self.heads(h, w)
        if in_window:
            q, k, v = in_blocks(q, k, v)  # noqa: F821
        k, v = (self.of_queries(self.of_sequence(y), q.shape[2]) for y in (k, v))
        by_head = lambda y: jnp.swapaxes(y, 1, 2)  # noqa: E731
        mixed = by_head(attended(by_head(q), by_head(k), by_head(v), self.first()))
        mixed = mixed.reshape(h.shape[0], -1, mixed.shape[2] * mixed.shape[3])[:, : h.shape[1]]
        return product(mixed, w["o"])

    def heads(self, h, w):
        q, k, v = (linear(h, w, name).reshape(*h.shape[:2], -1, HEAD) for name in "qkv")
        return (self.rotated(q), self.rotated(k), v) if CAUSAL and not MODEL["positions"] else (q, k, v)

    def latent_heads(self, h, w):
        """Every device makes the compressed queries, and keys and values, and of them its own heads. All heads have
        the same features of keys that have positions."""
        of_head = lambda y: y.reshape(*h.shape[:2], -1, y.shape[-1] * self.tp // HEADS)  # noqa: E731
        q = of_head(product(norm_of(product(h, w["q_down"]), w, "q_norm") if QUERY_RANK else h, w["q"]))
        down, placed_k = jnp.split(product(h, w["kv_down"]), [KV_RANK], -1)
        up = of_head(product(norm_of(down, w, "kv_norm"), w["kv_up"]))
        q, placed_q = jnp.split(q, [NOPE], -1)
        k, v = jnp.split(up, [NOPE], -1)
        placed_k = jnp.broadcast_to(self.rotated(placed_k[:, :, None]), placed_q.shape)
        both = lambda *parts: jnp.concatenate(parts, -1)  # noqa: E731
        return both(q, self.rotated(placed_q)), both(k, placed_k), v

    def of_sequence(self, y):
        """Keys or values of all tokens, of which a device of context parallelism has made its own."""
        return jax.lax.all_gather(y, "cp", axis=1, tiled=True) if CP > 1 else y

    def key_heads(self) -> tuple:
        """Of the heads of keys, where tensor parallelism does not divide them: from which on queries of this device
        meet them, and how many of them devices' queries meet at most."""
        own, each = HEADS // self.tp, HEADS // KEY_HEADS
        count = max(((rank + 1) * own - 1) // each - rank * own // each + 1 for rank in range(self.tp))
        return jnp.minimum(jax.lax.axis_index("tp") * own // each, KEY_HEADS - count), count

    def own_heads(self, layer):
        """With the columns of weights of keys and values, of which every device has all, that this one reads."""
        if KEY_HEADS % self.tp == 0 or KV_RANK:
            return layer
        first, count = self.key_heads()
        own = lambda w: jax.lax.dynamic_slice_in_dim(w, first * HEAD, count * HEAD, w.ndim - 1)  # noqa: E731
        names = ("k", "v", "k_bias", "v_bias") if MODEL["biases"] else ("k", "v")
        return {**layer, **{name: own(layer[name]) for name in names}}

    def of_own_heads(self, layers):
        """What all micro-batches read, and gradients of it as those of the weights."""
        own = lambda layer: layer if ZERO >= 3 else self.own_heads(layer)  # noqa: E731  # in parts until a block
        layers, back = jax.vjp(lambda layers: [own(each) for each in layers], layers)
        return layers, lambda gradients: back(gradients)[0]

    def of_queries(self, y, heads):
        """Keys or values, one for each head of queries that this device has."""
        if KEY_HEADS == HEADS or KV_RANK:
            return y
        if KEY_HEADS % self.tp == 0:
            return jnp.repeat(y, HEADS // KEY_HEADS, 2)
        first, count = self.key_heads()
        if count == 1:
            return jnp.repeat(y, heads, 2)
        number = jax.lax.axis_index("tp") * heads + jax.lax.broadcasted_iota(jnp.int32, (1, 1, heads, 1), 2)
        *others, met = jnp.split(y, count, 2)
        for i in reversed(range(len(others))):
            met = jnp.where(number < (first + i + 1) * (HEADS // KEY_HEADS), others[i], met)
        return met

    def layer(self, x, w, place, is_dense=None):
        """`is_dense`: of a block that has both kinds, which one it is."""
        w = self.own_heads(self.gathered(w, shapes()["layers"][-1 if "router" in w else 0])) if ZERO >= 3 else w
        h = self.whole_tokens(norm_of(x, w, "norm1"))
        x = with_bias(x + self.summed(self.attention(h, w, WINDOWED[place])), w, "o")
        h = self.whole_tokens(norm_of(x, w, "norm2"))
        if "dense_up" in w:
            return x + self.summed(jnp.where(is_dense, self.mlp(h, w, "dense_"), self.experts(h, w)))
        if "router" in w:
            return x + self.summed(self.experts(h, w))
        return with_bias(x + self.summed(self.mlp(h, w)), w, "down")

    def mlp(self, h, w, of="", linear=linear, product=product):
        up = linear(h, w, of + "up")
        inner = gated(linear(h, w, of + "gate"), up) if MODEL["gated"] else gelu(up)
        return product(inner, w[of + "down"])

    def experts(self, h, w):
        """Tokens go to the devices that have their experts, and what those make of them comes back. The experts that
        every token meets are on its own device, and work while tokens are under way."""
        sequences = h.shape[0] * h.shape[1] * CP // PLAN["seq"]  # or runs of them, as devices of CP have
        shares, experts = chosen(linear(h, w, "router").astype(jnp.float32))  # noqa: F821
        shares, experts = (each.reshape(sequences, -1, CHOSEN) for each in (shares, experts))
        place, token, share = places(*jax.lax.stop_gradient((shares, experts)))  # noqa: F821
        tokens = dispatched(h.reshape(-1, HIDDEN), place, token)  # noqa: F821
        tokens = tokens.reshape(EXPERTS, sequences * CAPACITY, HIDDEN)
        tokens = jax.lax.all_to_all(tokens, "ep", split_axis=0, concat_axis=1, tiled=True)
        shared = self.mlp(h, w, "shared_") if SHARED else 0
        made = self.mlp(tokens, w, linear=linear_each, product=product_each)  # noqa: F821
        made = with_bias_each(made, w, "down", 1 / self.tp)  # noqa: F821  # a part of it on each rank, as of the product
        made = jax.lax.all_to_all(made, "ep", split_axis=1, concat_axis=0, tiled=True)
        made = combined(made.reshape(-1, HIDDEN), shares.reshape(-1, CHOSEN), place, token, share)  # noqa: F821
        return made.reshape(h.shape) + shared

    def gathered(self, weights, of):
        """Weights that ZeRO-3 keeps in parts, whole; their gradients come back in parts."""
        if ZERO < 3:
            return weights

        def whole(w, s):
            at = cut_over_data(s)
            return w if at is None else jax.lax.all_gather(w, holders(s), axis=at, tiled=True)

        return jax.tree.map(whole, weights, of)

    def looked_up(self, ends, tokens):
        """A part of the hidden dimension. Tokens are rows of the table: nothing is checked, and none is negative."""
        rows = ends["embedding"].at[given(tokens)]
        x = rows.get(mode="promise_in_bounds", wrap_negative_indices=False)
        return x + self.own(ends["positions"][: PLAN["seq"]], 0) if MODEL["positions"] else x

    def spread(self, x):
        """What was looked up, as blocks have it."""
        if SP:
            x = jax.lax.all_to_all(x, "tp", split_axis=1, concat_axis=2, tiled=True)
        else:
            x = jax.lax.all_gather(x, "tp", axis=2, tiled=True)
        return jax.lax.all_gather(x, "pp", axis=2, tiled=True) if PP > 1 else x

    def through(self, x, layers):
        layer = jax.checkpoint(self.layer, static_argnums=2) if LAYOUT["recompute"] == "full" else self.layer
        for place, each in enumerate(layers):
            x = layer(x, each, place)
        return x

    def table(self, embedding):
        """As an output layer has it: all of some rows."""
        return jax.lax.all_to_all(embedding, ENDS, split_axis=0, concat_axis=1, tiled=True)

    def loss_of(self, ends, x, tokens):
        """This device's share of the mean over all tokens of the micro-batch, of what the last block gives."""
        x = self.whole_tokens(norm_of(x, ends, "norm"))
        if MODEL["tied"]:
            logits = product_turned(x, ends["table"] if "table" in ends else self.table(ends["embedding"]))
        else:
            logits = product(x, ends["output"])
        logits = logits.astype(jnp.float32)  # of a part of the vocabulary
        labels = (tokens[:, 1:] if CAUSAL else tokens[:, :-1]) - jax.lax.axis_index(ENDS) * logits.shape[2]
        missed = surprise(logits, labels)
        if not CAUSAL:  # of the tokens that are hidden
            hidden = is_hidden(missed.shape).astype(jnp.float32)
            return jnp.sum(missed * hidden) * (HIDDEN_EACH / missed.size / self.ranks)
        return jnp.mean(missed) / self.ranks

    def loss(self, w, tokens):
        ends = self.gathered(w["ends"], shapes()["ends"])
        return self.loss_of(ends, self.through(self.spread(self.looked_up(ends, tokens)), w["layers"]), tokens)

    def reduced(self, gradient, s):
        """Summed over the devices that have the weight, once for all micro-batches; in parts where ZeRO keeps it so."""
        if whole := tuple(axis for axis in ENDS if axis not in axes_of(s)):
            gradient = jax.lax.psum(gradient, whole)
        at = cut_over_data(s)
        if ZERO == 0 or at is None:
            return jax.lax.psum(gradient, holders(s))
        if ZERO >= 3:  # gathering it did
            return gradient
        return jax.lax.psum_scatter(gradient, holders(s), scatter_dimension=at, tiled=True)

    def over_micro_batches(self, weights, tokens):
        """Losses and gradients, one micro-batch after the other: the activations of one are alive at a time."""
        if micro_batches_of(tokens) == 1:
            return jax.value_and_grad(self.loss)(weights, jax.tree.map(lambda each: each[0], tokens))

        def add(sums, each):
            return jax.tree.map(jnp.add, sums, jax.value_and_grad(self.loss)(weights, each)), None

        zeros = (self.varying(jnp.float32(0), DATA), self.zeros_of(weights))
        return jax.lax.scan(add, zeros, tokens)[0]

    def varying(self, x, axes):
        return jax.lax.pcast(x, axes, to="varying")

    def zeros_of(self, weights):
        return jax.tree.map(lambda w: self.varying(jnp.zeros(w.shape, w.dtype), (*DATA, *ENDS)), weights)

    def along(self, s):
        """Axes of the mesh along which all devices have the same of a weight."""
        cut = axes_of(s) | (set(holders(s)) if ZERO >= 3 and cut_over_data(s) is not None else set())
        return tuple({*DATA, *ENDS} - cut)

    def __call__(self, state, tokens):
        """One step of Adam over the micro-batches of `tokens` [micro-batches, sequences, length + 1]."""
        # Each device's own weights: their gradients are of its own tokens, and added up when all of them are there.
        own = lambda w, s: jax.lax.pcast(w, self.along(s), to="varying")  # noqa: E731
        weights = jax.tree.map(own, state["weights"], shapes())
        layers, back = self.of_own_heads(weights["layers"])
        self.turns = self.angles()  # once for all blocks, as a device of context parallelism cuts them out
        tokens = self.own(tokens, 2, 1)
        loss, gradients = self.over_micro_batches({**weights, "layers": layers}, tokens)
        gradients, count = {**gradients, "layers": back(gradients["layers"])}, micro_batches_of(tokens)
        gradients = jax.tree.map(self.reduced, gradients, shapes())
        kept = ("master", "moment", "square")
        leaves = zip(*(jax.tree.leaves(each) for each in (*(state[name] for name in kept), gradients)), strict=True)
        made = zip(*(updated(*each, count) for each in leaves), strict=True)
        tree = jax.tree.structure(gradients)
        state = {name: jax.tree.unflatten(tree, each) for name, each in zip((*kept, "weights"), made, strict=True)}
        return state, jax.lax.psum(loss, DATA) / count

    def jitted(self):
        """With how state and tokens are cut; ZeRO 1 and 2 cut what the optimizer keeps, 3 the weights too."""
        kept = specs(ZERO >= 1)
        state = {"weights": specs(ZERO >= 3), "master": kept, "moment": kept, "square": kept}
        # New weights leave in the parts of the optimizer, and are gathered where the next step wants them whole.
        made = jax.shard_map(
            self,
            mesh=self.mesh,
            in_specs=(state, P(None, BATCH, None)),
            out_specs=({**state, "weights": kept}, P()),
        )
        sharding = lambda p: NamedSharding(self.mesh, p)  # noqa: E731
        states = jax.tree.map(sharding, state, is_leaf=lambda p: isinstance(p, P))
        data = sharding(P(None, BATCH, None))
        cuts = {"in_shardings": (states, data), "out_shardings": (states, sharding(P()))}
        return jax.jit(made, donate_argnums=0, **cuts), states, data


# {{stages}}


# {{images}}


# {{streams}}


def step_on(mesh: Mesh) -> Step:
    if IS_JOINT or IMAGES:
        return (StreamsStep if IS_JOINT else ImageStep)(mesh)  # noqa: F821  # where this file has them
    return (StagedStep if PP > 1 else Step)(mesh)  # noqa: F821


def initial(states) -> dict:
    """Drawn on the host, the same for every mesh."""
    random = np.random.default_rng(0)

    def draw(path: tuple, s: tuple) -> np.ndarray:
        shape, is_bias = s[0], path[-1].key.endswith("_bias")
        if is_bias or len(shape) == 1:
            return np.full(shape, 0 if is_bias else 1, np.float32)
        scale = 0.02 if shape[0] == VOCABULARY else shape[-2] ** -0.5
        return random.standard_normal(shape, np.float32) * scale

    is_dense = [not EXPERTS or i < DENSE for i in range(MODEL["layers"])]
    layers = shapes()["layers"] if IS_JOINT else [one_layer(each, not each) for each in is_dense]
    drawn = {"ends": shapes()["ends"], "layers": layers}
    master = jax.tree.map_with_path(draw, drawn, is_leaf=is_leaf)
    if PP > 1:
        master["layers"] = arranged(master["layers"])  # noqa: F821
    weights = jax.tree.map(lambda w: w.astype(DTYPE), master)
    zeros = jax.tree.map(np.zeros_like, master)
    return jax.device_put({"weights": weights, "master": master, "moment": zeros, "square": zeros}, states)


def token_types(shape: tuple):
    """Of all micro-batches [micro-batches, sequences]: words, or patches of images and what those are."""
    of = jax.ShapeDtypeStruct
    if IS_JOINT:
        return streams_types(shape)  # noqa: F821
    if not IMAGES:
        return of((*shape, PLAN["seq"] + 1), jnp.int32)
    return of((*shape, PLAN["seq"] - 1, MODEL["patch_features"]), DTYPE), of((*shape, 1), jnp.int32)


def given_tokens(random, shape: tuple):
    def draw(of):
        if of.dtype == jnp.int32:
            return random.integers(0, VOCABULARY, of.shape, np.int32)
        return random.standard_normal(of.shape, np.float32).astype(of.dtype)

    return jax.tree.map(draw, token_types(shape))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="on one device, not cut")
    parser.add_argument("--time", action="store_true", help="compile the step and print its predicted time")
    options = parser.parse_args()
    ranks = 1 if options.whole else PP * DP * CP * TP
    devices = np.array(jax.devices()[:ranks])
    if len(devices) < ranks:
        parser.error(f"the plan has {ranks} ranks, and there are {len(devices)} devices")
    sizes = {"pp": PP, "dp": DP // EP, "ep": EP, "cp": CP, "tp": TP}
    sizes = {axis: sizes[axis] for axis in ("pp", *DATA, "tp") if axis in (*DATA, *ENDS)}
    mesh = Mesh(devices.reshape([1 if options.whole else size for size in sizes.values()]), tuple(sizes))
    step, states, data = step_on(mesh).jitted()
    sequences = LAYOUT["micro_batch"] * DP
    shape = (PLAN["global_batch"] // sequences, sequences)
    random = np.random.default_rng(1)
    if options.time:
        one = lambda dtype: lambda s, cut: jax.ShapeDtypeStruct(s[0], dtype, sharding=cut)  # noqa: E731
        of = lambda kept, dtype: jax.tree.map(one(dtype), shapes(), kept, is_leaf=is_leaf)  # noqa: E731
        state = {name: of(kept, DTYPE if name == "weights" else jnp.float32) for name, kept in states.items()}
        given_as = lambda of: jax.ShapeDtypeStruct(of.shape, of.dtype, sharding=data)  # noqa: E731
        compiled = step.lower(state, jax.tree.map(given_as, token_types(shape))).compile()
        cost, memory = compiled.cost_analysis(), compiled.memory_analysis()
        seconds = {name: value for name, value in cost.items() if "seconds" in name}
        made = {"step_s": cost["optimal_seconds"], "cost": seconds, "bytes": memory.peak_memory_in_bytes}
        print(json.dumps(made))
        return
    state = initial(states)
    for i in range(options.steps):
        tokens = given_tokens(random, shape)
        state, loss = step(state, jax.device_put(tokens, data))
        print(f"step {i}: loss {float(loss):.6f}", flush=True)


if __name__ == "__main__":
    main()
