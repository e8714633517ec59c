#!/usr/bin/env python3
"""PyTorch's own tests of process groups, from the installed torch, on the backend `neuron`.

    ./dev conformance torch-distributed [--ranks 2] [--only GLOB]... [--part I/N] [--json FILE]

torch.testing._internal.distributed.distributed_test, as a backend of another package runs it: BACKEND=neuron. A test
that names no device makes its tensors on the default one, which is neuron:RANK here. Ranks are processes forked from
this one. Ends with "N passed, N failed, N skipped".
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import os
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# Tests that are not about this device, with the reason.
EXCLUDED = {
    "*_cuda*": "of CUDA",
    "*sparse*": "sparse tensors",
    "*nccl*": "of NCCL",
    "*_gloo*": "of gloo",
    "test_monitored_barrier*": "of gloo",
}


def suite() -> Any:
    """The test class. The environment is set before torch's module is imported, which reads it then."""
    import torch
    import torch.distributed as dist
    from torch.testing._internal import common_distributed

    import opentrn.torch  # noqa: F401  (the device and its process group)

    # Before the tests are defined: what a backend can do decides then which of them are skipped.
    backends = common_distributed.DistTestCases.backend_feature
    for feature in ("ddp", "subgroup", "plugin", "gpu"):
        backends[feature] = {*backends.get(feature, ()), "neuron"}
    from torch.testing._internal.distributed import distributed_test as upstream

    class TestNeuron(upstream.TestDistBackend, upstream.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._fork_processes()

        def _fork_processes(self) -> None:
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        @classmethod
        def _run(cls, rank: int, test_name: str, file_name: str, pipe: Any, **kwargs: Any) -> None:
            torch.neuron.set_device(rank)
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
    for folder in (ROOT, ROOT / "python"):
        sys.path.insert(0, str(folder))
    sys.exit(main())
