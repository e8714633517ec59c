"""Passes over graphs: same values as the evaluator on the graph that was given, or on one with explicit casts."""

import re

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import graph
from opentrn.model import compiled as model

RNG = np.random.default_rng(11)


def evaluated(text: str, *arrays: np.ndarray) -> list[np.ndarray]:
    return graph.parse(text).evaluate(*arrays)


def ops_of(module: graph.Module) -> list[str]:
    return re.findall(r"(?:stablehlo|chlo)\.(\w+)", module.to_text())


CHAINS = """
func.func @main(%x: tensor<4x6xf32>, %h: tensor<4x6xbf16>)
    -> (tensor<6x4xf32>, tensor<4x6xf32>, tensor<4x6xbf16>) {
  %one = stablehlo.constant dense<1.0> : tensor<4x6xf32>
  %eight = stablehlo.constant dense<8.0> : tensor<4x6xf32>
  %three = stablehlo.constant dense<3.0> : tensor<4x6xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<4x6xf32>
  %minus_zero = stablehlo.constant dense<-0.0> : tensor<4x6xf32>
  %a = stablehlo.multiply %x, %one : tensor<4x6xf32>
  %b = stablehlo.maximum %low, %a : tensor<4x6xf32>
  %c = stablehlo.add %b, %minus_zero : tensor<4x6xf32>
  %d = stablehlo.divide %c, %eight : tensor<4x6xf32>
  %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %u = stablehlo.transpose %t, dims = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %v = stablehlo.transpose %u, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %r = stablehlo.reshape %u : (tensor<4x6xf32>) -> tensor<24xf32>
  %s = stablehlo.reshape %r : (tensor<24xf32>) -> tensor<4x6xf32>
  %q = stablehlo.divide %s, %three : tensor<4x6xf32>
  %w = stablehlo.convert %h : (tensor<4x6xbf16>) -> tensor<4x6xf32>
  %n = stablehlo.convert %w : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  return %v, %q, %n : tensor<6x4xf32>, tensor<4x6xf32>, tensor<4x6xbf16>
}
"""


def test_identities_keep_every_bit():
    x = RNG.standard_normal((4, 6)).astype(np.float32)
    x[0, :4] = [0.0, -0.0, np.inf, 1e-45]
    h = RNG.standard_normal((4, 6)).astype(ml_dtypes.bfloat16)
    prepared = model.prepare(CHAINS)
    for got, want in zip(prepared.evaluate(x, h), evaluated(CHAINS, x, h)):
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    kinds = [kind for kind in ops_of(prepared) if kind != "constant"]
    # x * 2^-3, one transpose, and the division by three, which no reciprocal can replace.
    assert sorted(kinds) == ["divide", "multiply", "transpose"]


def test_adding_zero_stays_because_it_turns_minus_zero_into_zero():
    text = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<3xf32>
  %r = stablehlo.add %x, %zero : tensor<3xf32>
  return %r : tensor<3xf32>
}
"""
    assert "add" in ops_of(model.prepare(text))
    out = opentrn.compile(text)(np.array([-0.0, 0.0, 1.0], np.float32))[0]
    assert not np.signbit(out).any()


@pytest.mark.parametrize("order,folds", [([1, 0, 2], False), ([0, 2, 1], True), ([2, 0, 1], True)])
def test_a_product_names_the_dimensions_before_a_transpose(order: list[int], folds: bool):
    shape = (3, 4, 5)
    turned = "x".join(str(shape[d]) for d in order)
    contracted = order.index(2)
    free = "x".join(str(shape[d]) for d in order if d != 2)
    text = f"""
func.func @main(%x: tensor<3x4x5xf32>, %w: tensor<5x6xf32>) -> tensor<{free}x6xf32> {{
  %t = stablehlo.transpose %x, dims = {order} : (tensor<3x4x5xf32>) -> tensor<{turned}xf32>
  %r = stablehlo.dot_general %t, %w, contracting_dims = [{contracted}] x [0]
    : (tensor<{turned}xf32>, tensor<5x6xf32>) -> tensor<{free}x6xf32>
  return %r : tensor<{free}x6xf32>
}}
"""
    x, w = RNG.standard_normal(shape).astype(np.float32), RNG.standard_normal((5, 6)).astype(np.float32)
    prepared = model.prepare(text)
    np.testing.assert_array_equal(prepared.evaluate(x, w)[0], evaluated(text, x, w)[0])
    assert ("transpose" not in ops_of(prepared)) == folds


def test_narrowing_first_is_not_dropped():
    text = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %n = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xbf16>
  %w = stablehlo.convert %n : (tensor<3xbf16>) -> tensor<3xf32>
  return %w : tensor<3xf32>
}
"""
    x = np.array([1.0, 1.0 + 2**-12, 3.14159], np.float32)
    np.testing.assert_array_equal(
        opentrn.compile(text)(x)[0], x.astype(ml_dtypes.bfloat16).astype(np.float32)
    )


def test_constants_are_folded_and_equal_ops_shared():
    text = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %b = stablehlo.sqrt %a : tensor<2x3xf32>
  %i = stablehlo.iota dim = 1 : tensor<2x3xi32>
  %one = stablehlo.constant dense<1> : tensor<2x3xi32>
  %p = stablehlo.compare GE, %i, %one : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi1>
  %e = stablehlo.exponential %x : tensor<2x3xf32>
  %f = stablehlo.exponential %x : tensor<2x3xf32>
  %g = stablehlo.add %e, %f : tensor<2x3xf32>
  %s = stablehlo.select %p, %g, %b : tensor<2x3xi1>, tensor<2x3xf32>
  return %s : tensor<2x3xf32>
}
"""
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    prepared = model.prepare(text)
    np.testing.assert_array_equal(prepared.evaluate(x)[0], evaluated(text, x)[0])
    assert sorted(kind for kind in ops_of(prepared) if kind != "constant") == ["add", "exponential", "select"]
    compiled = opentrn.compile(text)
    assert compiled.passes["folded"] == 3 and compiled.passes["shared"] >= 1
    np.testing.assert_allclose(compiled(x)[0], evaluated(text, x)[0], rtol=1e-6)


def test_random_numbers_are_drawn_twice():
    text = """
func.func @main() -> tensor<4xf32> {
  %low = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<1.0> : tensor<f32>
  %n = stablehlo.constant dense<4> : tensor<1xi64>
  %a = stablehlo.rng %low, %high, %n, distribution = UNIFORM
    : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  %b = stablehlo.rng %low, %high, %n, distribution = UNIFORM
    : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  %c = stablehlo.subtract %a, %b : tensor<4xf32>
  return %c : tensor<4xf32>
}
"""
    assert np.all(opentrn.compile(text)() != 0)


# A product, an element-wise op, a norm-like reduction: what autocast treats apart.
BLOCK = """
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x12xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %third = stablehlo.constant dense<0.333333343> : tensor<8x12xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
  %s = stablehlo.multiply %y, %third : tensor<8x12xf32>
  %r = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<8x12xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
"""

EXPLICIT_MATMULT = """
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x12xf32>) -> tensor<8xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %third = stablehlo.constant dense<0.333333343> : tensor<8x12xf32>
  %xn = stablehlo.convert %x : (tensor<8x16xf32>) -> tensor<8x16x{t}>
  %wn = stablehlo.convert %w : (tensor<16x12xf32>) -> tensor<16x12x{t}>
  %y = stablehlo.dot_general %xn, %wn, contracting_dims = [1] x [0]
    : (tensor<8x16x{t}>, tensor<16x12x{t}>) -> tensor<8x12xf32>
  %s = stablehlo.multiply %y, %third : tensor<8x12xf32>
  %r = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<8x12xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}}
"""

EXPLICIT_ALL = """
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x12xf32>) -> tensor<8xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %wide_third = stablehlo.constant dense<0.333333343> : tensor<8x12xf32>
  %third = stablehlo.convert %wide_third : (tensor<8x12xf32>) -> tensor<8x12x{t}>
  %xn = stablehlo.convert %x : (tensor<8x16xf32>) -> tensor<8x16x{t}>
  %wn = stablehlo.convert %w : (tensor<16x12xf32>) -> tensor<16x12x{t}>
  %y = stablehlo.dot_general %xn, %wn, contracting_dims = [1] x [0]
    : (tensor<8x16x{t}>, tensor<16x12x{t}>) -> tensor<8x12x{t}>
  %s = stablehlo.multiply %y, %third : tensor<8x12x{t}>
  %sw = stablehlo.convert %s : (tensor<8x12x{t}>) -> tensor<8x12xf32>
  %r = stablehlo.reduce(%sw init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<8x12xf32>, tensor<f32>) -> tensor<8xf32>
  %rn = stablehlo.convert %r : (tensor<8xf32>) -> tensor<8x{t}>
  %rw = stablehlo.convert %rn : (tensor<8x{t}>) -> tensor<8xf32>
  return %rw : tensor<8xf32>
}}
"""

MLIR_NAME = {"bf16": "bf16", "fp16": "f16", "tf32": "tf32", "fp8_e4m3": "f8E4M3"}


@pytest.mark.parametrize("cast_type", MLIR_NAME)
@pytest.mark.parametrize("mode", ["matmult", "all"])
def test_autocast_is_the_graph_with_explicit_casts(mode, cast_type):
    # Multiples of a half, so that sums of products are exact in fp32 in any order: bits must be equal.
    x = (RNG.integers(-6, 7, (8, 16)) / 2).astype(np.float32)
    w = (RNG.integers(-6, 7, (16, 12)) / 2).astype(np.float32)
    explicit = {"matmult": EXPLICIT_MATMULT, "all": EXPLICIT_ALL}[mode].format(t=MLIR_NAME[cast_type])
    want = evaluated(explicit, x, w)[0]
    prepared = model.prepare(BLOCK, auto_cast=mode, auto_cast_type=cast_type)
    np.testing.assert_array_equal(prepared.evaluate(x, w)[0], want)
    compiled = opentrn.compile(BLOCK, optlevel=1, auto_cast=mode, auto_cast_type=cast_type)
    got = compiled(x, w)[0]
    assert got.dtype == np.float32
    # The last sum is fp32 in the device's order: its error is relative to the terms, which may cancel.
    if mode == "matmult":
        terms = np.abs(x @ w).sum(axis=1) / 3
        assert (np.abs(got - want) <= 12 * np.finfo(np.float32).eps * terms).all()
    else:
        np.testing.assert_allclose(got, want, rtol=2.0**-3, atol=1e-6)
    assert compiled.passes["casts"] >= 2


@pytest.mark.parametrize("cast_type", MLIR_NAME)
def test_autocast_changes_what_a_narrow_type_cannot_hold(cast_type):
    """The device computes with the narrow operands, not with the wide ones."""
    x = RNG.standard_normal((8, 16)).astype(np.float32)
    w = RNG.standard_normal((16, 12)).astype(np.float32)
    want = evaluated(EXPLICIT_MATMULT.format(t=MLIR_NAME[cast_type]), x, w)[0]
    plain = evaluated(BLOCK, x, w)[0]
    got = opentrn.compile(BLOCK, auto_cast="matmult", auto_cast_type=cast_type)(x, w)[0]
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())
    assert np.abs(got - plain).max() > 20 * np.abs(got - want).max()


def test_autocast_leaves_models_without_fp32_alone():
    text = BLOCK.replace("f32>", "bf16>")
    assert opentrn.compile(text, auto_cast="all").passes["casts"] == 0


def test_autocast_all_keeps_inputs_results_and_integers():
    text = """
func.func @main(%x: tensor<4xf32>, %n: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %f = stablehlo.convert %n : (tensor<4xi32>) -> tensor<4xf32>
  %y = stablehlo.add %x, %f : tensor<4xf32>
  %b = stablehlo.bitcast_convert %y : (tensor<4xf32>) -> tensor<4xi32>
  return %y, %b : tensor<4xf32>, tensor<4xi32>
}
"""
    x, n = np.array([0.3, 1.7, -2.6, 100.1], np.float32), np.array([1, 2, 3, 4], np.int32)
    bf16 = ml_dtypes.bfloat16
    want = (x.astype(bf16) + n.astype(bf16)).astype(np.float32)
    value, bits = model.prepare(text, auto_cast="all").evaluate(x, n)
    np.testing.assert_array_equal(value, want)
    np.testing.assert_array_equal(bits, want.view(np.int32))


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match="(?s)auto-cast is 'sometimes'.*none, matmult, all"):
        opentrn.compile(BLOCK, auto_cast="sometimes")
    with pytest.raises(ValueError, match="optlevel is '4'"):
        opentrn.compile(BLOCK, optlevel=4)


def test_weights_are_cast_as_the_evaluator_casts_them():
    values = [1.0, 1.00390625, 1.01171875, -3.4e38, 3.3961776e38, 1e-40, -0.0, "0x7F800000", "0x7FC00000"]
    spelled = ", ".join(value if isinstance(value, str) else f"{value:.9e}" for value in values)
    text = f"""
func.func @main() -> tensor<9xbf16> {{
  %w = stablehlo.constant dense<[{spelled}]> : tensor<9xf32>
  %n = stablehlo.convert %w : (tensor<9xf32>) -> tensor<9xbf16>
  return %n : tensor<9xbf16>
}}
"""
    prepared = model.prepare(text)
    assert "convert" not in ops_of(prepared)
    got, want = (module.evaluate()[0].view(np.uint16) for module in (prepared, graph.parse(text)))
    np.testing.assert_array_equal(got, want)


def test_scatters_and_gathers_of_constants_are_constants():
    """As exported attention masks are made: written block by block into zeros, then looked up."""
    text = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<4x3xf32>
  %rows = stablehlo.constant dense<[[1], [3], [1]]> : tensor<3x1xi64>
  %ones = stablehlo.constant dense<1.5> : tensor<3x3xf32>
  %mask = "stablehlo.scatter"(%zero, %rows, %ones) <{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x3xf32>, tensor<3x1xi64>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %places = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi64>
  %seen = "stablehlo.gather"(%mask, %places) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}>
    : (tensor<4x3xf32>, tensor<2x1xi64>) -> tensor<2x3xf32>
  %r = stablehlo.add %x, %seen : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
"""
    prepared = str(opentrn.model.prepare(text))
    assert "scatter" not in prepared and "gather" not in prepared
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(opentrn.compile(text)(x)[0], x + np.float32([[3], [0]]))
