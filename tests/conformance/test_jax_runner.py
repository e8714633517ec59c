"""The runner of JAX's tests: how it reads reports, and what its table of exclusions may say."""

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

import pytest

from conformance.jax import run

REPORT = """<testsuites><testsuite>
<testcase classname="tests.lax_test.LaxTest" name="test_a" />
<testcase classname="tests.lax_test.LaxTest" name="test_b"><failure message="Wrong: 1&#10;more">...</failure></testcase>
<testcase classname="tests.lax_test.LaxTest" name="test_c"><skipped message="no gpu" /></testcase>
<testcase classname="tests.lax_test.LaxTest" name="test_d"><error message="died" /></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def result(tmp_path: Path) -> run.SuiteResult:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    return run.SuiteResult("lax", *run.outcomes_of(report))


def test_outcomes_and_messages_come_from_the_report(result: run.SuiteResult):
    assert {outcome: result.count(outcome) for outcome in ("passed", "failed", "skipped")} == {
        "passed": 1,
        "failed": 2,
        "skipped": 1,
    }
    assert result.messages["LaxTest.test_b"] == "Wrong: 1"


def test_a_result_goes_into_json(result: run.SuiteResult):
    result.on_host = {"stablehlo.sort": 2}
    assert json.loads(json.dumps(asdict(result)))["on_host"] == {"stablehlo.sort": 2}


def test_an_excluded_failure_is_skipped_and_a_needless_entry_is_named(result: run.SuiteResult):
    rows = [
        {"test": "lax/LaxTest.test_b*", "reason": "because"},
        {"test": "lax/LaxTest.test_a", "reason": "passes"},
        {"test": "nn/LaxTest.test_d", "reason": "another suite"},
    ]
    assert run.exclude(result, rows) == ["lax/LaxTest.test_a"]
    assert result.outcomes["LaxTest.test_b"] == "skipped"
    assert result.outcomes["LaxTest.test_d"] == "failed"


def test_every_exclusion_has_a_suite_and_a_reason():
    named = {"linalg"}  # a file of JAX's tests that is run by its name, as --only's help says
    for row in run.read_exclusions():
        assert row["test"].split("/")[0] in {*run.SUITES, *run.OTHERS_WITH_EIGHT, *named} and row["reason"]


def test_what_is_left_out_for_its_length_is_not_run_rather_than_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "lax_test.py").write_text("class LaxTest:\n  def test_long(self): ...\n")
    rows = [{"test": "lax/LaxTest.test_long", "reason": "many minutes", "never_run": True}]
    monkeypatch.setattr(run, "read_exclusions", lambda: rows)
    monkeypatch.setattr(run.subprocess, "run", lambda *_, **__: Namespace(returncode=0, stdout="", stderr=""))
    monkeypatch.setattr(sys, "argv", ["run.py", str(tmp_path), "--only", "lax"])
    assert run.main() == 0
    *_, unknown, last = capsys.readouterr().out.splitlines()
    assert unknown.endswith("lax/LaxTest.test_long") and last == "0 passed, 0 failed, 0 skipped"
