"""All fuzzers: python -m tests.fuzz --seconds N [--seed S]. Status 0 when none found anything.

Of the time 45 % each go to opentrn_fuzz (the C++ core; built by ./dev build) and to random NKI kernels, 10 % to what
the tools read (fuzz_tools).
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def fuzz_binary() -> Path:
    """opentrn_fuzz of the release build, or OPENTRN_FUZZ_BINARY."""
    return Path(os.environ.get("OPENTRN_FUZZ_BINARY", ROOT / "build" / "tests" / "fuzz" / "opentrn_fuzz"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 30) if options.seed is None else options.seed
    half, tenth = str(options.seconds * 0.45), str(options.seconds * 0.1)
    binary = fuzz_binary()
    if not binary.exists():
        print(f"fuzz: {binary} is missing; ./dev build makes it", file=sys.stderr)
        return 1
    print(f"fuzz: seed {seed}", flush=True)
    status = subprocess.run([binary, "--seconds", half, "--seed", str(seed)], check=False).returncode
    kernels = [sys.executable, "-m", "tests.fuzz.fuzz_kernels", "--seconds", half, "--seed", str(seed)]
    status |= subprocess.run(kernels, cwd=ROOT, check=False).returncode
    tools = [sys.executable, "-m", "tests.fuzz.fuzz_tools", "--seconds", tenth, "--seed", str(seed)]
    status |= subprocess.run(tools, cwd=ROOT, check=False).returncode
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
