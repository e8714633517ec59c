"""The virtual environment .venv: made once, brought up to the pinned requirement files when they change."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import urllib.error
import urllib.request

from devtool.paths import ROOT, TOOLS, VENV, venv_bin
from devtool.report import run, say

_TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_STAMP = VENV / "opentrn-requirements.sha256"
_FILES = ("requirements.txt", "requirements-torch.txt", "requirements-demo.txt")
_LAUNCHER = """#!{python}
import sys

from opentrn.cli import main

sys.exit(main())
"""


def _wanted() -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in _FILES:
        digest.update((TOOLS / name).read_bytes())
    return digest.hexdigest()


def prepare() -> None:
    """Makes .venv and installs the pinned packages; does nothing when both are up to date."""
    if not venv_bin("python").exists():
        say(f"venv: .venv with Python {sys.version.split()[0]}")
        # --clear: an interrupted earlier try may have left half of one.
        run(
            [sys.executable, "-m", "venv", "--clear", VENV],
            hint="python3-venv may be missing: apt-get install python3-venv",
        )
    wanted = _wanted()
    if _STAMP.exists() and _STAMP.read_text() == wanted:
        return
    _pip("requirements.txt")
    _pip("requirements-torch.txt", *_torch_index())
    _pip("requirements-demo.txt", "--no-deps")
    _link_checkout()
    _STAMP.write_text(wanted)


def _pip(requirements: str, *options: str) -> None:
    say(f"pip: tools/{requirements}")
    # --no-compile: compiling every module of torch, jax and scikit-learn takes longer than unpacking them, and few are
    # ever imported. Python compiles those when they are.
    pip = [venv_bin("python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
    run(
        [*pip, *options, "-r", TOOLS / requirements],
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
