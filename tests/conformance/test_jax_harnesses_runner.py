"""The runner of JAX's harnesses: a run that was cut off goes on where it was, with the same build only."""

import json
from pathlib import Path

import pytest

from conformance.jax_harnesses import run


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run, "build", lambda: "one")
    tally = run.resumed(tmp_path / "log")
    tally.add("sin_f32", "passed", "")
    tally.add("cos_f32", "failed", "the process died")
    tally.log.close()
    return tmp_path / "log"


def test_outcomes_come_back(log: Path):
    tally = run.resumed(log)
    assert tally.outcomes == {"sin_f32": ("passed", ""), "cos_f32": ("failed", "the process died")}
    tally.add("tan_f32", "passed", "")
    tally.log.close()
    assert run.resumed(log).count("passed") == 2
    assert json.loads(log.read_text().splitlines()[0]) == {"build": "one"}


def test_another_build_is_refused(log: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "build", lambda: "another")
    with pytest.raises(ValueError, match="another build"):
        run.resumed(log)


def test_every_exclusion_has_a_reason():
    assert all(row["harness"] and row["reason"] for row in run.exclusions())
