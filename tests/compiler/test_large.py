"""Contractions longer than SBUF's rows, and models larger than a chip's memory."""

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn.errors import NkiValidationError

RNG = np.random.default_rng(41)


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize(("m", "k", "n"), [(3, 40_001, 5), (130, 24_576, 200), (1, 131_072, 64)])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_long_contraction(target, m, k, n, element):
    x, y = (RNG.standard_normal(shape).astype(np.float32) for shape in [(m, k), (n, k)])
    x, y = ((each.astype(ml_dtypes.bfloat16) if element == "bf16" else each) for each in (x, y))
    (got,) = opentrn.compile(
        f"""
func.func @main(%x: tensor<{m}x{k}x{element}>, %y: tensor<{n}x{k}x{element}>) -> tensor<{m}x{n}x{element}> {{
  %r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1]
    : (tensor<{m}x{k}x{element}>, tensor<{n}x{k}x{element}>) -> tensor<{m}x{n}x{element}>
  return %r : tensor<{m}x{n}x{element}>
}}""",
        target=target,
    )(x, y)
    x, y = x.astype(np.float64), y.astype(np.float64)
    terms = np.abs(x) @ np.abs(y).T
    rounding = 2.0**-8 * np.abs(x @ y.T) if element == "bf16" else 0
    assert (np.abs(got.astype(np.float64) - x @ y.T) <= rounding + 2e-6 * terms).all()


def test_a_contraction_over_two_dimensions_is_long_too():
    x, y = (RNG.standard_normal(shape).astype(np.float32) for shape in [(4, 300, 90), (90, 300, 6)])
    (got,) = opentrn.compile("""
func.func @main(%x: tensor<4x300x90xf32>, %y: tensor<90x300x6xf32>) -> tensor<4x6xf32> {
  %r = stablehlo.dot_general %x, %y, contracting_dims = [2, 1] x [0, 1]
    : (tensor<4x300x90xf32>, tensor<90x300x6xf32>) -> tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}""")(x, y)
    x, y = x.astype(np.float64), y.astype(np.float64)
    terms = np.einsum("abc,cbd->ad", np.abs(x), np.abs(y))
    assert (np.abs(got - np.einsum("abc,cbd->ad", x, y)) <= 2e-6 * terms).all()


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_many_small_products(element):
    """Dot products of 20,000 pairs of vectors: in parallel, not one after the other."""
    x, y = (RNG.standard_normal(shape).astype(np.float32) for shape in [(20_000, 3, 8), (8, 20_000, 2)])
    x, y = ((each.astype(ml_dtypes.bfloat16) if element == "bf16" else each) for each in (x, y))
    model = opentrn.compile(f"""
func.func @main(%x: tensor<20000x3x8x{element}>, %y: tensor<8x20000x2x{element}>) -> tensor<20000x3x2xf32> {{
  %r = stablehlo.dot_general %x, %y, batching_dims = [0] x [1], contracting_dims = [2] x [0]
    : (tensor<20000x3x8x{element}>, tensor<8x20000x2x{element}>) -> tensor<20000x3x2xf32>
  return %r : tensor<20000x3x2xf32>
}}""")
    (got,) = model(x, y)
    x, y = x.astype(np.float64), y.astype(np.float64)
    terms = np.einsum("bmk,kbn->bmn", np.abs(x), np.abs(y))
    assert (np.abs(got - np.einsum("bmk,kbn->bmn", x, y)) <= 1e-6 * terms).all()
    assert model.instruction_count < 20_000


def test_a_value_larger_than_a_chip_is_refused():
    with pytest.raises(
        NkiValidationError,
        match=r"compiler.hbm.*300000, 300000.*96 GiB(.|\n)*:4\n(.|\n)*try: a smaller batch",
    ):
        opentrn.compile("""
func.func @main(%x: tensor<f32>) -> tensor<300000x300000xf32> {
  %b = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<300000x300000xf32>
  %r = stablehlo.dot_general %b, %b, contracting_dims = [1] x [0]
    : (tensor<300000x300000xf32>, tensor<300000x300000xf32>) -> tensor<300000x300000xf32>
  return %r : tensor<300000x300000xf32>
}""")


def _three_values_of_5_gib() -> str:
    body = "\n".join(
        f"  %r{i} = stablehlo.slice %x [0:8, {i}:{i + 1}] : (tensor<8x9xf32>) -> tensor<8x1xf32>"
        for i in range(3)
    )
    big = f"tensor<{5 << 28}xf32>"
    return f"""
func.func @main(%x: tensor<8x9xf32>, %a: {big}, %b: {big}, %c: {big})
    -> (tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>) {{
{body}
  return %r0, %r1, %r2 : tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>
}}"""


def test_a_model_is_held_to_the_memory_of_its_core(monkeypatch):
    """The share of a NeuronCore-v2 is 16 GiB, of a NeuronCore-v3 12, of a logical core of two 24."""
    text = _three_values_of_5_gib()
    opentrn.compile(text, target="trn1")
    with pytest.raises(
        NkiValidationError, match=r"compiler.hbm.*15\.0 GiB of memory at once.*; a logical core has 12\.0 GiB"
    ):
        opentrn.compile(text, target="trn2")
    opentrn.compile(text, target="trn2.48xlarge")
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    opentrn.compile(text, target="trn2")
    opentrn.compile(text, target="trn1")  # has no logical cores of two


@pytest.mark.parametrize(("rows", "columns"), [(3, 30_000), (2, 200), (130, 1_500)])
def test_a_running_sum_over_a_long_row(rows, columns):
    x = RNG.integers(-9, 10, (rows, columns)).astype(np.float32)  # exact sums
    (got,) = opentrn.compile(f"""
func.func @main(%x: tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %y = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: 1, {columns}>,
      window_strides = array<i64: 1, 1>, padding = dense<[[0, 0], [{columns - 1}, 0]]> : tensor<2x2xi64>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }}) : (tensor<{rows}x{columns}xf32>, tensor<f32>) -> tensor<{rows}x{columns}xf32>
  return %y : tensor<{rows}x{columns}xf32>
}}""")(x)
    np.testing.assert_array_equal(got, np.cumsum(x, 1))


@pytest.mark.parametrize(
    ("shape", "dimensions"), [((3, 40_000), [1]), ((9_000, 3), [0]), ((2, 70, 90), [1, 2])]
)
def test_the_first_largest_of_a_long_row(shape, dimensions):
    """Of equal values the first one: neighbours meet in their order."""
    x = RNG.integers(-50, 50, shape).astype(np.float32)
    flat = np.moveaxis(x, dimensions, range(-len(dimensions), 0))
    kept = flat.shape[: -len(dimensions)]
    places = np.arange(int(np.prod([shape[d] for d in dimensions]))).reshape([shape[d] for d in dimensions])
    at = np.broadcast_to(np.expand_dims(places, [d for d in range(x.ndim) if d not in dimensions]), shape)
    whole, part = "x".join(map(str, shape)), "x".join(map(str, kept))
    values, indices = opentrn.compile(f"""
func.func @main(%x: tensor<{whole}xf32>, %i: tensor<{whole}xi32>) -> (tensor<{part}xf32>, tensor<{part}xi32>) {{
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %y:2 = "stablehlo.reduce"(%x, %i, %low, %none) <{{dimensions = array<i64: {", ".join(map(str, dimensions))}>}}> ({{
    ^bb0(%a: tensor<f32>, %ai: tensor<i32>, %b: tensor<f32>, %bi: tensor<i32>):
      %g = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %v = stablehlo.select %g, %a, %b : tensor<i1>, tensor<f32>
      %w = stablehlo.select %g, %ai, %bi : tensor<i1>, tensor<i32>
      stablehlo.return %v, %w : tensor<f32>, tensor<i32>
  }}) : (tensor<{whole}xf32>, tensor<{whole}xi32>, tensor<f32>, tensor<i32>)
    -> (tensor<{part}xf32>, tensor<{part}xi32>)
  return %y#0, %y#1 : tensor<{part}xf32>, tensor<{part}xi32>
}}""")(x, at.astype(np.int32))
    flat = flat.reshape(*kept, -1)
    np.testing.assert_array_equal(values, flat.max(-1))
    np.testing.assert_array_equal(indices, flat.argmax(-1))


def test_long_iotas_are_not_written_out():
    """Beyond 256 MiB they are computed from short ones."""
    count = (1 << 26) + 5
    text = f"""
func.func @main() -> (tensor<3xi32>, tensor<1x3xf32>, tensor<2x1xi64>) {{
  %i = stablehlo.iota dim = 0 : tensor<{count}xi32>
  %s = stablehlo.slice %i [{count - 3}:{count}] : (tensor<{count}xi32>) -> tensor<3xi32>
  %j = stablehlo.iota dim = 1 : tensor<32768x4096xf32>
  %t = stablehlo.slice %j [7:8, 4093:4096] : (tensor<32768x4096xf32>) -> tensor<1x3xf32>
  %k = stablehlo.iota dim = 0 : tensor<32768x4096xi64>
  %u = stablehlo.slice %k [32766:32768, 5:6] : (tensor<32768x4096xi64>) -> tensor<2x1xi64>
  return %s, %t, %u : tensor<3xi32>, tensor<1x3xf32>, tensor<2x1xi64>
}}
"""
    model = opentrn.compile(text, strict=True)
    assert model.constant_bytes < 1 << 20
    ends, columns, rows = model()
    np.testing.assert_array_equal(ends, np.arange(count - 3, count))
    np.testing.assert_array_equal(columns, [[4093, 4094, 4095]])
    np.testing.assert_array_equal(rows, [[32766], [32767]])


def test_one_number_fills_a_long_vector():
    count = 18_000_000
    text = f"""
        func.func @main(%i: tensor<2x1xi32>, %v: tensor<2xi32>) -> tensor<{count}xi32> {{
          %z = stablehlo.constant dense<7> : tensor<{count}xi32>
          %r = "stablehlo.scatter"(%z, %i, %v) <{{scatter_dimension_numbers = #stablehlo.scatter<
              inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
          ^bb0(%a: tensor<i32>, %b: tensor<i32>):
            %s = stablehlo.add %a, %b : tensor<i32>
            stablehlo.return %s : tensor<i32>
          }}) : (tensor<{count}xi32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<{count}xi32>
          return %r : tensor<{count}xi32>
        }}
    """
    (got,) = opentrn.compile(text)(np.array([[3], [count - 1]], np.int32), np.array([1, 2], np.int32))
    want = np.full(count, 7, np.int32)
    want[3] += 1
    want[-1] += 2
    np.testing.assert_array_equal(got, want)
