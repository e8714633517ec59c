"""Placement of PSUM tensors: `nki.compiler.psum`.

A placement function gets (block index, partitions, bytes per partition) and returns (bank, partition, byte
offset in the bank). A bank is 2 KiB of every partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentrn.errors import NkiValidationError
from opentrn.nki.language._tile_size import tile_size
from opentrn.nki_legacy.compiler._placement import modulo
from opentrn.nki_legacy.language._create import Buffer
from opentrn.types.isa_enums import MemoryRegion


def _address(bank: int, partition: int, offset: int, width: int) -> tuple[int, int]:
    bank_bytes = tile_size.psum_bank_fmax_bytes
    if offset + width > bank_bytes:
        raise NkiValidationError(
            f"psum allocation: {width} bytes per partition at byte {offset} cross the end of a bank of "
            f"{bank_bytes} bytes",
            label="nki.allocation",
        )
    if not 0 <= bank < tile_size.psum_num_banks:
        raise NkiValidationError(
            f"psum allocation: bank {bank}, there are {tile_size.psum_num_banks}", label="nki.allocation"
        )
    return partition, bank * bank_bytes + offset


def alloc(func: Callable[..., Any]) -> Buffer:
    """PSUM, each block placed by `func`."""

    def address(block: tuple[int, ...], partitions: int, width: int) -> tuple[int, int]:
        place = func(idx=block, pdim_size=partitions, fdim_size=width)
        if len(place) != 3:
            raise NkiValidationError(
                f"psum allocation: expected (bank, partition, byte offset), got {place!r}",
                label="nki.allocation",
            )
        bank, partition, offset = (int(p) for p in place)
        return _address(bank, partition, offset, width)

    return Buffer(MemoryRegion.psum, address)


def mod_alloc(
    *, base_bank, base_addr=0, base_partition=0, num_bank_tiles=(), num_par_tiles=(), num_free_tiles=()
) -> Buffer:
    """PSUM, blocks placed round robin over banks."""

    def address(block: tuple[int, ...], partitions: int, width: int) -> tuple[int, int]:
        return _address(
            modulo(base_bank, num_bank_tiles, 1, block),
            modulo(base_partition, num_par_tiles, partitions, block),
            modulo(base_addr, num_free_tiles, width, block),
            width,
        )

    return Buffer(MemoryRegion.psum, address)


def auto_alloc() -> Buffer:
    """PSUM, placed by the compiler: the same as nl.psum."""
    return Buffer(MemoryRegion.psum)
