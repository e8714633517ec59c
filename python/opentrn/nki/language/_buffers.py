"""Questions about memory regions, and the slice object of dynamic indices."""

from __future__ import annotations

from typing import Any

from opentrn.nki import _machine
from opentrn.types.isa_enums import MemoryRegion


def is_sbuf(buffer: Any) -> bool:
    """True for SBUF."""
    return MemoryRegion(buffer) is MemoryRegion.sbuf


def is_psum(buffer: Any) -> bool:
    """True for PSUM."""
    return MemoryRegion(buffer) is MemoryRegion.psum


def is_hbm(buffer: Any) -> bool:
    """True for any HBM region."""
    return MemoryRegion(buffer).is_hbm


def is_on_chip(buffer: Any) -> bool:
    """True for SBUF and PSUM."""
    return MemoryRegion(buffer).is_on_chip


def ds(start: Any, size: int) -> Any:
    """`size` elements from `start` on, for use as an index: t[nl.ds(i, 8), :]. `start` may be a register."""
    if type(start) is int and size != 0:  # no elements: only ds may say so, see TensorView::empty_slice
        return slice(start, start + size)
    return _machine.backend().dynamic_slice(start, size)
