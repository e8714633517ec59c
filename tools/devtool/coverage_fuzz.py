"""./dev fuzz --coverage-guided: libFuzzer on what reads files, built with clang and AddressSanitizer.

Its programs have the same bodies as the seeded fuzzers (tests/fuzz/bodies.h). What they found so far is kept in
build-fuzz/corpus and begun with the next time; a file that broke something is left in build-fuzz/found.
"""

from __future__ import annotations

import shutil

from devtool import system
from devtool.build import binary_dir, build
from devtool.report import DevError, run, say

TARGETS = ("model", "origin", "program", "import", "weights", "decoder", "config")
# The newest first. Older ones than 16 lack parts of C++20 that the sources use.
_VERSIONS = range(22, 15, -1)
_FILE_BYTES_MAX = 1 << 16
_MEMORY_MAX = 2048  # MiB, of the process: what asks for more is a finding
# Wall time, far behind the 20 s of processor time that a file may take (tests/fuzz/coverage_guided.cc).
_CASE_SECONDS_MAX = 400


def _compiler() -> str:
    """A clang that has libFuzzer's library, installed when there is none. DevError where apt has none either."""
    for version in _VERSIONS:
        if shutil.which(f"clang++-{version}"):
            return f"clang++-{version}"
    for version in _VERSIONS:
        packages = [f"clang-{version}", f"libclang-rt-{version}-dev"]
        if shutil.which("apt-get") and all(system.is_available(package) for package in packages):
            system.install_packages(packages)
            return f"clang++-{version}"
    raise DevError("libFuzzer needs clang 16 or newer", "install clang and its compiler-rt by hand")


def prepare(names: list[str]) -> None:
    """Builds the programs of these targets and writes the files that they begin with. DevError for other names."""
    if unknown := sorted({*names} - {*TARGETS}):
        raise DevError(f"there is no coverage-guided target {unknown[0]}", f"one of {', '.join(TARGETS)}")
    folder = binary_dir("fuzz")
    build("fuzz", tuple(f"opentrn_fuzz_{name}" for name in names), (f"-DCMAKE_CXX_COMPILER={_compiler()}",))
    seeds = build("release", ("opentrn_fuzz",)) / "tests" / "fuzz" / "opentrn_fuzz"
    (folder / "found").mkdir(exist_ok=True)
    run([seeds, "--corpus", folder / "corpus"], hint="")


def run_targets(seconds: int, targets: list[str] | None) -> int:
    """Builds, then runs each target for this long; the exit status."""
    names = targets or [*TARGETS]
    prepare(names)
    folder = binary_dir("fuzz")
    binaries, corpus, found = folder / "tests" / "fuzz", folder / "corpus", folder / "found"
    failed = []
    for name in names:
        say(f"fuzz: {name}, {seconds} s")
        command = [
            binaries / f"opentrn_fuzz_{name}",
            f"-max_total_time={seconds}",
            f"-max_len={_FILE_BYTES_MAX}",
            f"-rss_limit_mb={_MEMORY_MAX}",
            f"-timeout={_CASE_SECONDS_MAX}",
            f"-artifact_prefix={found}/{name}-",
            "-print_final_stats=1",
            corpus / name,
        ]
        if run(command, hint="", check=False) != 0:
            failed.append(name)
    if failed:
        say(f"fuzz: {', '.join(failed)} failed; the files are in {found}")
    return 1 if failed else 0
