"""What loops carry is written where it lies, and only where nobody still reads what lay there before."""

import re

import numpy as np
import pytest

import opentrn
from opentrn import graph

# Each rounds once, here as in the evaluator, so that every bit is the same.
UNARY = ["negate", "abs"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]


class Body:
    """A random body over carried values of one shape; ops read arguments, a captured value and what was made before."""

    def __init__(self, seed: int, rows: int, columns: int, carried: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.type = f"tensor<{rows}x{columns}xf32>"
        self.arguments = [f"%a{i}" for i in range(carried)]
        self.values = [*self.arguments, "%captured"]
        self.lines: list[str] = []

    def pick(self) -> str:
        return str(self.values[self.draw.integers(len(self.values))])

    def add(self, text: str) -> None:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.values.append(name)

    def op(self) -> None:
        kind = self.draw.integers(10)
        a, b, c = self.pick(), self.pick(), self.pick()
        if kind < 3:
            self.add(f"stablehlo.{UNARY[self.draw.integers(len(UNARY))]} {a} : {self.type}")
        elif kind < 8:
            self.add(f"stablehlo.{BINARY[self.draw.integers(len(BINARY))]} {a}, {b} : {self.type}")
        else:
            bits = self.type.replace("f32", "i1")
            greater = f"%p{len(self.lines)}"
            self.lines.append(f"{greater} = stablehlo.compare GT, {a}, {b} : ({self.type}, {self.type}) -> {bits}")
            self.add(f"stablehlo.select {greater}, {c}, {a} : ({bits}, {self.type}, {self.type}) -> {self.type}")

    def text(self, trips: int) -> str:
        for _ in range(self.draw.integers(2, 9)):
            self.op()
        # Mostly values of the body, also one for two places, and arguments in other places. In half of the programs a
        # product of its own for each, so that numbers stay small.
        made = self.values[len(self.arguments) + 1 :]
        last = made[-3:]
        draw = self.draw
        returned = [last[draw.integers(len(last))] if draw.random() < 0.8 else self.pick() for _ in self.arguments]
        if self.draw.random() < 0.5:
            for value in dict.fromkeys(returned):
                self.lines.append(f"%half_{value[1:]} = stablehlo.multiply {value}, %scale : {self.type}")
            returned = [f"%half_{value[1:]}" for value in returned]
        given = [f"%x{i}" for i in range(len(self.arguments))]
        types = ", ".join(["tensor<i32>", *[self.type] * len(given)])
        names = ", ".join(f"{a} = {x}" for a, x in zip(self.arguments, given))
        results = ", ".join(f"%r#{i + 1}" for i in range(len(given)))
        body = "\n      ".join(self.lines)
        signature = ", ".join([*(f"{x}: {self.type}" for x in given), f"%captured: {self.type}"])
        return f"""
func.func @main({signature}) -> ({", ".join([self.type] * len(given))}) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %scale = stablehlo.constant dense<0.5> : {self.type}
  %r:{len(given) + 1} = stablehlo.while(%i = %zero, {names}) : {types}
    cond {{
      %n = stablehlo.constant dense<{trips}> : tensor<i32>
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      {body}
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, {", ".join(returned)} : {types}
    }}
  return {results} : {", ".join([self.type] * len(given))}
}}
"""


@pytest.mark.parametrize("seed", range(200))
def test_random_bodies(seed: int) -> None:
    draw = np.random.default_rng(10_000 + seed)
    rows, columns = [(1, 100), (3, 17), (128, 40), (130, 9), (2, 700), (1, 1), (200, 1)][seed % 7]
    carried = int(draw.integers(1, 5))
    text = Body(seed, rows, columns, carried).text(int(draw.integers(1, 5)))
    arrays = [draw.standard_normal((rows, columns)).astype(np.float32) for _ in range(carried + 1)]
    wanted = graph.parse(text).evaluate(*arrays)
    wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    for got, want in zip(opentrn.compile(text)(*arrays), wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=text)


CELL = """
func.func @main(%h: tensor<1x16xf32>, %c: tensor<1x16xf32>, %w: tensor<16x64xf32>, %bias: tensor<1x64xf32>)
    -> tensor<1x16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %a = %h, %b = %c) : tensor<i32>, tensor<1x16xf32>, tensor<1x16xf32>
    cond {
      %n = stablehlo.constant dense<200> : tensor<i32>
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %p = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
           : (tensor<1x16xf32>, tensor<16x64xf32>) -> tensor<1x64xf32>
      %g = stablehlo.add %p, %bias : tensor<1x64xf32>
      %s0 = stablehlo.slice %g [0:1, 0:16] : (tensor<1x64xf32>) -> tensor<1x16xf32>
      %s1 = stablehlo.slice %g [0:1, 16:32] : (tensor<1x64xf32>) -> tensor<1x16xf32>
      %s2 = stablehlo.slice %g [0:1, 32:48] : (tensor<1x64xf32>) -> tensor<1x16xf32>
      %s3 = stablehlo.slice %g [0:1, 48:64] : (tensor<1x64xf32>) -> tensor<1x16xf32>
      %input = stablehlo.logistic %s0 : tensor<1x16xf32>
      %forget = stablehlo.logistic %s1 : tensor<1x16xf32>
      %cell = stablehlo.tanh %s2 : tensor<1x16xf32>
      %output = stablehlo.logistic %s3 : tensor<1x16xf32>
      %new = stablehlo.multiply %input, %cell : tensor<1x16xf32>
      %old = stablehlo.multiply %forget, %b : tensor<1x16xf32>
      %state = stablehlo.add %old, %new : tensor<1x16xf32>
      %seen = stablehlo.tanh %state : tensor<1x16xf32>
      %hidden = stablehlo.multiply %output, %seen : tensor<1x16xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %hidden, %state : tensor<i32>, tensor<1x16xf32>, tensor<1x16xf32>
    }
  return %r#1 : tensor<1x16xf32>
}
"""


def test_a_recurrent_cell_has_no_copies_and_one_instruction_for_its_gates() -> None:
    draw = np.random.default_rng(0)
    arrays = [draw.normal(0, 0.1, shape).astype(np.float32) for shape in ((1, 16), (1, 16), (16, 64), (1, 64))]
    model = opentrn.compile(CELL)
    np.testing.assert_allclose(model(*arrays)[0], graph.parse(CELL).evaluate(*arrays)[0], rtol=0, atol=2e-6)
    loop = re.search(r"loop_begin.*?loop_end", model.program_text(), re.DOTALL)
    assert loop is not None
    opcodes = re.findall(r"^ *(\w+) ", loop[0], re.MULTILINE)
    assert opcodes.count("tensor_copy") == 1, loop[0]  # the turned state out of PSUM; none of what is carried
    assert opcodes.count("activation") == 3, loop[0]  # of the gates, the candidate, the state
    assert opcodes.count("register_alu") == 0, loop[0]  # the counter's last value is known
