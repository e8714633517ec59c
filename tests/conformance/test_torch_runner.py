"""The runs against eager torch: what is missing on one side fails, and so does a list that is no longer true."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the databases are torch's")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance.torch import run  # noqa: E402
from conformance.torch.transformers_models import gradient_differences  # noqa: E402


def op_of(name: str) -> Any:
    return next(op for op in run.ops([], everything=True) if run.full_name(op) == name)


def first(op: Any, **keywords: Any) -> Any:
    return next(iter(op.sample_inputs("cpu", torch.float32, **keywords)))


def test_a_missing_result_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    op = op_of("aminmax")
    right = run._on_device
    monkeypatch.setattr(run, "_on_device", lambda call: lambda *given: list(right(call)(*given))[:1])
    assert run.check(op, first(op), gradients=False) == ["2 results became 1"]


def test_a_missing_gradient_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    op = op_of("mul")
    right = run._on_device
    monkeypatch.setattr(
        run, "_on_device", lambda call: lambda *given: [each.detach() for each in right(call)(*given)]
    )
    (found,) = run.check(op, first(op, requires_grad=True), gradients=True)
    assert "gradients became 0" in found


def test_unknown_failures_set_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lists = tmp_path / "lists.toml"
    monkeypatch.setattr(run, "LISTS", lists)
    add = op_of("add")
    monkeypatch.setattr(run, "ops", lambda *_: [add])
    monkeypatch.setattr(run, "check", lambda *_: ["result 0 differs"])
    words = ["--dtypes", "float32"]

    def status(text: str, *more: str) -> tuple[int, str]:
        lists.write_text(text)
        code = run.main([*words, *more])
        return code, capsys.readouterr().out

    row = '[[known_failures]]\nreason = "why"\nops = ["add"]\nmessage = "{}"\ndtypes = ["{}"]\n'
    assert status("")[0] == 1
    code, out = status(row.format("result 0", "float32"))
    assert code == 0 and " 0 failed" in out and "more are known failures" in out
    assert status(row.format("another message", "float32"))[0] == 1
    assert status(row.format("result 0", "int64"))[0] == 1  # of another type
    monkeypatch.setattr(run, "check", lambda *_: [])
    code, out = status(row.format("result 0", "float32"))
    assert code == 1 and "listed as a known failure, and did not fail: add" in out
    assert status(row.format("result 0", "float32"), "--samples", "1")[0] == 0  # not all samples ran
    assert status("")[0] == 0


def test_nothing_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--ops", "nomatch"]) == 2
    assert "nomatch" in capsys.readouterr().err


def test_samples_that_draw_are_skipped_and_the_others_compared() -> None:
    outcome = run.run_op(op_of("nn.functional.dropout"), torch.float32, 0, may_be_random=True)
    assert outcome.passed and outcome.skipped and not outcome.failed, outcome.reasons


def test_the_lists_name_ops_of_the_database() -> None:
    import fnmatch

    names = {run.full_name(op) for op in run.ops([], everything=True)}
    held = run.lists()
    patterns = [*held.excluded, *held.random, *(name for row in held.known for name in row.ops)]
    assert [each for each in patterns if not fnmatch.filter(names, each)] == []


def test_gradients_that_one_side_has() -> None:
    one, other = torch.ones(2), torch.tensor([1.0, 1.1])
    assert gradient_differences({"a": one, "b": None}, {"a": one.clone(), "b": None}) == []
    assert gradient_differences({"a": one, "b": None}, {"a": one, "b": one}) == [
        "gradient of b: only the device has one"
    ]
    assert gradient_differences({"a": one, "b": one}, {"a": one, "b": None}) == [
        "gradient of b: only eager torch has one"
    ]
    assert gradient_differences({"a": one}, {"a": one, "c": one}) == [
        "gradient of c: only the device has one"
    ]
    assert len(gradient_differences({"a": one}, {"a": other})) == 1
    assert len(gradient_differences({"a": one}, {"a": torch.tensor([1.0, float("nan")])})) == 1
