"""`neuronxcc.nki.compiler` of NKI 0.1: explicit allocation, and switches of the official compiler.

None of the switches changes what a kernel computes. Three change its predicted time: `no_reorder` keeps the compiler
from reordering, `skip_middle_end_transformations` from rewriting instructions, and `force_auto_alloc` has it place what
the kernel places. The allocator's own (`enable_stack_allocator`, `allocation_scope`, `multi_buffer`) have no
counterpart in OpenTrn, whose allocator goes by lifetimes; a kernel that uses one is told so once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentrn.nki import _machine
from opentrn.nki_legacy import base
from opentrn.nki_legacy.compiler import psum, sbuf
from opentrn.nki_legacy.compiler.switches import FORCE_AUTO_ALLOC, SKIP_MIDDLE_END, with_switch

_told: set[str] = set()


def _tell(name: str) -> None:
    if name not in _told:
        _told.add(name)
        text = f"nki.compiler.{name} has no effect on the predicted time: OpenTrn allocates by lifetimes"
        warnings.warn(text, stacklevel=4)


def enable_stack_allocator(func: Callable[..., Any] | None = None, log_level: int = 50) -> Any:
    """Decorator: AWS's compiler allocates SBUF and PSUM as a stack. Without effect, with a warning."""
    _tell("enable_stack_allocator")
    return (lambda kernel: kernel) if func is None else func


def skip_middle_end_transformations(func: Callable[..., Any] | None = None) -> Any:
    """Decorator: the compiler does not rewrite the kernel's instructions: no result is shared, none are merged. It
    still orders, allocates and spills."""
    return with_switch(func, SKIP_MIDDLE_END)


def force_auto_alloc(func: Callable[..., Any] | None = None) -> Any:
    """Decorator: addresses that the kernel gives its tensors are ignored."""
    return with_switch(func, FORCE_AUTO_ALLOC)


@contextmanager
def allocation_scope() -> Iterator[None]:
    """AWS's stack allocator releases at the end what is made inside. Without effect, with a warning."""
    _tell("allocation_scope")
    yield


@contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions inside stay in program order when the kernel is scheduled."""
    machine = _machine.machine_or_none()
    mark = getattr(machine, "set_no_reorder", None)
    if mark is None:  # outside a kernel, or the oracle's machine, which schedules nothing
        yield
        return
    base.flush()
    outer = machine.__dict__.setdefault("no_reorder_depth", 0)
    machine.no_reorder_depth = outer + 1
    mark(True)
    try:
        yield
        base.flush()
    finally:
        machine.no_reorder_depth = outer
        mark(outer > 0)


@contextmanager
def multi_buffer(factor: int = 2) -> Iterator[None]:
    """AWS's stack allocator gives tensors made inside `factor` buffers. Without effect, with a warning."""
    _tell("multi_buffer")
    yield


__all__ = [
    "allocation_scope",
    "enable_stack_allocator",
    "force_auto_alloc",
    "multi_buffer",
    "no_reorder",
    "psum",
    "sbuf",
    "skip_middle_end_transformations",
]
