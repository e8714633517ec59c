"""Gathers and scatters with random dimension numbers, batching dimensions, types of indices and places outside of the
operand: the device's values are the evaluator's.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import opentrn
from opentrn import graph

NUMPY = {"f32": np.float32, "i32": np.int32, "i8": np.int8, "i16": np.int16, "ui8": np.uint8, "ui32": np.uint32}


def tensor(shape: list[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


class Windows:
    """What both ops have: an operand, indices into it, and the shape of all windows together."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        draw, rank = self.draw, self.draw.randint(1, 4)
        self.operand = [draw.choice([1, 2, 3, 5]) for _ in range(rank)]
        axes = draw.sample(range(rank), rank)
        batching = draw.choice([0, 0, 1, 2]) if rank > 1 else 0
        self.batching = sorted(axes[: min(batching, rank - 1)])
        rest = axes[len(self.batching) :]
        self.indexed = rest[: draw.randint(1, len(rest))]
        self.skipped = sorted(draw.sample(rest, draw.randint(0, len(rest))))
        gone = {*self.batching, *self.skipped}
        self.sizes = [1 if at in gone else draw.randint(1, size) for at, size in enumerate(self.operand)]
        batch = [draw.choice([1, 2, 3]) for _ in range(draw.randint(len(self.batching), 3))]
        self.of_indices = draw.sample(range(len(batch)), len(self.batching))
        for axis, place in zip(self.batching, self.of_indices):
            batch[place] = self.operand[axis]
        window = [size for at, size in enumerate(self.sizes) if at not in gone]
        total = len(window) + len(batch)
        self.window_axes = sorted(draw.sample(range(total), len(window)))
        of_window, of_batch = iter(window), iter(batch)
        self.shape = [next(of_window if at in self.window_axes else of_batch) for at in range(total)]
        self.vector = draw.randint(0, len(batch))
        self.of_indices = [place + (place >= self.vector) for place in self.of_indices]
        self.indices = [*batch[: self.vector], len(self.indexed), *batch[self.vector :]]
        self.index_type = draw.choice(["i32", "i32", "i8", "i16", "ui8"])

    def arrays(self, *kinds: tuple[list[int], str]) -> list[np.ndarray]:
        """The operand's, the indices' and others of these shapes; whole numbers, so that sums are exact."""
        rng = np.random.default_rng(self.draw.randrange(2**32))
        low = 0 if self.index_type.startswith("u") else -2
        indices = rng.integers(low, max(self.operand) + 2, self.indices).astype(NUMPY[self.index_type])
        first, *others = (rng.integers(0, 9, shape).astype(NUMPY[element]) for shape, element in kinds)
        return [first, indices, *others]


def check(text: str, arrays: list[np.ndarray]) -> None:
    np.testing.assert_array_equal(opentrn.compile(text)(*arrays)[0], graph.parse(text).evaluate(*arrays)[0], text)


@pytest.mark.parametrize("seed", range(24))
def test_gathers(seed: int) -> None:
    of = Windows(seed)
    element = of.draw.choice(["f32", "i32", "i8"])
    a, i, r = tensor(of.operand, element), tensor(of.indices, of.index_type), tensor(of.shape, element)
    text = f"""func.func @main(%a: {a}, %i: {i}) -> {r} {{
      %r = "stablehlo.gather"(%a, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = {of.window_axes},
        collapsed_slice_dims = {of.skipped}, operand_batching_dims = {of.batching},
        start_indices_batching_dims = {of.of_indices}, start_index_map = {of.indexed}, index_vector_dim = {of.vector}>,
        slice_sizes = array<i64: {", ".join(map(str, of.sizes))}>}}> : ({a}, {i}) -> {r}
      return %r : {r}
    }}"""
    check(text, of.arrays((of.operand, element)))


@pytest.mark.parametrize("seed", range(100, 124))
def test_scatters(seed: int) -> None:
    of = Windows(seed)
    element = of.draw.choice(["f32", "i32", "ui32", "i8"])
    combine = of.draw.choice(["add", "add", "maximum", "minimum", "multiply", "subtract"])
    a, i, u = tensor(of.operand, element), tensor(of.indices, of.index_type), tensor(of.shape, element)
    text = f"""func.func @main(%a: {a}, %i: {i}, %u: {u}) -> {a} {{
      %r = "stablehlo.scatter"(%a, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = {of.window_axes}, inserted_window_dims = {of.skipped}, input_batching_dims = {of.batching},
        scatter_indices_batching_dims = {of.of_indices}, scatter_dims_to_operand_dims = {of.indexed},
        index_vector_dim = {of.vector}>}}> ({{
        ^bb0(%x: tensor<{element}>, %y: tensor<{element}>):
          %s = stablehlo.{combine} %x, %y : tensor<{element}>
          stablehlo.return %s : tensor<{element}>
      }}) : ({a}, {i}, {u}) -> {a}
      return %r : {a}
    }}"""
    check(text, of.arrays((of.operand, element), (of.shape, element)))
