#!/usr/bin/env python3
"""Run StableHLO's test data through the compiler and a simulated NeuronCore, against the reference evaluator.

    ./dev conformance stablehlo --device PATH [--filter PATTERN] [--jobs N] [--target trn2] [--json FILE]

Every program of stablehlo/testdata whose tensors have device types is compiled, run, and its results are compared
with those of the evaluator, which passes the suite's own checks (run.py). An op without a device kernel is a
failure that names it. The last line counts files: `N passed, N failed, N skipped`; skipped are programs with
types that no device has (f64, 64-bit data, quantized) and dynamic shapes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from conformance.common import Tolerance, differences

NOTHING = "main gives no result"
# Types that no device has, in main's own lines. 64-bit integers are told by the file's name: as indices inside a
# program they are fine.
NOT_ON_DEVICE = re.compile(r"f64|quant\.uniform|\?x|FNUZ")
WIDE_INTEGERS = re.compile(r"_u?int64_|_u?int64\.")
# What main computes with, `%0:2 = call @inputs() : () -> (...)`, becomes its arguments.
INPUTS = re.compile(r"^ *(%\w+)(?::\d+)? = call @inputs\(\) : \(\) -> (.*)$", re.MULTILINE)
CHECK = re.compile(r"^\s*stablehlo\.custom_call @check\..*$", re.MULTILINE)
SMALL_INTEGERS = ("int2", "uint2", "int4", "uint4")
# How far a float may be from the evaluator's, in units of its type's rounding (eps). Other float types have no entry
# yet: a program that gives them fails until it is looked at.
EACH = {"float32": 4, "float16": 1, "bfloat16": 1}
# Where terms cancel, the bound is of the largest result: sums, and functions that are differences beside their zeros.
OF_LARGEST = {"float32": 8, "float16": 1, "bfloat16": 1}
SUMS = re.compile(
    r"(?:stablehlo|chlo)\.(?:dot|dot_general|convolution|reduce|reduce_window|scatter|select_and_scatter|fft|cholesky|"
    r"triangular_solve|batch_norm\w*|digamma|lgamma)\b"
)
# A complex power is the exponential of a product: the exponent multiplies what the logarithm was rounded by.
WIDER = {"pow_complex64_20_30_complex64_20_30.mlir": Tolerance(largest=20 * 2**-23)}
# Ops that the compiler sees as one function, which rounds once where the evaluator rounds after each: the reference is
# the evaluator in float64, rounded once too.
ONE_FUNCTION = ("logistic_bfloat16_20_20.mlir",)


@dataclass
class Outcome:
    """What became of one file."""

    file: str
    outcome: str  # passed, failed, skipped
    reason: str = ""


def _main_signature(text: str) -> str:
    """Types of the values that main works on: of its lines, without the data of constants."""
    body = text.split("func.func private", 1)[0]
    return re.sub(r'"0x[0-9A-Fa-f]*"', "", body)


def _with_arguments(text: str) -> str:
    """The program with its inputs as arguments of main, so that the compiler does not see their values."""
    call = INPUTS.search(text)
    if call is None:
        return text
    types = re.findall(r"tensor<(?:[^<>]|<[^>]*>)*>", call.group(2))
    text = text[: call.start()] + text[call.end() :]
    for number in range(len(types)):
        text = text.replace(f"{call.group(1)}#{number}", f"%in{number}")
    if len(types) == 1:
        text = re.sub(rf"{call.group(1)}(?![\w#:])", "%in0", text)
    arguments = ", ".join(f"%in{number}: {kind}" for number, kind in enumerate(types))
    return text.replace("@main()", f"@main({arguments})", 1)


def _tolerance(dtype: np.dtype, program: str) -> Tolerance:
    """What rounding may do to results of this type. KeyError: a float type that has no entry."""
    if dtype.kind in "biu" or dtype.name in SMALL_INTEGERS:
        return Tolerance()
    part = np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype
    format = ml_dtypes.finfo(part)
    if SUMS.search(program):
        return Tolerance(largest=OF_LARGEST[part.name] * float(format.eps))
    return Tolerance(each=EACH[part.name] * float(format.eps), least=float(format.tiny))


def wrong_value(file: str, program: str, want: list[np.ndarray], got: list[np.ndarray]) -> str:
    """What differs from the evaluator's results, or ""."""
    try:
        tolerances = [WIDER.get(file) or _tolerance(value.dtype, program) for value in want]
    except KeyError as error:
        return f"no tolerance is set for results of {error}"
    return differences(want, got, tolerances if len(want) == len(got) else Tolerance())


def _beyond_32_bits(values: np.ndarray) -> bool:
    """64-bit whole numbers that the device's 32-bit ones do not hold."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or values.size == 0:
        return False
    low, high = (0, 2**32 - 1) if values.dtype.kind == "u" else (-(2**31), 2**31 - 1)
    return int(values.min()) < low or int(values.max()) > high


def _as_list(value: object) -> list:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def run_file(path: str, target: str) -> Outcome:
    """Compile, run, compare one file."""
    import opentrn
    from opentrn import graph

    text = Path(path).read_text()
    name = Path(path).name
    if NOT_ON_DEVICE.search(_main_signature(text)) or WIDE_INTEGERS.search(name):
        return Outcome(name, "skipped", "types or shapes that no device has")
    program = CHECK.sub("", text)
    try:
        module = graph.parse(program)
        want = module.evaluate()
        if name in ONE_FUNCTION:
            exact = _as_list(module.evaluate(float64=True))
            want = [np.asarray(x).astype(np.asarray(to).dtype) for x, to in zip(exact, _as_list(want))]
        inputs = _as_list(module.evaluate(function="inputs")) if "@inputs()" in program else []
    except Exception as error:
        return Outcome(name, "failed", f"the evaluator: {error}".split("\n")[0])
    if any(_beyond_32_bits(np.asarray(value)) for value in _as_list(want)):
        return Outcome(name, "skipped", "64-bit values that 32 bits do not hold")
    try:
        got = opentrn.compile(_with_arguments(program), target=target, strict=True)(*inputs)
    except NotImplementedError as error:
        found = re.search(r"(stablehlo|chlo)\.[a-z_0-9]+", str(error))
        return Outcome(name, "failed", f"no kernel: {found.group(0) if found else str(error)[:80]}")
    except Exception as error:
        return Outcome(name, "failed", f"{type(error).__name__}: {str(error)[:200]}".replace("\n", " "))
    wanted = [np.asarray(value) for value in _as_list(want)]
    if not wanted:
        return Outcome(name, "skipped", NOTHING)
    if wrong := wrong_value(name, program, wanted, [np.asarray(value) for value in _as_list(got)]):
        return Outcome(name, "failed", f"wrong value: {wrong}")
    return Outcome(name, "passed")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of openxla/stablehlo")
    parser.add_argument("--filter", default="", help="files whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--target", default="trn2", help="trn1, trn2 or trn3 (default: trn2)")
    parser.add_argument("--json", type=Path, help="write every result here")
    arguments = parser.parse_args(argv)
    folder = arguments.checkout / "stablehlo" / "testdata"
    files = sorted(str(path) for path in folder.glob("*.mlir") if arguments.filter in path.name)
    if not files:
        print(f"no test files in {folder} match {arguments.filter}", file=sys.stderr)
        return 2
    begin = time.perf_counter()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        outcomes = list(pool.map(run_file, files, [arguments.target] * len(files), chunksize=16))
    reasons = Counter(row.reason for row in outcomes if row.reason.startswith("no kernel"))
    for reason, count in reasons.most_common():
        print(f"failed {count}: {reason}")
    for row in outcomes:
        if row.outcome == "failed" and not row.reason.startswith("no kernel"):
            print(f"FAILED {row.file}: {row.reason}")
    for reason, count in Counter(row.reason for row in outcomes if row.outcome == "skipped").most_common(8):
        print(f"skipped {count}: {reason}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in outcomes], indent=1))
    counts = Counter(row.outcome for row in outcomes)
    print(f"{len(files)} files in {time.perf_counter() - begin:.1f} s")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
