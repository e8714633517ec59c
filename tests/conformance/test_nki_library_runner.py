"""The runner of nki-library's tests: what it says about results, and how it repairs a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance.nki_library import results, run  # noqa: E402

GOOD = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


def failure(reason: str) -> dict:
    return {"outcome": "failed", "reason": reason}


PASSED = {"outcome": "passed", "reason": ""}


def test_an_entry_without_message_is_stale_as_soon_as_one_of_its_tests_passes():
    known = [{"pattern": "a.py::*", "reason": "theirs"}]
    assert results.stale_entries({"a.py::x": failure("any"), "b.py::y": PASSED}, "trn2", known) == []
    (line,) = results.stale_entries({"a.py::x": failure("any"), "a.py::y": PASSED}, "trn2", known)
    assert "a.py::y" in line


def test_an_entry_with_a_message_is_stale_when_no_test_fails_so():
    known = [{"pattern": "a.py::*", "message": "KeyError", "reason": "theirs"}]
    assert results.stale_entries({"a.py::x": failure("KeyError: 1"), "a.py::y": PASSED}, "trn2", known) == []
    assert results.stale_entries({"a.py::x": failure("ValueError"), "a.py::y": PASSED}, "trn2", known) != []


def test_an_entry_of_another_target_or_of_tests_that_did_not_run_is_not_stale():
    known = [{"pattern": "a.py::*", "target": "trn3", "reason": "theirs"}]
    assert results.stale_entries({"a.py::x": PASSED}, "trn2", known) == []
    assert results.stale_entries({"b.py::x": PASSED}, "trn3", known) == []


def test_failures_without_an_entry_are_counted(capsys):
    group = results.GroupResult("g", {"unheard_of.py::x": failure("boom"), "unheard_of.py::y": PASSED})
    assert results.report([group], "trn2", [], "core") == 1
    printed = capsys.readouterr().out
    assert "UNKNOWN failed: unheard_of.py::x" in printed
    assert printed.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_resumed_group_forgets_the_failures_that_are_asked_for_again(tmp_path: Path):
    log = tmp_path / "max.trn2.jsonl"
    lines = [{"test": "x", **failure("boom")}, {"test": "y", **PASSED}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = run.argparse.Namespace(resume=tmp_path, platform_target="trn2", again="failed")
    assert results.read_log(run.log_of("max", tmp_path, options)) == {"y": PASSED}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git repository with one file that parses."""
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "f.py").write_text(GOOD)
    subprocess.run(["git", "add", "f.py"], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "-qm", "good"], cwd=tmp_path, check=True)
    return tmp_path


def test_a_file_that_does_not_parse_loses_the_change_that_breaks_it(checkout: Path):
    path = checkout / "f.py"
    path.write_text(GOOD.replace("return 2", "return 7").replace("return 1", "return 1\n  stray text"))
    how = run.repair(checkout, "f.py", path)
    assert path.read_text() == GOOD.replace("return 2", "return 7")
    assert "left out" in how


def test_a_file_with_two_breaking_changes_is_taken_from_its_history(checkout: Path):
    path = checkout / "f.py"
    path.write_text(GOOD.replace("return 1", "return ((").replace("return 2", "return ))"))
    assert "taken from" in run.repair(checkout, "f.py", path)
    assert path.read_text() == GOOD


def test_an_entry_with_cases_is_about_these_and_stale_as_soon_as_one_passes():
    known = [
        {
            "pattern": "a.py::f?{case}_bf16?",
            "cases": ["x-1", "x-2"],
            "message": "KeyError",
            "reason": "theirs",
        }
    ]
    failed = failure("KeyError: 1")
    assert results.entry_for("a.py::f[x-1_bf16]", "KeyError: 1", "trn2", known) is known[0]
    assert results.entry_for("a.py::f[x-3_bf16]", "KeyError: 1", "trn2", known) is None
    assert results.entry_for("a.py::f[x-1_bf16]", "ValueError", "trn2", known) is None
    tests = {"a.py::f[x-1_bf16]": failed, "a.py::f[x-2_bf16]": failed, "a.py::f[x-3_bf16]": PASSED}
    assert results.stale_entries(tests, "trn2", known) == []
    (line,) = results.stale_entries(tests | {"a.py::f[x-2_bf16]": PASSED}, "trn2", known)
    assert "1 of its tests pass" in line


def test_every_entry_says_where_it_holds_and_why():
    for entry in results.known_failures():
        assert entry["reason"] and not entry["pattern"].startswith("*")
        assert ("{case}" in entry["pattern"]) == ("cases" in entry)
