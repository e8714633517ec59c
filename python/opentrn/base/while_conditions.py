"""Whether code stands at the condition of a `while`, by the source around it."""

from __future__ import annotations

import ast
import functools
import linecache
from types import FrameType


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
