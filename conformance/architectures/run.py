#!/usr/bin/env python3
"""Every architecture of transformers, small and with random weights, on the device `neuron` beside the CPU.

    ./dev conformance architectures [--mode eager|compile|gradient] [--only GLOB]... [--environment F] [--json F]

Makes an environment of its own in build/architectures (or F) with transformers beside the torch of this one. Each
type of model is made from its default configuration with small fields, called on the CPU, and then as the mode says:
`eager` moves it to the device, `compile` compiles it with backend="neuron", `gradient` compares the gradients of a sum
of its results. A type whose small configuration or call the CPU refuses is not built; one whose results in float32 the
CPU computes further from float64 than the device may be is undecided. Types run one after the other in a process that
is started anew after one that ends it or does not end. Ends with "N passed, N failed, N undecided, N not built".
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))
from conformance import environments  # noqa: E402

LIMIT_S = 300
MODES = ("eager", "compile", "gradient")
PER_PROCESS = 20  # what a process compiled it keeps


def program(python: Path, mode: str, names: list[str]) -> subprocess.Popen[bytes]:
    stated = {
        **os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")]),
    }  # fmt: skip
    words = [str(python), str(HERE / "models.py"), mode, *names]
    # Without a buffer: select() knows of what the pipe holds alone.
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, env=stated)


def rows(python: Path, mode: str, names: list[str]) -> Iterator[dict[str, Any]]:
    """A row for each name, whatever becomes of the process that has it."""
    left = list(names)
    while left:
        batch, running = left[:PER_PROCESS], program(python, mode, left[:PER_PROCESS])
        assert running.stdout is not None
        for name in batch:
            is_ready = bool(select.select([running.stdout], [], [], LIMIT_S)[0])
            line = running.stdout.readline() if is_ready else b""
            left.remove(name)
            if line:
                yield json.loads(line)
                continue
            why = f"its process ended with {running.wait()}" if is_ready else f"not done after {LIMIT_S} s"
            yield {"name": name, "state": "failed", "why": why, "host": []}
            break
        running.kill()
        running.wait()
        running.stdout.close()


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES, default="eager")
    parser.add_argument("--only", action="append", metavar="GLOB", help="types of models; may be repeated")
    parser.add_argument("--environment", type=Path, default=ROOT / "build" / "architectures", metavar="F")
    parser.add_argument("--json", type=Path, metavar="F", help="writes a row for each type")
    options = parser.parse_args(given)
    packages: list[str | Path] = ["-r", HERE / "packages.txt"]
    python = environments.environment(options.environment, packages, beside="before")
    listed, _ = program(python, options.mode, []).communicate()
    globs = options.only or ["*"]
    names = [name for name in listed.decode().split() if any(fnmatch.fnmatch(name, glob) for glob in globs)]
    if not names:
        parser.error(f"no type of model is named {' or '.join(globs)}")
    found = []
    for row in rows(python, options.mode, names):
        found.append(row)
        host = f" [host: {', '.join(row['host'])}]" if row["host"] else ""
        print(f"{row['state']:9} {row['name']}{': ' if row['why'] else ''}{row['why'][:300]}{host}", flush=True)
    if options.json:
        options.json.write_text(json.dumps({"mode": options.mode, "rows": found}, indent=1))
    count = collections.Counter(row["state"] for row in found)
    print(", ".join(f"{count[state]} {state}" for state in ("passed", "failed", "undecided", "not built")))
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
