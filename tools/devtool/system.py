"""Debian and Ubuntu packages: finds what is missing of tools/apt.txt and installs only that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from devtool.paths import DEPS, TOOLS
from devtool.report import DevError, run, say

_FROM_SOURCES = {"libtomlplusplus-dev"}


def required_packages() -> list[str]:
    """Package names of tools/apt.txt, plus what this Python lacks to make a venv and build extensions."""
    lines = (TOOLS / "apt.txt").read_text().splitlines()
    packages = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    version = sysconfig.get_python_version()
    if not _can_make_venv():
        packages.append(f"python{version}-venv")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        packages.append(f"python{version}-dev")
    return packages


def _can_make_venv() -> bool:
    try:
        import ensurepip
        import venv
    except ImportError:
        return False
    # Debian splits ensurepip's wheels into the -venv package; the module alone may import without them.
    return bool(ensurepip.version() and venv.EnvBuilder)


def missing_packages(packages: list[str]) -> list[str]:
    """Those of `packages` that dpkg does not report as installed."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in installed]


def is_available(package: str) -> bool:
    """Whether apt has the package."""
    done = subprocess.run(["apt-cache", "show", package], capture_output=True, check=False)
    return done.returncode == 0


def install_missing() -> None:
    """Installs the missing packages with apt, through sudo when not root.

    What the distribution does not have of _FROM_SOURCES is left to devtool.sources.
    """
    if shutil.which("apt-get") is None:
        say("no apt-get here: taking the libraries of tools/apt.txt as installed")
        return
    install_packages(missing_packages(required_packages()))


def install_packages(missing: list[str]) -> None:
    """Installs these with apt, as root or with sudo. DevError without either."""
    if not missing or (set(missing) <= _FROM_SOURCES and DEPS.exists()):
        return
    say(f"apt: installing {' '.join(missing)}")
    hint = f"install by hand: apt-get install {' '.join(missing)}"
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            raise DevError("system packages are missing and there is neither root nor sudo", hint)
        prefix = ["sudo"]
    run(
        [*prefix, "apt-get", "update", "-qq"],
        hint="the package index could not be read; is the network up?",
        quiet=True,
    )
    missing = [package for package in missing if package not in _FROM_SOURCES or is_available(package)]
    if not missing:
        return
    install = [
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
    ]
    run([*prefix, *install, *missing], hint=hint, quiet=True)
