"""The truth of a register.

NKI makes a device loop of `while register:` and of nothing else that looks at a register
(nki/deep-dives/nki-dynamic-loops.rst). Python only calls `__bool__`, so the source around the call decides: asked
by a `while` for the first time, the register begins a loop and is true, so that the body is recorded; asked again
it ends the loop and is false. Elsewhere it has its value.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
from types import FrameType
from typing import Any


@functools.lru_cache(maxsize=256)
def _while_conditions(filename: str) -> frozenset[int]:
    """Lines of the file on which the condition of a `while` stands that is a variable and no expression."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return frozenset()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and isinstance(node.test, (ast.Name, ast.Attribute, ast.Subscript)):
            lines.update(range(node.test.lineno, (node.test.end_lineno or node.test.lineno) + 1))
    return frozenset(lines)


def in_while_condition(frame: FrameType) -> bool:
    """True when `frame` is at the condition of a `while`. False where the source is not to be had."""
    return frame.f_lineno in _while_conditions(frame.f_code.co_filename)


def truth(register: Any) -> bool:
    """`bool(register)` on a machine that records device loops where there is one."""
    from opentrn.core import current_or_none

    machine = current_or_none()
    frame = sys._getframe(1)
    if machine is None or not machine.records_loops or not in_while_condition(frame):
        return register.value != 0
    loops = machine.__dict__.setdefault("while_loops", [])
    # The frame is kept, so that its identity is not given to another while the loop is open.
    if loops and loops[-1][0] is frame and loops[-1][1] is register and loops[-1][2] == frame.f_lineno:
        loops.pop()
        machine.end_loop()
        return False
    loops.append((frame, register, frame.f_lineno))
    machine.begin_while(register)
    return True
