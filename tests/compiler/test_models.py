"""Small StableHLO programs, compiled and run on the simulated core, against NumPy in float64."""

import re

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn.errors import NotModelled

RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check(text: str, arrays: list, expected: list, bound: float = 2e-6) -> opentrn.CompiledModel:
    """Values within `bound` of the largest expected one; whole numbers exactly."""
    model = opentrn.compile(text)
    outputs = model(*arrays)
    assert len(outputs) == len(expected)
    for got, want in zip(outputs, expected):
        assert got.shape == want.shape
        if got.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(
                got.astype(np.float64), want, rtol=0, atol=bound * max(1e-30, np.abs(want).max())
            )
    assert model.time().total_ns > 0
    return model


def test_softmax_is_one_kernel():
    text = """
func.func @main(%x: tensor<2x33x40xf32>) -> tensor<2x33x40xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [2]
    : (tensor<2x33x40xf32>, tensor<f32>) -> tensor<2x33xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1] : (tensor<2x33xf32>) -> tensor<2x33x40xf32>
  %d = stablehlo.subtract %x, %mb : tensor<2x33x40xf32>
  %e = stablehlo.exponential %d : tensor<2x33x40xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2]
    : (tensor<2x33x40xf32>, tensor<f32>) -> tensor<2x33xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0, 1] : (tensor<2x33xf32>) -> tensor<2x33x40xf32>
  %r = stablehlo.divide %e, %sb : tensor<2x33x40xf32>
  return %r : tensor<2x33x40xf32>
}
"""
    x = normal(2, 33, 40)
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    model = check(text, [x], [e / e.sum(-1, keepdims=True)])
    # 66 rows fit one tile: one load, five instructions, one store.
    assert len(re.findall("dma_copy", model.program_text())) == 2


def test_reductions_over_any_dimensions():
    text = """
func.func @main(%x: tensor<7x9x11xf32>) -> (tensor<f32>, tensor<9x11xf32>, tensor<9xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1, 2]
    : (tensor<7x9x11xf32>, tensor<f32>) -> tensor<f32>
  %b = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0]
    : (tensor<7x9x11xf32>, tensor<f32>) -> tensor<9x11xf32>
  %c = stablehlo.reduce(%x init: %one) applies stablehlo.add across dimensions = [0, 2]
    : (tensor<7x9x11xf32>, tensor<f32>) -> tensor<9xf32>
  return %a, %b, %c : tensor<f32>, tensor<9x11xf32>, tensor<9xf32>
}
"""
    x = normal(7, 9, 11)
    wide = x.astype(np.float64)
    check(text, [x], [wide.sum(), wide.max(0), 1 + wide.sum((0, 2))], bound=1e-5)


def test_a_reduction_longer_than_a_partition_goes_in_blocks():
    text = """
func.func @main(%x: tensor<3x100000xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<3x100000xf32>, tensor<f32>) -> tensor<3xf32>
  return %a : tensor<3xf32>
}
"""
    x = RNG.random((3, 100000)).astype(np.float32)
    check(text, [x], [x.astype(np.float64).sum(1)], bound=1e-5)


@pytest.mark.parametrize("m,k,n", [(1, 1, 1), (130, 200, 520), (64, 300, 5), (3, 0, 4)])
@pytest.mark.parametrize("contract_left,contract_right", [(1, 0), (0, 1)])
def test_matrix_products_of_any_layout(m, k, n, contract_left, contract_right):
    left = (m, k) if contract_left == 1 else (k, m)
    right = (k, n) if contract_right == 0 else (n, k)
    text = f"""
func.func @main(%a: tensor<{left[0]}x{left[1]}xf32>, %b: tensor<{right[0]}x{right[1]}xf32>) -> tensor<{m}x{n}xf32> {{
  %r = stablehlo.dot_general %a, %b, contracting_dims = [{contract_left}] x [{contract_right}]
    : (tensor<{left[0]}x{left[1]}xf32>, tensor<{right[0]}x{right[1]}xf32>) -> tensor<{m}x{n}xf32>
  return %r : tensor<{m}x{n}xf32>
}}
"""
    a, b = normal(*left), normal(*right)
    wide = np.tensordot(a.astype(np.float64), b.astype(np.float64), ([contract_left], [contract_right]))
    check(text, [a, b], [wide])


def test_batched_product_in_bfloat16():
    text = """
func.func @main(%a: tensor<2x65x32xbf16>, %b: tensor<2x70x32xbf16>) -> tensor<2x65x70xf32> {
  %r = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [2]
    : (tensor<2x65x32xbf16>, tensor<2x70x32xbf16>) -> tensor<2x65x70xf32>
  return %r : tensor<2x65x70xf32>
}
"""
    a, b = normal(2, 65, 32).astype(ml_dtypes.bfloat16), normal(2, 70, 32).astype(ml_dtypes.bfloat16)
    check(text, [a, b], [np.einsum("bqd,bkd->bqk", a.astype(np.float64), b.astype(np.float64))])


def windows(x: np.ndarray, size: int, stride: int, pad: int, fill: float) -> np.ndarray:
    """[N, C, OH, OW, size, size]: what each output position of a square window sees."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
    return seen[:, :, ::stride, ::stride]


@pytest.mark.parametrize(
    "channels,features,size,stride,pad", [(3, 8, 7, 2, 3), (130, 5, 1, 1, 0), (4, 200, 3, 1, 1)]
)
def test_convolution(channels, features, size, stride, pad):
    edge = (12 + 2 * pad - size) // stride + 1
    text = f"""
func.func @main(%x: tensor<2x{channels}x12x12xf32>, %w: tensor<{features}x{channels}x{size}x{size}xf32>)
    -> tensor<2x{features}x{edge}x{edge}xf32> {{
  %r = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {{stride = [{stride}, {stride}], pad = [[{pad}, {pad}], [{pad}, {pad}]]}}
    {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
    : (tensor<2x{channels}x12x12xf32>, tensor<{features}x{channels}x{size}x{size}xf32>)
    -> tensor<2x{features}x{edge}x{edge}xf32>
  return %r : tensor<2x{features}x{edge}x{edge}xf32>
}}
"""
    x, w = normal(2, channels, 12, 12), normal(features, channels, size, size)
    seen = windows(x.astype(np.float64), size, stride, pad, 0.0)
    check(text, [x, w], [np.einsum("nchwyx,fcyx->nfhw", seen, w.astype(np.float64))])


def test_grouped_convolution_with_features_innermost():
    text = """
func.func @main(%x: tensor<1x6x6x4xf32>, %w: tensor<3x3x2x6xf32>) -> tensor<1x6x6x6xf32> {
  %r = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<1x6x6x4xf32>, tensor<3x3x2x6xf32>) -> tensor<1x6x6x6xf32>
  return %r : tensor<1x6x6x6xf32>
}
"""
    x, w = normal(1, 6, 6, 4), normal(3, 3, 2, 6)
    seen = windows(x.transpose(0, 3, 1, 2).astype(np.float64), 3, 1, 1, 0.0)
    halves = [
        np.einsum(
            "nchwyx,yxcf->nhwf", seen[:, 2 * g : 2 * g + 2], w[..., 3 * g : 3 * g + 3].astype(np.float64)
        )
        for g in (0, 1)
    ]
    check(text, [x, w], [np.concatenate(halves, -1)])


def test_max_pooling():
    text = """
func.func @main(%x: tensor<2x3x17x17xf32>) -> tensor<2x3x9x9xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = "stablehlo.reduce_window"(%x, %low) <{
    window_dimensions = array<i64: 1, 1, 3, 3>, window_strides = array<i64: 1, 1, 2, 2>,
    padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<2x3x17x17xf32>, tensor<f32>) -> tensor<2x3x9x9xf32>
  return %r : tensor<2x3x9x9xf32>
}
"""
    x = normal(2, 3, 17, 17)
    check(text, [x], [windows(x, 3, 2, 1, -np.inf).max((-2, -1))])


def test_integers_are_exact_and_wrap():
    text = """
func.func @main(%a: tensor<9x7xi32>, %b: tensor<9x7xi32>, %c: tensor<9x7xi8>)
    -> (tensor<9x7xi32>, tensor<9x7xi32>, tensor<9x7xi1>, tensor<9x7xi32>, tensor<9x7xi8>) {
  %0 = stablehlo.add %a, %b : tensor<9x7xi32>
  %1 = stablehlo.multiply %a, %b : tensor<9x7xi32>
  %2 = stablehlo.compare LT, %a, %b : (tensor<9x7xi32>, tensor<9x7xi32>) -> tensor<9x7xi1>
  %3 = stablehlo.select %2, %a, %b : tensor<9x7xi1>, tensor<9x7xi32>
  %4 = stablehlo.add %c, %c : tensor<9x7xi8>
  return %0, %1, %2, %3, %4 : tensor<9x7xi32>, tensor<9x7xi32>, tensor<9x7xi1>, tensor<9x7xi32>, tensor<9x7xi8>
}
"""
    a, b = (RNG.integers(-(2**31), 2**31, (9, 7)).astype(np.int32) for _ in range(2))
    c = RNG.integers(-128, 128, (9, 7)).astype(np.int8)
    with np.errstate(over="ignore"):
        check(text, [a, b, c], [a + b, a * b, a < b, np.minimum(a, b), c + c])


UNARY = {
    "exponential": np.exp,
    "tanh": np.tanh,
    "sine": np.sin,
    "cosine": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
    "round_nearest_even": np.rint,
    "exponential_minus_one": np.expm1,
    "abs": np.abs,
    "sign": np.sign,
    "negate": np.negative,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "cbrt": np.cbrt,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    text = f"""
func.func @main(%x: tensor<50x40xf32>) -> tensor<50x40xf32> {{
  %r = stablehlo.{name} %x : tensor<50x40xf32>
  return %r : tensor<50x40xf32>
}}
"""
    x = 4 * normal(50, 40)
    check(text, [x], [UNARY[name](x.astype(np.float64))])


def test_rounding_keeps_infinities_and_large_numbers():
    """Ops that give whole numbers, and conversions to them, which saturate."""
    rounding = {"floor": np.floor, "ceil": np.ceil, "round_nearest_even": np.rint, "round_nearest_afz": None}
    names = list(rounding)
    body = "".join(f"  %{name} = stablehlo.{name} %x : tensor<14xf32>\n" for name in names)
    results = ", ".join(f"%{name}" for name in names)
    types = ", ".join(["tensor<14xf32>"] * len(names))
    text = f"""
func.func @main(%x: tensor<14xf32>) -> ({types}, tensor<14xi32>, tensor<14xi8>) {{
{body}  %i = stablehlo.convert %x : (tensor<14xf32>) -> tensor<14xi32>
  %j = stablehlo.convert %x : (tensor<14xf32>) -> tensor<14xi8>
  return {results}, %i, %j : {types}, tensor<14xi32>, tensor<14xi8>
}}
"""
    x = np.array([np.inf, np.nan, 3e38, 2.0**24 + 2, 2.0**23 + 1, 4194303.5, 2.5], np.float32)
    x = np.concatenate([x, -x])
    away = np.where(np.abs(x) < 2**23, np.trunc(x + np.copysign(np.float32(0.5), x)), x)
    whole = np.nan_to_num(np.trunc(x.astype(np.float64)))  # infinities: the largest
    want = [away if of is None else of(x) for of in rounding.values()]
    want += [np.clip(whole, *(np.iinfo(kind).min, np.iinfo(kind).max)).astype(kind) for kind in ("i4", "i1")]
    got = opentrn.compile(text, strict=True)(x)
    for name, ours, wanted in zip([*names, "i32", "i8"], got, want):
        np.testing.assert_array_equal(ours, wanted, err_msg=name)


def test_gather_of_rows_clamps_its_indices():
    text = """
func.func @main(%t: tensor<100x24xf32>, %i: tensor<3x50xi64>) -> tensor<3x50x24xf32> {
  %r = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 24>}> : (tensor<100x24xf32>, tensor<3x50xi64>) -> tensor<3x50x24xf32>
  return %r : tensor<3x50x24xf32>
}
"""
    table, index = normal(100, 24), RNG.integers(-20, 120, (3, 50))
    check(text, [table, index], [table[np.clip(index, 0, 99)]])


def test_rearranging_ops_are_read_through():
    text = """
func.func @main(%x: tensor<4x6xf32>) -> (tensor<3x8xf32>, tensor<2x3xf32>, tensor<5x9xf32>) {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %r = stablehlo.reshape %t : (tensor<6x4xf32>) -> tensor<3x8xf32>
  %s = stablehlo.slice %x [1:4:2, 0:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32>
  %v = stablehlo.constant dense<-1.0> : tensor<f32>
  %p = stablehlo.pad %x, %v, low = [1, -1], high = [0, 0], interior = [0, 1]
    : (tensor<4x6xf32>, tensor<f32>) -> tensor<5x10xf32>
  %q = stablehlo.slice %p [0:5, 0:9] : (tensor<5x10xf32>) -> tensor<5x9xf32>
  return %r, %s, %q : tensor<3x8xf32>, tensor<2x3xf32>, tensor<5x9xf32>
}
"""
    x = normal(4, 6)
    padded = np.full((5, 10), -1.0)
    padded[1:, 1::2] = x[:, 1:]
    check(text, [x], [x.T.reshape(3, 8), x[1:4:2, ::2], padded[:, :9]])


def test_an_op_without_a_kernel_is_named_with_its_line():
    text = """func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %h = stablehlo.convert %x : (tensor<40xf32>) -> tensor<40xf8E4M3B11FNUZ>
  %r = stablehlo.convert %h : (tensor<40xf8E4M3B11FNUZ>) -> tensor<40xf32>
  return %r : tensor<40xf32>
}
"""
    with pytest.raises(NotModelled, match=r"(?s)stablehlo.convert.*tensor<40xf8E4M3B11FNUZ>.*<text>:2"):
        opentrn.compile(text, strict=True)
    unsupported = [row for row in opentrn.coverage(text) if row.unsupported]
    assert [row.op for row in unsupported] == ["stablehlo.convert"]


def test_inputs_are_checked():
    model = opentrn.compile(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"
    )
    np.testing.assert_array_equal(model(np.arange(4, dtype=np.float32))[0], np.arange(4))
    with pytest.raises(ValueError, match="takes shape"):
        model(np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="takes 1 inputs"):
        model()
    with pytest.raises(TypeError, match="takes f32"):
        model(np.zeros(4, np.complex64))


def test_a_large_product_keeps_the_tensor_engine_busy():
    size = "tensor<4096x4096xbf16>"
    text = f"""
func.func @main(%a: {size}, %b: {size}) -> {size} {{
  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({size}, {size}) -> {size}
  return %r : {size}
}}
"""
    assert opentrn.compile(text).time().mfu_percent > 90  # issue 3's bound, in simulated time


def test_panels_kept_in_memory_give_the_same_values():
    # Two right panels, and a left side too large to stay in SBUF: it is kept in HBM, transposed.
    text = """
func.func @main(%a: tensor<1280x2048xbf16>, %b: tensor<2048x2560xbf16>) -> tensor<1280x2560xf32> {
  %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<1280x2048xbf16>, tensor<2048x2560xbf16>) -> tensor<1280x2560xf32>
  return %r : tensor<1280x2560xf32>
}
"""
    a, b = normal(1280, 2048).astype(ml_dtypes.bfloat16), normal(2048, 2560).astype(ml_dtypes.bfloat16)
    model = check(text, [a, b], [a.astype(np.float64) @ b.astype(np.float64)])
    assert "lhs_panel" in model.program_text()


def test_values_stay_on_chip_between_kernels():
    text = """
func.func @main(%x: tensor<200x96xf32>, %w: tensor<96x64xf32>, %v: tensor<64x96xf32>) -> tensor<200x96xf32> {
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<200x96xf32>, tensor<96x64xf32>) -> tensor<200x64xf32>
  %t = stablehlo.tanh %a : tensor<200x64xf32>
  %b = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0]
    : (tensor<200x64xf32>, tensor<64x96xf32>) -> tensor<200x96xf32>
  %r = stablehlo.add %b, %x : tensor<200x96xf32>
  return %r : tensor<200x96xf32>
}
"""
    x, w, v = normal(200, 96), normal(96, 64) / 8, normal(64, 96)
    wide = np.tanh(x.astype(np.float64) @ w.astype(np.float64)) @ v.astype(np.float64) + x
    model = check(text, [x, w, v], [wide])
    # x twice, w, v, and the result: 200 rows are two tiles.
    assert len(re.findall("dma_copy", model.program_text())) == 2 + 1 + 1 + 2 + 2


def test_scatter_adds_in_order_and_leaves_out_what_is_outside():
    text = """
func.func @main(%x: tensor<5x3xf32>, %i: tensor<6xi32>, %u: tensor<6x3xf32>) -> tensor<5x3xf32> {
  %r = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5x3xf32>, tensor<6xi32>, tensor<6x3xf32>) -> tensor<5x3xf32>
  return %r : tensor<5x3xf32>
}
"""
    x, index, updates = normal(5, 3), np.array([4, 0, 4, -1, 5, 2], np.int32), normal(6, 3)
    want = x.astype(np.float64)
    for place, row in zip(index, updates):
        if 0 <= place < 5:
            want[place] += row
    check(text, [x, index, updates], [want])


def test_argmax_takes_the_first_of_equal_values():
    text = """
func.func @main(%x: tensor<3x13xf32>, %k: tensor<3x13xi32>) -> (tensor<3xf32>, tensor<3xi32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = "stablehlo.reduce"(%x, %k, %low, %zero) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
    %g = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = stablehlo.select %g, %a, %b : tensor<i1>, tensor<f32>
    %n = stablehlo.select %g, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %v, %n : tensor<f32>, tensor<i32>
  }) : (tensor<3x13xf32>, tensor<3x13xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %r#0, %r#1 : tensor<3xf32>, tensor<3xi32>
}
"""
    x = RNG.integers(0, 4, (3, 13)).astype(np.float32)
    check(
        text, [x, np.tile(np.arange(13, dtype=np.int32), (3, 1))], [x.max(1).astype(np.float64), x.argmax(1)]
    )


def test_sums_of_integers_wrap():
    text = """
func.func @main(%x: tensor<4x1001xi32>) -> tensor<4xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x1001xi32>, tensor<i32>) -> tensor<4xi32>
  return %a : tensor<4xi32>
}
"""
    x = RNG.integers(-(2**31), 2**31, (4, 1001)).astype(np.int32)
    check(text, [x], [x.astype(np.int64).sum(1).astype(np.int32)])
