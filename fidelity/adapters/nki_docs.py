"""Rows `nki.*`: kernels of the NKI tutorials, as of the documentation commit that published the figure."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from adapters._common import (
    NotReproducible,
    Predicted,
    activate,
    checkout,
    file_at,
    module_from_text,
    shape,
    timed,
)

COMMIT = "1db4d74e"  # 2025-10-17, the tutorials of the 0.1 dialect, which the published figures belong to

GUIDE_COMMIT = "81ce03ae"  # 2026-08-21, the kernel-optimisation guide

MATMUL = {
    "hoist-load": "nki_matmul_hoist_load_",
    "block-free-dims": "nki_matmul_block_free_dimension_",
    "fully-optimized": "nki_matmul_fully_optimized_",
}


def _example(checkouts: Path, path: str):
    activate()
    repository = checkout(checkouts, "aws-neuron+aws-neuron-sdk")
    return module_from_text(file_at(repository, COMMIT, f"nki/examples/{path}"), "nki_docs_example")


def _guide_kernel(checkouts: Path, version: int):
    """Version 2 to 5 of the kernel in the kernel-optimisation guide, out of its code blocks; 1 is a single tile."""
    repository = checkout(checkouts, "aws-neuron+aws-neuron-sdk")
    text = file_at(repository, GUIDE_COMMIT, "nki/guides/tutorials/kernel-optimization.rst")
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:[ \t]+.*\n|\n)+)", text, re.MULTILINE)
    kernels = [textwrap.dedent(b) for b in blocks if "def matrix_multiply_kernel(" in b]
    activate()
    return module_from_text(kernels[version - 1], "nki_guide_example").matrix_multiply_kernel


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    name = row["id"]
    if match := re.match(r"nki\.trn1\.matmul-4096x8192x8192\.bf16\.(.+)\.(?:lat|hfu)$", name):
        if match[1] not in MATMUL:
            raise NotReproducible(f"no public kernel called {match[1]}")
        module = _example(checkouts, "matrix_multiplication/matrix_multiplication_nki_kernels.py")
        return timed(
            getattr(module, MATMUL[match[1]]), shape((8192, 4096), "bfloat16"), shape((8192, 8192), "bfloat16"),
            target="trn1",
        )  # fmt: skip
    if match := re.match(r"nki\.trn2\.matmul-4096x8192x8192\.fp32\.(v[2-5])\.", name):
        return timed(
            _guide_kernel(checkouts, int(match[1][1])), shape((8192, 4096), "float32"),
            shape((8192, 8192), "float32"), target="trn2",
        )  # fmt: skip
    if name == "nki.trn2.matmul-4096x8192x8192.fp32.instr":
        return predict({**row, "id": name.replace("instr", "v2.instr")}, checkouts)
    if match := re.match(
        r"nki\.trn1\.mamba\.c(\d+)\.(?:scan-table\.)?(?:(v\d)\.s(\d+)|s(\d+)\.(v\d))$", name
    ):
        channels, version = int(match[1]), match[2] or match[5]
        length = int(match[3] or match[4])
        module = _example(checkouts, "fused_mamba/mamba_nki_kernels.py")
        rows, state = shape((1, channels, length), "float32"), shape((1, 16, length), "float32")
        return timed(
            getattr(module, f"mamba_{version}"), rows, rows, shape((channels, 16), "float32"), state, state,
            target="trn1",
        )  # fmt: skip
    raise NotReproducible("no public kernel for this documentation row")
