"""Gathers with a coordinate for each dimension of the table, most of which count: values, and few descriptors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(5)


def gather(
    table: tuple[int, ...], coordinates: list[str], shape: tuple[int, ...], arguments: str = ""
) -> str:
    """Single elements of %x at coordinates that the lines give as %c0, %c1, ... of [shape, 1], int32."""
    dims = list(range(len(table)))
    places = "x".join(map(str, shape))
    one, every = f"tensor<{places}x1xi32>", f"tensor<{places}x{len(table)}xi32>"
    names = ", ".join(f"%c{d}" for d in dims)
    lines = "\n".join(line.replace("ONE", one) for line in coordinates)
    of = f"tensor<{'x'.join(map(str, table))}xf32>"
    return f"""
func.func @main(%x: {of}{arguments}) -> tensor<{places}xf32> {{
  {lines}
  %i = stablehlo.concatenate {names}, dim = {len(shape)} : ({", ".join([one] * len(dims))}) -> {every}
  %r = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = {dims},
       start_index_map = {dims}, index_vector_dim = {len(shape)}>,
       slice_sizes = array<i64: {", ".join(["1"] * len(dims))}>}}> : ({of}, {every}) -> tensor<{places}xf32>
  return %r : tensor<{places}xf32>
}}"""


def constant(name: str, values: np.ndarray, shape: tuple[int, ...], dims: list[int]) -> str:
    """%name of [shape, 1], the constant's dimensions at `dims`."""
    of = f"tensor<{'x'.join(map(str, values.shape))}xi32>"
    return (
        f"%k{name} = stablehlo.constant dense<{values.tolist()}> : {of}\n"
        f"%{name} = stablehlo.broadcast_in_dim %k{name}, dims = {dims} : ({of}) -> ONE"
    )


def iota(name: str, dim: int) -> str:
    return f"%{name} = stablehlo.iota dim = {dim} : ONE"


NEAREST = np.arange(14) * 3 // 14
BUCKETS = np.clip((np.arange(48)[None] - np.arange(48)[:, None]) // 3 + 8, 0, 15)
CASES: dict[str, tuple[tuple[int, ...], list[str], tuple[int, ...], Callable[[np.ndarray], np.ndarray], float]] = {
    # torch.gather by a list of rows that is expanded along columns
    "rows": ((40, 128), [constant("c0", NEAREST * 11, (14, 128), [0]), iota("c1", 1)], (14, 128),
             lambda x: x[NEAREST * 11], 8),
    "rows of a batch": ((3, 40, 64), [iota("c0", 0), constant("c1", NEAREST * 11, (3, 14, 64), [1]), iota("c2", 2)],
                        (3, 14, 64), lambda x: x[:, NEAREST * 11], 12),
    "rows that differ in a batch": (
        (3, 40, 64),
        [iota("c0", 0), constant("c1", np.stack([NEAREST, NEAREST + 9, NEAREST * 7]), (3, 14, 64), [0, 1]),
         iota("c2", 2)],
        (3, 14, 64), lambda x: np.stack([x[0][NEAREST], x[1][NEAREST + 9], x[2][NEAREST * 7]]), 12),
    "rows and columns": ((64, 3, 3), [iota("c0", 0), constant("c1", NEAREST, (64, 14, 14), [1]),
                                      constant("c2", NEAREST, (64, 14, 14), [2])],
                         (64, 14, 14), lambda x: x[:, NEAREST][:, :, NEAREST], 50),
    "differences": ((6, 48, 16), [iota("c0", 0), iota("c1", 1), constant("c2", BUCKETS, (6, 48, 48), [1, 2])],
                    (6, 48, 48), lambda x: np.take_along_axis(x, BUCKETS[None].repeat(6, 0), 2), 40),
    "differences, turned": (
        (6, 48, 16), [iota("c0", 0), iota("c1", 2), constant("c2", BUCKETS, (6, 48, 48), [1, 2])],
        (6, 48, 48), lambda x: np.take_along_axis(x, BUCKETS.T[None].repeat(6, 0), 2).transpose(0, 2, 1), 40),
    "a diagonal": ((48, 48, 32), [iota("c0", 0), iota("c1", 0), iota("c2", 1)], (48, 32),
                   lambda x: x[np.arange(48), np.arange(48)], 20),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_known_places(name: str) -> None:
    table, coordinates, shape, of_numpy, us = CASES[name]
    x = RNG.standard_normal(table).astype(np.float32)
    x.flat[::17] = np.inf
    model = opentrn.compile(gather(table, coordinates, shape))
    (got,) = model(x)
    np.testing.assert_array_equal(got, of_numpy(x))
    assert model.time().time_us < us


def test_places_of_a_run() -> None:
    """An argument that is expanded, with negative places counted from the end, as torch.gather writes it."""
    shape = (3, 14, 64)
    lines = [
        iota("c0", 0),
        """%e = stablehlo.broadcast_in_dim %i0, dims = [1] : (tensor<14xi32>) -> ONE
  %zero = stablehlo.constant dense<0> : ONE
  %size = stablehlo.constant dense<40> : ONE
  %low = stablehlo.compare LT, %e, %zero, SIGNED : (ONE, ONE) -> tensor<3x14x64x1xi1>
  %up = stablehlo.add %e, %size : ONE
  %c1 = stablehlo.select %low, %up, %e : tensor<3x14x64x1xi1>, ONE""",
        iota("c2", 2),
    ]
    model = opentrn.compile(gather((3, 40, 64), lines, shape, ", %i0: tensor<14xi32>"))
    x = RNG.standard_normal((3, 40, 64)).astype(np.float32)
    places = RNG.integers(-40, 40, 14).astype(np.int32)
    (got,) = model(x, places)
    np.testing.assert_array_equal(got, x[:, places])
    assert model.time().time_us < 40
