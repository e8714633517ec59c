"""OPENTRN_CHECK=1: what the device cannot hold, though torch can, and indices out of range.

Values of 64 bits are values of 32 bits on the device: sums and products wrap, conversions saturate, and a float64
beyond float32's range becomes infinite. An index out of range reads another row. None of these differs from float64 by
rounding, so opentrn.model.checking sees none of them. Here torch runs the graph once more, op by op on the host, with
the same arguments, and every result is held to the device's range.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from opentrn.errors import InputError
from opentrn.torch.emitter import name_of, place_of
from opentrn.torch.types import integer_range

_WIDE = {torch.int64: torch.int32, torch.uint64: torch.uint32, torch.float64: torch.float32}
_told: set[str] = set()


def check(module: fx.GraphModule, arguments: Sequence[Any]) -> None:
    """Runs the graph on the host. ValueError, or IndexError, names the first op and the line of the user's program."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            _Ranges(module).run(*arguments)
        except _Unchecked as what:
            if str(what) not in _told:
                _told.add(str(what))
                print(f"opentrn: a graph is not checked for ranges after {what}", file=sys.stderr)


class IndexBeyond(InputError, IndexError):
    """An index lies outside of what it indexes."""


class _Unchecked(Exception):
    """Torch has no form of an op outside of a compiled graph."""


class _Ranges(fx.Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False

    def run_node(self, n: fx.Node) -> Any:
        try:
            result = super().run_node(n)
        except Exception as error:
            if not isinstance(n.target, torch._ops.OpOverload) or isinstance(error, NotImplementedError):
                raise _Unchecked(name_of(n)) from error
            kind = IndexBeyond if isinstance(error, IndexError) or "out of bounds" in str(error) else InputError
            raise kind(
                f"{name_of(n)}: torch raises {_line(error)!r}; the device does not", label="torch.check", **_at(n)
            ) from error
        if n.op != "output" and "empty" not in name_of(n):  # whose values are whatever memory held
            for each in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(each, torch.Tensor) and (found := _beyond(each)):
                    what = f"input {n.name}" if n.op == "placeholder" else name_of(n)
                    raise InputError(f"{what} gives {found}", label="torch.check", **_at(n))
        return result


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _at(node: fx.Node) -> dict[str, Any]:
    """The user's line; of what has none, the first that reads it."""
    return next((found for each in (node, *node.users) if (found := place_of(each))), {})


def _beyond(value: torch.Tensor) -> str:
    """What does not fit the device's type, and what becomes of it; nothing where all of it fits."""
    if value.dtype == torch.complex128:
        value = torch.view_as_real(value.resolve_conj())
    narrow = _WIDE.get(value.dtype)
    if narrow is None or not value.numel():
        return ""
    if value.dtype == torch.float64:
        largest = torch.finfo(narrow).max
        extremes = torch.finfo(torch.float64)  # a mask's, which stand for infinity
        wrong = (value.abs() > largest) & value.isfinite() & (value != extremes.min) & (value != extremes.max)
        becomes = "becomes infinite"
    else:
        low, high = integer_range(value.dtype)
        if value.dtype == torch.uint64:
            value = value.to(torch.int64)  # beyond 2^63: negative, and out of range too
        wrong = (value < low) | (value > high)
        becomes = "wraps or saturates"
    if not bool(wrong.any()):
        return ""
    first = value[wrong][0].item()
    return f"{first}, which {becomes}: the device computes it as {str(narrow).removeprefix('torch.')}"
