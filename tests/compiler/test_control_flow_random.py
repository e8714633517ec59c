"""Random programs of loops, branches, slices and updates: the device against the graph's evaluator.

A program carries a few tensors of one shape through nested loops and branches; every block reads what lies around it,
gives its results in any order, slices and updates at places that loops count, and keeps old values in use.
"""

from __future__ import annotations

import numpy as np
import pytest

import opentrn
from opentrn import graph

SHAPES = [(3, 4), (150, 5), (1, 7), (9, 1), (130, 33)]


class Writer:
    """Text of one random program."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.shape = SHAPES[seed % len(SHAPES)]
        self.type = f"tensor<{self.shape[0]}x{self.shape[1]}xf32>"
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%n{self.count}"

    def pick(self, values: list[str]) -> str:
        return values[int(self.random.integers(len(values)))]

    def emit(self, text: str) -> str:
        made = self.name()
        self.lines.append(f"{made} = {text}")
        return made

    def arithmetic(self, values: list[str]) -> str:
        kind = self.pick(["add", "maximum", "subtract", "half", "rows"])
        a, b = self.pick(values), self.pick(values)
        if kind == "half":
            half = self.emit(f"stablehlo.constant dense<0.5> : {self.type}")
            return self.emit(f"stablehlo.multiply {a}, {half} : {self.type}")
        if kind == "rows":
            low = self.emit("stablehlo.constant dense<0xFF800000> : tensor<f32>")
            row = f"tensor<{self.shape[0]}xf32>"
            most = self.emit(
                f"stablehlo.reduce({a} init: {low}) applies stablehlo.maximum across dimensions = [1]"
                f" : ({self.type}, tensor<f32>) -> {row}"
            )
            wide = self.emit(f"stablehlo.broadcast_in_dim {most}, dims = [0] : ({row}) -> {self.type}")
            return self.emit(f"stablehlo.minimum {b}, {wide} : {self.type}")
        return self.emit(f"stablehlo.{kind} {a}, {b} : {self.type}")

    def moved(self, values: list[str], numbers: list[str]) -> str:
        """One row of a value at a place that a number says, put into another or the same value."""
        row = f"tensor<1x{self.shape[1]}xf32>"
        zero = self.emit("stablehlo.constant dense<0> : tensor<i32>")
        at, to = self.pick(numbers), self.emit(
            f"stablehlo.add {self.pick(numbers)}, {self.pick(numbers)} : tensor<i32>"
        )  # fmt: skip
        part = self.emit(
            f"stablehlo.dynamic_slice {self.pick(values)}, {at}, {zero}, sizes = [1, {self.shape[1]}]"
            f" : ({self.type}, tensor<i32>, tensor<i32>) -> {row}"
        )
        twice = self.emit(f"stablehlo.add {part}, {part} : {row}")
        return self.emit(
            f"stablehlo.dynamic_update_slice {self.pick(values)}, {self.pick([part, twice])}, {to}, {zero}"
            f" : ({self.type}, {row}, tensor<i32>, tensor<i32>) -> {self.type}"
        )

    def block(self, values: list[str], numbers: list[str], depth: int) -> list[str]:
        """Adds a few ops; gives the values that are known now."""
        values = list(values)
        for _ in range(int(self.random.integers(1, 5))):
            kind = self.random.random()
            if kind < 0.25 and depth < 3:
                values += self.loop(values, numbers, depth)
            elif kind < 0.4 and depth < 3:
                values += self.branch(values, numbers, depth)
            elif kind < 0.65:
                values.append(self.moved(values, numbers))
            else:
                values.append(self.arithmetic(values))
        return values

    def loop(self, values: list[str], numbers: list[str], depth: int) -> list[str]:
        carried = [self.pick(values) for _ in range(int(self.random.integers(1, 4)))]
        start = self.emit(f"stablehlo.constant dense<{int(self.random.integers(-1, 2))}> : tensor<i32>")
        bound = self.emit(f"stablehlo.constant dense<{int(self.random.integers(0, 4))}> : tensor<i32>")
        one = self.emit("stablehlo.constant dense<1> : tensor<i32>")
        result, counter, arguments = self.name(), self.name(), [self.name() for _ in carried]
        pairs = ", ".join(f"{a} = {v}" for a, v in zip([counter, *arguments], [start, *carried], strict=True))
        types = ", ".join(["tensor<i32>", *[self.type] * len(carried)])
        self.lines.append(f"{result}:{len(carried) + 1} = stablehlo.while({pairs}) : {types} cond {{")
        # Counted, or a condition that is none of the forms that are known.
        direction = self.pick(["LT", "LT", "LE"])
        go = self.emit(
            f"stablehlo.compare {direction}, {counter}, {bound}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>"
        )
        self.lines.append(f"stablehlo.return {go} : tensor<i1>\n}} do {{")
        inside = self.block([*arguments, *values], [*numbers, counter], depth + 1)
        step = self.emit(f"stablehlo.add {counter}, {one} : tensor<i32>")
        # A value that is carried as it is leaves the loop, and what it stood for may leave the next one.
        returned = [
            argument if self.random.random() < 0.3 else self.pick(inside[-4:] + arguments)
            for argument in arguments
        ]
        self.lines.append(f"stablehlo.return {', '.join([step, *returned])} : {types}\n}}")
        return [f"{result}#{i + 1}" for i in range(len(carried))]

    def branch(self, values: list[str], numbers: list[str], depth: int) -> list[str]:
        a, b = self.pick(numbers), self.pick(numbers)
        test = self.emit(f"stablehlo.compare LT, {a}, {b}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>")
        result, count = self.name(), int(self.random.integers(1, 3))
        types = ", ".join([self.type] * count)
        self.lines.append(f'{result}:{count} = "stablehlo.if"({test}) ({{')
        for end in ("}, {", f"}}) : (tensor<i1>) -> ({types})"):
            inside = self.block(values, numbers, depth + 1)
            returned = ", ".join(self.pick(inside[-3:]) for _ in range(count))
            self.lines.append(f"stablehlo.return {returned} : {types}\n{end}")
        return [f"{result}#{i}" for i in range(count)]

    def program(self) -> str:
        values = self.block(["%x", "%y"], ["%i", "%j"], 0)
        returned = [values[-1], self.pick(values), self.pick(values)]
        types = ", ".join([self.type] * 3)
        body = "\n".join(self.lines)
        return (
            f"func.func @main(%x: {self.type}, %y: {self.type}, %i: tensor<i32>, %j: tensor<i32>) -> ({types}) {{\n"
            f"{body}\nreturn {', '.join(returned)} : {types}\n}}\n"
        )


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    writer = Writer(seed)
    text = writer.program()
    x, y = (writer.random.standard_normal(writer.shape).astype(np.float32) for _ in range(2))
    places = [np.int32(n) for n in writer.random.integers(-2, 5, 2)]
    wanted = graph.parse(text).evaluate(x, y, *places)
    for level in (1, 2):
        for got, want in zip(opentrn.compile(text, optlevel=level)(x, y, *places), wanted, strict=True):
            np.testing.assert_array_equal(got, want)
