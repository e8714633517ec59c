"""A kernel's call while torch.compile traces the caller: opentrn.torch.kernels puts its own functions here."""

from __future__ import annotations

from typing import Any


def is_tracing() -> bool:
    """False until opentrn.torch is imported."""
    return False


def call(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as a part of the graph being traced."""
    raise AssertionError("nothing traces without opentrn.torch")
