#!/usr/bin/env python3
"""Hold the time of collectives against ASTRA-sim's analytical network, where it models the same.

    python -m conformance.astra_sim.run PATH [--cases N] [--seed N] [--ranks N]

`PATH` is a checkout of astra-sim/astra-network-analytical, the network that ASTRA-sim's analytical backend is linked
with. Its congestion-aware part is compiled below build/astra_sim (its reader of YAML files, which needs yaml-cpp, is
left out), and compare.cc with it and OpenTrn's libraries. N random rings, meshes and all-to-alls (200) of 2 to --ranks
ranks run over both, step by step of one plan. The last line counts them; one fails when its end is further off than
ASTRA-sim's whole nanoseconds explain.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build"
PLACE = BUILD / "astra_sim"
LIBRARIES = ("collectives", "fabric", "arch", "numerics", "base")  # each may use those after it
FOLDERS = ("common/event-queue", "congestion_aware/network", "congestion_aware/basic-topology")
FILES = ("common/NetworkFunction.cpp", "congestion_aware/topology/Topology.cpp")


def compile_program(checkout: Path) -> Path:
    """compare.cc with ASTRA-sim's network and OpenTrn's libraries."""
    archives = [BUILD / "src" / name / f"libopentrn_{name}.a" for name in LIBRARIES]
    for archive in archives:
        if not archive.exists():
            raise SystemExit(f"{archive.relative_to(ROOT)} is not there\n    try: ./dev build")
    sources = [checkout / name for name in FILES]
    for folder in FOLDERS:
        sources += sorted((checkout / folder).glob("*.cpp"))
    PLACE.mkdir(parents=True, exist_ok=True)
    program = PLACE / "compare"
    includes = [
        f"-I{each}"
        for each in (ROOT / "src", checkout / "include", checkout / "include/astra-network-analytical")
    ]
    # What reads MSCCL's XML is compiled in one file with the rest, where the build found this library.
    xml = ["-lpugixml"] if find_library("pugixml") else []
    command = [
        os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-DNDEBUG", *includes, HERE / "compare.cc", *sources, "-o",
        program, *archives, "-lfmt", "-ltomlplusplus", "-lcrypto", "-lhwy", "-lpthread", *xml,
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return program


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of astra-sim/astra-network-analytical")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=128, help="at most, of a ring")
    options = parser.parse_args()
    if not (options.checkout / "congestion_aware").is_dir():
        parser.error(
            f"{options.checkout} is not a checkout of astra-network-analytical: it has no congestion_aware/"
        )
    if options.cases < 1 or options.ranks < 2:
        parser.error(f"--cases {options.cases}, --ranks {options.ranks}: nothing would be compared")
    program = compile_program(options.checkout.resolve())
    return subprocess.run([program, str(options.cases), str(options.seed), str(options.ranks)]).returncode


if __name__ == "__main__":
    sys.exit(main())
