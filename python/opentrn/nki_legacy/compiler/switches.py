"""Switches of the compiler that a decorator above or below `nki.jit` puts on a kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

SKIP_MIDDLE_END = "skip_middle_end_transformations"
FORCE_AUTO_ALLOC = "force_auto_alloc"
_ATTRIBUTE = "__opentrn_switches__"


def with_switch(target: Callable[..., Any] | None, name: str) -> Any:
    """`target`, a kernel or the function of one, with the switch; a decorator where target is None."""
    if target is None:
        return functools.partial(with_switch, name=name)
    function = getattr(target, "func", target)
    setattr(function, _ATTRIBUTE, switches_of(target) | {name})
    return target


def switches_of(kernel: Any) -> frozenset[str]:
    """The switches of a kernel, or of the function that one is made of."""
    return getattr(getattr(kernel, "func", kernel), _ATTRIBUTE, frozenset())
