"""Rows that no partition holds, against NumPy: sorts (runs, merged through HBM) and exact reductions."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn
from opentrn.errors import NotModelled

RNG = np.random.default_rng(0)


def sort_text(
    shape: list[int], element: str, axis: int, order: str = "LT", operands: int = 1, keys: int = 1
) -> str:
    """stablehlo.sort by the first `keys` operands; stable, as this repository's kernels always are."""
    kind = f"tensor<{'x'.join(map(str, shape))}x{element}>"
    others = f"tensor<{'x'.join(map(str, shape))}xi32>"
    kinds = [kind, *[others] * (operands - 1)]
    names = [f"%a{i}, %b{i}" for i in range(operands)]
    arguments = ", ".join(
        f"%a{i}: tensor<{'i32' if i else element}>, %b{i}: tensor<{'i32' if i else element}>"
        for i in range(operands)
    )
    scalar = f"(tensor<{element}>, tensor<{element}>) -> tensor<i1>"
    body = f"%c = stablehlo.compare {order}, %a0, %b0 : {scalar}\n"
    if keys == 2:
        integers = "(tensor<i32>, tensor<i32>) -> tensor<i1>"
        body += f"""    %e = stablehlo.compare EQ, %a0, %b0 : {scalar}
    %d = stablehlo.compare LT, %a1, %b1 : {integers}
    %f = stablehlo.and %e, %d : tensor<i1>
    %g = stablehlo.or %c, %f : tensor<i1>
"""
    last = "%g" if keys == 2 else "%c"
    inputs = ", ".join(f"%x{i}" for i in range(operands))
    results = f"%r:{operands}" if operands > 1 else "%r"
    returned = ", ".join(f"%r#{i}" for i in range(operands)) if operands > 1 else "%r"
    types = ", ".join(kinds)
    assert len(names) == operands
    return f"""
func.func @main({", ".join(f"%x{i}: {k}" for i, k in enumerate(kinds))}) -> ({types}) {{
  {results} = "stablehlo.sort"({inputs}) <{{dimension = {axis} : i64, is_stable = true}}> ({{
  ^bb0({arguments}):
    {body}    stablehlo.return {last} : tensor<i1>
  }}) : ({types}) -> ({types})
  return {returned} : {types}
}}
"""


@pytest.mark.parametrize("length", [6145, 8192, 12289, 40_000])
def test_one_row(length: int):
    x = RNG.standard_normal(length, np.float32)
    (ours,) = opentrn.compile(sort_text([length], "f32", 0), strict=True)(x)
    np.testing.assert_array_equal(ours, np.sort(x))


@pytest.mark.parametrize("shape, axis", [([3, 7000], 1), ([6500, 2], 0), ([2, 6200, 2], 1)])
def test_several_rows_of_whole_numbers_downwards(shape: list[int], axis: int):
    x = RNG.integers(-50, 50, shape).astype(np.int32)
    (ours,) = opentrn.compile(sort_text(shape, "i32", axis, order="GT"), strict=True)(x)
    np.testing.assert_array_equal(ours, -np.sort(-x, axis=axis))


def test_equal_keys_keep_their_order():
    keys = RNG.integers(0, 20, 9000).astype(np.float32)
    places = np.arange(9000, dtype=np.int32)
    ours = opentrn.compile(sort_text([9000], "f32", 0, operands=2), strict=True)(keys, places)
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(ours[0], keys[order])
    np.testing.assert_array_equal(ours[1], order)


def test_two_keys_and_a_passenger():
    first, second = RNG.integers(0, 9, 7001).astype(np.int32), RNG.integers(-99, 99, 7001).astype(np.int32)
    text = sort_text([7001], "i32", 0, operands=3, keys=2)
    ours = opentrn.compile(text, strict=True)(first, second, np.arange(7001, dtype=np.int32))
    order = np.lexsort((second, first))
    for got, given in zip(ours, (first, second, np.arange(7001)), strict=True):
        np.testing.assert_array_equal(got, given[order])


def test_it_has_a_time_and_beyond_the_bound_it_is_refused():
    assert opentrn.compile(sort_text([6200], "f32", 0), strict=True).time().total_ns > 0
    with pytest.raises(NotModelled, match="sort"):
        opentrn.compile(sort_text([20_000_000], "f32", 0), strict=True)


@pytest.mark.parametrize("shape, dims", [([256, 1024], [0, 1]), ([20_001], [0]), ([3, 8193, 5], [1, 2])])
@pytest.mark.parametrize("kind", ["and", "or", "add", "maximum"])
def test_reductions_of_more_than_a_partition_holds(shape: list[int], dims: list[int], kind: str):
    """Exact ones, of whole numbers and booleans: `jnp.allclose` and `jnp.any` of a large array."""
    element = "i1" if kind in ("and", "or") else "i32"
    kept = [size for d, size in enumerate(shape) if d not in dims]
    result = "x".join([*map(str, kept), element])
    start = {"and": "true", "or": "false", "add": "0", "maximum": "-5"}[kind]
    text = f"""
    func.func @main(%x: tensor<{"x".join(map(str, shape))}x{element}>) -> tensor<{result}> {{
      %i = stablehlo.constant dense<{start}> : tensor<{element}>
      %r = stablehlo.reduce(%x init: %i) applies stablehlo.{kind} across dimensions = {dims}
        : (tensor<{"x".join(map(str, shape))}x{element}>, tensor<{element}>) -> tensor<{result}>
      return %r : tensor<{result}>
    }}"""
    axes = tuple(dims)
    if element == "i1":
        x = RNG.random(shape) > (1e-4 if kind == "and" else 1 - 1e-4)
        expected = x.all(axes) if kind == "and" else x.any(axes)
    else:
        x = RNG.integers(-(2**31), 2**31, shape).astype(np.int32)
        expected = x.sum(axes, dtype=np.int32) if kind == "add" else np.maximum(x.max(axes), -5)
    (ours,) = opentrn.compile(text, strict=True)(x)
    np.testing.assert_array_equal(ours, expected)
