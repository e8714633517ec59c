"""The line of the kernel that an operation stands on.

A waiting instruction is issued by a later statement, but belongs to the statement that wrote it: in errors,
in tracebacks and in profiles. The machine finds a kernel's line by looking up the stack for the first frame
outside OpenTrn, so the instruction is issued from a frame that carries file and line of its own statement.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from typing import Any

OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Site = tuple[types.CodeType, int]  # code object of the kernel, line

_own_code: dict[types.CodeType, bool] = {}
_issuers: dict[Site, Callable[[Callable[[Any], None], Any], None]] = {}


def _issue(function: Callable[[Any], None], tile: Any) -> None: function(tile)  # fmt: skip


def user_site() -> Site | None:
    """The innermost stack position outside OpenTrn, or None."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        own = _own_code.get(code)
        if own is None:
            own = _own_code[code] = code.co_filename.startswith(OWN)
        if not own:
            return code, frame.f_lineno
        frame = frame.f_back
    return None


def issuer(code: types.CodeType, line: int) -> Callable[[Callable[[Any], None], Any], None]:
    """A function that calls its first argument with its second, from a frame at `line` of `code`."""
    placed = _issue.__code__.replace(co_filename=code.co_filename, co_name=code.co_name, co_firstlineno=line)
    return types.FunctionType(placed, {})


def call_at(site: Site | None, function: Callable[[Any], None], tile: Any) -> None:
    """`function(tile)` from a frame at `site`."""
    if site is None:
        function(tile)
        return
    issue = _issuers.get(site)
    if issue is None:
        issue = _issuers[site] = issuer(*site)
    issue(function, tile)
