"""Work that ends for no reason of its own, or late: what tests/alarms.py and signals of other processes end.

`opentrn run tests/endless.py:endless` runs a kernel of it.
"""

from __future__ import annotations

from opentrn import nki
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

INPUTS = {name: {"x": "128x512"} for name in ("endless", "python", "stubborn")}


@nki.jit
def endless(x):
    """A `while` whose body reads a condition that never becomes 0."""
    one = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(one, 1)
    again = nisa.register_alloc(1)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    while again:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=1.0)
        nisa.register_load(again, one)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def python(x):
    """A loop of Python's, which no poll of the core ends."""
    while True:
        pass


@nki.jit
def stubborn(x):
    """A loop of Python's that drops what is to end it."""
    while True:
        try:
            print("at work", flush=True)  # what comes from here on is dropped
            while True:
                pass
        except BaseException:
            print("dropped", flush=True)


def model(start: str = "%x") -> str:
    """StableHLO that adds 2 to `start` until it is -1, which an even number never becomes."""
    return f"""
func.func @main(%x: tensor<i32>) -> tensor<i32> {{
  %two = stablehlo.constant dense<2> : tensor<i32>
  %last = stablehlo.constant dense<-1> : tensor<i32>
  %w = stablehlo.while(%a = {start}) : tensor<i32>
    cond {{
      %p = stablehlo.compare NE, %a, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %b = stablehlo.add %a, %two : tensor<i32>
      stablehlo.return %b : tensor<i32>
    }}
  return %w : tensor<i32>
}}
"""


def products(count: int = 1500) -> str:
    """StableHLO of that many products, of some thousand instructions each: it takes long to compile."""
    kind = "tensor<2048x2048xf32>"
    lines = [f"func.func @main(%x0: {kind}) -> {kind} {{"]
    for i in range(count):
        lines.append(
            f"  %x{i + 1} = stablehlo.dot_general %x{i}, %x{max(0, i - 7)}, contracting_dims = [1] x [0] : "
            f"({kind}, {kind}) -> {kind}"
        )
    return "\n".join([*lines, f"  return %x{count} : {kind}", "}"])
