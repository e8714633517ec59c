"""Weights in MXFP8 and MXFP4, and structured-sparse ones: against NumPy, the evaluator, and dense products."""

import ml_dtypes
import numpy as np
import pytest
from test_weights import dense, product, weight

import opentrn
from opentrn.errors import InputError
from opentrn.model.diff import diff

RNG = np.random.default_rng(37)
BLOCK = 32
MATMUL = {"dims": "contracting_dims = [1] x [0]"}
# Element type, its largest number, and the largest exponent.
FORMATS = {"mxfp8": (ml_dtypes.float8_e4m3fn, 448.0, 8), "mxfp4": (ml_dtypes.float4_e2m1fn, 6.0, 2)}


def held(blocks: np.ndarray, exponent: np.ndarray, kind: type, largest: float) -> np.ndarray:
    """Blocks [..., 32, n] with a scale 2^exponent [..., 1, n], rounded to nearest even and cut off."""
    scaled = np.clip(np.ldexp(blocks, -exponent), -largest, largest)
    return np.ldexp(scaled.astype(np.float32).astype(kind).astype(np.float64), exponent)


def exponent_of(amax: np.ndarray, reserve: int) -> np.ndarray:
    """Of the shared scale; of a block of zeros the least."""
    return np.where(amax > 0, np.maximum(np.frexp(amax)[1] - 1 - reserve, -127), -127)


def mx_weights(w: np.ndarray, dtype: str) -> np.ndarray:
    """What [K, N] weights stand for: the better of two scales, as docs/models_reference.md has it."""
    kind, largest, reserve = FORMATS[dtype]
    blocks = w.astype(np.float64).reshape(-1, BLOCK, w.shape[1])
    exponent = exponent_of(np.abs(blocks).max(axis=1, keepdims=True), reserve)
    near, far = held(blocks, exponent, kind, largest), held(blocks, exponent + 1, kind, largest)
    better = ((far - blocks) ** 2).sum(1, keepdims=True) < ((near - blocks) ** 2).sum(1, keepdims=True)
    return np.where(better, far, near).reshape(w.shape)


def mx_activations(x: np.ndarray) -> np.ndarray:
    """[..., K] as quantize_mx holds it: from bf16, scale 2^(floor(log2 amax) - 7)."""
    narrow = x if x.dtype == np.float16 else x.astype(ml_dtypes.bfloat16)
    blocks = narrow.astype(np.float64).reshape(*x.shape[:-1], -1, BLOCK, 1)
    exponent = exponent_of(np.abs(blocks).max(axis=-2, keepdims=True), 7)
    return held(blocks, exponent, ml_dtypes.float8_e4m3fn, 448.0).reshape(x.shape)


SHAPES = {
    "one row": (1, 768, 130),
    "rows and channels that fill no tile": (130, 640, 129),
    "several panels": (5, 256, 2100),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
def test_mx_products_are_those_of_what_is_held(shape: str, dtype: str, element: str):
    rows, terms, channels = SHAPES[shape]
    kind = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}[element]
    x = (RNG.standard_normal((rows, terms)) * np.exp2(RNG.integers(-4, 4, (rows, 1)))).astype(kind)
    x[:, :BLOCK] = 0
    w = weight(terms, channels).astype(kind)
    text = product(x, w, **MATMUL, element=element)
    model = opentrn.compile(text, target="trn3", weight_dtype=dtype)
    assert "nc_matmul_mx" in model.program_text() and "quantize_mx" in model.program_text()
    have = model(x)[0].astype(np.float64)
    x_held, w_held = mx_activations(x), mx_weights(w.astype(np.float32), dtype)
    want, size = x_held @ w_held, np.abs(x_held) @ np.abs(w_held)
    rounding = 0.0 if element == "f32" else float(ml_dtypes.finfo(kind).eps)
    bound = 1e-6 * np.sqrt(terms) * size + rounding * np.abs(want)
    assert np.all(np.abs(have - want) <= bound)
    (evaluated,) = opentrn.model.prepare(text, target="trn3", weight_dtype=dtype).evaluate(x)
    assert np.all(np.abs(have - evaluated.astype(np.float64)) <= bound)
    bits = {"mxfp8": 8, "mxfp4": 4}[dtype]
    assert model.constant_bytes == w.size * bits // 8 + w.size // BLOCK


def microscaled(w: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[K, N] as a program takes it: four elements in one [K/4, N], scales [K/32, N], and what both stand for."""
    kind, largest, reserve = FORMATS[dtype]
    blocks = w.astype(np.float64).reshape(-1, BLOCK, w.shape[1])
    exponent = exponent_of(np.abs(blocks).max(axis=1, keepdims=True), reserve)
    elements = np.clip(np.ldexp(blocks, -exponent), -largest, largest).astype(np.float32).astype(kind)
    stands = np.ldexp(elements.astype(np.float64), exponent).reshape(w.shape)
    bits = elements.view(np.uint8).astype(np.uint32).reshape(-1, 4, w.shape[1])
    width = 4 if dtype == "mxfp4" else 8
    packed = sum(bits[:, i] << np.uint32(width * i) for i in range(4))
    codes = (exponent[:, 0] + 127).astype(np.uint8)
    return packed.astype(np.uint16 if dtype == "mxfp4" else np.uint32), codes, stands


def mx_call(rows: int, terms: int, channels: int, packed: str, element: str = "bf16", scales: str = "ui8") -> str:
    types = f"tensor<{rows}x{terms}x{element}>, tensor<{terms // 4}x{2 * channels}x{packed}>, " \
            f"tensor<{terms // 32}x{2 * channels}x{scales}>"  # fmt: skip
    x, w, s = types.split(", ")
    part_w, part_s = (t.replace(f"x{2 * channels}x", f"x{channels}x") for t in (w, s))
    return f"""func.func @main(%x: {x}, %w: {w}, %s: {s}) -> tensor<{rows}x{channels}xf32> {{
  %pw = stablehlo.slice %w [0:{terms // 4}, {channels}:{2 * channels}] : ({w}) -> {part_w}
  %ps = stablehlo.slice %s [0:{terms // 32}, {channels}:{2 * channels}] : ({s}) -> {part_s}
  %y = stablehlo.custom_call @opentrn.mx_product(%x, %pw, %ps)
    : ({x}, {part_w}, {part_s}) -> tensor<{rows}x{channels}xf32>
  return %y : tensor<{rows}x{channels}xf32>
}}
"""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", FORMATS)
def test_weights_may_be_arguments(shape: str, dtype: str):
    rows, terms, channels = SHAPES[shape]
    x = RNG.standard_normal((rows, terms)).astype(ml_dtypes.bfloat16)
    packed, codes, stands = microscaled(weight(terms, 2 * channels), dtype)
    text = mx_call(rows, terms, channels, "ui16" if dtype == "mxfp4" else "ui32")
    model = opentrn.compile(text, target="trn3")
    assert "nc_matmul_mx" in model.program_text()
    have = model(x, packed, codes)[0].astype(np.float64)
    x_held, w_held = mx_activations(x), stands[:, channels:]
    bound = 1e-6 * np.sqrt(terms) * (np.abs(x_held) @ np.abs(w_held))
    assert np.all(np.abs(have - x_held @ w_held) <= bound)
    for target in ("trn3", "trn2"):  # which has no MX product, and computes what it stands for
        (evaluated,) = opentrn.model.prepare(text, target=target).evaluate(x, packed, codes)
        assert np.all(np.abs(evaluated.astype(np.float64) - x_held @ w_held) <= bound)


def test_calls_with_other_operands_are_refused():
    texts = [mx_call(4, 96, 8, "ui32"), mx_call(4, 128, 8, "ui8"), mx_call(4, 128, 8, "ui32", element="f32"),
             mx_call(4, 128, 8, "ui32", scales="i8")]  # fmt: skip
    for text in texts:
        with pytest.raises(InputError, match=r"@opentrn\.mx_product") as raised:
            opentrn.compile(text, target="trn3")
        assert raised.value.label == "compiler.mx_product"


def test_a_block_with_an_infinity_or_nan_has_no_number():
    x = RNG.standard_normal((4, 256)).astype(np.float32)
    x[1, 3], x[2, 200] = np.inf, np.nan
    text = product(x, weight(256, 128), **MATMUL)
    (have,) = opentrn.compile(text, target="trn3", weight_dtype="mxfp8")(x)
    assert [np.isnan(row).all() for row in have] == [False, True, True, False]
    assert np.isfinite(have[[0, 3]]).all()


def test_bias_and_activation_stay_in_one_kernel_with_an_mx_product():
    x, w = RNG.standard_normal((64, 256)).astype(np.float32), weight(256, 128)
    text = f"""func.func @main(%x: tensor<64x256xf32>, %b: tensor<128xf32>) -> tensor<64x128xf32> {{
  %w = stablehlo.constant {dense(w)} : tensor<256x128xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32>
  %bb = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<128xf32>) -> tensor<64x128xf32>
  %z = stablehlo.add %y, %bb : tensor<64x128xf32>
  %t = stablehlo.tanh %z : tensor<64x128xf32>
  return %t : tensor<64x128xf32>
}}
"""
    model = opentrn.compile(text, target="trn3", weight_dtype="mxfp8")
    bias = RNG.standard_normal(128).astype(np.float32)
    (have,) = model(x, bias)
    want = np.tanh(mx_activations(x) @ mx_weights(w, "mxfp8") + bias)
    np.testing.assert_allclose(have, want, rtol=0, atol=2e-5)


def test_diff_of_mx_weights():
    x = RNG.standard_normal((4, 256)).astype(np.float32)
    report = diff(product(x, weight(256, 128), **MATMUL), x, target="trn3", weight_dtype="mxfp4")
    assert report.is_clean, report.text()
    assert 0.01 < report.results[0]["from_model"]["relative_rms"] < 0.3


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_mx_is_refused_where_the_chip_has_none(target: str):
    with pytest.raises(ValueError, match="which has no MX product"):
        opentrn.compile(
            product(np.zeros((4, 256)), weight(256, 128), **MATMUL), target=target, weight_dtype="mxfp8"
        )


# The instruction's pattern for each, and what K must be a multiple of.
PATTERNS = {"4:16": 16, "4:12": 12, "4:8": 8, "2:8": 16, "2:4": 8, "1:4": 16, "1:2": 8}


def pruned(w: np.ndarray, pattern: str) -> np.ndarray:
    """The largest M of every N along the first axis; earliest first on ties."""
    kept, group = map(int, pattern.split(":"))
    groups = w.reshape(-1, group, w.shape[1])
    order = np.argsort(-np.abs(groups), axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    return np.where(rank < kept, groups, 0).reshape(w.shape)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("rows", "target"), [(1, "trn2"), (130, "trn2"), (7, "trn3")])
def test_sparse_products_are_dense_ones_of_pruned_weights(pattern: str, rows: int, target: str):
    terms = {12: 396, 16: 528, 8: 264}[PATTERNS[pattern]]
    x = RNG.standard_normal((rows, terms)).astype(ml_dtypes.bfloat16)
    w = weight(terms, 140).astype(ml_dtypes.bfloat16)
    text = product(x, w, **MATMUL, element="bf16")
    model = opentrn.compile(text, target=target, weight_sparsity=pattern, prune_weights=True)
    assert "nc_matmul_sparse" in model.program_text()
    have = model(x)[0].astype(np.float64)
    w_held = pruned(w.astype(np.float64), pattern)
    want = x.astype(np.float64) @ w_held
    size = np.abs(x.astype(np.float64)) @ np.abs(w_held)
    bound = 1e-6 * np.sqrt(terms) * size + 2.0**-8 * np.abs(want)
    assert np.all(np.abs(have - want) <= bound)
    kept = w.size * {12: 1 / 3, 16: 1 / 4, 8: 1 / 2}[PATTERNS[pattern]]
    assert model.constant_bytes == kept * 2 + kept / 2  # numbers, and four bits that name each


def test_weights_that_obey_are_sparse_without_pruning():
    """f32 weights under auto-cast; those that do not obey stay dense, and are counted."""
    x, w = RNG.standard_normal((9, 256)).astype(np.float32), weight(256, 128)
    free, obeying = (
        opentrn.compile(product(x, each, **MATMUL), auto_cast="matmult", weight_sparsity="2:4")
        for each in (w, pruned(w, "2:4"))
    )
    assert (free.passes["weights_quantised"], free.passes["weights_left_not_sparse"]) == (0, 1)
    assert obeying.passes["weights_quantised"] == 1 and "nc_matmul_sparse" in obeying.program_text()
    dense_one = opentrn.compile(product(x, pruned(w, "2:4"), **MATMUL), auto_cast="matmult")
    np.testing.assert_allclose(obeying(x)[0], dense_one(x)[0], rtol=0, atol=1e-5 * np.abs(w).max())
    # fp32 products have no sparse form.
    stays = opentrn.compile(product(x, pruned(w, "2:4"), **MATMUL), weight_sparsity="2:4")
    assert stays.passes["weights_left_unfit"] == 1 and "nc_matmul_sparse" not in stays.program_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "trn1", "weight_sparsity": "2:4"}, "NeuronCore-v2, which has no sparse product"),
        ({"weight_sparsity": "3:4"}, "weight-sparsity is '3:4'"),
        ({"prune_weights": True}, "prune-weights without weight-sparsity"),
        ({"weight_sparsity": "2:4", "weight_dtype": "int8"}, "choose one of the two"),
        ({"weight_sparsity": "2:4", "optlevel": 1}, "weight-sparsity with optlevel 1"),
    ],
)
def test_what_cannot_be_is_refused(options: dict, words: str):
    with pytest.raises(ValueError, match=words):
        opentrn.compile(product(np.zeros((4, 128)), weight(128, 128), **MATMUL), **options)


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"weight_dtype": "mxfp8"}, {"read": 0.55, "time": 1.05}),
        ({"weight_dtype": "mxfp4"}, {"read": 0.3, "time": 1.05}),
        ({"weight_sparsity": "4:16", "prune_weights": True}, {"read": 0.35, "time": 0.9}),
    ],
)
def test_traffic_and_time_of_a_step_shrink(options: dict, most: dict):
    """A plain product of few rows is made with its columns over partitions, which microscaled ones are not yet: they
    read less and take as long."""
    x, w = RNG.standard_normal((4, 2048)).astype(np.float32), weight(2048, 4096)
    held = []
    for given in ({}, options):
        timing = opentrn.compile(product(x, w, **MATMUL), target="trn3", auto_cast="matmult", **given).time()
        held.append({"read": timing.profile()["summary"]["hbm_read_bytes"], "time": timing.time_us})
    assert all(held[1][key] <= share * held[0][key] for key, share in most.items()), held
