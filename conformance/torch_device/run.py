"""PyTorch's own databases on the device `neuron`, op by op, against its CPU kernels.

    ./dev conformance torch-device [--what ops|foreach|modules|optimizers] [--ops GLOB ...] [--dtypes float32 ...]
                                   [--samples N] [--form strided|permuted|lazy] [--part I/N] [--json FILE]

ops: OpInfo's samples, values and gradients. foreach: those of `torch._foreach_*`, with lists of three tensors.
modules: module_db's inputs, results and gradients, and for modules that train otherwise the training mode with what it
writes into buffers. optimizers: optim_db's settings, five steps of a small model. An op that the host ran for the
device passes, and is counted apart.

--form: how the operands of ops lie in memory, on both sides: every other element of a row, rows from the last
dimension, or views whose conjugate (of other numbers the negative) is yet to be taken.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import fnmatch
import io
import json
import sys
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import opentrn.torch  # noqa: F401  (the device)
from conformance.torch import run as compiled
from conformance.torch_device import foreach
from conformance.torch_device.common import DEVICE, tensors_of
from opentrn import _torch

Outcomes = dict[str, dict[str, Any]]


def host_runs() -> int:
    return sum(runs for _, _, on_host, runs, _ in _torch.programs() if on_host)


def on_device(value: Any) -> Any:
    return value.cpu() if isinstance(value, torch.Tensor) else value


def on_the_device(call: Any) -> Any:
    """The call with `device="cpu"` among its arguments as the device's."""
    is_cpu = [isinstance(leaf, (str, torch.device)) and str(leaf) == "cpu" for leaf in call.leaves]
    call.leaves = [DEVICE if cpu else leaf for cpu, leaf in zip(is_cpu, call.leaves)]
    return call


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """Every other element of the rows of one that is twice as wide; of one number, the second of two."""
    if tensor.dim() == 0:
        return torch.stack([tensor, tensor])[1]
    return torch.stack([tensor, tensor], -1).flatten(-2)[..., ::2]


def permuted(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor


def lazy(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers as a view of their conjugates or negatives; not of indices, which PyTorch reads as they lie."""
    if tensor.is_complex():
        return tensor.conj_physical().conj()
    return torch._neg_view(tensor.neg()) if tensor.is_floating_point() else tensor


FORMS = {"strided": strided, "permuted": permuted, "lazy": lazy}


def check_op(op: Any, sample: Any, gradients: bool, form: str = "") -> list[str]:
    """Differences of one sample on the device; raises what the op raises."""
    call = compiled.Sample(op, sample)

    def formed(tensor: torch.Tensor, wants: bool) -> torch.Tensor:
        tensor = tensor.detach()
        return (FORMS[form](tensor) if form else tensor).requires_grad_(wants)

    given = call.tensors(gradients)
    host_in = [formed(each, each.requires_grad) for each in given]
    device_in = [formed(each.detach().to(DEVICE), each.requires_grad) for each in given]
    has_places = op.name in compiled._PLACES_OF_EQUALS
    try:
        eager = call(*host_in)
        wants = gradients and not (has_places and len(eager) == 2)
        wanted = compiled._gradients(eager, host_in) if wants else []
    except Exception as fault:
        if form:  # of operands that lie so, some of PyTorch's ops take none
            raise unittest.SkipTest(str(fault)) from fault
        raise
    device = on_the_device(compiled.Sample(op, sample))(*device_in)
    if len(eager) != len(device):
        return [f"{len(eager)} results became {len(device)}"]
    off = [i for i, each in enumerate(device) if each.device.type != DEVICE and eager[i].device.type == "cpu"]
    if off:
        return [f"result {off[0]} is on {device[off[0]].device}"]
    found = []
    for i, (a, b) in enumerate(zip(eager, device)):
        if has_places and i == 1 and len(eager) == 2:
            continue  # which of several equal ones is taken is not stated
        if why := compiled._difference(a, b.detach().cpu()):
            found.append(f"result {i} {why}")
    if found or not wants:
        return found
    return gradient_differences(wanted, device_gradients(device, device_in))


def gradient_differences(wanted: list[Any], made: list[Any]) -> list[str]:
    if bool(wanted) != bool(made):
        return ["gradients are missing on one side"]
    found = []
    for i, (a, b) in enumerate(zip(wanted, made)):
        if (a is None) != (b is None):
            held = a if b is None else b
            if bool((held.cpu() != 0).any()):
                found.append(f"gradient {i} is missing on one side")
        elif a is not None and (why := compiled._difference(a, b.cpu(), 1.0)):
            found.append(f"gradient {i} {why}")
    return found


def device_gradients(results: list[torch.Tensor], tensors: list[torch.Tensor]) -> list[Any]:
    """As the CPU's: the same numbers go back."""
    outs = [each for each in results if each.requires_grad]
    wanted = [each for each in tensors if each.requires_grad]
    if not outs or not wanted:
        return []
    random = torch.Generator().manual_seed(1)
    seeds = [torch.randn(each.shape, generator=random).to(each.dtype).to(each.device) for each in outs]
    return list(torch.autograd.grad(outs, wanted, seeds, allow_unused=True))


def op_cases(patterns: list[str], dtypes: list[str], samples: int, form: str) -> Iterator[tuple[str, Any]]:
    """(name, how to check it) of OpInfo's samples."""
    held = compiled.lists()
    for op in compiled.ops(patterns, not patterns):
        name = compiled.full_name(op)
        if any(compiled._is_of(name, [pattern]) for pattern in held.excluded):
            continue
        for text in dtypes:
            dtype = getattr(torch, text)
            if dtype in op.supported_dtypes("cpu"):
                yield f"{name} {text}", (op, dtype, samples, compiled._is_of(name, held.random), form)


def is_whole(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex)


def run_op(op: Any, dtype: torch.dtype, samples: int, may_be_random: bool, form: str = "") -> dict[str, Any]:
    """Counts of an op's samples, and the first failure."""
    gradients = not is_whole(dtype) and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    outcome: dict[str, Any] = collections.Counter()
    reason = ""
    torch.manual_seed(0)
    try:
        every = list(op.sample_inputs("cpu", dtype, requires_grad=gradients))
    except Exception:  # noqa: BLE001  (the database cannot make them in this type)
        return {"skipped": 1, "reason": "no samples"}
    step = max(1, -(-len(every) // samples)) if samples else 1
    for number, sample in enumerate(every[::step]):
        before = host_runs()
        try:
            if may_be_random and compiled.is_random(op, sample):
                outcome["skipped"] += 1
                continue
            found = check_op(op, sample, gradients, form)
        except unittest.SkipTest:
            outcome["skipped"] += 1
            continue
        except Exception as error:  # noqa: BLE001  (a sample that raises has failed, whatever it raised)
            found = [compiled._short(error)]
        outcome["failed" if found else "passed"] += 1
        outcome["by the host"] += not found and host_runs() > before
        reason = reason or (f"sample {number}: {found[0]}" if found else "")
    return {**outcome, "reason": reason}


def run_module(info: Any, dtype: torch.dtype) -> dict[str, Any]:
    """One kind of torch.nn's modules: every input of the database, what it gives and what it writes into buffers."""
    outcome: dict[str, Any] = collections.Counter()
    reason = ""
    for training in (False, True) if info.train_and_eval_differ else (False,):
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for number, given in enumerate(inputs):
            if given.forward_input is None:
                continue
            try:
                found = module_differences(info, given, dtype, training)
            except Exception as error:  # noqa: BLE001
                found = [compiled._short(error)]
            if found is None:
                outcome["skipped"] += 1
                continue
            outcome["failed" if found else "passed"] += 1
            mode = " in training" if training else ""
            reason = reason or (f"input {number}{mode}: {found[0]}" if found else "")
    return {**outcome, "reason": reason}


def own(tree: Any, device: str) -> tuple[list[torch.Tensor], Any]:
    """Leaves of its tensors that have a gradient, on a device, and the tree of what is computed from them: modules that
    work in place take no leaf."""
    leaves = []

    def one(each: torch.Tensor) -> torch.Tensor:
        leaf = each.detach().clone().to(device).requires_grad_(each.requires_grad)
        if leaf.requires_grad:
            leaves.append(leaf)
        return leaf.clone()

    return leaves, pytree.tree_map_only(torch.Tensor, one, tree)


def module_differences(info: Any, given: Any, dtype: torch.dtype, training: bool) -> list[str] | None:
    """Of results, of what is written into buffers, and of the gradients of inputs and parameters. None of a module that
    draws random numbers."""
    torch.manual_seed(0)
    arguments, keywords = given.constructor_input.args, given.constructor_input.kwargs
    model = info.module_cls(*arguments, **keywords).to(dtype).train(training)
    other, third = copy.deepcopy(model).to(DEVICE), copy.deepcopy(model)
    draws_late = any(map(nn.parameter.is_lazy, other.parameters()))
    both = (given.forward_input.args, given.forward_input.kwargs)
    host_in, (arguments, keywords) = own(both, "cpu")
    expected = model(*arguments, **keywords)
    if training and not draws_late:
        torch.manual_seed(1)
        _, (arguments, keywords) = own(both, "cpu")
        again = third(*arguments, **keywords)
        if any(not torch.equal(a, b) for a, b in zip(tensors_of(expected), tensors_of(again))):
            return None
    device_in, (arguments, keywords) = own(both, DEVICE)
    device = other(*arguments, **keywords)
    if draws_late:  # its weights, from its device's random numbers, at the first input
        other.load_state_dict(model.state_dict())
        device_in, (arguments, keywords) = own(both, DEVICE)
        device = other(*arguments, **keywords)
    results = tensors_of(expected), tensors_of(device)
    pairs = [*zip(*results)]
    if not draws_late:
        pairs += zip(model.buffers(), other.buffers())
    if found := [why for a, b in pairs if (why := compiled._difference(a.detach(), b.detach().cpu()))]:
        return found
    wanted = device_gradients(results[0], [*model.parameters(), *host_in])
    made = device_gradients(results[1], [*other.parameters(), *device_in])
    return gradient_differences(wanted, made)


def run_optimizer(info: Any) -> dict[str, Any]:
    """One of torch.optim's: every setting of the database, five steps beside the CPU."""
    outcome: dict[str, Any] = collections.Counter()
    reason = ""
    for number, given in enumerate(info.optim_inputs_func(device="cpu")):
        if given.params is not None or any(given.kwargs.get(name) for name in ("fused", "capturable")):
            continue
        try:
            found = _steps(info.optim_cls, given.kwargs)
        except Exception as error:  # noqa: BLE001
            found = compiled._short(error)
        outcome["failed" if found else "passed"] += 1
        reason = reason or (f"setting {number} ({given.desc}): {found}" if found else "")
    return {**outcome, "reason": reason}


def _trained(
    kind: Any, keywords: dict[str, Any], dtype: torch.dtype, device: str, nudge: int = 0
) -> list[torch.Tensor]:
    """The parameters of a small model after five steps; nudge: from weights a rounding away, drawn with that seed."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).to(device, dtype)
    x, y = (torch.randn(5, size).to(device, dtype) for size in (6, 3))
    if nudge:
        torch.manual_seed(nudge)
        with torch.no_grad():
            for each in model.parameters():
                each *= 1 + 2.0**-23 * torch.randint(-1, 2, each.shape)
    parameters = [p for p in model.parameters() if kind.__name__ != "Muon" or p.dim() == 2]
    optimizer = kind(parameters, **pytree.tree_map_only(torch.Tensor, lambda each: each.to(device), keywords))

    def closure() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    return [each.detach().cpu() for each in model.parameters()]


def _steps(kind: Any, keywords: dict[str, Any]) -> str:
    """What differs from the CPU, by more than twice what rounding does there: line searches amplify it."""
    host, device = (_trained(kind, keywords, torch.float32, place) for place in ("cpu", DEVICE))
    pairs = list(zip(host, device))
    if not (why := next((why for a, b in pairs if (why := compiled._difference(a, b))), "")):
        return ""
    wide = _trained(kind, keywords, torch.float64, "cpu")
    off = _apart(host, wide)
    for nudge in range(1, 9):
        other = _apart(_trained(kind, keywords, torch.float32, "cpu", nudge), wide)
        off = [max(pair) for pair in zip(off, other)]
    return "" if all(a <= 2 * b for a, b in zip(_apart(device, wide), off)) else why


def _apart(found: list[torch.Tensor], wide: list[torch.Tensor]) -> list[float]:
    return [(a - b).abs().max().item() for a, b in zip(found, wide)]


def foreach_outcomes(options: argparse.Namespace, part: int, parts: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, op in enumerate(foreach.database()):
        if number % parts != part or options.ops and not any(fnmatch.fnmatch(op.name, glob) for glob in options.ops):
            continue
        for text in options.dtypes:
            yield f"{op.name} {text}", foreach.run_foreach(op, getattr(torch, text), options.samples)


def outcomes(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    part, parts = map(int, options.part.split("/"))
    if options.what == "ops":
        every = op_cases(options.ops, options.dtypes, options.samples, options.form)
        for number, (name, given) in enumerate(every):
            if number % parts == part:
                yield name, run_op(*given)
        return
    if options.what == "foreach":
        yield from foreach_outcomes(options, part, parts)
        return
    if options.what == "modules":
        from torch.testing._internal.common_modules import module_db as database
    else:
        from torch.testing._internal.common_optimizers import optim_db as database
    for number, info in enumerate(database):
        name = info.name if options.what == "modules" else info.optim_cls.__name__
        if number % parts != part or options.ops and not any(fnmatch.fnmatch(name, glob) for glob in options.ops):
            continue
        if name == "SparseAdam":
            continue  # its gradients are sparse, of which the device has none
        yield name, run_module(info, torch.float32) if options.what == "modules" else run_optimizer(info)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev conformance torch-device", description=__doc__.splitlines()[0])
    parser.add_argument("--what", choices=("ops", "foreach", "modules", "optimizers"), default="ops")
    parser.add_argument("--ops", nargs="*", default=[], help="names or patterns; default: all of the database")
    parser.add_argument("--dtypes", nargs="*", default=["float32", "bfloat16", "int64", "bool"])
    parser.add_argument("--samples", type=int, default=2, help="of each op and type at most; 0: all")
    parser.add_argument("--form", choices=FORMS, default="", help="how the operands of ops lie in memory")
    parser.add_argument("--part", default="0/1", metavar="I/N")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(words)
    warnings.simplefilter("ignore")
    totals: collections.Counter[str] = collections.Counter()
    rows: Outcomes = {}
    for name, row in outcomes(options):
        rows[name] = row
        totals.update({key: value for key, value in row.items() if key != "reason"})
        if row.get("failed"):
            print(f"{name}: {row.get('passed', 0)} passed, {row['failed']} failed; {row['reason']}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    if not rows:
        print(f"nothing ran: the database has no {' '.join(options.ops)}", file=sys.stderr)
        return 2
    whole = sum(1 for row in rows.values() if not row.get("failed"))
    print(f"{totals['passed']} passed ({totals['by the host']} of them by the host), {totals['failed']} failed, "
          f"{totals['skipped']} skipped; {whole} of {len(rows)} without a failure")  # fmt: skip
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    with contextlib.redirect_stderr(io.StringIO()):
        status = main(sys.argv[1:])
    sys.exit(status)
