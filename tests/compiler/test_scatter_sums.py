"""Scatters that add, by products of zeros and ones: values of the evaluator, which adds window after window."""

import numpy as np
import pytest

import opentrn
from opentrn import graph

ROWS = (
    "update_window_dims = [{window}], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
    "index_vector_dim = 1"
)


def program(operand: str, indices: str, updates: str, numbers: str, element: str = "f32") -> str:
    return f"""
func.func @main(%x: tensor<{operand}x{element}>, %i: tensor<{indices}xi32>, %u: tensor<{updates}x{element}>)
    -> tensor<{operand}x{element}> {{
  %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>,
    indices_are_sorted = false, unique_indices = false}}> ({{
    ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    %s = stablehlo.add %a, %b : tensor<{element}>
    stablehlo.return %s : tensor<{element}>
  }}) : (tensor<{operand}x{element}>, tensor<{indices}xi32>, tensor<{updates}x{element}>) -> tensor<{operand}x{element}>
  return %r : tensor<{operand}x{element}>
}}
"""


def of_rows(table: int, width: str, count: int, element: str = "f32") -> str:
    window = ", ".join(str(i + 1) for i in range(width.count("x")))
    return program(f"{table}{width}", f"{count}x1", f"{count}{width}", ROWS.format(window=window), element)


CASES = {
    "a short table": of_rows(50, "x6", 300),
    "of more rows than a bank": of_rows(700, "x64", 257),
    "rows wider than a product": of_rows(130, "x400", 200),
    "rows of two dimensions": of_rows(40, "x3x5", 140),
    "a long table": of_rows(5000, "x24", 300),
    "wide rows of a long table": of_rows(4500, "x600", 130),
    "one window": of_rows(5000, "x8", 1),
    "numbers": of_rows(1000, "", 3001),
    "few numbers": of_rows(7, "", 5),
    "numbers of a long table": of_rows(40000, "", 700),
    "numbers of a table beyond digits": of_rows(200_000, "", 300),
    "two components": program(
        "30x40", "2x90x6", "90x6", "update_window_dims = [], inserted_window_dims = [0, 1], "
        "scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 0",
    ),
    "a batch": program(
        "30x40", "30x3x1", "30x3", "update_window_dims = [], inserted_window_dims = [1], input_batching_dims = [0], "
        "scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2",
    ),
    "whole numbers": of_rows(100, "", 4000, "i32"),
    "rows of whole numbers": of_rows(60, "x3", 500, "i32"),
}  # fmt: skip


def arguments(model: object, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    x, indices, updates = (port.shape for port in model.inputs)
    whole = model.inputs[0].dtype == np.int32

    def numbers(shape: tuple[int, ...]) -> np.ndarray:
        if whole:
            return random.integers(-(2**31), 2**31, shape).astype(np.int32)
        return random.standard_normal(shape).astype(np.float32)

    return [numbers(x), random.integers(-3, x[0] + 3, indices).astype(np.int32), numbers(updates)]


@pytest.mark.parametrize("name", CASES)
def test_values_are_the_evaluators(name: str) -> None:
    model = opentrn.compile(CASES[name], strict=True)
    arrays = arguments(model, 3)
    (want,) = graph.parse(CASES[name]).evaluate(*arrays)
    (got,) = model(*arrays)
    if want.dtype == np.int32:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-5)
    assert model.host_ops.calls == ()


@pytest.mark.parametrize("name", ["a short table", "a long table", "numbers"])
def test_infinities_stay_in_their_rows(name: str) -> None:
    model = opentrn.compile(CASES[name], strict=True)
    x, indices, updates = arguments(model, 4)
    flat = updates.reshape(len(indices), -1)
    for row, value in ((1, np.inf), (2, -np.inf), (3, np.nan), (5, np.inf), (8, 3e38)):
        flat[row, -1] = value
    indices[1:4, 0] = 0, 1, 2
    indices[5, 0], indices[8, 0] = 1, 4  # infinities of both signs at 1
    indices[9, 0] = 4
    flat[9, -1] = 3e38
    (want,) = graph.parse(CASES[name]).evaluate(x, indices, updates)
    (got,) = model(x, indices, updates)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-5)
    assert np.isnan(want).sum() == 2 and np.isinf(want).sum() >= 2


def test_counts_of_one_number() -> None:
    text = CASES["whole numbers"].replace(
        '%r = "stablehlo.scatter"(%x, %i, %u)',
        '%one = stablehlo.constant dense<3> : tensor<4000xi32>\n  %r = "stablehlo.scatter"(%x, %i, %one)',
    )
    model = opentrn.compile(text, strict=True)
    arrays = arguments(model, 5)
    np.testing.assert_array_equal(model(*arrays)[0], graph.parse(text).evaluate(*arrays)[0])


def test_time_does_not_go_with_windows_one_by_one() -> None:
    """A window took 4.7 us, one after another."""
    model = opentrn.compile(of_rows(8192, "x768", 1024), strict=True)
    assert model.time().time_us < 1024


@pytest.mark.parametrize(("table", "count"), [(50, 300), (5000, 200), (3, 130), (9, 2)])
def test_of_rows_with_one_index_the_last_stays(table: int, count: int) -> None:
    text = of_rows(table, "x7", count)
    text = text.replace(
        "%s = stablehlo.add %a, %b : tensor<f32>\n    stablehlo.return %s", "stablehlo.return %b"
    )
    model = opentrn.compile(text, strict=True)
    arrays = arguments(model, 6)
    np.testing.assert_array_equal(model(*arrays)[0], graph.parse(text).evaluate(*arrays)[0])
