"""Scatters of more windows than the kernel unrolls: a loop over parts of them, in their order."""

import numpy as np
import pytest

import opentrn
from opentrn import graph

BODY = {
    "add": "%s = stablehlo.add %a, %b : tensor<f32>\n  stablehlo.return %s : tensor<f32>",
    "max": "%s = stablehlo.maximum %a, %b : tensor<f32>\n  stablehlo.return %s : tensor<f32>",
    "replace": "stablehlo.return %b : tensor<f32>",
}


def program(body: str, operand: str, indices: str, updates: str, numbers: str) -> str:
    return f"""
func.func @main(%x: tensor<{operand}xf32>, %i: tensor<{indices}xi32>, %u: tensor<{updates}xf32>)
    -> tensor<{operand}xf32> {{
  %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>,
    indices_are_sorted = false, unique_indices = false}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    {BODY[body]}
  }}) : (tensor<{operand}xf32>, tensor<{indices}xi32>, tensor<{updates}xf32>) -> tensor<{operand}xf32>
  return %r : tensor<{operand}xf32>
}}
"""


ROWS = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = "
CASES = {
    "rows of an embedding": program("add", "50x6", "4099x1", "4099x6", "update_window_dims = [1], " + ROWS + "1"),
    "columns first, no vector dimension": program(
        "add", "50x6", "3x1500", "6x3x1500", "update_window_dims = [0], " + ROWS + "2"
    ),
    "single elements by two indices": program(
        "max", "30x40", "2x90x60", "90x60",
        "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 0",
    ),
    "the last one stays": program(
        "replace", "700", "8192x1", "8192", "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        "index_vector_dim = 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_are_the_evaluators(name):
    text = CASES[name]
    random = np.random.default_rng(3)
    model = opentrn.compile(text, strict=True)
    x, indices, updates = (port.shape for port in model.inputs)
    arrays = [
        random.standard_normal(x).astype(np.float32),
        random.integers(-3, x[0] + 3, indices).astype(np.int32),  # some lie outside
        random.standard_normal(updates).astype(np.float32),
    ]
    (want,) = graph.parse(text).evaluate(*arrays)
    (got,) = model(*arrays)
    if BODY["add"] in text:  # the Tensor engine has an order of its own (test_scatter_sums.py)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-5)
    else:
        np.testing.assert_array_equal(got, want)
    assert model.host_ops.calls == ()
