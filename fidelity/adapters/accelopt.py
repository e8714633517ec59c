"""Rows `accelopt.*`: NKIBench of zhang677/AccelOpt. The baselines are public kernels; the best ones are not."""

from __future__ import annotations

import re
from pathlib import Path

from adapters._common import NotReproducible, Predicted, activate, checkout, module_from_file, shape, timed


def _pair(bench: Path, name: str) -> tuple[Path, Path]:
    """Kernel and reference of a workload, matched by its dimensions in any order."""
    words = name.split("_")
    operation = "_".join(w for w in words if not re.fullmatch(r"[a-z]{1,2}\d+", w))
    dims = {w for w in words if re.fullmatch(r"[a-z]{1,2}\d+", w)}

    def matches(stem: str) -> bool:
        parts = stem.lower().split("_")
        return "_".join(p for p in parts if p in operation.split("_")) == operation and dims == {
            p for p in parts if re.fullmatch(r"[a-z]{1,2}\d+", p)
        }

    kernels = [p for p in (bench / "kernels").glob("*.py") if matches(re.sub(r"_\d+$", "", p.stem))]
    folder = bench / "reference"
    references = [p for p in folder.glob("*.py") if matches(re.sub(r"_numpy_\d+$", "", p.stem))]
    if not kernels or not references:
        raise NotReproducible("NKIBench has no kernel of this name")
    return kernels[0], references[0]


def predict(row: dict[str, str], checkouts: Path) -> Predicted:
    _, _, name, which, *_ = row["id"].split(".")
    if which != "base":
        raise NotReproducible("the kernel that AccelOpt found for this row is not in its repository")
    kernel_path, reference_path = _pair(checkout(checkouts, "zhang677+AccelOpt") / "NKIBench", name)
    activate()
    reference = module_from_file(reference_path, "accelopt_reference")
    arrays = reference.transform_to_nki_inputs(reference.get_inputs())
    kernel = module_from_file(kernel_path, "accelopt_kernel").kernel
    arguments = [shape(a.shape, str(a.dtype)) if hasattr(a, "shape") else a for a in arrays]
    return timed(kernel, *arguments, target="trn1")
