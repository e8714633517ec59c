"""Placement of SBUF tensors: `nki.compiler.sbuf`.

A placement function gets (block index, partitions, bytes per partition) and returns (partition, byte offset).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentrn.nki_legacy.compiler._placement import modulo, pair
from opentrn.nki_legacy.language._create import Buffer
from opentrn.types.isa_enums import MemoryRegion


def alloc(func: Callable[..., Any]) -> Buffer:
    """SBUF, each block placed by `func`."""

    def address(block: tuple[int, ...], partitions: int, width: int) -> tuple[int, int]:
        return pair(func(idx=block, pdim_size=partitions, fdim_size=width), "sbuf")

    return Buffer(MemoryRegion.sbuf, address)


def mod_alloc(*, base_addr, base_partition=0, num_par_tiles=(), num_free_tiles=()) -> Buffer:
    """SBUF, blocks placed round robin over a number of physical tiles."""

    def address(block: tuple[int, ...], partitions: int, width: int) -> tuple[int, int]:
        return (
            modulo(base_partition, num_par_tiles, partitions, block),
            modulo(base_addr, num_free_tiles, width, block),
        )

    return Buffer(MemoryRegion.sbuf, address)


def auto_alloc() -> Buffer:
    """SBUF, placed by the compiler: the same as nl.sbuf."""
    return Buffer(MemoryRegion.sbuf)
