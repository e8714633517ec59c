"""PyTorch's database of `torch._foreach_*` on the device `neuron`, beside the CPU's."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.torch import run as compiled

DEVICE = "neuron"
KINDS = ("unary", "binary", "pointwise", "reduce", "other")
LIST_SIZES = [3]  # tensors in a list; the database's own are of up to 20, each with a shape of its own


def database() -> list[Any]:
    from torch.testing._internal import common_methods_invocations as known

    return [op for kind in KINDS for op in getattr(known, f"foreach_{kind}_op_db")]


def moved(tree: Any) -> Any:
    """Its tensors on the device, each with its own memory; a tensor that is a number stays where PyTorch lets it."""
    return pytree.tree_map_only(torch.Tensor, lambda each: each.detach().to(DEVICE), tree)


def copied(tree: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda each: each.detach().clone(), tree)


def forms(op: Any) -> Iterator[tuple[str, Any]]:
    """What makes new tensors, and what writes into those that are there."""
    if op.method_variant is not None and op.method_variant is not op.inplace_variant:
        yield "", op.method_variant
    if op.inplace_variant is not None:
        yield "_", op.inplace_variant


def tensors_of(result: Any, given: Any) -> list[torch.Tensor]:
    """Results, or what was written into."""
    return [each for each in pytree.tree_leaves(given if result is None else result) if isinstance(each, torch.Tensor)]


def check(call: Any, sample: Any) -> list[str] | None:
    """Differences of one sample, None of one that the CPU refuses; raises what the device raises of others."""
    host, device = (form((sample.input, sample.args, sample.kwargs)) for form in (copied, moved))
    try:
        expected = tensors_of(call(host[0], *host[1], **host[2]), host[0])
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    found = tensors_of(call(device[0], *device[1], **device[2]), device[0])
    if len(expected) != len(found):
        return [f"{len(expected)} results became {len(found)}"]
    if off := [each for each in found if each.device.type != DEVICE]:
        return [f"a result is on {off[0].device}"]
    pairs = zip(expected, found)
    return [f"result {i} {why}" for i, (a, b) in enumerate(pairs) if (why := compiled._difference(a, b.cpu()))]


def run_foreach(op: Any, dtype: torch.dtype, samples: int) -> dict[str, Any]:
    """Counts of an op's samples in both forms, and the first failure."""
    outcome: dict[str, Any] = collections.Counter()
    reason = ""
    torch.manual_seed(0)
    every = list(op.sample_inputs("cpu", dtype, num_input_tensors=LIST_SIZES))
    step = max(1, -(-len(every) // samples)) if samples else 1
    for number, sample in enumerate(every[::step]):
        for name, call in forms(op):
            try:
                found = check(call, sample)
            except Exception as error:  # noqa: BLE001  (a sample that raises has failed, whatever it raised)
                found = [compiled._short(error)]
            outcome["skipped" if found is None else "failed" if found else "passed"] += 1
            reason = reason or (f"sample {number}{name}: {found[0]}" if found else "")
    return {**outcome, "reason": reason}
