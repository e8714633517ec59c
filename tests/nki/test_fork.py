"""A process that was forked after kernels and models ran has threads of its own: it works, and ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.package import PYTHON

KERNEL = """
import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(64):  # more instructions than one batch
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        nisa.dma_copy(dst=out, src=tile)
    return out

x = np.ones((128, 512), np.float32)
def use():
    return bool((nki.simulate(doubled, target="trn2")(x) == 2).all())
"""

MODEL = """
model = opentrn.compile(
    "func.func @main(%a: tensor<512x512xf32>) -> tensor<512x512xf32> {\\n"
    "  %r = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]\\n"
    "    : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>\\n"
    "  return %r : tensor<512x512xf32>\\n}\\n")
a = np.ones((512, 512), np.float32)
def use():
    return bool((model(a)[0] == 512).all())
"""

# The child ends itself when it hangs; its exit handlers run.
FORK = """
assert use()
child = os.fork()
if child == 0:
    signal.alarm(60)
    sys.exit(0 if use() and use() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), use())
"""


@pytest.mark.parametrize("program", [KERNEL, MODEL], ids=["kernel", "model"])
def test_the_child_of_a_fork_runs_what_its_parent_ran(program, tmp_path):
    code = "import os, signal, sys\nimport numpy as np\nimport opentrn\n" + program + FORK
    file = tmp_path / "forks.py"  # kernels are read from files
    file.write_text(code)
    environment = dict(os.environ, PYTHONPATH=str(PYTHON))
    done = subprocess.run(
        [sys.executable, file], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.stdout == "0 True\n", done.stdout + done.stderr
