"""Enumerations of nki.isa in NKI 0.1.

Their values differ from later releases in places (`dge_mode`); members map to those of `opentrn.types.isa_enums` by
name. Source: nki/api/nki/isa/__init__.py at 1db4d74e.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from opentrn.types import isa_enums


class dge_mode(IntEnum):
    """Who generates DMA descriptors."""

    none = 0
    swdge = 1
    hwdge = 2
    unknown = 3


class engine(IntEnum):
    """Engines of a NeuronCore."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    vector = 5
    sync = 6


if TYPE_CHECKING:
    from opentrn.types.isa_enums import nc_version
else:  # the generations of nki.isa, of which those behind gen3 are newer than the dialect
    nc_version = IntEnum("nc_version", {each.name: each.value for each in isa_enums.nc_version}, module=__name__)
    nc_version.__doc__ = "NeuronCore generation: gen2 Trn1 and Inf2, gen3 Trn2, gen4 Trn3."


class oob_mode(IntEnum):
    """What a DMA does with an index outside the tensor."""

    error = 0
    skip = 1


class reduce_cmd(IntEnum):
    """What an instruction does to its engine's accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
dma_engine = isa_enums.engine.dma


def device(member: IntEnum) -> object:
    """The machine's enumeration member of the same name."""
    return getattr(isa_enums, type(member).__name__)[member.name]
