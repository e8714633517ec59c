"""`neuronxcc.nki.compiler` of NKI 0.1: explicit allocation, and switches of the official compiler.

The switches (allocators, skipped transformations, ordering) change how a kernel is compiled, not what it
computes; eager execution in program order satisfies each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentrn.nki_legacy.compiler import psum, sbuf


def _switch(func: Callable[..., Any] | None) -> Any:
    return (lambda kernel: kernel) if func is None else func


def enable_stack_allocator(func=None, log_level=50):
    """Decorator: allocate SBUF and PSUM as a stack."""
    return _switch(func)


def skip_middle_end_transformations(func=None):
    """Decorator: compile the kernel as written."""
    return _switch(func)


def force_auto_alloc(func=None):
    """Decorator: ignore explicit allocation."""
    return _switch(func)


@contextmanager
def allocation_scope() -> Iterator[None]:
    """Tensors made inside are released at the end."""
    yield


@contextmanager
def no_reorder() -> Iterator[None]:
    """Instructions inside stay in program order."""
    yield


@contextmanager
def multi_buffer(factor: int = 2) -> Iterator[None]:
    """Tensors made inside get `factor` buffers."""
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
