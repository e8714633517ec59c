"""Scatters of extremes of rows, which go in the order of their indices: the evaluator's numbers."""

import numpy as np
import pytest

import opentrn
from opentrn import graph


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize(("rows", "width"), [(600, 1), (700, 40), (520, 130)])
def test_what_is_no_number_stays_at_its_index(op: str, is_sorted: bool, rows: int, width: int) -> None:
    table, updates = f"tensor<37x{width}xf32>", f"tensor<{rows}x{width}xf32>"
    text = f"""func.func @main(%t: {table}, %i: tensor<{rows}x1xi32>, %u: {updates}) -> {table} {{
  %s = "stablehlo.scatter"(%t, %i, %u) <{{indices_are_sorted = {str(is_sorted).lower()}, scatter_dimension_numbers =
    #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.{op} %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }}) : ({table}, tensor<{rows}x1xi32>, {updates}) -> {table}
  return %s : {table}
}}"""
    random = np.random.default_rng(3)
    x = random.standard_normal((rows, width)).astype(np.float32)
    special = np.array([np.nan, np.inf, -np.inf], np.float32)
    x = np.where(random.random(x.shape) < 0.02, special[random.integers(0, 3, x.shape)], x)
    x[7] = np.nan
    start = random.standard_normal((37, width)).astype(np.float32)
    start[5, 0] = np.nan
    places = random.integers(-1, 39, (rows, 1)).astype(np.int32)  # some lie outside of the table
    if is_sorted:
        places.sort(axis=0)
    (ours,) = opentrn.compile(text, strict=True)(start, places, x)
    (theirs,) = graph.parse(text).evaluate(start, places, x)
    np.testing.assert_array_equal(ours, theirs)
    assert 0 < np.isnan(ours).sum() < ours.size
