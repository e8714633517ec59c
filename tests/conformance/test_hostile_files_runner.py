"""conformance/hostile_files: a sample of its files end as they must, and what does not is told."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance.hostile_files import run  # noqa: E402
from conformance.hostile_files.files import CASES, SECRET  # noqa: E402

# Of each kind one: another file's bytes, a device, sizes, calls that multiply, depth, loops, a container, no model.
SAMPLE = (
    "unread_function.onnx", "device_cached.onnx", "expand.onnx", "doubling_25.onnx", "branches_3000.onnx",
    "endless.mlir", "deep.neuron", "empty.onnx", "empty.neuron",
)  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_ends_in_named_errors_in_time(name, tmp_path):
    outcome = run.opened(name, CASES[name], tmp_path, seconds=10)  # under sanitizers and beside other tests
    assert outcome.why == "" and outcome.label == CASES[name].label


def test_what_does_not_end_as_it_must_is_told(tmp_path):
    case, name = CASES["empty.onnx"], "empty.onnx"
    assert (
        "expected [other.label]"
        in run.opened(name, dataclasses.replace(case, label="other.label"), tmp_path / "a").why
    )
    assert "took" in run.opened(name, case, tmp_path / "b", seconds=0.0).why

    def gives_away(path: Path) -> None:
        (path.parent / "out.neuron").write_bytes(SECRET)

    leaks = dataclasses.replace(case, make=lambda path: (case.make(path), gives_away(path)))
    assert run.opened(name, leaks, tmp_path / "c").why == "what was saved holds another file"


def test_nothing_run_is_no_success(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "nomatch"])
    assert run.main() == 2 and "nomatch" in capsys.readouterr().err
