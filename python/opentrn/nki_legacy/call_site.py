"""The line of the kernel that an operation stands on.

A waiting instruction is issued by a later statement, but belongs to the statement that wrote it: in errors,
in tracebacks and in profiles. The machine finds a kernel's line by looking up the stack for the first frame
outside OpenTrn, so the instruction is issued from a frame that carries file and line of its own statement.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import Any

OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Site = tuple[types.CodeType, int]  # code object of the kernel, line


def _issue(function: Callable[[Any], None], tile: Any) -> None: function(tile)  # fmt: skip


def issuer(code: types.CodeType, line: int) -> Callable[[Callable[[Any], None], Any], None]:
    """A function that calls its first argument with its second, from a frame at `line` of `code`."""
    placed = _issue.__code__.replace(co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=line)
    return types.FunctionType(placed, {})
