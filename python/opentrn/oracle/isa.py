"""The NKI instruction set, executed eagerly with numpy: one function per `nki.isa` call, with its 0.6
signature.

Families: isa_move (DMA, copies, the two cores), isa_matmul (Tensor engine), isa_elementwise, isa_accumulate
(activation and running reductions), isa_generate (index patterns, random), isa_search, isa_register.
"""

from __future__ import annotations

from opentrn.errors import NkiValidationError
from opentrn.oracle import (
    isa_accumulate,
    isa_elementwise,
    isa_generate,
    isa_matmul,
    isa_move,
    isa_register,
    isa_search,
)
from opentrn.oracle.instruction import NkiInstruction, VirtualRegister
from opentrn.oracle.isa_accumulate import *  # noqa: F403
from opentrn.oracle.isa_elementwise import *  # noqa: F403
from opentrn.oracle.isa_generate import *  # noqa: F403
from opentrn.oracle.isa_matmul import *  # noqa: F403
from opentrn.oracle.isa_move import *  # noqa: F403
from opentrn.oracle.isa_register import *  # noqa: F403
from opentrn.oracle.isa_search import *  # noqa: F403
from opentrn.oracle.machine import current
from opentrn.types.isa_enums import (
    dge_mode,
    dma_engine,
    engine,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)


def get_nc_version() -> nc_version:
    """The NeuronCore generation of the active machine."""
    return current().nc_version


def get_nc_sub_version() -> int:
    """The silicon revision within a generation; always the first."""
    return 0


_FAMILIES = (isa_move, isa_matmul, isa_elementwise, isa_accumulate, isa_generate, isa_search, isa_register)

# Instructions of the hardware for which nki.isa has no call; opentrn.custom_op has one.
BEYOND_NKI = ("nc_matmul_sparse",)
# The names of the instructions of nki.isa, e.g. "nc_matmul".
INSTRUCTIONS: tuple[str, ...] = tuple(
    name for family in _FAMILIES for name in family.__all__ if name not in BEYOND_NKI
)

__all__ = [  # noqa: PLE0604
    *INSTRUCTIONS,
    *BEYOND_NKI,
    "NkiInstruction",
    "NkiValidationError",
    "VirtualRegister",
    "dge_mode",
    "dma_engine",
    "engine",
    "get_nc_sub_version",
    "get_nc_version",
    "gpsimd_engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "scalar_engine",
    "tensor_engine",
    "unknown_engine",
    "vector_engine",
]
