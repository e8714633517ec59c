"""nki.isa: the instructions of a NeuronCore, as functions of the current backend.

The names below are bound to the backend's own functions, with nothing in between: a call costs what the
backend costs. Enumerations and engine constants are the same objects in every backend.
"""

from __future__ import annotations

from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki import _machine
from opentrn.nki import _missing_name as missing_name
from opentrn.nki._machine import NkiTensor, VirtualRegister
from opentrn.nki._objects import NKIObject
from opentrn.nki._target import environment_target
from opentrn.nki.isa import constants
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

INSTRUCTIONS = _machine.instruction_names()


def _refusal(name: str, backend_name: str):
    """A function that refuses by name an instruction which the backend does not have."""

    def refuse(*args, **kwargs):
        raise NotModelled(
            f"nki.isa.{name} is not implemented by the {backend_name!r} backend of this OpenTrn",
            label="nki.backend",
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.is_refusal = True
    return refuse


def _bind(backend: _machine.Backend) -> None:
    names = globals()
    names["NkiInstruction"] = backend.isa.NkiInstruction
    for name in INSTRUCTIONS:
        names[name] = getattr(backend.isa, name, None) or _refusal(name, backend.name)


_machine.on_select(_bind)


def missing_instructions() -> list[str]:
    """Instructions of nki.isa that the current backend refuses."""
    return [name for name in INSTRUCTIONS if getattr(globals()[name], "is_refusal", False)]


def get_nc_version() -> nc_version:
    """The NeuronCore generation the running kernel targets.

    Outside a kernel, what the environment selects.
    """
    current = _machine.machine_or_none()
    return environment_target() if current is None else current.nc_version


def get_nc_sub_version() -> int:
    """Stepping within a generation. OpenTrn models one stepping of each, so this is 0."""
    return 0


__getattr__ = missing_name.refuses("nki.isa", globals())

__all__ = [
    "NKIObject", "NkiInstruction", "NkiTensor", "NkiValidationError", "VirtualRegister", "constants",
    "dge_mode", "dma_engine", "engine", "get_nc_sub_version", "get_nc_version", "gpsimd_engine",
    "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd", "scalar_engine", "tensor_engine",
    "unknown_engine", "vector_engine",
]  # fmt: skip
__all__.extend(INSTRUCTIONS)
