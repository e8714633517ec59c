"""Exported programs (torch.export, .pt2 files) as StableHLO text, their weights as constants."""

from __future__ import annotations

import functools
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from opentrn.errors import InputError
from opentrn.torch import decompositions
from opentrn.torch.collectives import rules_of
from opentrn.torch.emitter import emit
from opentrn.torch.program import Sizes
from opentrn.torch.text import Spec


def is_exported(source: Any) -> bool:
    return isinstance(source, ExportedProgram)


@functools.cache  # said once
def _tell_of_code() -> None:
    print("opentrn: PyTorch reads .pt2 files with pickle, which runs code that is in them: open only those you trust",
          file=sys.stderr)  # fmt: skip


@contextmanager
def _without_torchs_own_warning() -> Iterator[None]:
    """Torch 2.13 warns of a deprecated call in its own copying of exported programs, five times for one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
        yield


@contextmanager
def _without_torchs_own_tracebacks() -> Iterator[None]:
    """Of a file that it cannot read torch logs a traceback, and tries an older format; what it raises is enough."""
    log = logging.getLogger("torch.export")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def load(path: str | Path) -> ExportedProgram:
    """Reads a .pt2 file, which runs code that is in it; ValueError when it is none."""
    _tell_of_code()
    try:
        with _without_torchs_own_warning(), _without_torchs_own_tracebacks():
            return torch.export.load(str(path))
    except FileNotFoundError:
        raise
    except Exception as error:  # what torch raises for a damaged file depends on where it is damaged
        raise InputError(
            f"{path} is not an exported program: {str(error).partition(chr(10))[0]}", label="torch.export"
        ) from error


def to_text(
    program: ExportedProgram,
    dimensions: Mapping[str, int] | None = None,
    *,
    names: bool = False,
    mesh: str | None = None,
) -> str:
    """The module, whose inputs are the user's tensors and whose results are what the model returns.

    dimensions: sizes of the dynamic ones, by the names that they have in the program ("s0"). names: inputs and
    weights carry those of the program. mesh: of the devices that the program's functional collectives are between,
    in words. ValueError where a size is missing, for a program that changes buffers, and for collectives of groups
    that the mesh does not have; NoDeviceForm names an op that has no form, and its line.
    """
    with _without_torchs_own_warning(), decompositions.not_torchs_own():
        program = program.run_decompositions(decompositions.table_for(program.graph))
    signature = program.graph_signature
    changed = [row.target for row in signature.output_specs if row.kind != OutputKind.USER_OUTPUT]
    if changed:
        raise InputError(
            f"the exported program changes {changed[0]}",
            label="torch.export", hint="export it with model.eval()",
        )
    sizes = Sizes(_symbols(program, dict(dimensions or {})))
    module = program.graph_module
    held = {**program.state_dict, **program.constants}
    given: list[Any] = []
    called: dict[str, str] = {}
    for row, node in zip(signature.input_specs, module.graph.find_nodes(op="placeholder")):
        called[node.name] = str(row.target or node.name)
        if row.kind == InputKind.USER_INPUT:
            given.append(_input(node.meta["val"], sizes))
        elif row.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            given.append(held[row.target])
        else:
            raise InputError(
                f"the exported program takes {row.kind.name.lower()} {row.target}, which is not a tensor",
                label="torch.export",
            )
    return emit(module, given, sizes, "exported", called if names else {}, rules_of(mesh)).text


def _input(traced: Any, sizes: Sizes) -> Any:
    if isinstance(traced, torch.Tensor):
        return Spec(tuple(sizes(size) for size in traced.shape), traced.dtype)
    return sizes(traced) if isinstance(traced, torch.SymInt) else traced


def _symbols(program: ExportedProgram, dimensions: dict[str, int]) -> dict[Any, int]:
    symbols = {str(symbol): symbol for symbol in program.range_constraints}
    missing, unknown = sorted(set(symbols) - set(dimensions)), sorted(set(dimensions) - set(symbols))
    if missing or unknown:
        named = ", ".join(f"{name} in {program.range_constraints[symbols[name]]}" for name in sorted(symbols))
        what = (
            f"needs a size for {', '.join(missing)}" if missing else f"has no dimension {', '.join(unknown)}"
        )
        raise InputError(
            f"the exported program {what}; its dynamic dimensions: {named or 'none'}", label="import.dimension"
        )
    return {symbols[name]: size for name, size in dimensions.items()}
