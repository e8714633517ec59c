"""Enumerations of nki.isa and nki.language. Defined in opentrn.types.isa_enums, which imports nothing of this
package."""

from opentrn.types.isa_enums import (  # noqa: F401
    MemoryRegion,
    dge_mode,
    dma_engine,
    engine,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    target_version,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
