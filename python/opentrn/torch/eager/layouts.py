"""The order in memory of what an op gives for tensors that lie channels last: the CPU's.

Tracing takes ops apart, and their parts do not always keep the order that the op's own kernel gives its result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from opentrn.errors import NotModelled

# Ops whose meta functions give plain tensors, and whose kernels give the first result in the order of an argument.
_KEEP = {
    "aten::replication_pad2d": 0, "aten::replication_pad3d": 0, "aten::reflection_pad3d": 0,
    "aten::reflection_pad2d_backward": 1, "aten::reflection_pad3d_backward": 1,
    "aten::replication_pad2d_backward": 1, "aten::replication_pad3d_backward": 1,
    "aten::native_batch_norm_backward": 1,
    "aten::pixel_shuffle": 0, "aten::pixel_unshuffle": 0, "aten::native_channel_shuffle": 0, "aten::channel_shuffle": 0,
}  # fmt: skip
# Ops without a kernel on the CPU, whose result lies as this argument does.
_LIKE = {"aten::batch_norm_elemt": 0, "aten::batch_norm_backward_elemt": 1}


def _lies_channels_last(given: Any) -> bool:
    rank = len(given.shape)
    return rank in (4, 5) and given.order == [0, *range(2, rank), 1]


def _is_plain(given: Any) -> bool:
    return not given.is_scattered and given.order in (None, list(range(len(given.shape))))


@functools.cache
def _without_out(op: Any) -> Any:
    """The overload that gives what `op` writes into `out=`; None where there is none."""
    wanted = [(each.name, str(each.type)) for each in op._schema.arguments if not each.is_out]
    overloads = [getattr(op.overloadpacket, name) for name in op.overloadpacket.overloads()]
    for each in overloads:
        declared = [(argument.name, str(argument.type)) for argument in each._schema.arguments]
        if declared == wanted and not each._schema.is_mutable:
            return each
    return None


def given_size(op: Any, arguments: list[Any]) -> Any:
    """Results of an op with `out=` as it makes them itself, which meta functions do not lay out for an `out=`."""
    form = _without_out(op)
    if form is None:
        raise NotModelled(f"{op} has no form without out=", label="torch.no_emitter")
    pairs = [(each, value) for each, value in zip(op._schema.arguments, arguments) if not each.is_out]
    positional = [value for each, value in pairs if not each.kwarg_only]
    return form(*positional, **{each.name: value for each, value in pairs if each.kwarg_only})


def of_results(
    name: str, call: Callable[[list[Any]], Any], arguments: list[Any], given: Sequence[Any], kind: type,
    written: Sequence[int] = (),
) -> list[Any]:  # fmt: skip
    """The CPU's strides of each result, None of what is no tensor. Empty where no tensor of the call lies channels last
    and where torch does not say. Of `written` tensors without elements, which the op gives their size, those of other
    orders too.

    name: of the op. call: the op, for values of `arguments`, which hold tensors by their number, as objects of `kind`.
    """
    sizes_given = [0 in given[i].shape for i in written]
    if not any(map(_lies_channels_last, given)) and not (any(sizes_given) and not all(map(_is_plain, given))):
        return []
    if name in _LIKE:
        like = given[arguments[_LIKE[name]].index]
        return [like.stride] if _lies_channels_last(like) else []

    def value(ref: Any) -> Any:
        each = given[ref.index]
        return torch.empty_strided(each.shape, each.stride, dtype=each.dtype, device="cpu")

    leaves: list[Any] = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, kind)]
    if any(leaf.index < 0 or given[leaf.index].is_wrapped for leaf in leaves):  # numbers: of element-wise ops
        return []
    with FakeTensorMode(), torch.no_grad():
        real = pytree.tree_map_only(kind, value, arguments)
        real = pytree.tree_map_only(torch.device, lambda _: torch.device("cpu"), real)
        try:
            results = call(real)
        except (RuntimeError, ValueError, TypeError, IndexError):
            return []  # the trace says what is wrong
    parts = list(results) if isinstance(results, (tuple, list)) else [results]
    if name in _KEEP and parts[0] is not None and _lies_channels_last(given[arguments[_KEEP[name]].index]):
        form = torch.channels_last if parts[0].dim() == 4 else torch.channels_last_3d
        with FakeTensorMode():
            parts[0] = torch.empty(parts[0].shape, device="cpu", memory_format=form)
    return [tuple(part.stride()) if isinstance(part, torch.Tensor) else None for part in parts]
