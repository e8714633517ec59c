"""What users are told on stderr without asking: a line for each matter, once in a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Mapping
from typing import Any

from opentrn.errors import InputError

__all__ = ["tell_narrowing", "tell_once", "tell_without_effect"]

_told: set[str] = set()


def tell_once(line: str, matter: str = "") -> None:
    """Print the line on stderr, unless this process has, or has had another line of the same `matter`."""
    if (matter or line) not in _told:
        _told.add(matter or line)
        print(f"opentrn: {line}", file=sys.stderr)


def tell_without_effect(function: str, given: Mapping[str, Any], acting: Container[str]) -> None:
    """Say which keywords of a call change nothing: those with a value that are not in `acting`, once each."""
    for name, value in given.items():
        if value is not None and name not in acting:
            tell_once(f"{function}({name}=) has no effect: it is of AWS's compiler, its files or a device")


def tell_narrowing(name: str, narrowing: str) -> None:
    """Say that a program computes 64-bit numbers in 32 bits; with OPENTRN_NARROWING=off nothing.

    name: of the program. narrowing: `CompiledModel.narrowing`, or that of _core.compile_model's result; empty where
    there is nothing to say. Of an op of torch's eager mode, whose programs are one for each shape, the first alone is
    told. ValueError for another value of the variable.
    """
    wanted = os.environ.get("OPENTRN_NARROWING", "tell")
    if wanted not in ("tell", "off"):
        raise InputError(f"OPENTRN_NARROWING is {wanted!r}: tell or off", label="environment")
    if narrowing and wanted == "tell":
        tell_once(f"{name} {narrowing}", f"narrowing of {name}" if name.startswith("aten::") else "")
