"""Large slices at computed places are read and written where they lie: in order, and with the bytes of one pass."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn
from opentrn import graph

# Each rounds once, here as in the evaluator, so that every bit is the same. A slice is a MiB: smaller ones go to SBUF.
BINARY = ["add", "subtract", "maximum", "minimum"]
SLICE, KEPT, READ = "512x512xf32", 3, 4


class Body:
    """Of a loop that carries a stack of slices and one of them: reads of this stack, of one that stays, and updates."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.values = ["%x"]
        self.stacks = ["%s"]  # the loop's, newest last

    def name(self, text: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def place(self) -> str:
        """Of a few, so that some are the same; also one beyond the end, and one below 0."""
        factor, more = self.draw.integers(1, 3), self.draw.integers(-2, 3)
        scaled = self.name(f"stablehlo.multiply %i, %c{factor} : tensor<i32>")
        return self.name(f"stablehlo.add {scaled}, %{'m' if more < 0 else 'c'}{abs(more)} : tensor<i32>")

    def read(self, stack: str, count: int, place: str) -> str:
        one = self.name(
            f"stablehlo.dynamic_slice {stack}, {place}, %c0, %c0, sizes = [1, 512, 512] : "
            f"(tensor<{count}x{SLICE}>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x{SLICE}>"
        )
        return self.name(f"stablehlo.reshape {one} : (tensor<1x{SLICE}>) -> tensor<{SLICE}>")

    def write(self, value: str, place: str) -> None:
        one = self.name(f"stablehlo.reshape {value} : (tensor<{SLICE}>) -> tensor<1x{SLICE}>")
        self.stacks.append(
            self.name(
                f"stablehlo.dynamic_update_slice {self.stacks[-1]}, {one}, {place}, %c0, %c0 : "
                f"(tensor<{KEPT}x{SLICE}>, tensor<1x{SLICE}>, tensor<i32>, tensor<i32>, "
                f"tensor<i32>) -> tensor<{KEPT}x{SLICE}>"
            )
        )

    def op(self) -> None:
        kind = BINARY[self.draw.integers(len(BINARY))]
        a, b = (self.values[self.draw.integers(len(self.values))] for _ in range(2))
        self.values.append(self.name(f"stablehlo.{kind} {a}, {b} : tensor<{SLICE}>"))

    def step(self) -> None:
        kind, place = self.draw.integers(4), self.place()
        if kind == 0:
            self.values.append(self.read("%w", READ, self.place()))
        elif kind == 1:  # what lay there before an update, too
            stack = self.stacks[self.draw.integers(len(self.stacks))]
            self.values.append(self.read(stack, KEPT, place))
        elif kind == 2:  # a sum in its place
            self.values.append(self.read(self.stacks[-1], KEPT, place))
            self.op()
            self.write(self.values[-1], place)
        else:
            self.op()
            self.write(self.values[-1], place)

    def text(self) -> str:
        for _ in range(self.draw.integers(3, 8)):
            self.step()
        self.op()
        body = "\n      ".join(self.lines)
        constants = "\n  ".join(
            f"%{name} = stablehlo.constant dense<{number}> : tensor<i32>"
            for name, number in [("c0", 0), ("c1", 1), ("c2", 2), ("m1", -1), ("m2", -2)]
        )
        types = f"tensor<i32>, tensor<{KEPT}x{SLICE}>, tensor<{SLICE}>"
        return f"""
func.func @main(%trips: tensor<i32>, %s0: tensor<{KEPT}x{SLICE}>, %x0: tensor<{SLICE}>, %w: tensor<{READ}x{SLICE}>)
    -> (tensor<{KEPT}x{SLICE}>, tensor<{SLICE}>) {{
  {constants}
  %r:3 = stablehlo.while(%i = %c0, %s = %s0, %x = %x0) : {types}
    cond {{
      %go = stablehlo.compare LT, %i, %trips, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    }} do {{
      {body}
      %next = stablehlo.add %i, %c1 : tensor<i32>
      stablehlo.return %next, {self.stacks[-1]}, {self.values[-1]} : {types}
    }}
  return %r#1, %r#2 : tensor<{KEPT}x{SLICE}>, tensor<{SLICE}>
}}
"""


@pytest.mark.parametrize("seed", range(24))
def test_random_reads_and_updates(seed: int) -> None:
    text = Body(seed).text()
    draw = np.random.default_rng(seed)
    shapes = ((KEPT, 512, 512), (512, 512), (READ, 512, 512))
    arrays = [np.int32(3), *(draw.standard_normal(shape).astype(np.float32) for shape in shapes)]
    wanted = graph.parse(text).evaluate(*arrays)
    for got, want in zip(opentrn.compile(text)(*arrays), wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=text)


LAYERS, WIDE = 70, 1024  # more trips than are written out

# x is multiplied by the weights of one layer after the other, and what it was is added up for each.
STACK = f"""
func.func @main(%w: tensor<{LAYERS}x{WIDE}x{WIDE}xbf16>, %x0: tensor<128x{WIDE}xbf16>, %at: tensor<{LAYERS}xi32>,
    %s0: tensor<2x{WIDE}x{WIDE}xf32>) -> (tensor<128x{WIDE}xbf16>, tensor<2x{WIDE}x{WIDE}xf32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %x = %x0, %s = %s0)
      : tensor<i32>, tensor<128x{WIDE}xbf16>, tensor<2x{WIDE}x{WIDE}xf32>
    cond {{
      %n = stablehlo.constant dense<{LAYERS}> : tensor<i32>
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %layer = stablehlo.dynamic_slice %w, %i, %zero, %zero, sizes = [1, {WIDE}, {WIDE}]
          : (tensor<{LAYERS}x{WIDE}x{WIDE}xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x{WIDE}x{WIDE}xbf16>
      %weights = stablehlo.reshape %layer : (tensor<1x{WIDE}x{WIDE}xbf16>) -> tensor<{WIDE}x{WIDE}xbf16>
      %y = stablehlo.dot_general %x, %weights, contracting_dims = [1] x [0]
          : (tensor<128x{WIDE}xbf16>, tensor<{WIDE}x{WIDE}xbf16>) -> tensor<128x{WIDE}xbf16>
      %p1 = stablehlo.dynamic_slice %at, %i, sizes = [1] : (tensor<{LAYERS}xi32>, tensor<i32>) -> tensor<1xi32>
      %p = stablehlo.reshape %p1 : (tensor<1xi32>) -> tensor<i32>
      %old = stablehlo.dynamic_slice %s, %p, %zero, %zero, sizes = [1, {WIDE}, {WIDE}]
          : (tensor<2x{WIDE}x{WIDE}xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x{WIDE}x{WIDE}xf32>
      %sum = stablehlo.reshape %old : (tensor<1x{WIDE}x{WIDE}xf32>) -> tensor<{WIDE}x{WIDE}xf32>
      %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0]
          : (tensor<128x{WIDE}xbf16>, tensor<128x{WIDE}xbf16>) -> tensor<{WIDE}x{WIDE}xf32>
      %more = stablehlo.add %sum, %g : tensor<{WIDE}x{WIDE}xf32>
      %new = stablehlo.reshape %more : (tensor<{WIDE}x{WIDE}xf32>) -> tensor<1x{WIDE}x{WIDE}xf32>
      %t = stablehlo.dynamic_update_slice %s, %new, %p, %zero, %zero : (tensor<2x{WIDE}x{WIDE}xf32>,
          tensor<1x{WIDE}x{WIDE}xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x{WIDE}x{WIDE}xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %y, %t : tensor<i32>, tensor<128x{WIDE}xbf16>, tensor<2x{WIDE}x{WIDE}xf32>
    }}
  return %r#1, %r#2 : tensor<128x{WIDE}xbf16>, tensor<2x{WIDE}x{WIDE}xf32>
}}
"""


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_weights_and_sums_of_a_loop_move_once(target: str) -> None:
    facts = opentrn.compile(STACK, target=target).time().profile()["model"]
    weights, sums = 2 * LAYERS * WIDE**2, 4 * LAYERS * WIDE**2
    assert facts["layers"]["hbm_bytes_read"] < 1.1 * (weights + sums)
    assert facts["layers"]["hbm_bytes_written"] < 1.1 * sums
