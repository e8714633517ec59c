"""Fuzzing for hours of processor time, every target its even share: what `./dev fuzz --cpu-minutes N` runs.

    python -m tests.fuzz.campaign --cpu-minutes N [--target TARGET ...] [--seed S] [--slice-seconds N]
        [--nice N]
    python -m tests.fuzz.campaign --report
    python -m tests.fuzz.campaign --record

The target that has had the least processor time so far runs next, for a slice, at the lowest priority (--nice says
another), with a new seed. A line for every slice (when, commit, target, seed, processor seconds, cases, status) is
appended to out/fuzz/slices.tsv, from which a later run goes on; what a slice of status other than 0 said is left in
out/fuzz. Status 0: no slice found anything. 1: one did.

--record adds the ledger up, by commit and target, in docs/measurements/fuzzing.tsv, which is committed and which later
campaigns on any machine count, and empties it.

Targets: those of `opentrn_fuzz --targets`; `kernels`, `tools` and `jax`, written in Python; `guided:NAME`, libFuzzer's,
where `./dev fuzz --coverage-guided` has built them.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.__main__ import ROOT, fuzz_binary

FOLDER = ROOT / "out" / "fuzz"
RECORD = ROOT / "docs" / "measurements" / "fuzzing.tsv"
# Status of a slice that was ended from outside.
_ENDED = (-signal.SIGINT, -signal.SIGTERM)
HEAD = "when\tcommit\ttarget\tseed\tcpu_s\tcases\tstatus\n"
RECORD_HEAD = "date\tcommit\ttarget\tcpu_s\tcases\tfindings\n"
GUIDED = ROOT / "build-fuzz"
_IN_PYTHON = ("kernels", "tools", "jax")  # of tests.fuzz.fuzz_NAME
NICEST = 19
FAILURES_MAX = 10  # of one target in one run: it is left then, as what fails at once would be run without end
# libFuzzer's limits; those of one file are in coverage_guided.cc (of processor time) and far behind here.
GUIDED_LIMITS = ("-timeout=400", "-rss_limit_mb=2048", "-max_len=65536", "-print_final_stats=1")


@dataclass(frozen=True)
class Slice:
    """A line of the ledger: one run of one target."""

    when: str
    commit: str
    target: str
    seed: int
    cpu_s: float
    cases: int
    status: int

    def line(self) -> str:
        words = (self.when, self.commit, self.target, self.seed, f"{self.cpu_s:.2f}", self.cases, self.status)
        return "\t".join(map(str, words)) + "\n"

    @property
    def findings(self) -> int:
        return int(self.status != 0)


@dataclass(frozen=True)
class Recorded:
    """A line of the record: all slices of one target at one commit."""

    date: str  # of the last one
    commit: str
    target: str
    cpu_s: float
    cases: int
    findings: int

    def line(self) -> str:
        words = (self.date, self.commit, self.target, f"{self.cpu_s:.2f}", self.cases, self.findings)
        return "\t".join(map(str, words)) + "\n"


def read(ledger: Path) -> list[Slice]:
    """The slices of a ledger, none where there is no such file."""
    if not ledger.exists():
        return []
    lines = [line.split("\t") for line in ledger.read_text().splitlines()[1:]]
    return [Slice(w, c, t, int(seed), float(cpu), int(cases), int(rc)) for w, c, t, seed, cpu, cases, rc in lines]


def read_record(path: Path) -> list[Recorded]:
    """The lines of a record, none where there is no such file."""
    if not path.exists():
        return []
    lines = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    return [Recorded(d, c, t, float(cpu), int(cases), int(found)) for d, c, t, cpu, cases, found in lines]


def record(ledger: Path, path: Path) -> int:
    """Adds a ledger's slices to the record and empties the ledger; how many there were."""
    slices = read(ledger)
    sums = {(each.commit, each.target): each for each in read_record(path)}
    for each in slices:
        key = each.commit, each.target
        before = sums.get(key, Recorded("", *key, 0, 0, 0))
        sums[key] = Recorded(
            each.when[:10],
            *key,
            before.cpu_s + each.cpu_s,
            before.cases + each.cases,
            before.findings + each.findings,
        )
    path.write_text(RECORD_HEAD + "".join(each.line() for each in sums.values()))
    ledger.unlink(missing_ok=True)
    return len(slices)


def spent(slices: Iterable[Slice | Recorded], targets: Iterable[str]) -> dict[str, float]:
    """Processor seconds that each target has had."""
    seconds = dict.fromkeys(targets, 0.0)
    for each in slices:
        if each.target in seconds:
            seconds[each.target] += each.cpu_s
    return seconds


def all_targets() -> list[str]:
    """The names of all targets that can run here."""
    listed = subprocess.run([fuzz_binary(), "--targets"], capture_output=True, text=True, check=True).stdout.split()
    programs = sorted((GUIDED / "tests" / "fuzz").glob("opentrn_fuzz_*"))
    guided = [f"guided:{path.name.removeprefix('opentrn_fuzz_')}" for path in programs if os.access(path, os.X_OK)]
    return [*listed, *_IN_PYTHON, *guided]


def command(target: str, seed: int, seconds: float) -> list[str]:
    """What runs a target for this long: processor time, but for libFuzzer, which has a clock of wall time."""
    budget = ["--cpu-seconds", str(seconds), "--seed", str(seed)]
    if target in _IN_PYTHON:
        return [sys.executable, "-m", f"tests.fuzz.fuzz_{target}", *budget]
    if not target.startswith("guided:"):
        return [str(fuzz_binary()), "--only", target, *budget]
    name = target.partition(":")[2]
    found = GUIDED / "found"
    found.mkdir(exist_ok=True)
    limits = [f"-max_total_time={max(1, round(seconds))}", f"-seed={seed % (1 << 31)}"]
    program, corpus = GUIDED / "tests" / "fuzz" / f"opentrn_fuzz_{name}", GUIDED / "corpus" / name
    return [str(program), *GUIDED_LIMITS, *limits, f"-artifact_prefix={found}/{name}-", str(corpus)]


def cases_of(said: str) -> int:
    """How many cases a run says that it had; 0 where it did not come to that."""
    if units := re.search(r"stat::number_of_executed_units: (\d+)", said):
        return int(units[1])
    told = [line for line in said.splitlines() if line.startswith("fuzz") and "none failed" in line]
    # "fuzz: seed 7: 12 text 0 file ... cases in 3 CPU s", "fuzz_kernels: seed 7: 5 kernels executed alike, 2 refused"
    return sum(int(n) for line in told for n in re.findall(r"(\d+) (?!CPU)[a-z]", line.partition("seed ")[2]))


def commit() -> str:
    """The checkout's commit, with a + where a file of it was changed."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if git("status", "--porcelain", "-uno") else "")


def run_slice(target: str, seed: int, seconds: float, at: str) -> tuple[Slice, str]:
    """Runs a slice; its line, and what it said."""
    with tempfile.TemporaryFile(mode="w+", errors="replace") as said:
        child = subprocess.Popen(command(target, seed, seconds), stdout=said, stderr=subprocess.STDOUT, cwd=ROOT)
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:  # Ctrl-C, SIGTERM: what has not ended does not count
            child.kill()
            child.wait()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    cpu = usage.ru_utime + usage.ru_stime
    return Slice(when, at, target, seed, cpu, cases_of(text), child.returncode), text


def table(slices: Sequence[Slice | Recorded], targets: list[str]) -> str:
    """Processor minutes, cases and findings of each target, with the commits that it ran at."""
    rows = [f"{'target':<16}{'CPU min':>9}{'cases':>11}{'findings':>10}  commits"]
    for name in targets:
        of = [each for each in slices if each.target == name]
        commits = ", ".join(dict.fromkeys(each.commit for each in of)) or "-"
        minutes, failed = sum(each.cpu_s for each in of) / 60, sum(each.findings for each in of)
        rows.append(f"{name:<16}{minutes:9.1f}{sum(each.cases for each in of):11}{failed:10}  {commits}")
    return "\n".join(rows)


def campaign(
    targets: list[str],
    cpu_minutes: float,
    seed: int,
    slice_seconds: float,
    folder: Path,
    recorded: Sequence[Recorded] = (),
) -> int:
    """Slices until every target has had its minutes, earlier runs counted; the number of slices that failed."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger = folder / "slices.tsv"
    if not ledger.exists():
        ledger.write_text(HEAD)
    slices, failed, at = read(ledger), dict.fromkeys(targets, 0), commit()
    while True:
        seconds = spent([*recorded, *slices], [name for name in targets if failed[name] < FAILURES_MAX])
        target = min(seconds, key=lambda name: seconds[name], default="")
        left = cpu_minutes * 60 - seconds.get(target, 0.0)
        if not target or left <= 0:
            return sum(failed.values())
        # Every slice of a ledger has another seed.
        done, said = run_slice(target, seed + len(slices), min(slice_seconds, left), at)
        if done.status in _ENDED:  # by somebody, who ends the campaign with it: neither a finding nor processor time
            print(f"fuzz: {target} was ended by {signal.Signals(-done.status).name}; this slice is not counted")
            return sum(failed.values())
        slices.append(done)
        with ledger.open("a") as file:
            file.write(done.line())
        if done.status != 0:
            failed[target] += 1
            log = folder / f"{target.replace(':', '-')}-{done.seed}.log"
            log.write_text(said)
            print(f"fuzz: {target}, seed {done.seed}: status {done.status}; {log} has what it said", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cpu-minutes", type=float, default=30, help="of each target, with earlier runs (default: 30)")
    parser.add_argument("--target", action="append", help="which, again for more (default: all that are built)")
    parser.add_argument("--seed", type=int, help="of the first slice (default: new)")
    parser.add_argument("--slice-seconds", type=float, default=20, help="of one run (default: 20)")
    parser.add_argument(
        "--nice",
        type=int,
        default=NICEST,
        help="of what runs: 19 takes what others leave, 0 a share as others do (default: 19)",
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the ledger (default: out/fuzz)")
    parser.add_argument("--report", action="store_true", help="run nothing: what record and ledger have")
    parser.add_argument("--record", action="store_true", help=f"run nothing: add the ledger to {RECORD.name}")
    options = parser.parse_args()
    known = all_targets()
    targets = options.target or known
    if unknown := sorted({*targets} - {*known}):
        print(f"fuzz: there is no target {unknown[0]}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    if not -20 <= options.nice <= NICEST:
        print(f"fuzz: --nice is from -20 to {NICEST}, not {options.nice}", file=sys.stderr)
        return 2
    ledger = options.folder / "slices.tsv"
    if options.record:
        print(f"fuzz: {record(ledger, RECORD)} slices are in {RECORD.relative_to(ROOT)} now")
        return 0
    recorded = read_record(RECORD)
    if options.report:
        print(table([*recorded, *read(ledger)], targets))
        return 0
    try:
        os.setpriority(os.PRIO_PROCESS, 0, options.nice)
    except PermissionError:
        print(f"fuzz: --nice {options.nice} needs the rights of root here; try --nice 0 or more", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    seed = secrets.randbelow(1 << 30) if options.seed is None else options.seed
    try:
        failed = campaign(targets, options.cpu_minutes, seed, options.slice_seconds, options.folder, recorded)
    except KeyboardInterrupt:
        return 130
    finally:
        print(table([*recorded, *read(ledger)], targets), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
