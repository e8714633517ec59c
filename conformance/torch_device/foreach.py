"""PyTorch's database of `torch._foreach_*` on the device `neuron`, beside the CPU's."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from conformance.torch import run as compiled
from conformance.torch_device.common import DEVICE, moved, tensors_of

KINDS = ("unary", "binary", "pointwise", "reduce", "other")
LIST_SIZES = [3]  # tensors in a list; the database's own are of up to 20, each with a shape of its own


def database() -> list[Any]:
    from torch.testing._internal import common_methods_invocations as known

    return [op for kind in KINDS for op in getattr(known, f"foreach_{kind}_op_db")]


def copied(tree: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda each: each.detach().clone(), tree)


def forms(op: Any) -> Iterator[tuple[str, Any]]:
    """What makes new tensors, and what writes into those that are there."""
    if op.method_variant is not None and op.method_variant is not op.inplace_variant:
        yield "", op.method_variant
    if op.inplace_variant is not None:
        yield "_", op.inplace_variant


def results(call: Any, given: tuple[Any, Any, Any]) -> list[torch.Tensor]:
    """What the call gives, or what it writes into."""
    first, arguments, keywords = given
    result = call(first, *arguments, **keywords)
    return tensors_of(first if result is None else result)


def check(call: Any, sample: Any) -> list[str] | None:
    """Differences of one sample, None of one that the CPU refuses; raises what the device raises of others."""
    host, device = (form((sample.input, sample.args, sample.kwargs)) for form in (copied, moved))
    try:
        expected = results(call, host)
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    found = results(call, device)
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
