#!/usr/bin/env python3
"""Run a checkout of aws-neuron/nki-library's own tests on OpenTrn.

    python conformance/nki_library/run.py PATH [options] [pytest arguments]

Nothing is downloaded but the packages in requirements.txt (with --install). The checkout is copied to a
temporary folder and never written. A Python file of it that does not even parse is replaced, in the copy,
by the newest version in its git history that does; the report names each. Tests run unmodified in the
suite's simulation mode, each in a process of its own: one that hangs or crashes fails alone.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
PYTHON_ROOT = HERE.parent.parent / "python"
TESTS = Path("test/integration/nkilib")
# What opentrn_plugin.py supplies at run time, said in every report.
SUPPLIED = (
    "test/utils: modules perf_analysis_private and scripts.remote_lock_scripts are imported but not "
    "published (empty stand-ins)",
    "test/utils/test_orchestrator.py: reads _compiled_kernel in simulation mode without setting it "
    "(set to None)",
    "core/qkv/test_qkv_tkg.py: uses Platforms without importing it (made a builtin)",
)
FAILING = ("failed", "error", "timeout", "crashed", "collection error")

# Group name -> paths below test/integration/nkilib, small and fast ones first.
GROUPS: dict[str, list[str]] = {
    "cumsum": ["core/cumsum"],
    "rope": ["core/embeddings/test_rope.py"],
    "rope_hf": ["core/embeddings/test_rope_hf.py"],
    "max": ["core/max"],
    "rmsnorm": ["core/rmsnorm"],
    "topk": ["core/topk"],
    "router_topk": ["core/router_topk"],
    "utils": ["core/utils"],
    "subkernels": ["core/subkernels"],
    "gen_mask": ["core/attention/test_gen_mask_tkg.py"],
    "output_projection": ["core/output_projection"],
    "mlp": ["core/mlp"],
    "qkv": ["core/qkv"],
    "attention_cte": ["core/attention/test_attention_cte.py"],
    "attention_tkg": ["core/attention/test_attention_tkg.py"],
    "attention_bwd": ["core/attention/test_attention_bwd.py"],
    "moe": ["core/moe"],
    "moe_block": ["core/moe_block"],
    "experimental": ["experimental"],
}


@dataclass
class GroupResult:
    """Results of one group: test id -> record."""

    name: str
    tests: dict[str, dict] = field(default_factory=dict)
    seconds: float = 0.0

    def cpu_seconds(self) -> float:
        """Processor time of the finished tests, without collection."""
        return sum(record.get("cpu_seconds", 0.0) for record in self.tests.values())

    def count(self, *outcomes: str) -> int:
        return sum(record["outcome"] in outcomes for record in self.tests.values())


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of aws-neuron/nki-library")
    parser.add_argument("--groups", default="", help=f"comma-separated, default all: {','.join(GROUPS)}")
    parser.add_argument("--platform-target", default="trn2", choices=["trn1", "trn2", "trn3"])
    parser.add_argument(
        "--only-new", action="store_true", help="with trn3: only tests that do not run on trn2"
    )
    parser.add_argument(
        "--backend", default="", choices=["", "core", "oracle"], help="default: OpenTrn's own choice"
    )
    parser.add_argument("--jobs", type=int, default=2, help="tests that run at once")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one test")
    parser.add_argument("--limit", type=int, default=0, help="stop each group after this many tests (0: all)")
    parser.add_argument("--json", type=Path, help="write every result here")
    parser.add_argument("--install", action="store_true", help="pip install requirements.txt first")
    parser.add_argument("--keep", action="store_true", help="keep the temporary copy and the logs")
    return parser.parse_known_args()


def copy_checkout(checkout: Path, target: Path) -> list[str]:
    """Copy src and test, and repair files that do not parse. Returns what was repaired, for the report."""
    for folder in ("src", "test"):
        shutil.copytree(checkout / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    repairs = []
    for path in sorted((target / "src").rglob("*.py")):
        if parses(path.read_bytes()):
            continue
        name = path.relative_to(target).as_posix()
        commit = newest_parsing_version(checkout, name, path)
        repairs.append(
            f"{name}: does not parse; " + (f"taken from {commit}" if commit else "no version parses")
        )
    return repairs


def parses(source: bytes) -> bool:
    try:
        compile(source, "<checkout>", "exec")
    except SyntaxError:
        return False
    return True


def newest_parsing_version(checkout: Path, name: str, destination: Path) -> str | None:
    """Write the newest committed version of `name` that parses to `destination`; its commit, or None."""
    log = git(checkout, "log", "--format=%h", "--", name)
    for commit in (log or b"").decode().split():
        source = git(checkout, "show", f"{commit}:{name}")
        if source is not None and parses(source):
            destination.write_bytes(source)
            return commit
    return None


def git(checkout: Path, *arguments: str) -> bytes | None:
    done = subprocess.run(["git", "-C", str(checkout), *arguments], capture_output=True)
    return done.stdout if done.returncode == 0 else None


def environment(copy: Path, logs: Path, name: str, options: argparse.Namespace) -> dict[str, str]:
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(map(str, (HERE, PYTHON_ROOT, copy / "src", copy)))
    env["OPENTRN_CONFORMANCE_LOG"] = str(logs / f"{name}.jsonl")
    env["OPENTRN_CONFORMANCE_OUTPUT"] = str(logs / f"{name}.failed")
    env["OPENTRN_CONFORMANCE_JOBS"] = str(options.jobs)
    env["OPENTRN_CONFORMANCE_TIMEOUT"] = str(options.timeout)
    env["OPENTRN_CONFORMANCE_LIMIT"] = str(options.limit)
    env["OPENTRN_CONFORMANCE_NOT"] = "trn2" if options.only_new else ""
    if options.backend:
        env["OPENTRN_NKI_BACKEND"] = options.backend
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        env.setdefault(variable, "1")
    # Fixed test selection: the suite samples shapes at collection time.
    env.setdefault("PYTHONHASHSEED", "0")
    env.setdefault("NEURON_PYTHONHASHSEED", "0")
    return env


def run_group(
    name: str, copy: Path, logs: Path, options: argparse.Namespace, pytest_arguments: list[str]
) -> GroupResult:
    """Run one group; opentrn_plugin.py forks its tests and writes the results."""
    result = GroupResult(name)
    paths = [str(TESTS / p) for p in GROUPS[name] if (copy / TESTS / p).exists()]
    if not paths:
        return result
    command = [
        sys.executable, "-m", "pytest", "-p", "opentrn_plugin", "-p", "no:cacheprovider", "-q", "-s",
        "--test-mode", "simulation", "--platform-target", options.platform_target,
        "--output-directory", str(logs / f"{name}.artifacts"), "--force-local-cleanup",
        "--continue-on-collection-errors", "--tb=short", *paths, *pytest_arguments,
    ]  # fmt: skip
    start = time.monotonic()
    with open(logs / f"{name}.out", "wb") as output:
        done = subprocess.run(
            command, cwd=copy, env=environment(copy, logs, name, options), stdout=output, stderr=output
        )
    result.seconds = time.monotonic() - start
    log = logs / f"{name}.jsonl"
    for line in log.read_text().splitlines() if log.exists() else ():
        entry = json.loads(line)
        result.tests[entry.pop("test")] = entry
    if done.returncode not in (0, 1, 5):  # passed, failed, nothing collected
        tail = (logs / f"{name}.out").read_text(errors="replace")[-1500:]
        reason = f"pytest ended with code {done.returncode}: {tail}"
        result.tests[f"{name} (whole group)"] = {"outcome": "crashed", "seconds": 0.0, "reason": reason}
    shutil.rmtree(logs / f"{name}.artifacts", ignore_errors=True)
    return result


def known_failures() -> list[dict]:
    with open(HERE / "known_failures.toml", "rb") as file:
        return tomllib.load(file).get("failure", [])


def reason_for(test: str, failure: str, target: str, known: list[dict]) -> str | None:
    """Why `test` is known to fail with the message `failure` on `target`, or None."""
    for entry in known:
        if (
            entry.get("target", target) == target
            and fnmatch.fnmatchcase(test, entry["pattern"])
            and entry.get("message", "") in failure
        ):
            return entry["reason"]
    return None


def report(results: list[GroupResult], target: str, repairs: list[str], backend: str) -> int:
    """Print the per-group table, failures and totals.

    Returns the number of failures without a known reason.
    """
    known = known_failures()
    print(f"\nnki-library on OpenTrn, target {target}, backend {backend}")
    for repair in repairs:
        print(f"  repaired in the copy: {repair}")
    for supplied in SUPPLIED:
        print(f"  supplied: {supplied}")
    print(f"\n{'group':20} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8} {'cpu':>8}")
    unknown = 0
    for result in results:
        failed = result.count(*FAILING)
        print(
            f"{result.name:20} {result.count('passed'):7} {failed:7} "
            f"{result.count('skipped', 'xfailed'):8} {result.seconds:8.0f} {result.cpu_seconds():8.0f}"
        )
    explained: Counter[str] = Counter()
    for result in results:
        for test, record in sorted(result.tests.items()):
            if record["outcome"] not in FAILING:
                continue
            reason = reason_for(test, record["reason"], target, known)
            if reason is not None:
                explained[reason] += 1
                continue
            unknown += 1
            first_line = (record["reason"].strip().splitlines() or [""])[0][:200]
            print(f"  UNKNOWN {record['outcome']}: {test}\n      {first_line}")
    for reason, count in explained.most_common():
        print(f"  known, {count} tests: {reason}")
    passed, failed = (sum(r.count(*o) for r in results) for o in (("passed",), FAILING))
    skipped = sum(r.count("skipped", "xfailed") for r in results)
    print(f"\n{unknown} of the failures have no entry in known_failures.toml")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return unknown


def backend_name(options: argparse.Namespace) -> str:
    code = "import opentrn.nki._machine as m; print(m.backend().name)"
    env = dict(os.environ, PYTHONPATH=str(PYTHON_ROOT))
    if options.backend:
        env["OPENTRN_NKI_BACKEND"] = options.backend
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"opentrn.nki cannot be imported:\n{done.stderr}")
    return done.stdout.strip()


def main() -> int:
    options, pytest_arguments = parse_arguments()
    checkout = options.checkout.resolve()
    if not (checkout / TESTS).is_dir():
        raise SystemExit(f"{checkout} holds no {TESTS}: give a checkout of aws-neuron/nki-library")
    if options.install:
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "-r", str(HERE / "requirements.txt")], check=True
        )
    names = [n for n in options.groups.split(",") if n] or list(GROUPS)
    if unknown := sorted(set(names) - set(GROUPS)):
        raise SystemExit(f"unknown groups {', '.join(unknown)}; known: {', '.join(GROUPS)}")
    backend = backend_name(options)
    work = Path(tempfile.mkdtemp(prefix="opentrn-nki-library-"))
    copy, logs = work / "checkout", work / "logs"
    logs.mkdir()
    try:
        repairs = copy_checkout(checkout, copy)
        results = []
        for name in names:
            result = run_group(name, copy, logs, options, pytest_arguments)
            print(
                f"{name}: {result.count('passed')} passed, {result.count(*FAILING)} failed, "
                f"{result.count('skipped', 'xfailed')} skipped in {result.seconds:.0f} s",
                flush=True,
            )
            results.append(result)
        unknown_count = report(results, options.platform_target, repairs, backend)
        if options.json:
            commit = (git(checkout, "rev-parse", "HEAD") or b"unknown").decode().strip()
            payload = {
                "checkout": commit,
                "target": options.platform_target,
                "backend": backend,
                "repairs": repairs,
                "groups": {r.name: {"seconds": round(r.seconds, 1), "tests": r.tests} for r in results},
            }
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(payload, indent=1) + "\n")
        return 1 if unknown_count else 0
    finally:
        if options.keep:
            print(f"logs and copy kept in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
