"""JAX's primitive harnesses (jax/_src/internal_test_util, part of its wheel) on the platform `neuron`.

    ./dev conformance jax-harnesses [--only NAME ...] [--jobs N] [--json FILE] [--resume FILE]

Each harness is one use of one primitive: a function and how to draw its arguments. It is compiled by `jax.jit` on
`neuron` with nothing left to the host, and on JAX's CPU, and the results are compared. A process that dies is a failed
harness; the rest go on in another. With --resume every outcome is written to FILE as it comes, and a run that was cut
off goes on with what FILE has not; a FILE of another build is refused.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Types that no device has.
WIDE = ("float64", "int64", "uint64", "complex128")
# A worker that has grown beyond this leaves the rest to another: its status.
MEMORY_KIB, MORE = 4 << 20, 75


@dataclass
class Tally:
    """Outcome of each harness: "passed", "failed" or "skipped", and why."""

    outcomes: dict[str, tuple[str, str]] = field(default_factory=dict)

    log: TextIO | None = None

    def count(self, outcome: str) -> int:
        return sum(found == outcome for found, _ in self.outcomes.values())

    def add(self, name: str, outcome: str, why: str) -> None:
        self.outcomes[name] = outcome, why
        if self.log:
            self.log.write(json.dumps([name, outcome, why]) + "\n")
            self.log.flush()


def build() -> str:
    """Names the plugin that runs: outcomes of two builds are no one result."""
    library = ROOT / "python" / "opentrn" / "libneuronpjrt.so"
    return hashlib.sha256(library.read_bytes()).hexdigest()[:16]


def resumed(path: Path) -> Tally:
    """What an earlier run of this build wrote to `path`, and where the rest goes. ValueError: another build's."""
    tally = Tally()
    lines = path.read_text().splitlines() if path.exists() else []
    if lines and json.loads(lines[0]) != {"build": build()}:
        raise ValueError(f"{path} is of another build of the plugin: name a new file")
    for line in lines[1:]:
        name, outcome, why = json.loads(line)
        tally.outcomes[name] = outcome, why
    tally.log = path.open("a")
    if not lines:
        tally.log.write(json.dumps({"build": build()}) + "\n")
        tally.log.flush()
    return tally


def exclusions() -> list[dict[str, str]]:
    """Rows of `harness` (a pattern of full names) and `reason`."""
    return tomllib.loads((HERE / "exclusions.toml").read_text()).get("exclude", [])


def selected(patterns: list[str]) -> list[Any]:
    """The harnesses in the order of the file."""
    from jax._src.internal_test_util import test_harnesses

    everything = test_harnesses.all_harnesses
    if not patterns:
        return list(everything)
    return [
        h for h in everything if any(fnmatch.fnmatch(h.fullname, p) or h.group_name == p for p in patterns)
    ]


def why_skipped(harness: Any, rows: list[dict[str, str]]) -> str:
    """Empty for a harness that runs."""
    import numpy as np

    if harness.dtype is not None and np.dtype(harness.dtype).name in WIDE:
        return "a type that no device has"
    if not harness.filter("cpu"):
        return "JAX's CPU has nothing to compare with"
    return next((row["reason"] for row in rows if fnmatch.fnmatch(harness.fullname, row["harness"])), "")


def run_one(harness: Any) -> str:
    """What failed; empty: nothing."""
    import zlib

    import jax
    import numpy as np

    from conformance.jax_harnesses.compare import compare

    made = harness.dyn_args_maker(np.random.RandomState(zlib.crc32(harness.fullname.encode())))
    results = []
    for platform in ("cpu", "neuron"):
        device = jax.devices(platform)[0]
        with jax.default_device(device):
            arguments = jax.device_put(list(made), device)
            results.append(jax.device_get(jax.jit(harness.dyn_fun)(*arguments)))
    return compare(harness.group_name, made, *results, harness.params)


def work(options: argparse.Namespace) -> int:
    """Runs every N-th harness and prints a line of JSON before and after each."""
    import jax

    warnings.simplefilter("ignore")
    part, parts = map(int, options.worker.split("/"))
    rows = exclusions()
    done = json.loads(sys.stdin.readline())
    for number, harness in enumerate(selected(options.only)):
        if number % parts != part or number < options.begin or harness.fullname in done:
            continue
        print(json.dumps([number, harness.fullname, "begun", ""]), flush=True)
        why = why_skipped(harness, rows)
        if why:
            print(json.dumps([number, harness.fullname, "skipped", why]), flush=True)
            continue
        try:
            why = run_one(harness)
        except Exception as error:  # noqa: BLE001  (whatever it raised, the harness failed)
            lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
            why = f"{type(error).__name__}: {lines[0]}"[:300]
        print(json.dumps([number, harness.fullname, "failed" if why else "passed", why]), flush=True)
        if number % 200 < parts:
            jax.clear_caches()
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > MEMORY_KIB:
            return MORE
    return 0


def run_part(part: int, options: argparse.Namespace, tally: Tally) -> None:
    """One worker after the other, until one comes to the end."""
    environment = dict(
        os.environ,
        JAX_PLATFORMS="neuron,cpu",
        OPENTRN_STRICT="1",
        PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "python")]),
    )
    begin, done = 0, list(tally.outcomes)
    while True:
        command = [
            sys.executable,
            "-m",
            "conformance.jax_harnesses.run",
            "--worker",
            f"{part}/{options.jobs}",
        ]
        command += ["--begin", str(begin)]
        if options.only:
            command += ["--only", *options.only]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        ) as child:
            assert child.stdin is not None and child.stdout is not None and child.stderr is not None
            child.stdin.write(json.dumps(done) + "\n")
            child.stdin.close()
            with ThreadPoolExecutor(1) as reader:
                errors = reader.submit(child.stderr.read)
                number, name, outcome = -1, "", ""
                for line in child.stdout:
                    number, name, outcome, why = json.loads(line)
                    if outcome == "begun":
                        continue
                    tally.add(name, outcome, why)
                    if outcome == "failed":
                        print(f"{name}: {why}", flush=True)
                status = child.wait()
                if status == 0:
                    return
                if number < 0:
                    raise RuntimeError(f"a worker ended with {status}: {errors.result()[-600:]}")
                if status == MORE:
                    begin = number + 1
                    continue
                if outcome == "begun":
                    tally.add(name, "failed", "the process died")
                print(f"{name}: the process died with {status}: {errors.result()[-300:]}", flush=True)
                begin = number + 1


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev conformance jax-harnesses", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--only", nargs="*", default=[], help="full names or patterns, or groups: svd 'sort_*'"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", type=Path, help="every outcome, as JSON")
    parser.add_argument("--resume", type=Path, help="outcomes as they come; an earlier run's are kept")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--begin", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.worker:
        return work(options)
    try:
        tally = resumed(options.resume) if options.resume else Tally()
    except ValueError as error:
        parser.error(str(error))
    began = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda part: run_part(part, options, tally), range(options.jobs)))
    if not tally.outcomes:
        print(f"conformance jax-harnesses: no harness is named {', '.join(options.only)}", file=sys.stderr)
        return 2
    reasons = Counter(why for outcome, why in tally.outcomes.values() if outcome == "skipped")
    for reason, count in reasons.most_common():
        print(f"{count:>6} skipped: {reason}")
    if options.json:
        options.json.write_text(json.dumps(tally.outcomes, indent=1))
    print(f"{tally.count('passed')} passed, {tally.count('failed')} failed, {tally.count('skipped')} skipped "
          f"in {time.monotonic() - began:.0f} s")  # fmt: skip
    return 1 if tally.count("failed") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
