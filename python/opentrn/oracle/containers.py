"""What the core does in C++ for values in containers and shapes of tiles: its reference, and what stands in for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opentrn.errors import require


def map_leaves(value: Any, replace: Callable[[Any], Any], exact: bool = False) -> Any:
    """The value with replace(leaf) in the place of whatever is no tuple, list or dict; as src/python/containers.h."""
    if isinstance(value, dict):
        return {key: map_leaves(item, replace, exact) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_leaves(item, replace, exact) for item in value))
    if type(value) in (tuple, list) or isinstance(value, (tuple, list)) and not exact:
        return type(value)([map_leaves(item, replace, exact) for item in value])
    return replace(value)


def common_shape(x: Sequence[int], y: Sequence[int]) -> tuple[int, ...]:
    """In which two tiles of one rank meet; as src/nki/tensor_view.h."""
    x, y = tuple(x), tuple(y)
    require(
        len(x) == len(y), f"operands of ranks {len(x)} and {len(y)}, shapes {x} and {y}",
        label="nki.shape", hint="expand_dim or reshape first; tiles broadcast dimension by dimension",
    )  # fmt: skip
    for a, b in zip(x, y):
        require(a == b or 1 in (a, b), f"shapes {x} and {y} do not broadcast", label="nki.shape")
    return tuple(b if a == 1 else a for a, b in zip(x, y))
