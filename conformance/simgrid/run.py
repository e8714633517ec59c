#!/usr/bin/env python3
"""Hold the rates of OpenTrn's flow model against SimGrid's on random networks.

    python -m conformance.simgrid.run [--graphs N] [--seed N]

Debian's libsimgrid-dev is fetched by apt and unpacked below build/simgrid; nothing is installed. compare.cc is linked
with it and with the fabric library of build/, makes N random networks (1,000) and asks both for the rate of every flow.
The last line counts networks; one counts as failed when any rate is off by more than 1e-9.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build"
PLACE = BUILD / "simgrid"
PACKAGE = "libsimgrid-dev"
LIBRARIES = ("fabric", "arch", "base")  # each may use those after it


def fail(problem: str, hint: str) -> None:
    raise SystemExit(f"{problem}\n    try: {hint}")


def fetch(root: Path) -> None:
    """Unpacks SimGrid and what it needs, as far as this system lacks it, below `root`."""
    debs = root.parent / "debs"
    debs.mkdir(parents=True, exist_ok=True)
    plan = subprocess.run(
        ["apt-get", "--simulate", "install", "--no-install-recommends", PACKAGE],
        capture_output=True,
        text=True,
    )
    packages = re.findall(r"^Inst (\S+)", plan.stdout, re.MULTILINE)
    if plan.returncode != 0:
        fail(f"apt knows no {PACKAGE}: {plan.stderr.strip()}", "apt-get update; the package is in Debian 12")
    if packages:
        subprocess.run(["apt-get", "download", *packages], cwd=debs, check=True, capture_output=True)
    root.mkdir()
    for deb in sorted(debs.glob("*.deb")):
        subprocess.run(["dpkg", "-x", deb, root], check=True)


def compile_program(root: Path) -> Path:
    """compare.cc with SimGrid and OpenTrn's libraries."""
    archives = [BUILD / "src" / name / f"libopentrn_{name}.a" for name in LIBRARIES]
    for archive in archives:
        if not archive.exists():
            fail(f"{archive.relative_to(ROOT)} is not there", "./dev build")
    program = PLACE / "compare"
    library = next(iter(root.glob("usr/lib/*/libsimgrid.so*")), None) or next(
        iter(Path("/usr/lib").rglob("libsimgrid.so"))
    )
    folders = [root / "usr/include"] if (root / "usr/include").exists() else []
    command = [
        os.environ.get("CXX", "c++"), "-std=c++20", "-O2", f"-I{ROOT / 'src'}", *(f"-I{f}" for f in folders),
        HERE / "compare.cc", "-o", program, *archives, library, "-lfmt", "-ltomlplusplus", "-lcrypto", "-lpthread",
        f"-Wl,-rpath,{library.parent}", f"-Wl,-rpath-link,{library.parent}",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return program


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.graphs < 1:
        parser.error(f"--graphs {arguments.graphs}: nothing would be compared")
    root = PLACE / "root"
    if not root.exists():
        fetch(root)
    program = compile_program(root)
    folders = ":".join(map(str, root.glob("usr/lib/*")))
    environment = {**os.environ, "LD_LIBRARY_PATH": folders}
    return subprocess.run([program, str(arguments.graphs), str(arguments.seed)], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
