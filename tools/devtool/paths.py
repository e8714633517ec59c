"""Where things of this checkout lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"
VENV = ROOT / ".venv"
BUILD = ROOT / "build"
DEPS = ROOT / ".deps"  # libraries built from source where the distribution's are too old
OUT = ROOT / "out"  # what demo and benchmarks write


def venv_bin(name: str) -> Path:
    """Path of a program inside the development virtual environment."""
    return VENV / "bin" / name
