"""A small weight that several products read, as the steps of a recurrent layer do, is loaded once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import opentrn

HIDDEN, STEPS = 128, 4


def chain(weight: np.ndarray, columns: int, turned: bool) -> str:
    """STEPS products by one constant, each behind the tanh of the one before."""
    values = np.array2string(weight, separator=", ", threshold=weight.size + 1, floatmode="unique")
    shape = "x".join(map(str, weight.shape))
    contracted = 1 if turned else 0
    lines = [f"%w = stablehlo.constant dense<{values}> : tensor<{shape}xf32>"]
    lines.append(f"%t = stablehlo.tanh %x : tensor<2x{HIDDEN}xf32>")
    before = "%t"
    for step in range(STEPS):
        lines += [
            f"%p{step} = stablehlo.dot_general {before}, %w, contracting_dims = [1] x [{contracted}] : "
            f"(tensor<2x{HIDDEN}xf32>, tensor<{shape}xf32>) -> tensor<2x{columns}xf32>",
            f"%s{step} = stablehlo.slice %p{step} [0:2, 0:{HIDDEN}] : (tensor<2x{columns}xf32>) "
            f"-> tensor<2x{HIDDEN}xf32>",
            f"%t{step} = stablehlo.tanh %s{step} : tensor<2x{HIDDEN}xf32>",
        ]
        before = f"%t{step}"
    body = "\n  ".join(lines)
    return (
        f"func.func @main(%x: tensor<2x{HIDDEN}xf32>) -> tensor<2x{HIDDEN}xf32> {{\n  {body}\n"
        f"  return {before} : tensor<2x{HIDDEN}xf32>\n}}\n"
    )


def loads(compiled: opentrn.CompiledModel, elements: int) -> int:
    """Transfers of the whole weight into SBUF."""
    return len(re.findall(rf"^dma_copy dst=%\d+ src=%\d+\[1:{elements}\]", compiled.program_text(), re.MULTILINE))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("columns, times", [(384, 1), (1024, STEPS)])  # 4 KiB of a partition are too many to be held
def test_loaded_once(columns: int, times: int, turned: bool) -> None:
    rng = np.random.default_rng(0)
    weight = (rng.standard_normal((HIDDEN, columns)) / 16).astype(np.float32)
    compiled = opentrn.compile(chain(weight.T if turned else weight, columns, turned), cache=False)
    x = rng.standard_normal((2, HIDDEN)).astype(np.float32)
    (got,) = compiled(x)
    want = np.tanh(x.astype(np.float64))
    for _ in range(STEPS):
        want = np.tanh((want @ weight.astype(np.float64))[:, :HIDDEN])
    np.testing.assert_allclose(got, want, atol=2e-6)
    assert loads(compiled, weight.size) == times
