"""What goes to stdout and what to stderr."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


def is_read_by_machines(options: argparse.Namespace) -> bool:
    """Whether stdout carries a result that programs read: JSON or a listing, and nothing else then."""
    return getattr(options, "json", None) in (True, "-") or getattr(options, "prints_aside", False)


@contextmanager
def prints_aside(wanted: bool = True) -> Iterator[None]:
    """What kernels and other code of the user print goes to stderr meanwhile."""
    if not wanted:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield
