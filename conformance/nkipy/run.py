#!/usr/bin/env python3
"""nkipy on OpenTrn: `spike` built unmodified against libnrt, and nkipy's tests on the simulated device.

    ./dev conformance nkipy PATH [--tests unit integration spike] [-- PYTEST-OPTIONS]

PATH: a checkout of github.com/aws-neuron/nkipy, which stays as it is: spike is built from a copy by its own
CMakeLists.txt, with libnrt and its headers where `opentrn neuron-tools install` puts them, and nkipy's protocol buffers
are made by its own setup.py. The compiler is OpenTrn's `neuronx-cc`. Packages that nkipy's setup needs (nanobind,
scikit-build-core, setuptools, grpcio-tools, protobuf) are installed into an environment of this command's own in .deps.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from conformance import environments  # noqa: E402

PLACE = ROOT / ".deps" / "nkipy"
PACKAGES = (
    *(
        "nanobind",
        "scikit-build-core",
        "setuptools",
        "wheel",
        "grpcio-tools",
        "protobuf>=7.35",
        "ruff",
        "ninja",
    ),
    *("boto3", "numpy", "ml_dtypes", "hypothesis", "cmake<4"),
    *("pytest", "pytest-order", "pytest-xdist", "pytest-timeout"),
)
SUITES = {"unit": "tests/unit", "integration": "tests/integration", "spike": "spike/tests"}


def _run(*words: str | Path, **options: object) -> None:
    done = subprocess.run([str(word) for word in words], **options)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {done.returncode}")


def build(checkout: Path) -> tuple[Path, Path]:
    """(interpreter, folder of the copy)."""
    python = environments.environment(PLACE / "env", PACKAGES, beside="never")
    prefix = PLACE / "neuron"
    _run(sys.executable, "-m", "opentrn", "neuron-tools", "install", "--prefix", prefix,
         env=dict(os.environ, PYTHONPATH=str(ROOT / "python")), stdout=subprocess.DEVNULL)  # fmt: skip
    copy = PLACE / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "build"))
    environment = dict(os.environ, NEURON_ROOT=str(prefix), PATH=f"{python.parent}:{os.environ['PATH']}")
    _run("cmake", "-S", copy / "spike", "-B", copy / "spike-build", "-G", "Ninja", f"-DNEURON_ROOT={prefix}",
         f"-DPython_EXECUTABLE={python}", "-DCMAKE_BUILD_TYPE=Release", env=environment)  # fmt: skip
    _run("cmake", "--build", copy / "spike-build", "-j2", env=environment)
    for library in (copy / "spike-build").glob("_spike*.so"):
        shutil.copy2(library, copy / "spike" / "src" / "spike")
    _run(python, "setup.py", "-q", "build_py", cwd=copy / "nkipy", env=environment, stdout=subprocess.DEVNULL)
    return python, copy


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", metavar="PATH", type=Path)
    parser.add_argument("--tests", nargs="+", choices=sorted(SUITES), default=["unit", "spike"])
    parser.add_argument("pytest", nargs="*", metavar="PYTEST-OPTIONS", help="behind --")
    # Left to argparse, options behind -- are unknown ones where --tests stands between them and PATH.
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:at])
    options.pytest += words[at + 1 :]
    if not (options.checkout / "spike" / "CMakeLists.txt").is_file():
        print(f"{options.checkout} is not a checkout of aws-neuron/nkipy")
        return 2
    python, copy = build(options.checkout.resolve())
    paths = [copy / "nkipy" / "src", copy / "spike" / "src", copy / "tests", ROOT / "python"]
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(map(str, paths)),
        PATH=f"{PLACE / 'neuron' / 'bin'}:{os.environ['PATH']}",
        NEURON_LOGICAL_NC_CONFIG="1",
        NEURON_PLATFORM_TARGET_OVERRIDE="trn2.3xlarge",
    )
    failed = False
    stray = Path(
        "/nonexistent"
    )  # a test of nkipy's takes it for a folder that cannot be made, which root can
    was_there = stray.exists()
    for suite in options.tests:
        words = [python, "-m", "pytest", "-q", "-p", "opentrn.pytest_plugin", "--timeout=300", "-p", "no:cacheprovider",
                 str(copy / SUITES[suite]), *options.pytest]  # fmt: skip
        done = subprocess.run(
            list(map(str, words)), cwd=copy, env=environment, capture_output=True, text=True
        )
        (PLACE / f"{suite}.txt").write_text(done.stdout + done.stderr)
        last = next(
            (
                line
                for line in reversed(done.stdout.splitlines())
                if " in " in line and re.search(r"\d", line)
            ),
            "",
        )
        print(f"{suite}: {last.strip('= ')}   (log: {PLACE / f'{suite}.txt'})", flush=True)
        failed = failed or done.returncode not in (0, 1) or not last
    if not was_there:
        shutil.rmtree(stray, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
