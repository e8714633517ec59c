"""Programs in C++ that runners hold against other projects: targets of the build that are made on request."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def fail(problem: str, hint: str) -> NoReturn:
    raise SystemExit(f"{problem}\n    try: {hint}")


def built(target: str, layer: str) -> Path:
    """The executable of src/<layer>, built now. SystemExit where there is no build, or where it fails."""
    if not (BUILD / "build.ninja").exists():
        fail("there is no build", "./dev build")
    done = subprocess.run(["ninja", "-C", BUILD, target], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{target} cannot be built:\n{done.stdout}{done.stderr}")
    return BUILD / "src" / layer / target
