#!/usr/bin/env python3
"""The C program of AWS's runtime guide, as it is printed there, built against OpenTrn's libnrt and run.

    ./dev conformance nrt-sample CHECKOUT

CHECKOUT: aws-neuron/aws-neuron-sdk (neuron-runtime/guides/nrt-developer-guide.rst). The program loads a file, fills
inputs from files and writes each output to a file; here of a product of two matrices, which NumPy computes too.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
GUIDE = "neuron-runtime/guides/nrt-developer-guide.rst"
MODEL = """func.func @main(%a: tensor<32x64xf32>, %b: tensor<64x16xf32>) -> tensor<32x16xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] :
    (tensor<32x64xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
  return %0 : tensor<32x16xf32>
}
"""


def program_of(guide: str) -> str:
    """The first block of C that has a main()."""
    for block in re.findall(r"\.\. code-block:: c\n\n((?:(?: {4}.*)?\n)+)", guide):
        if "int main(" in block:
            return textwrap.dedent(block)
    raise SystemExit("the guide shows no program with a main()")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", metavar="CHECKOUT", type=Path)
    options = parser.parse_args()
    environment = dict(
        os.environ, PYTHONPATH=str(ROOT / "python"), NEURON_PLATFORM_TARGET_OVERRIDE="trn2.48xlarge"
    )
    opentrn = [sys.executable, "-m", "opentrn"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "sample.c").write_text(program_of((options.checkout / GUIDE).read_text()))
        (folder / "m.mlir").write_text(MODEL)
        a, b = (
            np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
            for shape in ((32, 64), (64, 16))
        )
        a.tofile(folder / "a")
        b.tofile(folder / "b")
        for words in (
            [*opentrn, "neuron-tools", "install", "--prefix", "neuron"],
            [*opentrn, "neuronx-cc", "compile", "m.mlir", "--framework", "XLA", "--target", "trn2"],
            [
                "cc",
                "-w",
                "sample.c",
                "-Ineuron/include",
                "-Lneuron/lib",
                "-lnrt",
                "-lpthread",
                "-o",
                "sample",
            ],
            ["./sample", "file.neff", "input0", "a", "input1", "b"],
        ):
            done = subprocess.run(
                words, cwd=folder, env=environment | {"LD_LIBRARY_PATH": str(folder / "neuron" / "lib")},
                capture_output=True, text=True,
            )  # fmt: skip
            if done.returncode:
                print(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
                return 1
        print(done.stdout, end="")
        found = np.fromfile(folder / "output0.out", np.float32).reshape(32, 16)
    off = float(np.abs(found - a.astype(np.float64) @ b).max())
    print(f"largest difference from NumPy in float64: {off:.2g}")
    return 0 if off < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
