#!/usr/bin/env python3
"""Hostile files that OpenTrn makes itself: each must end in a named error, soon and without the machine's memory.

    ./dev conformance hostile-files [--only TEXT] [--seconds N] [--json FILE]

Every file is opened by a command of its own, which may take SECONDS of processor time and a GiB beyond what it starts
with. Exit status 0: none crashed, hung, took more, ended in an internal error or under another label than files.py
says, and no byte of a file that the model may not read came into what was saved.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from conformance.hostile_files.files import CASES, SECRET, Case  # noqa: E402

SECONDS = 2.0
BYTES = 1 << 30
REFUSED = range(1, 6)  # exit statuses of program, input, capacity, not modelled and unspecified
# What it starts with is counted after the imports: a wheel of BLAS reserves address space for its threads.
CHILD = f"""
import resource, sys
import opentrn
from opentrn import cli
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {BYTES}, used + {BYTES}))
begun = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
status = cli.main(sys.argv[1:])
usage = resource.getrusage(resource.RUSAGE_SELF)
print("took", sum(usage[:2]) - begun, usage.ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


@dataclass
class Outcome:
    """What became of a file.

    label: of the error, "" where it was done with. mib: the most memory that the process had. why: what is wrong with
    that, "" where nothing is.
    """

    name: str
    status: int
    label: str
    seconds: float
    mib: float
    why: str


def opened(name: str, case: Case, folder: Path, seconds: float = SECONDS) -> Outcome:
    """Makes the file in `folder` and opens it with its command."""
    place = folder / name.replace(".", "_")
    place.mkdir(parents=True)
    path, out = place / name, place / "out.neuron"
    case.make(path)
    words = [word.format(out=out) for word in case.words]
    environment = os.environ | {
        "OPENTRN_CACHE": str(place / "cache"), "PYTHONPATH": str(ROOT / "python"), "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-c", CHILD, words[0], str(path), *words[1:]]
    try:
        # Ten times as much by the clock: others may use the processors.
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment,
                              errors="replace", timeout=10 * seconds + 20)  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome(name, -9, "", 10 * seconds + 20, 0, "hung")
    found = re.search(r"^opentrn: [a-z ]+ \[([\w.]+)\]", done.stderr, re.MULTILINE)
    took = re.search(r"^took (\S+) (\d+)$", done.stderr, re.MULTILINE)
    label = found[1] if found else ""
    used, peak = (float(took[1]), int(took[2]) / 1024) if took else (0.0, 0.0)
    outcome = Outcome(name, done.returncode, label, used, peak, "")
    if took is None or done.returncode not in (0, *REFUSED):
        outcome.why = f"ended with {done.returncode}: {done.stderr.strip()[-200:]}"
    elif used > seconds:
        outcome.why = f"took {used:.1f} s"
    elif done.returncode != 0 and not label:
        outcome.why = f"an error without a label: {done.stderr.strip()[:200]}"
    elif label != case.label:
        outcome.why = f"ended with [{label}], expected [{case.label}]"
    elif out.exists() and SECRET in out.read_bytes():
        outcome.why = "what was saved holds another file"
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="files whose name holds this text")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="processor time of each (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, help="a file for the outcomes")
    options = parser.parse_args()
    cases = {name: case for name, case in CASES.items() if options.only in name}
    if not cases:
        print(f"no file's name holds {options.only!r}", file=sys.stderr)
        return 2
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="opentrn-hostile-") as folder:
        for name, case in cases.items():
            outcomes.append(outcome := opened(name, case, Path(folder), options.seconds))
            said = outcome.why or (f"[{outcome.label}]" if outcome.label else "done")
            verdict = "FAILED" if outcome.why else "ok"
            print(
                f"{verdict:6} {name:24} {outcome.seconds:5.2f} s {outcome.mib:5.0f} MiB  {said}", flush=True
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    failed = sum(bool(outcome.why) for outcome in outcomes)
    seconds, mib = max(each.seconds for each in outcomes), max(each.mib for each in outcomes)
    print(
        f"hostile files: {len(outcomes)} opened, {failed} failed; at most {seconds:.2f} s and {mib:.0f} MiB"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
