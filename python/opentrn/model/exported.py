"""Exported programs of PyTorch (.pt2) and JAX (jax.export) as StableHLO, for commands of the C++ core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opentrn.base import hooks
from opentrn.base.files import shown
from opentrn.errors import InputError, InputTypeError, MissingModule
from opentrn.model import pt2

PYTORCH = ".pt2"


def stablehlo_of(path: str) -> bytes:
    """The program of a file as text or bytecode: a .pt2 file is PyTorch's, which may run code in it, others JAX's.

    Raises InputError where the file is none or cannot be planned as one program, MissingModule without the framework.
    """
    if Path(path).suffix == PYTORCH:
        pt2.check(path)
        export = _torch_export(shown(path))
        return export.to_text(export.load(path), names=True).encode()
    return jax_stablehlo(_of_jax(path), path)


def stablehlo_of_object(program: Any) -> bytes:
    """The same of a torch.export.ExportedProgram or a jax.export.Exported; InputTypeError for anything else."""
    if hasattr(program, "mlir_module_serialized"):
        return jax_stablehlo(program, f"{program.fun_name}()")
    if hasattr(program, "graph_signature"):
        return _torch_export("the program").to_text(program, names=True).encode()
    raise InputTypeError(
        f"a {type(program).__name__} is not a program",
        label="plan.program", hint="a path, or what torch.export.export() or jax.export.export(...)() give",
    )  # fmt: skip


def jax_stablehlo(exported: Any, name: str) -> bytes:
    """The bytecode of a jax.export.Exported that is of one device and of known sizes; InputError for others."""
    if exported.nr_devices != 1:
        raise InputError(
            f"{name} was exported for {exported.nr_devices} devices",
            label="plan.program", hint="export it for one device: the plan cuts it",
        )  # fmt: skip
    unknown = [str(aval) for aval in exported.in_avals if any(not isinstance(size, int) for size in aval.shape)]
    if unknown:
        raise InputError(
            f"{name} has sizes that are not known: {unknown[0]}",
            label="plan.program", hint="export it with every size a number",
        )  # fmt: skip
    return bytes(exported.mlir_module_serialized)


def _torch_export(name: str) -> Any:
    try:
        return hooks.ask("torch.export")
    except ModuleNotFoundError as error:
        raise MissingModule(
            f"{name} is PyTorch's, and {error.name} is not installed",
            name=error.name, label="plan.program", hint="pip install torch",
        ) from error  # fmt: skip


def _of_jax(path: str) -> Any:
    try:
        from jax import export
    except ImportError as error:
        raise MissingModule(
            f"{shown(path)} is an exported program of JAX, and JAX is missing", label="plan.program", hint="install jax"
        ) from error
    try:
        return export.deserialize(bytearray(Path(path).read_bytes()))
    except ImportError as error:  # jax.export reads its files with flatbuffers
        raise MissingModule(
            f"{shown(path)}: {error}", label="plan.program", hint="install flatbuffers"
        ) from error
    except Exception as error:  # what a damaged file raises depends on where it is damaged
        raise InputError(
            f"{shown(path)} is not an exported program of JAX: "
            f"{str(error).partition(chr(10))[0] or type(error).__name__}",
            label="plan.program",
            hint="bytes of jax.export.export(jax.jit(step))(...).serialize()",
        ) from error
