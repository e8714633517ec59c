"""The virtual environment .venv: made once, brought up to the pinned requirement files when they change."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from devtool.paths import ROOT, TOOLS, VENV, venv_bin
from devtool.report import run, say

_TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# What a first `./dev demo` needs, and what everything does.
_DEMO_FILES = ("requirements-build.txt", "requirements-torch.txt", "requirements-demo.txt")
_FILES = (*_DEMO_FILES, "requirements.txt", "requirements-chat.txt")
_LAUNCHER = """#!{python}
import sys

from opentrn.cli import main

sys.exit(main())
"""


def _wanted(files: Sequence[str]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in files:
        digest.update((TOOLS / name).read_bytes())
    return digest.hexdigest()


def _stamp(small: bool) -> Path:
    return VENV / f"opentrn-requirements{'-demo' if small else ''}.sha256"


def _is_there(small: bool) -> bool:
    stamp = _stamp(small)
    return stamp.exists() and stamp.read_text() == _wanted(_DEMO_FILES if small else _FILES)


def prepare(small: bool = False) -> None:
    """Makes .venv and installs the pinned packages; does nothing when both are up to date.

    small: those that `./dev demo` needs are enough.
    """
    if not venv_bin("python").exists():
        say(f"venv: .venv with Python {sys.version.split()[0]}")
        # --clear: an interrupted earlier try may have left half of one.
        run(
            [sys.executable, "-m", "venv", "--clear", VENV],
            hint="python3-venv may be missing: apt-get install python3-venv",
        )
    if _is_there(small=False) or (small and _is_there(small=True)):
        return
    _pip(["requirements-build.txt"] if small else ["requirements-build.txt", "requirements.txt"])
    _pip(["requirements-torch.txt"], *_torch_index())
    _pip(["requirements-demo.txt"] if small else ["requirements-demo.txt", "requirements-chat.txt"], "--no-deps")
    _link_checkout()
    _stamp(small).write_text(_wanted(_DEMO_FILES if small else _FILES))


def _pip(files: Sequence[str], *options: str) -> None:
    say(f"pip: {', '.join(f'tools/{name}' for name in files)}")
    # --no-compile: compiling every module of torch, jax and scikit-learn takes longer than unpacking them, and few are
    # ever imported. Python compiles those when they are.
    pip = [venv_bin("python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
    run(
        [*pip, *options, *(word for name in files for word in ("-r", TOOLS / name))],
        hint="the Python package registry could not be read, or a pin is gone; see tools/requirements*.txt",
        quiet=True,
    )


def _torch_index() -> list[str]:
    """Options that give PyTorch's CPU build, where its index can be reached; else none."""
    try:
        with urllib.request.urlopen(f"{_TORCH_CPU_INDEX}/torch/", timeout=5) as reply:
            if reply.status == 200:
                return ["--extra-index-url", _TORCH_CPU_INDEX]
    except (urllib.error.URLError, OSError):
        pass
    return []


def _link_checkout() -> None:
    """Lets .venv import the checkout's python/ folder, and gives it the `opentrn` command."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run(
        [venv_bin("python"), "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    with open(f"{site}/opentrn-checkout.pth", "w") as file:
        file.write(f"{ROOT / 'python'}\n")
    launcher = venv_bin("opentrn")
    launcher.write_text(_LAUNCHER.format(python=venv_bin("python")))
    launcher.chmod(0o755)
