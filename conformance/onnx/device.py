#!/usr/bin/env python3
"""Run the backend node tests of the onnx package on a simulated NeuronCore.

    ./dev conformance onnx --device [--filter PATTERN] [--failed] [--json FILE] [--target trn2]

Every case that the importer takes (run.py) is compiled, run, and its results are compared with those that the
case expects, within the case's own tolerance or what its number format allows (ALLOWED). device.toml lists with
reasons what no device holds (skipped), ops without a kernel yet and cases known to fail; any other failure is an
error. The last line counts cases: `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.common import Tolerance, difference
from conformance.onnx.run import (
    HERE,
    Exclusions,
    Outcome,
    element_name,
    first_stage,
    load_cases,
    out_of_scope,
    run_case,
    time_limit,
    tomllib,
)

# Relative to the largest magnitude expected: one rounding of the format for each step of a short sum. f64 is
# f32 on a device.
ALLOWED = {"f16": 4e-3, "bf16": 3e-2, "f32": 2e-5, "f64": 2e-5}
INT32_MAX = 2**31 - 1
UINT32_MAX = 2**32 - 1


@dataclass(frozen=True)
class Known:
    """device.toml."""

    types: dict[str, str]  # element type -> why no device holds it
    failing: dict[str, str]  # case -> why it fails
    without_kernel: set[str]  # ops that no kernel takes in some form

    @classmethod
    def read(cls) -> Known:
        table = tomllib.loads((HERE / "device.toml").read_text())
        return cls(
            types={name: row["reason"] for row in table["types"] for name in row["types"]},
            failing={case: row["reason"] for row in table["known_failures"] for case in row["cases"]},
            without_kernel={op for row in table.get("without_kernel", []) for op in row["ops"]},
        )

    def explains(self, outcome: Outcome) -> bool:
        """True for what the lists let an outcome be."""
        if outcome.status != "failed":
            return outcome.name not in self.failing
        op = outcome.reason.removeprefix("no kernel: ").split(" ")[0]
        return outcome.name in self.failing or op in self.without_kernel


def beyond_32_bits(arrays: list[Any]) -> bool:
    """64-bit whole numbers that the device's 32-bit ones do not hold."""
    for array in arrays:
        limit = UINT32_MAX if array.dtype.kind == "u" else INT32_MAX
        wide = array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size > 0
        if wide and (int(array.max()) > limit or int(array.min()) < -INT32_MAX - 1):
            return True
    return False


def differs(want: Any, got: Any, rtol: float, atol: float) -> str:
    """What differs between an expected array and a result, or ""."""
    import numpy as np

    allowed = ALLOWED.get(element_name(np.asarray(want).dtype), 2e-5)
    return difference(want, got, Tolerance(each=rtol, least=atol, largest=allowed, integers=True))


def run_on_device(case: Any, target: str) -> Outcome:
    """Import, compile, run and compare one case."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    import opentrn
    from opentrn import _core, graph
    from opentrn.model import stages

    def on_device(stage: Any, arguments: list[Any]) -> list[Any]:
        return opentrn.compile(graph.Module(stage.raw.module), target=target, strict=True)(*arguments)

    outcome = Outcome(case.name, "passed")
    for data_set in case.data_sets:
        arrays, expected = (
            [np.asarray(numpy_helper.to_array(v) if isinstance(v, TensorProto) else v) for v in values]
            for values in data_set
        )
        if beyond_32_bits([*arrays, *expected]):
            return Outcome(case.name, "skipped", "64-bit values that 32 bits do not hold")
        inputs = dict(zip((value.name for value in case.model.graph.input), arrays, strict=False))
        first = first_stage(_core.graph, case, inputs)
        arguments, _ = _core.graph.onnx_names(first.raw.module)
        results, path = stages.run(first, [inputs[name] for name in arguments], on_device)
        outcome.stages = len(path)
        if len(results) != len(expected):
            return Outcome(case.name, "failed", f"{len(results)} outputs, expected {len(expected)}")
        for index, (want, got) in enumerate(zip(expected, results, strict=True)):
            if problem := differs(want, got, case.rtol, case.atol):
                return Outcome(case.name, "failed", f"wrong value: output {index}: {problem}", outcome.stages)
    return outcome


def _evaluated(case: Any) -> str:
    """Why the reference evaluator does not run the case, or ""; its wrong values are run.py's."""
    from opentrn import _core

    try:
        run_case(_core.graph, case)
    except Exception as error:
        return f"not imported: {str(error).splitlines()[0]}"
    return ""


def _types_of(case: Any) -> set[str]:
    """Names of the element types of the case's inputs, outputs and casts, as ONNX has them."""
    from onnx import TensorProto

    types = {
        value.type.tensor_type.elem_type for value in [*case.model.graph.input, *case.model.graph.output]
    }
    for node in case.model.graph.node:
        types |= {attribute.i for attribute in node.attribute if attribute.name == "to"}
    return {TensorProto.DataType.Name(number) for number in types}


def attempt(case: Any, scope: Exclusions, known: Known, target: str) -> Outcome:
    """run_on_device with skips, errors and a limit of time."""
    if reason := out_of_scope(case, scope):
        return Outcome(case.name, "skipped", reason)
    for name in _types_of(case) & known.types.keys():
        return Outcome(case.name, "skipped", known.types[name])
    try:
        with time_limit():
            return run_on_device(case, target)
    except NotImplementedError as error:
        if reason := _evaluated(case):
            return Outcome(case.name, "failed", reason)
        found = re.search(r"(stablehlo|chlo)\.[a-z_0-9]+|\[compiler\.type\]: \S+", str(error))
        return Outcome(case.name, "failed", f"no kernel: {found.group(0) if found else str(error)[:120]}")
    except Exception as error:
        return Outcome(case.name, "failed", f"{type(error).__name__}: {error}".replace("\n", " ")[:300])


def report(outcomes: list[Outcome], seconds: float) -> None:
    """Reasons of skips and failures, then the line that counts."""
    for status in ("skipped", "failed"):
        reasons = Counter(o.reason.split(";")[0] for o in outcomes if o.status == status)
        for reason, count in reasons.most_common():
            print(f"  {status} {count:4d}  {reason}")
    counts = Counter(o.status for o in outcomes)
    scope = counts["passed"] + counts["failed"]
    share = 100 * counts["passed"] / scope if scope else 0
    print(f"{share:.1f} % of {scope} tensor cases on the device; {seconds:.0f} s")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument("--failed", action="store_true", help="print every failing case with its reason")
    parser.add_argument("--json", type=Path, help="write every outcome here")
    parser.add_argument("--target", default="trn2", help="trn1, trn2 or trn3 (default: trn2)")
    options = parser.parse_args(argv)
    scope = Exclusions.read()
    known = Known.read()
    cases = [case for case in load_cases() if options.filter in case.name]
    started = time.monotonic()
    outcomes = [attempt(case, scope, known, options.target) for case in cases]
    if options.failed:
        for outcome in outcomes:
            if outcome.status == "failed":
                print(f"{outcome.name}: {outcome.reason}")
    if options.json:
        options.json.write_text(json.dumps([vars(outcome) for outcome in outcomes], indent=1))
    report(outcomes, time.monotonic() - started)
    contradictions = [o for o in outcomes if not known.explains(o)]
    for outcome in contradictions:
        print(f"{outcome.name}: {outcome.status}, against device.toml. {outcome.reason}")
    return 1 if contradictions else 0


if __name__ == "__main__":
    sys.exit(main())
