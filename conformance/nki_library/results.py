"""Results of a run of nki-library's tests: the log, the table of known failures and the report."""

from __future__ import annotations

import fnmatch
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
FAILING = ("failed", "error", "timeout", "crashed", "collection error")
SKIPPED = ("skipped", "xfailed")
# What opentrn_plugin.py supplies at run time, said in every report.
SUPPLIED = (
    "test/utils: modules perf_analysis_private and scripts.remote_lock_scripts are imported but not "
    "published (empty stand-ins)",
    "test/utils/test_orchestrator.py: reads _compiled_kernel in simulation mode without setting it "
    "(set to None)",
    "core/attention/test_gen_mask_tkg.py: reads the input mask_out_hbm by a name that it gave the suffix "
    ".must_alias_input (the suffixed one is found)",
    "core/qkv/test_qkv_tkg.py: uses Platforms without importing it (made a builtin)",
    "test/utils/test_orchestrator.py: simulation mode runs one rank and resolves no per-rank inputs (tests with "
    "collective_ranks run on as many simulated ranks, several_ranks.py)",
    "OPENTRN_NKI_RELEASE=0.3, unless it is set: the suite's goldens quantise as nisa.quantize_mx did then",
)


@dataclass
class GroupResult:
    """Results of one group: test id -> record."""

    name: str
    tests: dict[str, dict] = field(default_factory=dict)
    seconds: float = 0.0  # wall time of this run, with collection

    def test_seconds(self) -> float:
        """Wall time of the tests themselves, also those of an earlier run that this one resumed."""
        return sum(record.get("seconds", 0.0) for record in self.tests.values())

    def cpu_seconds(self) -> float:
        """Processor time of the finished tests, without collection."""
        return sum(record.get("cpu_seconds", 0.0) for record in self.tests.values())

    def count(self, *outcomes: str) -> int:
        return sum(record["outcome"] in outcomes for record in self.tests.values())

    def counts(self) -> tuple[int, int, int]:
        """Passed, failed, skipped."""
        return self.count("passed"), self.count(*FAILING), self.count(*SKIPPED)


def read_log(log: Path) -> dict[str, dict]:
    """Test id -> its last record in a log of JSON lines; nothing if there is no such file."""
    tests = {}
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        entry = json.loads(line)
        tests[entry.pop("test")] = entry
    return tests


def known_failures() -> list[dict]:
    """The entries of the committed table."""
    with open(HERE / "known_failures.toml", "rb") as file:
        return tomllib.load(file).get("failure", [])


def entry_for(test: str, failure: str, target: str, known: list[dict]) -> dict | None:
    """The entry that says why `test` fails with the message `failure` on `target`, or None. First wins."""
    for entry in known:
        if matches(entry, test, target) and entry.get("message", "") in failure:
            return entry
    return None


def matches(entry: dict, test: str, target: str) -> bool:
    """Whether an entry of the table is about this test on this target."""
    if entry.get("target", target) != target:
        return False
    return any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns(entry))


def patterns(entry: dict) -> list[str]:
    """The entry's pattern, or one for each of its cases."""
    return [entry["pattern"].replace("{case}", case) for case in entry.get("cases", [""])]


def stale_entries(tests: dict[str, dict], target: str, known: list[dict]) -> list[str]:
    """Entries of the table that these results contradict, each with why.

    An entry without a message, or with cases, says that every test it matches fails; one with a message and a pattern
    for many, that at least one does.
    """
    stale = []
    for entry in known:
        ran = {
            test: record
            for test, record in tests.items()
            if record["outcome"] not in SKIPPED and matches(entry, test, target)
        }
        if not ran:
            continue
        failing = [
            t for t, r in ran.items() if r["outcome"] in FAILING and entry.get("message", "") in r["reason"]
        ]
        passing = [t for t, r in ran.items() if r["outcome"] == "passed"]
        if ("message" not in entry or "cases" in entry) and passing:
            stale.append(f"{entry['pattern']}: {len(passing)} of its tests pass, such as {passing[0]}")
        elif not failing:
            stale.append(f"{entry['pattern']}: none of the {len(ran)} tests that ran fails so")
    return stale


def report(
    results: list[GroupResult], target: str, repairs: list[str], backend: str, rounded: bool = False
) -> int:
    """Print the per-group table, failures and totals; `rounded`: with --round-goldens.

    Returns the number of failures without a known reason and of entries of the table that are not true.
    """
    known = [entry for entry in known_failures() if not (rounded and entry.get("rounding"))]
    print(f"\nnki-library on OpenTrn, target {target}, backend {backend}")
    for repair in repairs:
        print(f"  repaired in the copy: {repair}")
    for supplied in SUPPLIED:
        print(f"  supplied: {supplied}")
    _print_table(results)
    unknown = _print_failures(results, target, known)
    tests = {test: record for result in results for test, record in result.tests.items()}
    stale = stale_entries(tests, target, known)
    for line in stale:
        print(f"  no longer true in known_failures.toml: {line}")
    commits = Counter(r.get("commit", "") for r in tests.values() if r["outcome"] not in SKIPPED)
    print("\nOpenTrn commits (+ with changes): " + ", ".join(f"{c} ({n})" for c, n in commits.most_common()))
    print(
        f"{unknown} of the failures have no entry in known_failures.toml, {len(stale)} entries are not true"
    )
    passed, failed, skipped = (sum(counts) for counts in zip(*(r.counts() for r in results)))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return unknown + len(stale)


def _print_table(results: list[GroupResult]) -> None:
    """One line per group. The share is of the tests that the suite does not skip."""
    head = f"{'group':20} {'passed':>7} {'failed':>7} {'skipped':>8} {'share':>7} {'seconds':>8} {'cpu':>8}"
    print("\n" + head)
    for result in results:
        passed, failed, skipped = result.counts()
        share = f"{passed / (passed + failed):.1%}" if passed + failed else "-"
        print(
            f"{result.name:20} {passed:7} {failed:7} {skipped:8} {share:>7} "
            f"{result.test_seconds():8.0f} {result.cpu_seconds():8.0f}"
        )


def _print_failures(results: list[GroupResult], target: str, known: list[dict]) -> int:
    """Every failure by its reason; returns how many have none."""
    unknown = 0
    explained: Counter[str] = Counter()
    for result in results:
        for test, record in sorted(result.tests.items()):
            if record["outcome"] not in FAILING:
                continue
            entry = entry_for(test, record["reason"], target, known)
            if entry is not None:
                explained[entry["reason"]] += 1
                continue
            unknown += 1
            first_line = (record["reason"].strip().splitlines() or [""])[0][:200]
            print(f"  UNKNOWN {record['outcome']}: {test}\n      {first_line}")
    for reason, count in explained.most_common():
        print(f"  known, {count} tests: {reason}")
    return unknown
