#!/usr/bin/env python3
"""PyTorch's own tests of process groups, from the installed torch, on the backend `neuron`.

    ./dev conformance torch-distributed [--ranks 2] [--only GLOB]... [--part I/N] [--json FILE]

torch.testing._internal.distributed.distributed_test, with BACKEND=neuron. The names of CUDA in it are read as this
device's, and a condition that lets a group of PyTorch's own run a test lets this one: `translated()` has the rules. A
test that names no device makes its tensors on the default one, which is neuron:RANK here. What tests compare is
computed on the device and compared on the CPU. Ranks are processes forked from this one. Ends with "N passed, N failed,
N skipped, N excluded".
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import functools
import importlib
import json
import os
import re
import sys
import tempfile
import time
import types
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from conformance.torch_suite.run import compare_on_the_cpu  # noqa: E402

# Tests that are not about this device, with the reason.
EXCLUDED = {
    "*sparse*": "sparse tensors, which the device does not have",
    "*_gloo*": "of gloo",
    "test_monitored_barrier*": "of gloo",
    "test_nccl_high_priority_stream": "a class of NCCL's own",
}


def translated(text: str) -> str:
    """The module's source as this device's.

    The word `cuda` is `neuron`. So are the backends of conditions that let one of PyTorch's own run a test (`BACKEND !=
    "nccl"`), and of what a test asks for, but where a decorator says `BACKEND == "nccl"`: those are reasons why NCCL
    does not run what is made on the default device, the CPU there.
    """
    text = re.sub(r"(?<!backends\.)(?<!version\.)(?<!import torch\.)(?<!from torch\.)\bcuda\b", "neuron", text)
    text = re.sub(r"(?<!== dist\.)\bBackend\.NCCL\b", "Backend.NEURON", text)
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if not re.match(r"\s*(@\w+\()?BACKEND ==", line):
            lines[number] = re.sub(r'"nccl"|(?<=!= )"(?:mpi|gloo)"|(?<=available\({)"gloo"', '"neuron"', line)
    return "".join(lines)


def upstream() -> types.ModuleType:
    """torch's module of these tests, for this device."""

    name = "torch.testing._internal.distributed.distributed_test"
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    module = types.ModuleType(name)
    module.__file__ = spec.origin
    sys.modules[name] = module
    text = translated(Path(spec.origin).read_text())
    exec(compile(text, spec.origin, "exec", dont_inherit=True), module.__dict__)
    return module


def with_cores(helpers: types.ModuleType) -> None:
    """What decides in torch's helpers which tests are skipped, before the tests are defined: this device's cores."""
    import torch

    backends = helpers.DistTestCases.backend_feature
    for feature in ("ddp", "subgroup", "plugin", "gpu", "cuda", "neuron"):
        backends[feature] = {*backends.get(feature, ()), "neuron"}

    def needing(count: int, **_: Any) -> Any:
        def decorate(test: Any) -> Any:
            @functools.wraps(test)
            def checked(*arguments: Any, **keywords: Any) -> Any:
                if torch.neuron.device_count() < count:
                    sys.exit(helpers.TEST_SKIPS[f"multi-gpu-{count}"].exit_code)
                torch.set_default_device(None)  # what asks for devices names them
                return test(*arguments, **keywords)

            return checked

        return decorate

    # As of every other device's group, whose tensors are not the CPU's.
    helpers.DistTestCases.skip_collective["cpu barrier"].add("neuron")
    helpers.skip_if_lt_x_gpu = needing
    helpers.skip_if_no_gpu = needing(1)
    helpers.init_multigpu_helper = lambda world_size, backend: {rank: [rank] for rank in range(world_size)}


def suite() -> Any:
    """The test class. The environment is set before torch's module is imported, which reads it then."""
    import torch
    import torch.distributed as dist
    from torch.testing._internal import common_distributed

    import opentrn.torch  # noqa: F401  (the device and its process group)

    with_cores(common_distributed)
    compare_on_the_cpu()
    module = upstream()

    class TestNeuron(module.TestDistBackend, module.DistributedTest._DistTestBase):  # type: ignore[misc, name-defined]
        def setUp(self) -> None:
            super().setUp()
            self._fork_processes()

        def _fork_processes(self) -> None:
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, rank: int, test_name: str, file_name: str, pipe: Any, **kwargs: Any) -> None:
            torch.neuron.set_device(rank)
            if "object" not in test_name:  # tensors inside of objects stay where they were made
                torch.set_default_device(f"neuron:{rank}")
            super()._run(rank, test_name, file_name, pipe, **kwargs)

    assert dist.Backend("neuron")
    return TestNeuron


def reason_of(name: str) -> str:
    return next((reason for pattern, reason in EXCLUDED.items() if fnmatch.fnmatch(name, pattern)), "")


def summary(text: str) -> str:
    """The line of a traceback that says most."""
    lines = [line.strip() for line in text.splitlines() if re.match(r"^\s*[\w.]*(Error|Exception|Skip)\b.*", line)]
    return (lines[-1] if lines else text.strip().splitlines()[-1])[:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", action="append", metavar="GLOB", help="of the names of tests; may be repeated")
    parser.add_argument("--part", metavar="I/N", default="1/1", help="the I-th of N parts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="results by test")
    options = parser.parse_args()
    os.environ |= {
        "BACKEND": "neuron", "WORLD_SIZE": str(options.ranks), "NEURON_RT_NUM_CORES": str(options.ranks),
        "TEMP_DIR": tempfile.mkdtemp(), "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    cases = suite()
    names = sorted(name for name in dir(cases) if name.startswith("test_"))
    if options.only:
        names = [name for name in names if any(fnmatch.fnmatch(name, glob) for glob in options.only)]
    index, count = map(int, options.part.split("/"))
    counts: collections.Counter[str] = collections.Counter()
    results = {}
    for name in names[index - 1 :: count]:
        began = time.monotonic()
        outcome, why = "excluded", reason_of(name)
        if not why:
            result = unittest.TestResult()
            unittest.TestSuite([cases(name)]).run(result)
            bad = [text for _, text in [*result.failures, *result.errors]]
            outcome = "failed" if bad else "skipped" if result.skipped else "passed"
            why = summary(bad[0]) if bad else result.skipped[0][1] if result.skipped else ""
        counts[outcome] += 1
        results[name] = [outcome, why]
        print(f"{outcome:8} {name} ({time.monotonic() - began:.1f} s){': ' if why else ''}{why}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print(", ".join(f"{counts[key]} {key}" for key in ("passed", "failed", "skipped", "excluded")))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "python"))
    sys.exit(main())
