"""`neuronxcc.nki.isa` of NKI 0.1: instructions that return tiles and take `dtype=` and `mask=`.

Each function lowers to the machine instruction of the same name (opentrn.nki.isa), once per box of its mask.
Signatures and rules: nki/api/nki/isa/__init__.py at 1db4d74e; where a function leaves something open, its
docstring says what was decided.
"""

from __future__ import annotations

from opentrn.nki import _missing_name as missing_name
from opentrn.nki_legacy.isa.compute import (
    activation,
    activation_reduce,
    bn_aggr,
    bn_stats,
    dropout,
    reciprocal,
    scalar_tensor_tensor,
    select_reduce,
    tensor_partition_reduce,
    tensor_reduce,
    tensor_scalar,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
    tensor_tensor,
    tensor_tensor_scan,
)
from opentrn.nki_legacy.isa.constants import (
    dge_mode,
    dma_engine,
    engine,
    gpsimd_engine,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from opentrn.nki_legacy.isa.matmul import nc_matmul, nc_transpose
from opentrn.nki_legacy.isa.move import (
    dma_copy,
    dma_transpose,
    memset,
    nc_stream_shuffle,
    tensor_copy,
    tensor_copy_dynamic_dst,
    tensor_copy_dynamic_src,
    tensor_copy_predicated,
)
from opentrn.nki_legacy.isa.search import (
    affine_select,
    iota,
    local_gather,
    max8,
    nc_find_index8,
    nc_match_replace8,
    range_select,
    sequence_bounds,
)


def get_nc_version() -> nc_version:
    """The NeuronCore generation of the running kernel's target."""
    from opentrn.nki import isa as machine_isa

    return nc_version(machine_isa.get_nc_version().value)


def builtin_custom_op(function_name, lib_file_name, *args, **kwargs):
    """Custom C++ operators of libraries built for the device cannot run here."""
    from opentrn.errors import NotModelled

    raise NotModelled(
        f"nisa.builtin_custom_op: {function_name} of {lib_file_name} is device code",
        label="nki.device_code", hint="write it with nl and nisa functions",
    )


__getattr__ = missing_name.refuses("neuronxcc.nki.isa", globals())

__all__ = [
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "builtin_custom_op",
    "dge_mode",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "scalar_engine",
    "scalar_tensor_tensor",
    "select_reduce",
    "sequence_bounds",
    "tensor_copy",
    "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "unknown_engine",
    "vector_engine",
]
