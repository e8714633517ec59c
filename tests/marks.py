"""Lines of a kernel that its source marks with a comment."""

from __future__ import annotations

import inspect
from typing import Any


def line_of(kernel: Any, mark: str) -> int:
    """The line of `kernel` that holds `mark`."""
    lines, first = inspect.getsourcelines(getattr(kernel, "func", kernel))
    return first + next(n for n, line in enumerate(lines) if mark in line)
