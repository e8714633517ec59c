"""./dev sanitize: the C++ unit tests, the Python tests of what is written in C++, and the fuzzers under sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from devtool.build import build
from devtool.paths import ROOT
from devtool.report import DevError, run, say
from devtool.testing import FUZZ_SEED, Count, run_ctest, run_pytest

PRESETS = ("asan-ubsan", "tsan")

# Of each sanitizer: its library, which must be the first that Python loads, and its options. Python and its
# extensions keep memory until the process ends, so leaks are looked for in the C++ tests only.
_LIBRARY = {"asan-ubsan": "libasan.so", "tsan": "libtsan.so"}
_OPTIONS = {
    "asan-ubsan": {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"},
    # The references' libraries are not built with tsan, which sees no order between their threads.
    "tsan": {
        "TSAN_OPTIONS": "halt_on_error=1:report_signal_unsafe=0",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    },
}
# Of the C++ tests: some start threads in a child of a process that has threads.
_OF_CTEST = {"asan-ubsan": {}, "tsan": {"TSAN_OPTIONS": "die_after_fork=0"}}
# The folders whose tests run C++ in this process. The compiler has its tests in Python only.
_PYTHON_TESTS = (
    "tests/compiler",
    "tests/graph",
    "tests/nki",
    "tests/nki_legacy",
    "tests/isa",
    "tests/profile",
)
# PyTorch's and JAX's own threads are none that tsan has seen being made. tests/generate is the decoder's, whose unit
# tests are those of its sampler alone.
_ONLY_HERE = {"asan-ubsan": ("tests/torch", "tests/jax", "tests/generate"), "tsan": ("--ignore-glob=*jax.py",)}


def _runtime(name: str) -> str:
    """The path of a library of the compiler."""
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(found.stdout.strip())
    if not path.is_absolute():
        raise DevError(f"g++ has no {name}", "install the sanitizers' libraries (Debian: libgcc-12-dev)")
    return str(path)


def _package(folder: Path) -> Path:
    """A folder for PYTHONPATH: this checkout's Python sources beside the preset's own extension."""
    package = folder / "python" / "opentrn"
    package.mkdir(parents=True, exist_ok=True)
    for source in (*(ROOT / "python").iterdir(), *(ROOT / "python" / "opentrn").iterdir()):
        link = (package if source.parent.name == "opentrn" else package.parent) / source.name
        if source.suffix == ".so" or source.name in ("opentrn", "__pycache__"):
            continue
        if not os.path.lexists(link):  # the preset has built some itself, such as libnrt
            link.symlink_to(source)
    return package.parent


def _environment(preset: str, package: Path) -> dict[str, str]:
    """What the tests run with; what they start inherits it, and so runs the preset's extension too."""
    libraries = [_runtime(_LIBRARY[preset]), _runtime("libstdc++.so")]
    return {**_OPTIONS[preset], "LD_PRELOAD": " ".join(libraries), "PYTHONPATH": str(package)}


def run_sanitizers(presets: list[str], fuzz_seconds: int, pytest_arguments: list[str]) -> int:
    """Builds and runs everything under each preset; the exit status."""
    total = Count()
    for preset in presets:
        folder = build(preset)
        total += run_ctest(folder, _OF_CTEST[preset])
        package = _package(folder)
        arguments = [
            *(pytest_arguments or (*_PYTHON_TESTS, *_ONLY_HERE[preset])),
            "-o",
            f"pythonpath={package} {ROOT} {ROOT / 'tools'}",
        ]
        total += run_pytest(arguments, _environment(preset, package))
        if fuzz_seconds > 0:
            say(f"fuzz: {fuzz_seconds} s under {preset}")
            command = [folder / "tests" / "fuzz" / "opentrn_fuzz", "--seconds", str(fuzz_seconds)]
            status = run([*command, "--seed", str(FUZZ_SEED)], cwd=ROOT, hint="", check=False)
            total += Count(passed=1) if status == 0 else Count(failed=1)
    print(f"OpenTrn: {total.passed} tests passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    return 0 if total.failed == 0 and total.passed > 0 else 1
