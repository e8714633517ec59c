#!/usr/bin/env python3
"""Prove the example programs of microsoft/msccl-tools with OpenTrn's verifier, and compare with its own check.

    python conformance/msccl/run.py PATH [--filter TEXT] [--mutants N] [--seed S] [--json FILE]

PATH is a checkout of microsoft/msccl-tools. Each example program runs as it is; what it exports as XML goes through
OpenTrn's importer and verifier, and the verdict is compared with that of the program's own Check(). Then the program
runs again with one of its copies or reductions changed, N times each, and the two verdicts are compared again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import runpy
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROVED, FOUND = 0, 1  # statuses of opentrn_collectives_msccl

# Program -> arguments that it is run with.
EXAMPLES: dict[str, list[str]] = {
    "allgather_a100_pcie": ["4 1"],
    "allgather_allpairs": ["4 1", "8 2"],
    "allgather_recursive_doubling": ["4 1", "8 1"],
    "allgather_ring": ["4 1 1", "8 2 2"],
    "allreduce_1step": ["4 1", "8 1"],
    "allreduce_a100_allpairs": ["4 1", "8 1"],
    "allreduce_a100_allpairs_v2": ["8 1"],
    "allreduce_a100_multinode_allpairs": ["4 1"],
    "allreduce_a100_ncv4": ["8 1"],
    "allreduce_a100_ncv4_v2": ["8 1"],
    "allreduce_a100_pcie_hierarchical": ["4 1", "8 1"],
    "allreduce_a100_recursive_doubling_halving": ["1 1", "2 1"],
    "allreduce_a100_ring": ["4 1 1", "8 2 2"],
    "allreduce_binomial_tree": ["4 1 1", "8 2 1"],
    "allreduce_dgx1": ["2 1"],
    "allreduce_ndv2": ["1"],
    "allreduce_recursive_doubling_halving": ["4 1", "8 2"],
    "alltoall_a100_three_step": ["2 3 1", "3 4 1"],
    "alltoall_a100_two_step": ["2 3", "3 4"],
    "alltoall_allpairs": ["4 1", "8 2"],
    "alltonext_backward": ["2 1"],
    "alltonext_forward": ["2 1"],
    "hierarchical_allreduce": ["2 2 1", "4 2 1"],
    "pipeline_a100_allpairs": ["4 1"],
    "pipeline_a100_ring": ["4 1 1"],
    "simple/allgather_ring": ["4 1"],
    "simple/allreduce_ring": ["4 1", "8 2"],
}
# Why some are not run: their operation is none of ours.
NOT_RUN = {
    "reducegather": "its collective reduces groups of chunks, which no operation here does",
    "simple/custom_collective": "its collective moves single chunks between chosen ranks",
}
# pipeline_*: programs of which MSCCL-tools' authors have switched Check() off.
KINDS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllToAll": "all_to_all",
    "Pipeline": "permute",
}
CHANGES = {
    "copy": ["lost", "twice", "other chunk", "other rank"],
    "reduce": ["lost", "twice", "other chunk"],
}


@dataclass
class Outcome:
    """One program, whole or with something changed."""

    name: str
    change: str
    check: bool | None  # of MSCCL-tools; None: it could not be built
    proved: bool | None
    text: str = ""

    @property
    def agrees(self) -> bool:
        """Whether both say the same, or MSCCL-tools does not build the program at all."""
        return self.check is None or self.check == self.proved


@dataclass
class Change:
    """The copy or reduction to be changed, and how."""

    at: int = -1
    kind: str = ""
    seen: int = 0
    kinds: list[str] = field(default_factory=list)  # "copy" or "reduce", of each call

    def is_now(self, call: str) -> bool:
        """Counts a call; whether it is the one to be changed."""
        self.kinds.append(call)
        self.seen += 1
        return self.seen - 1 == self.at


@contextlib.contextmanager
def changed_programs(language: Any, change: Change) -> Iterator[list[tuple[Any, Any]]]:
    """Ref.copy() and Ref.reduce() with the change; what a program would print and check is collected instead."""
    ref = language.Ref
    copy, reduce = ref.copy, ref.reduce
    programs: list[tuple[Any, Any]] = []

    def changed_copy(self: Any, dst: int, *arguments: Any, **named: Any) -> Any:
        if not change.is_now("copy"):
            return copy(self, dst, *arguments, **named)
        if change.kind == "lost":
            return self
        if change.kind == "twice":
            copy(self, dst, *arguments, **named)
        elif change.kind == "other rank":
            dst = (dst + 1) % self.prog.num_ranks
        elif change.kind == "other chunk" and named.get("index", -1) > 0:
            named["index"] -= 1
        return copy(self, dst, *arguments, **named)

    def changed_reduce(self: Any, other: Any, *arguments: Any, **named: Any) -> Any:
        if not change.is_now("reduce"):
            return reduce(self, other, *arguments, **named)
        if change.kind == "lost":
            return self
        if change.kind == "twice":
            reduce(self, other, *arguments, **named)
        elif change.kind == "other chunk" and other.index > 0:
            other = self.prog.get_ref(other.rank, other.buffer, other.index - 1, other.size)
        return reduce(self, other, *arguments, **named)

    def collect() -> None:
        program = language._curr()
        if program not in [known for known, _ in programs]:
            programs.append((program, program.check()))

    saved = {name: getattr(language, name) for name in ("XML", "Check")}
    ref.copy, ref.reduce = changed_copy, changed_reduce
    language.XML = language.Check = collect
    try:
        yield programs
    finally:
        ref.copy, ref.reduce = copy, reduce
        for name, value in saved.items():
            setattr(language, name, value)
        language._current_program = None


def run_example(path: Path, arguments: str, change: Change) -> list[tuple[str, bool, list[str]]]:
    """(XML, what Check() says, KIND RANKS CHUNKS SHIFT) of each program of an example."""
    import msccl.language as language

    argv = sys.argv
    sys.argv = [str(path), *arguments.split()]
    results = []
    try:
        with changed_programs(language, change) as programs, contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(path), run_name="__main__")
            for program, verdict in programs:
                results.append((program.generate_xml(), bool(verdict), request_of(program, path.stem)))
    finally:
        sys.argv = argv
    return results


def request_of(program: Any, name: str) -> list[str]:
    """What a program is to compute: its own words, as arguments of opentrn_collectives_msccl."""
    collective = program.collective
    kind = KINDS[type(collective).__name__]
    chunks = collective.chunk_factor * program.instances
    if kind in ("reduce_scatter", "all_to_all"):
        chunks *= collective.num_ranks
    return [kind, str(collective.num_ranks), str(chunks), "-1" if name.endswith("backward") else "1"]


def verdict_of(program: Path, xml: str, request: list[str]) -> tuple[bool, str]:
    """Whether OpenTrn proves it, and what it says otherwise."""
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(xml)
        file.flush()
        done = subprocess.run([program, file.name, *request], capture_output=True, text=True, check=False)
    if done.returncode not in (PROVED, FOUND):
        return False, done.stdout + done.stderr
    return done.returncode == PROVED, done.stdout


def outcomes(
    path: Path, name: str, arguments: str, mutants: int, rng: random.Random, program: Path
) -> Iterator[Outcome]:
    """The example as it is, then `mutants` times with a change."""
    whole = Change()
    yield from _outcomes(path, f"{name} {arguments}", arguments, whole, program)
    for _ in range(mutants if whole.seen else 0):
        at = rng.randrange(whole.seen)
        yield from _outcomes(
            path, f"{name} {arguments}", arguments, Change(at, rng.choice(CHANGES[whole.kinds[at]])), program
        )


def _outcomes(path: Path, name: str, arguments: str, change: Change, program: Path) -> Iterator[Outcome]:
    what = f"{change.kind}, call {change.at}" if change.kind else ""
    try:
        results = run_example(path, arguments, change)
    except Exception as error:  # the example's own assertions, of any class
        yield Outcome(name, what, None, None, f"{type(error).__name__}: {error}")
        return
    for xml, check, request in results:
        proved, text = verdict_of(program, xml, request)
        yield Outcome(name, what, check, proved, text)


def main(argv: list[str] | None = None) -> int:
    """0 when all verdicts agree."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--filter", default="", help="only examples whose name has this text")
    parser.add_argument("--mutants", type=int, default=20, help="changed programs of each example")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="every outcome, as JSON")
    options = parser.parse_args(argv)
    program = Path(
        os.environ.get("OPENTRN_MSCCL_BINARY", ROOT / "build/src/collectives/opentrn_collectives_msccl")
    )
    if not program.exists():
        print(
            f"msccl: {program} is missing; ./dev build makes it where libpugixml-dev is installed",
            file=sys.stderr,
        )
        return 2
    sys.path.insert(0, str(options.path.resolve()))
    all_outcomes: list[Outcome] = []
    for name, calls in EXAMPLES.items():
        if options.filter not in name:
            continue
        rng = random.Random(f"{options.seed} {name}")
        for arguments in calls:
            path = options.path / "examples" / "mscclang" / f"{name}.py"
            all_outcomes += outcomes(path, name, arguments, options.mutants, rng, program)
    return report(all_outcomes, options.json)


def _verdict(one: Outcome) -> str:
    if one.check is None:
        return "not built by MSCCL-tools"
    if not one.agrees:
        return "judged differently"
    return f"both say {'right' if one.check else 'wrong'}"


def report(found: list[Outcome], file: Path | None) -> int:
    """Prints counts and disagreements; writes all of it to `file`."""
    for one in found:
        if not one.agrees:
            said = f"Check() says {one.check}, OpenTrn {one.proved}"
            print(f"{one.name} ({one.change or 'as it is'}): {said}\n  {one.text}")
    for title, changed in (("programs", False), ("changed programs", True)):
        counts = Counter(_verdict(one) for one in found if bool(one.change) == changed)
        print(f"{title}: " + ", ".join(f"{number} {text}" for text, number in sorted(counts.items())))
    if file:
        file.write_text(json.dumps([asdict(one) for one in found], indent=1))
    return 0 if all(one.agrees for one in found) and found else 1


if __name__ == "__main__":
    sys.exit(main())
