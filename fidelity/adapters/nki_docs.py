"""Rows `nki.*`: kernels of the NKI tutorials, as of the documentation commit that published the figure."""

from __future__ import annotations

import re
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

MATMUL = {
    "hoist-load": "nki_matmul_hoist_load_",
    "block-free-dims": "nki_matmul_block_free_dimension_",
    "fully-optimized": "nki_matmul_fully_optimized_",
}


def _example(checkouts: Path, path: str):
    activate()
    repository = checkout(checkouts, "aws-neuron+aws-neuron-sdk")
    return module_from_text(file_at(repository, COMMIT, f"nki/examples/{path}"), "nki_docs_example")


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    name = row["id"]
    if match := re.match(r"nki\.trn1\.matmul-4096x8192x8192\.bf16\.(.+)\.lat$", name):
        if match[1] not in MATMUL:
            raise NotReproducible(f"no public kernel called {match[1]}")
        module = _example(checkouts, "matrix_multiplication/matrix_multiplication_nki_kernels.py")
        return timed(
            getattr(module, MATMUL[match[1]]), shape((8192, 4096), "bfloat16"), shape((8192, 8192), "bfloat16"),
            target="trn1",
        )  # fmt: skip
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
