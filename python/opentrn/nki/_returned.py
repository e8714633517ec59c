"""What a kernel returns: tensors in HBM. What lies on the chip is gone when the kernel has ended."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError, SourceLocation
from opentrn.nki import _machine
from opentrn.types.isa_enums import MemoryRegion


def require_hbm(
    value: Any, kernel: Callable[..., Any], tensor_of: Callable[[Any], Any], *, simulation: bool = False
) -> None:
    """Refuse tensors of SBUF and PSUM, and arrays of NumPy, in what `kernel` returned.

    tensor_of: the machine's tensor of a leaf, or None for a leaf that is no tensor. Raises NkiValidationError.
    simulation: a tile on the chip is only warned of, as AWS's 0.1 simulator returns it (test_nki_isa_range_select.py
    of aws-neuron-sdk 81ce03ae).
    """
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for item in value:
            require_hbm(item, kernel, tensor_of, simulation=simulation)
        return
    name = getattr(kernel, "__name__", "the kernel")
    if isinstance(value, np.ndarray):
        raise NkiValidationError(
            f"{name} returns an array of NumPy: the host computed it, and no instruction of the kernel",
            label="nki.output",
            hint="compute it by nisa's instructions (NumPy's functions read a tile, and give arrays) and return a "
            "tensor of nl.ndarray(..., buffer=nl.shared_hbm)",
            location=_place(kernel, None),
        )
    tensor = tensor_of(value)
    if tensor is None:
        return
    region = MemoryRegion(tensor.buffer)
    if region.is_hbm:
        return
    machine = _machine.machine_or_none()
    if machine is not None and hasattr(machine, "flush"):
        machine.flush()  # what fails on the way here comes first
    if simulation:
        warnings.warn(
            f"{name} returns a tile in {region.value.upper()}, which the simulator of NKI 0.1 takes; results of a "
            "compiled kernel lie in HBM",
            stacklevel=2,
        )
        return
    raise NkiValidationError(
        f"{name} returns a tile in {region.value.upper()}; results lie in HBM",
        label="nki.output",
        hint="make a tensor with nl.ndarray(..., buffer=nl.shared_hbm), copy the tile into it and return that",
        location=_place(kernel, tensor),
    )


def _place(kernel: Callable[..., Any], tensor: Any) -> SourceLocation | None:
    """Where the tensor was made, else where the kernel begins."""
    from opentrn import _core

    made = _core.made_at(tensor) if isinstance(tensor, _core.NkiTensor) else None
    code = getattr(kernel, "__code__", None)
    if made is None and code is not None:
        made = (code.co_filename, code.co_firstlineno, code.co_name)
    return SourceLocation(*made) if made else None
