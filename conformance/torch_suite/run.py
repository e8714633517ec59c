#!/usr/bin/env python3
"""PyTorch's own device tests, from a checkout of it, on the device `neuron`.

    ./dev conformance torch-suite CHECKOUT [--files GLOB]... [--only GLOB]... [--part I/N] [--limit S] [--json FILE]
                                  [--on-cpu]

CHECKOUT: of pytorch/pytorch, of any release, or of Ascend/pytorch, whose copies of those tests are for another device
beside PyTorch's own: its names (npu) are read as neuron's. Tests for a device (instantiate_device_type_tests) are made
for this one by PyTorch's own means for out-of-tree devices; what a file imports that the installed torch no longer has
is replaced by what skips the test that uses it. Tests run one after the other in a process that is started anew after a
test that ends it or does not end. What fails runs on the CPU afterwards: a test that fails there too, in the same
words, for which the installed torch is of another release than the checkout, counts as excluded. Ends with a row for
each file, and "N passed, N failed, N skipped, N excluded".

--on-cpu: the tests for the CPU instead of the device.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import importlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
for folder in (ROOT, ROOT / "python"):
    sys.path.insert(0, str(folder))
from conformance.torch_parallel.run import OtherDevice, closed, reason_of, summary, translated  # noqa: E402

FILES = tuple(
    f"test/test_{name}.py"
    for name in (
        "torch", "nn", "ops", "view_ops", "modules", "autograd", "indexing", "reductions", "scatter_gather_ops",
        "sort_and_select", "tensor_creation_ops", "foreach", "binary_ufuncs", "unary_ufuncs", "shape_ops",
        "type_promotion",
    )
)  # fmt: skip
# Modules of torch's whose names tests import; releases differ in them.
HELPERS = (
    "common_utils", "common_device_type", "common_dtype", "common_cuda", "common_nn", "common_modules",
    "common_methods_invocations", "common_optimizers", "common_mkldnn", "composite_compliance", "opinfo",
)  # fmt: skip
# What older releases call a name that the installed torch's helpers have: lists that hold references since.
RENAMED = {"common_methods_invocations": {"binary_ufuncs_and_refs": "binary_ufuncs"}}
SUFFIXES = ("PRIVATEUSE1", "NEURON")  # of classes that torch makes for the device, which it has by either name
Row = tuple[str, str, str]  # test, outcome, why


class Gone:
    """A name that the installed torch's helpers have no more. As a decorator, of another device's conditions as a rule,
    it leaves a test as it is; in a test that runs it skips the test."""

    is_running = False

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *given: Any, **_: Any) -> Any:
        if Gone.is_running:
            raise unittest.SkipTest(f"{self.name} is no more in the installed torch")
        return given[0] if len(given) == 1 and callable(given[0]) else self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __radd__(self, before: list[Any]) -> list[Any]:
        return before

    def __bool__(self) -> bool:
        return False


def compare_on_the_cpu() -> None:
    """What tests compare is computed on the device and compared on the CPU, as torch compares what lies on two devices
    and what lies on MPS: numbers of 64 bits too."""
    from torch.testing import _comparison

    pair = _comparison.TensorLikePair
    equalized = pair._equalize_attributes

    def moved(self: Any, actual: Any, expected: Any) -> Any:
        if "neuron" in (actual.device.type, expected.device.type):
            actual, expected = actual.cpu(), expected.cpu()
        return equalized(self, actual, expected)

    pair._equalize_attributes = moved  # type: ignore[method-assign]


# Tests that torch's database leaves out, or expects to fail, on one of its own devices but not on this one.
LEFT_OUT: dict[str, str] = {}


def note_what_is_left_out() -> None:
    """Fills LEFT_OUT while tests are made."""
    from torch.testing._internal.common_modules import ModuleInfo
    from torch.testing._internal.opinfo.core import OpInfo

    def leaves_out(decorators: Sequence[Any]) -> bool:
        return any(
            each is unittest.expectedFailure or getattr(each, "__qualname__", "").startswith("skip.")
            for each in decorators
        )

    def note(info: Any) -> None:
        decorators = info.get_decorators

        def noted(self: Any, kind: str, test: str, device: str, dtype: Any, given: Any) -> Any:
            ours = decorators(self, kind, test, device, dtype, given)
            dtypes = [str(dtype).removeprefix("torch.")] if dtype else []
            name = "_".join([test, self.formatted_name, "neuron", *dtypes])
            for other in () if leaves_out(ours) else ("cpu", "cuda"):
                if leaves_out(decorators(self, kind, test, other, dtype, given)):
                    LEFT_OUT.setdefault(f"{kind}.{name}", other)
            return ours

        info.get_decorators = noted

    note(OpInfo)
    note(ModuleInfo)


def prepare(checkout: Path, on_cpu: bool = False) -> bool:
    """The device for torch's helpers, which ask for devices and environment when they are imported; whether the
    checkout is the other device's."""
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "cpu" if on_cpu else "privateuse1"
    if not on_cpu:
        os.environ["PYTORCH_TESTING_DEVICE_FOR_CUSTOM"] = "privateuse1"
    import opentrn.torch  # noqa: F401

    compare_on_the_cpu()
    note_what_is_left_out()
    for name in HELPERS:
        module = importlib.import_module(f"torch.testing._internal.{name}")

        def missing(each: str, of: types.ModuleType = module) -> Any:
            if each.startswith("__"):
                raise AttributeError(each)
            now = RENAMED.get(of.__name__.rpartition(".")[2], {}).get(each)
            return getattr(of, now) if now else Gone(f"{of.__name__}.{each}")

        module.__getattr__ = missing  # type: ignore[method-assign]
    is_other = (checkout / "torch_npu").is_dir()
    if is_other:
        sys.meta_path.insert(0, OtherDevice(checkout))
        other = importlib.import_module("torch_npu")
        other.__getattr__ = lambda each: Gone(f"torch_npu.{each}")  # type: ignore[method-assign]
    return is_other


def read(path: Path, is_other: bool, on_cpu: bool = False) -> str:
    """The text of a file of tests. What is skipped for the other device alone is not skipped here."""
    text = path.read_text().replace("super(self.__class__, self)", "super()")  # endless in classes made of the test's
    if on_cpu:
        text = re.sub(r"\bonly_for=[^)]*\)", 'only_for="cpu")', text)
        text = re.sub(r"^ *@only(PRIVATEUSE1|PrivateUse1)\n", "", text, flags=re.MULTILINE)
    if not is_other:
        return text
    return re.sub(r"^ *@unittest\.skip\((?!.*issue).*\)\n", "", translated(text), flags=re.MULTILINE)


def load(path: Path, is_other: bool, on_cpu: bool = False) -> types.ModuleType:
    """A file of the checkout as a module; "__main__" is what it must not think that it is."""
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    sys.path.append(str(path.parent))  # where files of tests find one another
    exec(compile(read(path, is_other, on_cpu), str(path), "exec"), module.__dict__)
    return module


def cases(module: types.ModuleType, on_cpu: bool = False) -> Iterator[tuple[type[unittest.TestCase], str]]:
    """Tests of classes that were made for the device."""
    suffixes = ("CPU",) if on_cpu else SUFFIXES
    for kind in list(vars(module).values()):
        if isinstance(kind, type) and issubclass(kind, unittest.TestCase) and kind.__name__.endswith(suffixes):
            for name in sorted(dir(kind)):
                if name.startswith("test") and callable(getattr(kind, name)):
                    yield kind, name


def said_last(text: str) -> str:
    """What a traceback says, without torch's advice how to run the test."""
    return summary(text.partition("\nTo execute this test")[0])


def takes_more(text: str) -> bool:
    """Whether a test of the types that an op takes (test_dtypes) says no more than that 16-bit floats work, too."""
    said = re.findall(r"^The following dtypes (.*): \{(.*)\}\.$", text, re.MULTILINE)
    halves = {"torch.float16", "torch.bfloat16"}
    return bool(said) and all("worked" in what and set(types.split(", ")) <= halves for what, types in said)


def beyond_the_device(text: str) -> str:
    """Why what a test says is no failure; empty where it is one."""
    if re.search(r"not close!.*Caused by \w+ input [^\n]*'torch\.(float64|complex128)'", text, re.DOTALL):
        return "asks for floats of 64 bits, which the device computes in 32"
    if re.search(r"GradcheckError: Jacobian (computed with forward mode )?mismatch", text):
        return "finite differences of floats of 64 bits, which the device computes in 32"
    if re.search(r"InputError: .*\[model\.range\]: \S+ of \S+ does not fit the 32 bits", text):
        return "numbers that need 64 bits, which the device refuses by name"
    return "the device takes floats of 16 bits here, of which PyTorch's CPU has no kernel" if takes_more(text) else ""


def run_one(kind: type[unittest.TestCase], name: str) -> tuple[str, str]:
    result = unittest.TestResult()
    unittest.TestSuite([kind(name)]).run(result)
    bad = [text for _, text in [*result.failures, *result.errors]]
    if bad:
        reason = beyond_the_device(bad[0])
        device = LEFT_OUT.get(f"{re.sub('(PRIVATEUSE1|NEURON)$', '', kind.__name__)}.{name}")
        if device and not reason:
            reason = f"torch's database leaves it out on {device}: {said_last(bad[0])}"
        return ("excluded", reason) if reason else ("failed", said_last(bad[0]))
    return ("skipped", result.skipped[0][1]) if result.skipped else ("passed", "")


def serve(tests: Sequence[tuple[type[unittest.TestCase], str]], write: int) -> None:
    """In a child: each test's outcome, one on a line."""
    Gone.is_running = True
    warnings.simplefilter("default")  # tests count them
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for kind, name in tests:
        try:
            said = run_one(kind, name)
        except BaseException as fault:  # noqa: BLE001  (whatever a test throws past unittest)
            said = ("failed", f"{type(fault).__name__}: {fault}"[:200])
        os.write(write, (json.dumps([f"{kind.__name__}.{name}", *said]) + "\n").encode())


def processor_s(child: int) -> float:
    """Seconds that a child has computed for."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_all(tests: list[tuple[type[unittest.TestCase], str]], limit_s: float) -> Iterator[Row]:
    """All outcomes; a child runs tests until one ends it, or takes longer than the limit, and the next one goes on.

    limit_s: of processor time, so that a busy machine fails no test; of a test that only waits, ten times as long.
    """
    while tests:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            serve(tests, write)
            os._exit(0)
        os.close(write)
        text, late, computed, began = b"", False, 0.0, time.monotonic()
        while True:
            if not select.select([read], [], [], min(limit_s, 1))[0]:
                if processor_s(child) - computed > limit_s or time.monotonic() - began > 10 * limit_s:
                    late = True
                    break
                continue
            computed, began = processor_s(child), time.monotonic()
            piece = os.read(read, 1 << 16)
            if not piece:
                break
            *lines, text = (text + piece).split(b"\n")
            for line in lines:
                yield tuple(json.loads(line))
                tests = tests[1:]
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if tests:
            kind, name = tests[0]
            why = f"not done after {limit_s:g} s of processor time" if late else "its process died"
            yield f"{kind.__name__}.{name}", "failed", why
            tests = tests[1:]


def name_on_cpu(test: str) -> str:
    """What torch calls Class.test of the device where it makes it for the CPU."""
    kind, _, name = test.partition(".")
    return f"{re.sub('(PRIVATEUSE1|NEURON)$', 'CPU', kind)}.{re.sub('_neuron(?=_|$)', '_cpu', name)}"


def same_place(text: str) -> str:
    return re.sub(r"\bneuron(:\d+)?\b", "cpu", text)


def said_on_the_cpu(checkout: Path, file: str, tests: Sequence[str], limit_s: float) -> dict[str, str]:
    """What those of a file's tests say that fail on the CPU too, in a process of its own: helpers ask for devices
    once."""
    names = {name_on_cpu(test): test for test in tests}
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        command = [sys.executable, "-m", "conformance.torch_suite.run", str(checkout), "--files", file, "--on-cpu"]
        command += ["--limit", str(limit_s), "--json", str(found)]
        for name in names:
            command += ["--only", name]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        rows = json.loads(found.read_text()) if found.exists() else {}
    outcomes = {key.partition("::")[2]: row for key, row in rows.items()}
    return {names[key]: why for key, (outcome, why) in outcomes.items() if outcome == "failed" and key in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--files", action="append", metavar="GLOB", help="of paths in the checkout; may be repeated")
    parser.add_argument("--only", action="append", metavar="GLOB", help="of Class.test; may be repeated")
    parser.add_argument("--part", metavar="I/N", default="1/1", help="the I-th of N parts of each file's tests")
    parser.add_argument("--limit", type=float, default=60, metavar="S", help="processor seconds that a test may take")
    parser.add_argument("--json", type=Path, metavar="FILE", help="results by test")
    parser.add_argument("--on-cpu", action="store_true", help="the tests for the CPU instead of the device")
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    exclusions = {} if options.on_cpu else tomllib.loads((HERE / "exclusions.toml").read_text())
    files = sorted(str(path.relative_to(checkout)) for glob in options.files or FILES for path in checkout.glob(glob))
    if not files:
        parser.error(f"{checkout} has none of {', '.join(options.files or FILES)}")
    part, parts = map(int, options.part.split("/"))
    is_other = prepare(checkout, options.on_cpu)
    rows: dict[str, collections.Counter[str]] = {}
    results: dict[str, tuple[str, str]] = {}

    def note(file: str, test: str, outcome: str, why: str) -> None:
        rows[file][outcome] += 1
        results[f"{file}::{test}"] = (outcome, why)
        if outcome != "excluded":
            print(f"{outcome:8} {file}::{test}{': ' if why else ''}{why}", flush=True)

    for file in files:
        rows[file] = collections.Counter()
        try:
            found = list(cases(load(checkout / file, is_other, options.on_cpu), options.on_cpu))[part - 1 :: parts]
        except Exception as fault:  # noqa: BLE001  (a file of another release may fail in any way)
            note(file, "", "failed", f"cannot be imported: {type(fault).__name__}: {fault}")
            continue
        chosen = []
        for kind, name in found:
            test = f"{kind.__name__}.{name}"
            if options.only and not any(fnmatch.fnmatch(test, glob) for glob in options.only):
                continue
            why = reason_of(exclusions, file, test) or is_other and reason_of(exclusions, f"copies of {file}", test)
            if why:
                note(file, test, "excluded", why)
            else:
                chosen.append((kind, name))
        failed = {}
        for test, outcome, why in run_all(chosen, options.limit):
            note(file, test, outcome, why)
            if outcome == "failed" and not options.on_cpu:
                failed[test] = why
        for test, why in (said_on_the_cpu(checkout, file, [*failed], options.limit) if failed else {}).items():
            if same_place(why) != same_place(failed[test]):
                continue
            rows[file]["failed"] -= 1
            print(f"on the CPU, too: {file}::{test}: {why}", flush=True)
            note(file, test, "excluded", f"fails on the CPU too: {why}")
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    return closed(rows)


if __name__ == "__main__":
    sys.exit(main())
