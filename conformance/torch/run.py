"""PyTorch's OpInfo database on a simulated NeuronCore, against torch's own CPU kernels.

    ./dev conformance torch [--ops GLOB ...] [--all] [--dtypes float32 ...] [--samples N] [--json FILE]

Each sample of an op is traced by AOTAutograd as torch.compile traces it, compiled for the device with nothing left
to the host, and compared with eager torch: the values, and for floats the gradients of every input.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

LISTS = Path(__file__).with_name("exclusions.toml")
DTYPES = ("float32", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")

# Relative to the largest number of a result: sums of either sign round in their terms.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.bfloat16: 2e-2, torch.float16: 4e-3,
             torch.complex64: 1e-4, torch.complex128: 1e-4}  # fmt: skip


@dataclass
class Outcome:
    """Of all samples of one op in one type."""

    passed: int = 0
    failed: int = 0
    known: int = 0  # failures of exclusions.toml's list, not among the failed
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)

    def fail(self, what: str, why: str, known: Sequence[Known] = ()) -> None:
        row = next((row for row in known if row.covers(why)), None)
        if row is not None:
            self.known += 1
            row.hits += 1
            return
        self.failed += 1
        self.reasons.append(f"{what}: {why}")


@dataclass
class Known:
    """A failure that is listed: of which ops (patterns) and types, how it begins (a regular expression), and why."""

    ops: list[str]
    reason: str
    message: str
    dtypes: list[str] = field(default_factory=lambda: list(DTYPES))
    hits: int = 0

    def covers(self, why: str) -> bool:
        return re.search(self.message, why) is not None

    def is_of(self, name: str, dtype: str) -> bool:
        return dtype in self.dtypes and _is_of(name, self.ops)


def _is_of(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def core_names() -> set[str]:
    """Names of the ops that torch tags as core ATen."""
    found = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            if torch.Tag.core in getattr(packet, overload).tags:
                found.add(name)
    return found


def ops(patterns: list[str], everything: bool) -> Iterator[Any]:
    """OpInfos by name; by default those of core ATen ops."""
    from torch.testing._internal.common_methods_invocations import op_db

    core = core_names()
    for op in op_db:
        name = full_name(op)
        if patterns:
            if any(fnmatch.fnmatch(name, pattern) or op.name == pattern for pattern in patterns):
                yield op
        elif everything or op.aten_name in core or f"_{op.aten_name}" in core:
            yield op


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def _difference(expected: Any, actual: Any, size: float = 1e-3) -> str:
    """Empty when equal within rounding. size: of the terms that a result is a sum of, at least."""
    if not isinstance(expected, torch.Tensor):
        return (
            "" if expected == actual or type(expected) is not type(actual) else f"{expected} became {actual}"
        )
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return f"{tuple(expected.shape)} {expected.dtype} became {tuple(actual.shape)} {actual.dtype}"
    if expected.numel() == 0:
        return ""
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        count = int((expected != actual).sum())
        return f"{count} of {expected.numel()} numbers differ" if count else ""
    wide = torch.complex128 if expected.dtype.is_complex else torch.float64
    a, b = expected.detach().to(wide), actual.detach().to(wide)
    finite = torch.isfinite(a)
    scale = max(float(a[finite].abs().max()) if finite.any() else 0.0, size)
    tolerance = TOLERANCE[expected.dtype] * scale
    if torch.allclose(b, a, rtol=TOLERANCE[expected.dtype], atol=tolerance, equal_nan=True):
        return ""
    apart = (a - b).abs()
    wrong = ~torch.isclose(b, a, rtol=TOLERANCE[expected.dtype], atol=tolerance, equal_nan=True)
    place = int(wrong.reshape(-1).nonzero()[0])
    return (
        f"{int(wrong.sum())} of {a.numel()} numbers differ, the first {a.reshape(-1)[place]} is "
        f"{b.reshape(-1)[place]} (off {float(apart.reshape(-1)[place]):.3g})"
    )


class Sample:
    """One call of an op, as a function of its tensors."""

    def __init__(self, op: Any, sample: Any) -> None:
        self.op, self.sample = op, sample
        leaves, self.tree = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.leaves = leaves

    def tensors(self, gradients: bool) -> list[torch.Tensor]:
        """Copies, each its own memory."""
        copies = []
        for i in self.places:
            given = self.leaves[i]
            copy = given.detach().clone()
            copies.append(copy.requires_grad_(gradients and given.requires_grad))
        return copies

    def __call__(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        leaves = list(self.leaves)
        for i, tensor in zip(self.places, tensors):
            leaves[i] = tensor
        given, args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        result = self.op(given, *args, **kwargs)
        result = self.sample.output_process_fn_grad(result)
        return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


# Ops whose second result is places along an axis, and how many arguments come before `dim`, the last axis by default.
_PLACES_OF_EQUALS = {"topk": 1, "kthvalue": 1, "sort": 0}


def _at_places(call: Sample, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The elements that lie there: which of several equal ones is taken is not stated."""
    before = _PLACES_OF_EQUALS[call.op.name]
    axis = call.sample.kwargs.get("dim", (*call.sample.args[before:], -1)[0])
    if not x.dim():
        return x
    if places.dim() == x.dim():
        return x.gather(axis, places)
    return x.gather(axis, places.unsqueeze(axis)).squeeze(axis)


def _is_permutation(call: Sample, places: torch.Tensor) -> bool:
    axis = call.sample.kwargs.get("dim", (*call.sample.args, -1)[0])
    if not places.dim():
        return True
    ordered = places.movedim(axis, -1).sort(-1)[0]
    return torch.equal(ordered, torch.arange(ordered.shape[-1]).expand_as(ordered))


def _gradients(results: list[torch.Tensor], tensors: list[torch.Tensor]) -> list[Any]:
    outs = [each for each in results if each.requires_grad]
    wanted = [each for each in tensors if each.requires_grad]
    if not outs or not wanted:
        return []
    random = torch.Generator().manual_seed(1)
    seeds = [torch.randn(each.shape, generator=random, dtype=torch.float32).to(each.dtype) for each in outs]
    return list(torch.autograd.grad(outs, wanted, seeds, allow_unused=True))


def _on_device(function: Any) -> Any:
    from functorch.compile import aot_function

    from opentrn.torch import Settings, decompositions
    from opentrn.torch.backend import compilers

    torch._dynamo.reset()
    made = compilers(Settings(strict=True), "sample")
    return aot_function(function, **made, decompositions=decompositions.table())


def check(op: Any, sample: Any, gradients: bool) -> list[str]:
    """Differences of one sample: none when it passes. Raises what tracing and compiling do."""
    call = Sample(op, sample)
    eager_in, device_in = call.tensors(gradients), call.tensors(gradients)
    eager = call(*eager_in)
    with sdpa_kernel(SDPBackend.MATH):  # as the backend traces attention
        device = _on_device(call)(*device_in)
    device = list(device) if isinstance(device, (list, tuple)) else [device]
    seen = eager, device
    has_places = op.name in _PLACES_OF_EQUALS and len(eager) == 2 and not sample.kwargs.get("stable")
    if has_places and len(device) == 2:
        x = eager_in[0].detach()
        seen = [eager[0], _at_places(call, x, eager[1])], [device[0], _at_places(call, x, device[1])]
        if op.name == "sort" and not _is_permutation(call, device[1]):
            return ["result 1 is not a permutation"]
    if len(seen[0]) != len(seen[1]):
        return [f"{len(seen[0])} results became {len(seen[1])}"]
    found = [
        f"result {i} {why}" for i, (a, b) in enumerate(zip(*seen, strict=True)) if (why := _difference(a, b))
    ]
    ties = has_places and not torch.equal(eager[1], device[1])
    if found or not gradients or ties:  # another of equal elements gets the gradient
        return found
    wanted, given = _gradients(eager, eager_in), _gradients(device, device_in)
    if len(wanted) != len(given):
        return [f"{len(wanted)} gradients became {len(given)}"]
    for i, (a, b) in enumerate(zip(wanted, given, strict=True)):
        if a is None or b is None:
            held = a if b is None else b
            if held is not None and bool((held != 0).any()):
                found.append(f"gradient {i} is missing on one side")
        elif why := _difference(a, b, 1.0):  # results' gradients are normal numbers
            found.append(f"gradient {i} {why}")
    return found


def _short(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}"[:300]


class _Draws(TorchDispatchMode):
    """Notes whether an op draws from a generator."""

    found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def is_random(op: Any, sample: Any) -> bool:
    """Whether eager torch draws random numbers for a sample: the device's are its own."""
    call = Sample(op, sample)
    with _Draws() as draws:
        call(*call.tensors(False))
    return draws.found


def run_op(
    op: Any, dtype: torch.dtype, samples: int, known: Sequence[Known] = (), may_be_random: bool = False
) -> Outcome:
    """All samples of an op in a type (at most `samples`, taken evenly); those of random numbers are skipped."""
    outcome = Outcome()
    gradients = (
        dtype.is_floating_point and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    )
    torch.manual_seed(0)
    every = list(op.sample_inputs("cpu", dtype, requires_grad=gradients))
    step = max(1, -(-len(every) // samples)) if samples else 1
    for number, sample in enumerate(every):
        if number % step:
            continue
        try:
            if may_be_random and is_random(op, sample):
                outcome.skipped += 1
                continue
            found = check(op, sample, gradients)
        except Exception as error:  # noqa: BLE001  (a sample that raises has failed, whatever it raised)
            outcome.fail(f"sample {number}", _short(error), known)
            continue
        if found:
            outcome.fail(f"sample {number}", found[0], known)
        else:
            outcome.passed += 1
    return outcome


@dataclass
class Lists:
    """Of exclusions.toml: ops that are not run (name or pattern -> why), those that may draw, known failures."""

    excluded: dict[str, str]
    random: list[str]
    known: list[Known]


def lists() -> Lists:
    table = tomllib.loads(LISTS.read_text())
    return Lists(
        {name: row["reason"] for row in table.get("exclude", []) for name in row["ops"]},
        [name for row in table.get("random", []) for name in row["ops"]],
        [Known(**row) for row in table.get("known_failures", [])],
    )


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev conformance torch", description=__doc__.splitlines()[0])
    parser.add_argument("--ops", nargs="*", default=[], help="names or patterns; default: core ATen ops")
    parser.add_argument("--all", action="store_true", help="every op of the database")
    parser.add_argument("--dtypes", nargs="*", default=list(DTYPES))
    parser.add_argument("--samples", type=int, default=0, help="of each op and type at most (default: all)")
    parser.add_argument("--json", metavar="FILE", help="outcomes by op and type")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every N-th op from the I-th")
    parser.add_argument("--quiet", action="store_true", help="only the result line")
    options = parser.parse_args(words)
    warnings.simplefilter("ignore")
    part, parts = map(int, options.part.split("/"))
    held = lists()
    seen: set[str] = set()
    rows: dict[str, Any] = {}
    totals: collections.Counter[str] = collections.Counter()
    for number, op in enumerate(ops(options.ops, options.all)):
        if number % parts != part:
            continue
        name = full_name(op)
        for text in options.dtypes:
            dtype = getattr(torch, text)
            if dtype not in op.supported_dtypes("cpu"):
                continue
            seen.add(f"{name} {text}")
            why = next((reason for pattern, reason in held.excluded.items() if _is_of(name, [pattern])), None)
            began = time.perf_counter()
            if why:
                outcome = Outcome(skipped=1, reasons=[why])
            else:
                known = [row for row in held.known if row.is_of(name, text)]
                outcome = run_op(op, dtype, options.samples, known, _is_of(name, held.random))
            seconds = time.perf_counter() - began
            rows[f"{name} {text}"] = vars(outcome) | {"seconds": round(seconds, 2)}
            for key in ("passed", "failed", "known", "skipped"):
                totals[key] += getattr(outcome, key)
            if outcome.failed and not options.quiet:
                print(f"{name} {text}: {outcome.passed} passed, {outcome.failed} failed; {outcome.reasons[0]}",
                      flush=True)  # fmt: skip
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1))
    stale = [row for row in held.known if not row.hits and _is_judged(row, seen, options.samples)]
    for row in stale:
        print(f"listed as a known failure, and did not fail: {', '.join(row.ops)} ({row.reason})")
    known = f" ({totals['known']} more are known failures)" if totals["known"] else ""
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped{known}")
    if not seen:
        print(f"no op ran: none of the database is {' '.join(options.ops)}", file=sys.stderr)
        return 2
    return 1 if totals["failed"] or stale else 0


def _is_judged(row: Known, seen: set[str], samples: int) -> bool:
    """Whether all that a row is of ran: every sample of at least one op in each of its types."""
    ran = [each.rpartition(" ") for each in seen]
    return not samples and all(
        any(row.is_of(name, text) for name, _, text in ran if text == kind) for kind in row.dtypes
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
