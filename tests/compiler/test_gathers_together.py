"""Gathers of short rows, several to a partition: values at every remainder, and how few instructions they take."""

import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(3)


def gather(table: tuple[int, ...], count: int) -> str:
    """Single elements at `count` places."""
    rank = len(table)
    dims, ones = list(range(rank)), ", ".join(["1"] * rank)
    types = (
        f"(tensor<{'x'.join(map(str, table))}xf32>, tensor<{count}x{rank}xi32>)",
        f"tensor<{count}xf32>",
    )
    return f"""
func.func @main(%x: tensor<{"x".join(map(str, table))}xf32>, %i: tensor<{count}x{rank}xi32>) -> {types[1]} {{
  %g = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = {dims},
       start_index_map = {dims}, index_vector_dim = 1>, slice_sizes = array<i64: {ones}>}}>
       : {types[0]} -> {types[1]}
  return %g : {types[1]}
}}"""


@pytest.mark.parametrize("count", [1, 128, 255, 256, 300, 8192 + 7, 3 * 8192])
@pytest.mark.parametrize("table", [(1000,), (40, 30)])
def test_elements(table, count):
    x = RNG.standard_normal(table).astype(np.float32)
    places = RNG.integers(-3, max(table) + 3, (count, len(table))).astype(np.int32)
    model = opentrn.compile(gather(table, count))
    (got,) = model(x, places)
    inside = np.clip(places, 0, np.array(table) - 1)
    np.testing.assert_array_equal(got, x[tuple(inside.T)])
    if count > 8192:
        assert model.program_text().count("tensor_tensor") < 50
