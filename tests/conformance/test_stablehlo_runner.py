"""The runner of StableHLO's tests: what counts as passed, failed and skipped."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance.stablehlo import device, run  # noqa: E402

PROGRAM = """func.func @good() {{
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  check.expect_almost_eq_const %1, dense<[2.0, {value}]> : tensor<2xf32>
  func.return
}}
"""
NO_CHECK = "func.func @plain() {\n  func.return\n}\n"
ARGUMENTS = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  return %a : tensor<2xf32>\n}\n"
BROKEN = "func.func @main() {\n  %0 = stablehlo.constant dense<1> : tensor<i32>\n  %1 = stablehlo.slice %0 [0:1] : "
BROKEN += "(tensor<i32>) -> tensor<i32>\n  func.return\n}\n"


def outcomes(tmp_path: Path, text: str, exclusion: run.Exclusion | None = None) -> list[str]:
    (tmp_path / "case.mlir").write_text(text)
    return [part.outcome for part in run.run_file(str(tmp_path), "case.mlir", exclusion)]


def test_a_part_passes_by_its_checks_and_fails_by_them(tmp_path: Path):
    text = PROGRAM.format(value=4.0) + "// -----\n" + PROGRAM.format(value=4.5)
    assert outcomes(tmp_path, text) == ["passed", "failed"]


def test_a_part_that_shows_nothing_is_skipped(tmp_path: Path):
    assert outcomes(tmp_path, NO_CHECK + "// -----\n" + ARGUMENTS) == ["skipped", "skipped"]


def test_a_part_that_is_refused_fails(tmp_path: Path):
    assert outcomes(tmp_path, BROKEN) == ["failed"]


def test_an_excluded_file_must_stay_within_its_tolerance(tmp_path: Path):
    near = run.Exclusion("case.mlir", "rounding", norm_tolerance=1e-2)
    assert outcomes(tmp_path, PROGRAM.format(value=4.01), near) == ["skipped"]
    assert outcomes(tmp_path, PROGRAM.format(value=5.0), near) == ["failed"]


def test_an_exclusion_that_is_not_needed_is_an_error(tmp_path: Path):
    near = run.Exclusion("case.mlir", "rounding", norm_tolerance=1e-2)
    assert outcomes(tmp_path, PROGRAM.format(value=4.0), near) == ["failed"]


def test_an_expected_refusal_must_have_its_label(tmp_path: Path):
    assert outcomes(tmp_path, BROKEN, run.Exclusion("case.mlir", "wrong", refused="slice.C2")) == ["skipped"]
    assert outcomes(tmp_path, BROKEN, run.Exclusion("case.mlir", "wrong", refused="slice.C9")) == ["failed"]
    assert outcomes(tmp_path, NO_CHECK, run.Exclusion("case.mlir", "wrong", refused="slice.C2")) == ["failed"]


def test_every_exclusion_says_how_its_files_still_hold():
    for entry in run.read_exclusions():
        assert entry.reason
        assert (entry.norm_tolerance > 0) != bool(entry.refused), entry.file


@pytest.mark.parametrize(("pattern", "count"), [("*", 2), ("sub", 1), ("testdata/a*", 1), ("nothing", 0)])
def test_files_are_found_by_pattern_or_part(tmp_path: Path, pattern: str, count: int):
    for name in ("testdata/a.mlir", "testdata/sub/b.mlir", "testdata/readme.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert len(run.find_files(tmp_path, pattern)) == count


ADD = """func.func @main() -> tensor<2xf32> {
  %0 = call @inputs() : () -> tensor<2xf32>
  %1 = stablehlo.add %0, %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @inputs() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
WANT = np.array([1.0, 1000.0], np.float32)


def on_device(tmp_path: Path, text: str) -> device.Outcome:
    (tmp_path / "case.mlir").write_text(text)
    return device.run_file(str(tmp_path / "case.mlir"), "trn2")


def test_a_program_passes_on_the_device(tmp_path: Path):
    assert on_device(tmp_path, ADD) == device.Outcome("case.mlir", "passed")


def test_a_program_that_the_evaluator_refuses_is_a_failure(tmp_path: Path):
    refused = on_device(tmp_path, BROKEN)
    assert refused.outcome == "failed" and refused.reason.startswith("the evaluator: ")


@pytest.mark.parametrize(
    "got",
    [[], [WANT, WANT], [WANT.astype(np.float16)], [WANT.reshape(1, 2)], [WANT * np.float32(np.nan)]],
    ids=["missing", "surplus", "dtype", "shape", "NaN"],
)
def test_no_tolerance_of_the_device_lets_it_pass(got: list[np.ndarray]):
    assert device.wrong_value("case.mlir", "chlo.lgamma", [WANT], got)


def test_element_wise_results_are_held_each_and_sums_by_the_largest():
    off = WANT + np.float32(1e-5)
    assert device.wrong_value("case.mlir", "stablehlo.add", [WANT], [off])
    assert device.wrong_value("case.mlir", "stablehlo.dot_general", [WANT], [off]) == ""
    assert device.wrong_value("case.mlir", "stablehlo.dot_general", [WANT], [WANT + np.float32(0.01)])


def test_a_float_type_without_a_tolerance_fails():
    small = np.ones(2, ml_dtypes.float8_e4m3fn)
    assert "no tolerance" in device.wrong_value("case.mlir", "", [small], [small])
