"""aten._foreach_*: the op on each tensor of a list. foreach=True of torch.optim and clip_grad_norm_ use them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

# Of another name than without `_foreach_`, or of other arguments.
_NAMES = {"zero": "zeros_like", "norm": "linalg_vector_norm"}
# A number where the op on one tensor takes a tensor only.
_WITH_NUMBER = {"maximum": "clamp_min", "minimum": "clamp_max"}
# A factor that the op on one tensor takes by name.
_BY_NAME = {"addcdiv": "value", "addcmul": "value"}
_PREFIX = "_foreach_"


def _powsum(x: torch.Tensor, order: float = 2, dtype: torch.dtype | None = None) -> torch.Tensor:
    return aten.sum(aten.pow(aten.abs(x.to(dtype) if dtype else x), order))


def _copy(x: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    del non_blocking
    return aten.expand(source.to(x.dtype), x.shape).clone()


_OWN: dict[str, Callable[..., torch.Tensor]] = {"powsum": _powsum, "copy": _copy}


def _length(values: tuple[Any, ...]) -> int:
    return next(len(value) for value in values if isinstance(value, (list, tuple)))


def _each(name: str, overload: str, *values: Any, **options: Any) -> list[torch.Tensor]:
    """The op on the i-th of every list; what is no list goes to all."""
    count = _length(values)
    if overload == "Tensor" and name in _BY_NAME:  # a number for each tensor, in one tensor
        values = (*values[:-1], [values[-1][i] for i in range(count)])
    results = []
    for i in range(count):
        given = [value[i] if isinstance(value, (list, tuple)) else value for value in values]
        results.append(_one(name, given, options))
    return results


def _one(name: str, given: list[Any], options: dict[str, Any]) -> torch.Tensor:
    if name in _OWN:
        return _OWN[name](*given, **options)
    is_number = not isinstance(given[-1], torch.Tensor)
    if name in _BY_NAME and len(given) > 3:
        *given, factor = given
        if isinstance(factor, torch.Tensor):
            product = (aten.mul if name == "addcmul" else aten.div)(given[1], given[2])
            return aten.add(given[0], aten.mul(product, factor))
        options = {**options, _BY_NAME[name]: factor}
    op = _WITH_NUMBER.get(name, name) if is_number else _NAMES.get(name, name)
    return getattr(aten, _NAMES.get(op, op))(*given, **options)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """By overload, of every functional op over lists."""
    names = {schema.name.removeprefix("aten::") for schema in torch._C._jit_get_all_schemas()}
    table: dict[Any, Callable[..., Any]] = {}
    for full in sorted(names):
        if not full.startswith(_PREFIX) or full.endswith("_"):
            continue
        packet, name = getattr(aten, full), full.removeprefix(_PREFIX)
        for overload in packet.overloads():
            if "out" not in overload:
                table[getattr(packet, overload)] = functools.partial(_each, name, overload)
    return table
