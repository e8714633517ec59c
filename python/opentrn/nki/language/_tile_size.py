"""`nl.tile_size`: the hardware limits kernels tile by.

Values: nki/api/nki.language.tile_size.rst and the architecture guides (SBUF bytes per partition by
generation).
"""

from __future__ import annotations

import os

from opentrn.nki import _machine
from opentrn.nki._target import environment_target
from opentrn.types.isa_enums import nc_version

_SBUF_PARTITION_BYTES = {
    nc_version.gen2: 192 * 1024,
    nc_version.gen3: 224 * 1024,
    nc_version.gen4: 256 * 1024,
}
_FP32_BYTES = 4


def _generation() -> nc_version:
    current = _machine.machine_or_none()
    return environment_target() if current is None else current.nc_version


class _TileSize:
    """Limits of a tile; those that differ by generation follow the running kernel's target."""

    pmax = 128
    psum_fmax = 512
    psum_bank_fmax = 512
    psum_bank_fmax_bytes = 2048
    gemm_stationary_fmax = 128
    gemm_moving_fmax = 512
    bn_stats_fmax = 512
    # Alignment is not published; 4 bytes is the width of the engines' lanes (assumed).
    psum_min_align = 4
    sbuf_min_align = 4

    @property
    def psum_num_banks(self) -> int:
        """8, or 7 where bank 7 serves dma_transpose run on the Tensor engine."""
        as_pe = os.environ.get("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", "").lower() in ("1", "true")
        return 7 if as_pe and _generation() is not nc_version.gen2 else 8

    @property
    def sbuf_size_bytes(self) -> int:
        """Bytes of the whole SBUF."""
        return self.pmax * _SBUF_PARTITION_BYTES[_generation()]

    @property
    def sbuf_fmax_bytes(self) -> int:
        """Bytes of one SBUF partition.

        What the official compiler keeps for itself is not published: none here.
        """
        return _SBUF_PARTITION_BYTES[_generation()]

    @property
    def sbuf_fmax(self) -> int:
        """fp32 elements of one SBUF partition."""
        return self.sbuf_fmax_bytes // _FP32_BYTES

    @property
    def total_available_sbuf_size(self) -> int:
        """Bytes of one SBUF partition, despite the name (deprecated since 0.4.0)."""
        return self.sbuf_fmax_bytes


tile_size = _TileSize()
