#!/usr/bin/env python3
"""Tests of FSDP2, DTensor and tensor parallelism, from a checkout, on the device `neuron` and its process group.

    ./dev conformance torch-parallel CHECKOUT [--files GLOB]... [--only GLOB]... [--ranks 2] [--part I/N] [--limit S]
                                     [--json FILE]

CHECKOUT: of pytorch/pytorch at the release that is installed, or of Ascend/pytorch, whose copies of those tests are
for another device beside PyTorch's own: its names (npu, hccl) are read as neuron's. Every test is a process of its
own, whose ranks are forked from it. Ends with a row for each file, and "N passed, N failed, N skipped, N excluded".
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import functools
import importlib
import importlib.abc
import importlib.util
import json
import os
import re
import signal
import sys
import tempfile
import time
import types
import unittest
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))
from conformance import environments  # noqa: E402

FILES = (
    "test/distributed/_composable/fsdp/test_*.py", "test/distributed/fsdp2/test_*.py",
    "test/distributed/tensor/test_*.py", "test/distributed/_tensor/test_*.py",
    "test/distributed/tensor/parallel/test_*.py",
)  # fmt: skip
OUTCOMES = ("passed", "failed", "skipped", "excluded")


def translated(text: str) -> str:
    """Source for another device, CUDA's or Ascend's, as source for this one."""
    return re.sub(r"(?<!backends\.)(?<!version\.)\b(is_)?(npu|hccl|cuda|nccl)\b", r"\1neuron", text)


def load(path: Path, name: str) -> types.ModuleType:
    """A file of the checkout as a module."""
    source = path.read_text()
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(translated(source), str(path), "exec"), module.__dict__)
    return module


class OtherDevice(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The package of the other device: helpers of its tests from the checkout, everything else of it empty."""

    HELPERS = ("common_distributed", "_internal.common_fsdp", "_internal.common_dtensor")

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        known = ("torch_npu", "torch_npu.testing", "torch_npu.testing._internal", "torch_npu.testing.testcase",
                 "torch_npu.testing.common_utils", *(f"torch_npu.testing.{each}" for each in self.HELPERS))  # fmt: skip
        return importlib.util.spec_from_loader(name, self, is_package=True) if name in known else None

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        import torch
        from torch.testing._internal import common_utils

        name = module.__name__
        module.__file__ = __file__  # whoever looks for its source finds it is no built-in
        if name.removeprefix("torch_npu.testing.") in self.HELPERS:
            path = self.checkout / (name.replace(".", "/") + ".py")
            exec(compile(translated(path.read_text()), str(path), "exec"), module.__dict__)
        elif name == "torch_npu":
            module.neuron = torch.neuron  # type: ignore[attr-defined]
        elif name.endswith(("testcase", "common_utils")):
            module.__dict__.update(
                TestCase=common_utils.TestCase, run_tests=common_utils.run_tests,
                SupportedDevices=lambda _names: lambda test: test,
            )  # fmt: skip


def needing_cores(count: int, **_: Any) -> Any:
    """torch's decorator of tests that need so many devices, which knows its own ones alone."""
    import torch

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def checked(*arguments: Any, **keywords: Any) -> Any:
            if torch.neuron.device_count() < count:
                raise unittest.SkipTest(f"needs {count} cores: --ranks {count}")
            return test(*arguments, **keywords)

        return checked

    return decorate


def take_backend_of(base: Any) -> None:
    """torch's base class of DTensor's tests knows some backends alone, and any device's own beside gloo."""
    import torch

    join = base.init_pg

    def init_pg(self: Any, eager_init: bool, backend: str | None = None) -> None:
        if self.device_type == "neuron":
            torch.accelerator.set_device_index(self.rank)
        if backend in (None, "neuron") and self.device_type == "neuron":
            backend = "cpu:gloo,neuron:neuron"
        join(self, eager_init, backend)

    base.init_pg = init_pg


def visible_to_children() -> None:
    """Processes that tests start find the device as where OpenTrn is installed: by `import torch` alone."""
    site = Path(tempfile.mkdtemp())
    environments.add_entry_point(site)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(site), str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )


def names_of_earlier_releases(common_fsdp: Any) -> None:
    """What tests of earlier releases import of torch's helpers, and no longer finds there."""

    def as_it_is(test: Any = None, **_: Any) -> Any:
        return test if callable(test) else as_it_is

    if not hasattr(common_fsdp, "test_compiled_fsdp"):
        common_fsdp.test_compiled_fsdp = as_it_is  # ran the test eagerly, and compiled by Inductor on CUDA
    inductor_utils = importlib.import_module("torch.testing._internal.inductor_utils")
    if not hasattr(inductor_utils, "HAS_CUDA"):
        inductor_utils.HAS_CUDA = False  # type: ignore[attr-defined]


def prepare(checkout: Path) -> None:
    """torch's helpers of such tests, for this device."""
    import torch

    import opentrn.torch  # noqa: F401  (before the helpers, which ask at once what devices there are)

    common_distributed = importlib.import_module("torch.testing._internal.common_distributed")
    common_distributed.skip_if_lt_x_gpu = needing_cores  # type: ignore[attr-defined]
    common_fsdp = importlib.import_module("torch.testing._internal.common_fsdp")
    common_fsdp.DEVICE_TYPE, common_fsdp.DISTRIBUTED_BACKEND = "neuron", "neuron"
    common_fsdp.DEVICE_COUNT = torch.neuron.device_count()
    # Ranks choose their device where it is one of two kinds; of the two this one waits by time.sleep().
    common_fsdp.TEST_XPU = True  # type: ignore[attr-defined]

    names_of_earlier_releases(common_fsdp)
    common_dtensor = importlib.import_module("torch.testing._internal.distributed._tensor.common_dtensor")
    take_backend_of(common_dtensor.DTensorTestBase)

    def fork(self: Any) -> None:
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    common_distributed.MultiProcessTestCase._spawn_processes = fork
    placements = importlib.import_module("torch.distributed.tensor.placement_types")
    placements._Partial = placements.Partial  # type: ignore[attr-defined]  (its name up to torch 2.4)
    older = importlib.import_module("torch.distributed._tensor.placement_types")
    older._Partial = placements.Partial  # type: ignore[attr-defined]
    if (checkout / "torch_npu").is_dir():
        sys.meta_path.insert(0, OtherDevice(checkout))
    # Names that tests import to skip what needs a CUDA device, or so many: they have this one.
    common_cuda = importlib.import_module("torch.testing._internal.common_cuda")
    common_utils = importlib.import_module("torch.testing._internal.common_utils")
    common_utils.get_cycles_per_ms = lambda device="neuron": 1e6  # type: ignore[attr-defined]  (torch.neuron._sleep)
    common_cuda.TEST_CUDA = common_utils.TEST_CUDA = True  # type: ignore[attr-defined]
    common_cuda.TEST_MULTIGPU = torch.neuron.device_count() > 1  # type: ignore[attr-defined]


def cases(module: types.ModuleType) -> Iterator[tuple[type[unittest.TestCase], str]]:
    for kind in list(vars(module).values()):
        if (
            isinstance(kind, type)
            and issubclass(kind, unittest.TestCase)
            and kind.__module__ == module.__name__
        ):
            for name in sorted(dir(kind)):
                if name.startswith("test") and callable(getattr(kind, name)):
                    yield kind, name


def summary(text: str) -> str:
    """The line of a traceback that says most."""
    lines = [
        line.strip() for line in text.splitlines() if re.match(r"^\s*[\w.]*(Error|Exception|Skip)\b.*", line)
    ]
    return (lines[-1] if lines else text.strip().splitlines()[-1])[:200]


def run_one(kind: type[unittest.TestCase], name: str, limit_s: float) -> tuple[str, str]:
    """(outcome, why) of a test in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(read)
        result = unittest.TestResult()
        try:
            unittest.TestSuite([kind(name)]).run(result)
            bad = [text for _, text in [*result.failures, *result.errors]]
            said = ("passed", "")
            if result.skipped:
                said = ("skipped", result.skipped[0][1])
            if bad:
                said = ("failed", summary(bad[0]))
        except BaseException as fault:
            said = ("failed", f"{type(fault).__name__}: {fault}"[:200])
        os.write(write, json.dumps(said).encode())
        os._exit(0)
    os.close(write)
    ended, text = time.monotonic() + limit_s, b""
    os.set_blocking(read, False)
    while time.monotonic() < ended:
        try:
            piece = os.read(read, 1 << 16)
        except BlockingIOError:
            time.sleep(0.05)
            continue
        if not piece:
            break
        text += piece
    os.close(read)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    outcome, why = (
        json.loads(text) if text else ("failed", f"not done after {limit_s:.0f} s, or its process died")
    )
    return outcome, why


OF_ASCEND = "Ascend's copy: "  # how reasons begin that do not hold of PyTorch's own file


def reason_of(exclusions: dict[str, dict[str, str]], file: str, test: str, is_other: bool = False) -> str:
    for pattern, tests in exclusions.items():
        if fnmatch.fnmatch(file, pattern):
            for name, reason in tests.items():
                if fnmatch.fnmatch(test, name) and (is_other or not reason.startswith(OF_ASCEND)):
                    return reason
    return ""


def closed(rows: dict[str, collections.Counter[str]]) -> int:
    """Prints what became of each file's tests, and of all; the exit status. rows: by file."""
    for file, row in rows.items():
        print(f"{file}: {', '.join(f'{row[key]} {key}' for key in OUTCOMES)}")
    total = sum(rows.values(), collections.Counter())
    print(", ".join(f"{total[key]} {key}" for key in OUTCOMES))
    return 1 if total["failed"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument(
        "--files", action="append", metavar="GLOB", help="of paths in the checkout; may be repeated"
    )
    parser.add_argument("--only", action="append", metavar="GLOB", help="of Class.test; may be repeated")
    parser.add_argument("--ranks", type=int, default=2, help="cores, and so ranks at most (default: 2)")
    parser.add_argument("--part", metavar="I/N", default="1/1", help="the I-th of N parts of the files")
    parser.add_argument("--limit", type=float, default=300, metavar="S", help="seconds that a test may take")
    parser.add_argument("--json", type=Path, metavar="FILE", help="results by test")
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    os.environ |= {
        "NEURON_RT_NUM_CORES": str(options.ranks), "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1",
        "TEMP_DIR": tempfile.mkdtemp(),
    }  # fmt: skip
    exclusions = tomllib.loads((HERE / "exclusions.toml").read_text())
    files = sorted(
        str(path.relative_to(checkout)) for glob in options.files or FILES for path in checkout.glob(glob)
    )
    if not files:
        parser.error(f"{checkout} has none of {', '.join(options.files or FILES)}")
    index, count = map(int, options.part.split("/"))
    visible_to_children()
    prepare(checkout)
    is_other = (checkout / "torch_npu").is_dir()
    rows: dict[str, collections.Counter[str]] = {}
    results: dict[str, tuple[str, str]] = {}
    for file in files[index - 1 :: count]:
        row = rows[file] = collections.Counter()
        why = reason_of(exclusions, file, "", is_other)
        try:
            found = [] if why else list(cases(load(checkout / file, file.replace("/", ".")[:-3])))
        except Exception as fault:
            why, found = f"{type(fault).__name__}: {fault}", []
        if why:
            print(f"{file}: {why}", flush=True)
            results[file] = ("file", why)
        for kind, name in found:
            test = f"{kind.__name__}.{name}"
            if options.only and not any(fnmatch.fnmatch(test, glob) for glob in options.only):
                continue
            began = time.monotonic()
            why = reason_of(exclusions, file, test, is_other)
            outcome, why = ("excluded", why) if why else run_one(kind, name, options.limit)
            row[outcome] += 1
            results[f"{file}::{test}"] = (outcome, why)
            said = f"{outcome:8} {file}::{test} ({time.monotonic() - began:.1f} s)"
            print(f"{said}{': ' if why else ''}{why}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    return closed(rows)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "python"))
    sys.exit(main())
