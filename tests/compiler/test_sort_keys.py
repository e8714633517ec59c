"""Sorts whose comparator makes keys of floats, as JAX's does: the bits of the evaluator, which asks it each time."""

import numpy as np
import pytest

import opentrn
from opentrn import graph

KEY = """
    %zero{n} = stablehlo.constant dense<0.0> : tensor<f32>
    %is_zero{n} = stablehlo.compare EQ, %{x}, %zero{n}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %plain{n} = stablehlo.select %is_zero{n}, %zero{n}, %{x} : tensor<i1>, tensor<f32>
    %is_nan{n} = stablehlo.compare NE, %{x}, %{x}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %nan{n} = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %key{n} = stablehlo.select %is_nan{n}, %nan{n}, %plain{n} : tensor<i1>, tensor<f32>"""


def program(rows: int, columns: int, direction: str, keeps_values: bool = True) -> str:
    x, places = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}x{columns}xi32>"
    results, types = ("%s#0, %s#1", f"{x}, {places}") if keeps_values else ("%s#1", places)
    return f"""
func.func @main(%x: {x}) -> ({types}) {{
  %i = stablehlo.iota dim = 1 : {places}
  %s:2 = "stablehlo.sort"(%x, %i) <{{dimension = 1 : i64, is_stable = true}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):{KEY.format(n=1, x="a")}
    {KEY.format(n=2, x="b")}
    %r = stablehlo.compare {direction}, %key1, %key2, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %r : tensor<i1>
  }}) : ({x}, {places}) -> ({x}, {places})
  return {results} : {types}
}}
"""


def numbers(shape: tuple[int, int]) -> np.ndarray:
    random = np.random.default_rng(2)
    x = random.integers(-5, 6, shape).astype(np.float32)
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42], np.float32)
    return np.where(random.random(shape) < 0.4, special[random.integers(0, len(special), shape)], x)


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("shape", [(3, 40), (130, 17), (1, 9000)])
@pytest.mark.parametrize("keeps_values", [True, False])
def test_bits_are_the_evaluators(shape: tuple[int, int], direction: str, keeps_values: bool) -> None:
    text = program(*shape, direction, keeps_values)
    x = numbers(shape)
    made, wanted = opentrn.compile(text, strict=True)(x), graph.parse(text).evaluate(x)
    for ours, theirs in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(ours.view(np.int32), theirs.view(np.int32))


def test_a_comparator_that_is_not_one_of_keys_stays() -> None:
    """Its sides are not the same function of their elements, as the negations of one of them cannot be seen to undo."""
    text = """
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = "stablehlo.sort"(%x) <{dimension = 0 : i64}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %n = stablehlo.negate %b : tensor<f32>
    %m = stablehlo.negate %n : tensor<f32>
    %r = stablehlo.compare LT, %a, %m, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %r : tensor<i1>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %s : tensor<8xf32>
}
"""
    x = np.array([3, 1, 2, 8, 5, 7, 6, 4], np.float32)
    (y,) = opentrn.compile(text, strict=True)(x)
    np.testing.assert_array_equal(y, np.sort(x))


@pytest.mark.parametrize("dimension", [0, 1, 2])
@pytest.mark.parametrize("keeps_places", [True, False])
def test_many_short_rows_lie_beside_each_other(dimension: int, keeps_places: bool) -> None:
    """Sorts over each dimension of a tensor with few elements along it: the evaluator's bits, in few instructions."""
    shape = [40, 30, 36]
    shape[dimension] = 5
    x, places = ("tensor<" + "x".join(map(str, shape)) + f"x{element}>" for element in ("f32", "i32"))
    if keeps_places:
        text = f"""func.func @main(%x: {x}) -> ({x}, {places}) {{
  %i = stablehlo.iota dim = {dimension} : {places}
  %s:2 = "stablehlo.sort"(%x, %i) <{{dimension = {dimension} : i64, is_stable = true}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %r = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %r : tensor<i1>
  }}) : ({x}, {places}) -> ({x}, {places})
  return %s#0, %s#1 : {x}, {places}
}}"""
    else:
        text = f"""func.func @main(%x: {places}) -> {places} {{
  %s = "stablehlo.sort"(%x) <{{dimension = {dimension} : i64}}> ({{
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %r = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %r : tensor<i1>
  }}) : ({places}) -> {places}
  return %s : {places}
}}"""
    values = numbers((shape[0] * shape[1], shape[2])).reshape(shape)
    if not keeps_places:
        values = np.random.default_rng(1).integers(-9, 9, shape).astype(np.int32)
    compiled = opentrn.compile(text, strict=True)
    for ours, theirs in zip(compiled.run([values]), graph.parse(text).evaluate(values), strict=True):
        np.testing.assert_array_equal(ours.view(np.int32), theirs.view(np.int32))
    # One tile of 128 rows after another takes 700 us.
    assert compiled.time().time_us < 250
