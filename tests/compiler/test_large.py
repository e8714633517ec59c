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


def test_values_larger_than_a_chip_together_are_refused():
    """Three values of 12 GiB; two of them fit."""
    body = "\n".join(
        f"  %r{i} = stablehlo.slice %x [0:8, {i}:{i + 1}] : (tensor<8x9xf32>) -> tensor<8x1xf32>"
        for i in range(3)
    )
    text = f"""
func.func @main(%x: tensor<8x9xf32>, %a: tensor<3221225472xf32>, %b: tensor<3221225472xf32>, %c: tensor<3221225472xf32>)
    -> (tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>) {{
{body}
  return %r0, %r1, %r2 : tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>
}}"""
    with pytest.raises(
        NkiValidationError,
        match=r"compiler.hbm.*36\.0 GiB of memory at once; the largest chip of NeuronCore-v2 has 32 GiB",
    ):
        opentrn.compile(text, target="trn1")
    opentrn.compile(text, target="trn2")
