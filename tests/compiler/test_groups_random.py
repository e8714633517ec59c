"""Random programs of rows, numbers per row and masks, whose kernels interleave, against the graph's evaluator.

Element-wise ops and reductions grow into kernels (plan.h). An early kernel may take in a late op and read what other
kernels have made since, and nobody that reads it may come before those.
"""

from __future__ import annotations

import numpy as np
import pytest

import opentrn
from opentrn import graph

SHAPES = [(10, 5), (130, 3), (4, 64), (1, 6)]


class Writer:
    """Text of one random program."""

    COLUMNS = ("%c", "%d", "%e", "%f", "%g")

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        rows, columns = SHAPES[seed % len(SHAPES)]
        self.full, self.column = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
        self.mask, self.full_mask = f"tensor<{rows}xi1>", f"tensor<{rows}x{columns}xi1>"
        numbers = {"%zero": 0, "%low": -8, "%high": 8}
        self.lines = [f"{n} = stablehlo.constant dense<{v}.0> : tensor<f32>" for n, v in numbers.items()]
        self.values: dict[str, list[str]] = {
            self.full: ["%a", "%b"],
            self.column: list(self.COLUMNS),
            self.mask: [],
        }

    def pick(self, type_: str) -> str:
        # Old values as often as new ones: that is what makes kernels interleave.
        values = self.values[type_]
        recent = values[-4:] if self.random.random() < 0.5 else values
        return recent[int(self.random.integers(len(recent)))]

    def emit(self, type_: str, text: str) -> str:
        name = f"%n{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values.setdefault(type_, []).append(name)
        return name

    def arithmetic(self, type_: str) -> None:
        kind = ["maximum", "minimum"][int(self.random.integers(2))]
        self.emit(type_, f"stablehlo.{kind} {self.pick(type_)}, {self.pick(type_)} : {type_}")

    def compare(self) -> None:
        # Of arguments, too: such a mask depends on nothing, however late it comes.
        early = self.random.random() < 0.5
        a, b = (self.argument() if early else self.pick(self.column) for _ in range(2))
        direction = ["GT", "GE", "LT", "NE"][int(self.random.integers(4))]
        self.emit(
            self.mask,
            f"stablehlo.compare {direction}, {a}, {b}, FLOAT : ({self.column}, {self.column}) -> {self.mask}",
        )

    def argument(self) -> str:
        return self.COLUMNS[int(self.random.integers(len(self.COLUMNS)))]

    def combine_masks(self) -> None:
        self.emit(self.mask, f"stablehlo.and {self.pick(self.mask)}, {self.pick(self.mask)} : {self.mask}")

    def reduce(self) -> None:
        kind = ["maximum", "minimum"][int(self.random.integers(2))]
        self.emit(
            self.column,
            f"stablehlo.reduce({self.pick(self.full)} init: %zero) applies stablehlo.{kind}"
            f" across dimensions = [1] : ({self.full}, tensor<f32>) -> {self.column}",
        )

    def product(self) -> None:
        """Of each row with one of another value: a kernel of its own. Bounded, so that numbers stay exact."""
        made = self.emit(
            "",
            f"stablehlo.dot_general {self.pick(self.full)}, {self.pick(self.full)}, batching_dims = [0] x [0],"
            f" contracting_dims = [1] x [1] : ({self.full}, {self.full}) -> {self.column}",
        )
        self.emit(
            self.column,
            f"stablehlo.clamp %low, {made}, %high : (tensor<f32>, {self.column}, tensor<f32>) -> {self.column}",
        )

    def spread(self) -> None:
        self.emit(
            self.full,
            f"stablehlo.broadcast_in_dim {self.pick(self.column)}, dims = [0] : ({self.column}) -> {self.full}",
        )

    def select_column(self) -> None:
        a, b, mask = self.pick(self.column), self.pick(self.column), self.pick(self.mask)
        self.emit(self.column, f"stablehlo.select {mask}, {a}, {b} : {self.mask}, {self.column}")

    def select_full(self) -> None:
        a, b, mask = self.pick(self.full), self.pick(self.full), self.pick(self.mask)
        wide = self.emit(
            self.full_mask,
            f"stablehlo.broadcast_in_dim {mask}, dims = [0] : ({self.mask}) -> {self.full_mask}",
        )
        self.emit(self.full, f"stablehlo.select {wide}, {a}, {b} : {self.full_mask}, {self.full}")

    def program(self) -> str:
        self.compare()
        steps = [
            self.compare,
            self.combine_masks,
            self.reduce,
            self.product,
            self.spread,
            self.select_column,
            self.select_full,
        ]
        for _ in range(int(self.random.integers(10, 40))):
            kind = int(self.random.integers(len(steps) + 3))
            if kind < len(steps):
                steps[kind]()
            else:
                self.arithmetic(self.full if kind == len(steps) else self.column)
        results = [
            (self.values[t][-1 - i], t)
            for t in (self.full, self.column)
            for i in range(min(8, len(self.values[t])))
        ]
        names, types = (", ".join(part) for part in zip(*results, strict=True))
        body = "\n  ".join(self.lines)
        arguments = f"%a: {self.full}, %b: {self.full}, " + ", ".join(
            f"{c}: {self.column}" for c in self.COLUMNS
        )
        return f"func.func @main({arguments}) -> ({types}) {{\n  {body}\n  return {names} : {types}\n}}\n"


@pytest.mark.parametrize("seed", range(24))
def test_kernels_that_interleave_equal_the_evaluator(seed):
    text = Writer(seed).program()
    rows, columns = SHAPES[seed % len(SHAPES)]
    random = np.random.default_rng(1000 + seed)
    # Small whole numbers: sums of them are exact in any order.
    inputs = [
        random.integers(-8, 8, shape).astype(np.float32)
        for shape in [(rows, columns)] * 2 + [(rows,)] * len(Writer.COLUMNS)
    ]
    expected = graph.parse(text).evaluate(*inputs)
    for got, want in zip(opentrn.compile(text, target="trn2", strict=True)(*inputs), expected, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=text)


# `difference` takes in the select that reads a late mask; `total`, which was before the mask, reads `difference`: so
# no op that reads `total` may join the mask's kernel.
LATE_MASK = """func.func @main(
    %a: tensor<10x5xf32>, %b: tensor<10x5xf32>, %c: tensor<10xf32>, %p: tensor<10xi1>, %q: tensor<10xi1>
) -> (tensor<10x5xf32>, tensor<10xf32>) {
  %difference = stablehlo.subtract %a, %b : tensor<10x5xf32>
  %square = stablehlo.dot_general %difference, %difference, batching_dims = [0] x [0], contracting_dims = [1] x [1]
    : (tensor<10x5xf32>, tensor<10x5xf32>) -> tensor<10xf32>
  %total = stablehlo.add %c, %square : tensor<10xf32>
  %mask = stablehlo.and %p, %q : tensor<10xi1>
  %wide = stablehlo.broadcast_in_dim %mask, dims = [0] : (tensor<10xi1>) -> tensor<10x5xi1>
  %kept = stablehlo.select %wide, %difference, %a : tensor<10x5xi1>, tensor<10x5xf32>
  %result = stablehlo.select %mask, %total, %c : tensor<10xi1>, tensor<10xf32>
  return %kept, %result : tensor<10x5xf32>, tensor<10xf32>
}
"""


def test_a_mask_that_comes_after_what_reads_the_kernel_it_joins():
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 4, (10, 5)).astype(np.float32) for _ in range(2))
    c = random.integers(-4, 4, 10).astype(np.float32)
    p, q = (random.integers(0, 2, 10).astype(bool) for _ in range(2))
    kept, result = opentrn.compile(LATE_MASK, target="trn2", strict=True)(a, b, c, p, q)
    np.testing.assert_array_equal(kept, np.where((p & q)[:, None], a - b, a))
    np.testing.assert_array_equal(result, np.where(p & q, c + ((a - b) ** 2).sum(1), c))
