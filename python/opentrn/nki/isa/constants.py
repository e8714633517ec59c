"""nki.isa.constants: the enumerations of nki.isa under the module path that kernels of NKI 0.2-0.3 use."""

from opentrn.types.isa_enums import (
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]
