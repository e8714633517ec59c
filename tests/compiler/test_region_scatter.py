"""Scatters that the kernel does not take as they are: regions of several ops, and products of complex numbers."""

import numpy as np
import pytest

import opentrn
from opentrn import graph

RNG = np.random.default_rng(11)
ROWS = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
PLACES = "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 0"
BODIES = {
    # by which an update that comes later meets what an earlier one has left
    "difference, scaled": (
        "%c = stablehlo.constant dense<0.5> : tensor<f32>\n  %s = stablehlo.multiply %a, %c : tensor<f32>\n  "
        "%r = stablehlo.subtract %s, %b : tensor<f32>",
        "f32",
    ),
    "the update, used twice": (
        "%s = stablehlo.multiply %b, %b : tensor<f32>\n  %r = stablehlo.add %a, %s : tensor<f32>", "f32"),
    "quotient": ("%r = stablehlo.divide %a, %b : tensor<f32>", "f32"),
    "exclusive or": ("%r = stablehlo.xor %a, %b : tensor<i32>", "i32"),
    "complex product": ("%r = stablehlo.multiply %a, %b : tensor<complex<f32>>", "complex<f32>"),
    "complex maximum": ("%r = stablehlo.maximum %a, %b : tensor<complex<f32>>", "complex<f32>"),
    "complex minimum": ("%r = stablehlo.minimum %a, %b : tensor<complex<f32>>", "complex<f32>"),
}  # fmt: skip


def program(body: str, element: str, operand: str, indices: str, updates: str, numbers: str) -> str:
    scalar, x, u = (f"tensor<{dims}{element}>" for dims in ("", f"{operand}x", f"{updates}x"))
    return f"""
func.func @main(%x: {x}, %i: tensor<{indices}xi32>, %u: {u}) -> {x} {{
  %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>,
    indices_are_sorted = false, unique_indices = false}}> ({{
    ^bb0(%a: {scalar}, %b: {scalar}):
    {body}
    stablehlo.return %r : {scalar}
  }}) : ({x}, tensor<{indices}xi32>, {u}) -> {x}
  return %r : {x}
}}
"""


def drawn(element: str, shape: tuple[int, ...]) -> np.ndarray:
    if element == "i32":
        return RNG.integers(-1000, 1000, shape).astype(np.int32)
    real = RNG.standard_normal(shape)
    return (
        (real + 1j * RNG.standard_normal(shape)).astype(np.complex64)
        if "complex" in element
        else real.astype("f4")
    )


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    "numbers", [("7x5", "9x1", "9x5", ROWS), ("6x8", "2x3x4", "3x4", PLACES)], ids=["rows", "places"]
)
def test_values_are_the_evaluators(body, numbers):
    text, element = BODIES[body]
    model = opentrn.compile(program(text, element, *numbers), strict=True)
    x, indices, updates = (port.shape for port in model.inputs)
    arrays = [
        drawn(element, x),
        RNG.integers(-2, x[0] + 2, indices).astype(np.int32),  # some twice, some outside
        drawn(element, updates),
    ]
    (want,) = graph.parse(program(text, element, *numbers)).evaluate(*arrays)
    (got,) = model(*arrays)
    if element == "i32":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6 * np.abs(want).max())
    assert not np.array_equal(want, arrays[0])  # something was scattered
