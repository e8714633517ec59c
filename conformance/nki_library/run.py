#!/usr/bin/env python3
"""Run a checkout of aws-neuron/nki-library's own tests on OpenTrn.

    python conformance/nki_library/run.py PATH [options] [pytest arguments]

Nothing is downloaded but the packages in requirements.txt (with --install). The checkout is copied to a
temporary folder and never written. A Python file of it that does not even parse is repaired in the copy from
its git history (`repair`); the report names each. Tests run unmodified in the
suite's simulation mode, each in a process of its own: one that hangs or crashes fails alone.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYTHON_ROOT = ROOT / "python"
if str(ROOT) not in sys.path:  # started as a file
    sys.path.insert(0, str(ROOT))

from conformance.nki_library.results import FAILING, GroupResult, read_log, report  # noqa: E402

TESTS = Path("test/integration/nkilib")
KEEP_FREED_MEMORY = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1000000000000:glibc.malloc.hugetlb=1"
# Group name -> paths below test/integration/nkilib, small and fast ones first.
RELEASE = "0.3"  # of NKI, for which d2ad3a5 is written (four days after SDK 2.29, which brought it)
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
    "conv": ["experimental/conv"],
    "cross_entropy": ["experimental/loss"],
    "dynamic_shapes": ["experimental/dynamic_shapes"],
    "experimental_moe": ["experimental/moe"],
    "experimental_small": [
        "experimental/benchmark",
        "experimental/mxfp_subkernels",
        "experimental/subkernels",
    ],
    # Of several ranks.
    "collectives": ["experimental/collectives"],
    "transformer": ["experimental/transformer"],
}


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
    parser.add_argument("--timeout", type=float, default=300.0, help="processor seconds for one test")
    parser.add_argument("--limit", type=int, default=0, help="stop each group after this many tests (0: all)")
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        help="only so many cases of every test function, evenly spaced (0: all)",
    )
    parser.add_argument(
        "--resume", type=Path, help="folder of results: a test with a result there is not run again"
    )
    parser.add_argument(
        "--again",
        default="",
        choices=["", "failed", "slow"],
        help="with --resume: run tests that failed (failed), or only ran out of time (slow), once more",
    )
    parser.add_argument(
        "--round-goldens",
        action="store_true",
        help="moe_block: round the reference's normalised tokens to the type in which the kernel routes them",
    )
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
        if not parses(path.read_text(encoding="utf-8")):
            name = path.relative_to(target).as_posix()
            repairs.append(f"{name}: does not parse; {repair(checkout, name, path)}")
    return repairs


def parses(source: str) -> bool:
    try:
        compile(source, "<checkout>", "exec")
    except SyntaxError:
        return False
    return True


def repair(checkout: Path, name: str, path: Path) -> str:
    """Make the file at `path` parse with the help of its git history; says how.

    First choice is the file as it is, less one of its changes since the newest committed version that parses;
    else that version.
    """
    broken = path.read_text(encoding="utf-8")
    log = git(checkout, "log", "--format=%h", "--", name) or b""
    for commit in log.decode().split():
        committed = git(checkout, "show", f"{commit}:{name}")
        if committed is None or not parses(old := committed.decode()):
            continue
        without = without_one_change(old.splitlines(True), broken.splitlines(True))
        path.write_text(old if without is None else without[0], encoding="utf-8")
        return (
            f"taken from {commit}" if without is None else f"{without[1]}, a change since {commit}, left out"
        )
    return "no version parses"


def without_one_change(old: list[str], new: list[str]) -> tuple[str, str] | None:
    """The new source less the first single change that keeps it from parsing, and which; None if none does."""
    changes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for kind, old_start, old_end, new_start, new_end in changes:
        source = "".join(new[:new_start] + old[old_start:old_end] + new[new_end:])
        if kind != "equal" and parses(source):
            return source, f"lines {new_start + 1} to {new_end}"
    return None


def git(checkout: Path, *arguments: str) -> bytes | None:
    done = subprocess.run(["git", "-C", str(checkout), *arguments], capture_output=True)
    return done.stdout if done.returncode == 0 else None


def environment(copy: Path, logs: Path, log: Path, name: str, options: argparse.Namespace) -> dict[str, str]:
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(map(str, (HERE, PYTHON_ROOT, copy / "src", copy)))
    env["OPENTRN_CONFORMANCE_LOG"] = str(log)
    env["OPENTRN_CONFORMANCE_COMMIT"] = opentrn_commit()
    env["OPENTRN_CONFORMANCE_OUTPUT"] = str(logs / f"{name}.failed")
    env["OPENTRN_CONFORMANCE_JOBS"] = str(options.jobs)
    env["OPENTRN_CONFORMANCE_TIMEOUT"] = str(options.timeout)
    env["OPENTRN_CONFORMANCE_LIMIT"] = str(options.limit)
    env["OPENTRN_CONFORMANCE_SAMPLE"] = str(options.sample)
    env["OPENTRN_CONFORMANCE_NOT"] = "trn2" if options.only_new else ""
    env["OPENTRN_CONFORMANCE_ROUND"] = "1" if options.round_goldens else ""
    if options.backend:
        env["OPENTRN_NKI_BACKEND"] = options.backend
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        env.setdefault(variable, "1")
    # Tests make and drop arrays of gigabytes. Freed memory is kept in the process and mapped by huge pages:
    # else most of the time of the largest tests is the kernel's, for page faults.
    env.setdefault("GLIBC_TUNABLES", KEEP_FREED_MEMORY)
    env.setdefault("OPENTRN_NKI_RELEASE", RELEASE)
    # Fixed test selection: the suite samples shapes at collection time.
    env.setdefault("PYTHONHASHSEED", "0")
    env.setdefault("NEURON_PYTHONHASHSEED", "0")
    return env


def opentrn_commit() -> str:
    """The commit of this OpenTrn, with a + if its files were changed since."""
    commit = (git(ROOT, "rev-parse", "--short", "HEAD") or b"unknown").decode().strip()
    return commit + ("+" if git(ROOT, "status", "--porcelain", "-uno") else "")


def log_of(name: str, logs: Path, options: argparse.Namespace) -> Path:
    """The result log of a group: in the --resume folder, less the results that --again asks for anew."""
    if options.resume is None:
        return logs / f"{name}.jsonl"
    large = ".all" if os.environ.get("NKILIB_SIMULATION_RUN_ALL") == "1" else ""
    log = options.resume / f"{name}.{options.platform_target}{large}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    again = {"failed": FAILING, "slow": ("timeout",), "": ()}[options.again]
    kept = {test: entry for test, entry in read_log(log).items() if entry["outcome"] not in again}
    log.write_text("".join(json.dumps({"test": test, **entry}) + "\n" for test, entry in kept.items()))
    return log


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
    log = log_of(name, logs, options)
    with open(logs / f"{name}.out", "wb") as output:
        done = subprocess.run(
            command, cwd=copy, env=environment(copy, logs, log, name, options), stdout=output, stderr=output
        )
    result.seconds = time.monotonic() - start
    result.tests = read_log(log)
    if done.returncode not in (0, 1, 5):  # passed, failed, nothing collected
        tail = (logs / f"{name}.out").read_text(errors="replace")[-1500:]
        reason = f"pytest ended with code {done.returncode}: {tail}"
        result.tests[f"{name} (whole group)"] = {"outcome": "crashed", "seconds": 0.0, "reason": reason}
    shutil.rmtree(logs / f"{name}.artifacts", ignore_errors=True)
    return result


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
        if options.round_goldens:
            repairs.append("core/moe_block: the golden rounds the normalised tokens as the kernel does")
        results = []
        for name in names:
            result = run_group(name, copy, logs, options, pytest_arguments)
            print(
                f"{name}: {result.count('passed')} passed, {result.count(*FAILING)} failed, "
                f"{result.count('skipped', 'xfailed')} skipped in {result.seconds:.0f} s",
                flush=True,
            )
            results.append(result)
        unknown_count = report(results, options.platform_target, repairs, backend, options.round_goldens)
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
