"""Rows `nkiautotune.*`: kernels of the kernel library of awslabs/nki-autotune, 2048^3 bf16 on Trn2."""

from __future__ import annotations

from pathlib import Path

from adapters._common import NotReproducible, Predicted, activate, checkout, module_from_file, shape, timed

KERNELS = {"nkiautotune.trn2.matmul-2048.best.lat": "matmul/lhs_rhs/kernel_handtuned_89.26mfu.py"}


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    if row["id"] not in KERNELS:
        raise NotReproducible("no public kernel for this row")
    library = checkout(checkouts, "awslabs+nki-autotune") / "kernel_library"
    activate()
    module = module_from_file(library / KERNELS[row["id"]], "nkiautotune_kernel")
    kernels = [value for value in vars(module).values() if type(value).__name__ == "Kernel"]
    if not kernels:
        raise NotReproducible("the file defines no kernel")
    square = shape((2048, 2048), "bfloat16")
    return timed(kernels[-1], square, square, target="trn2")
