"""Tests of the runner of transformers' architectures, conformance/architectures, without transformers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.architectures import run as suite

# What models.py does, of a few types that are no models.
_CHILD = """
import json, os, sys, time
mode, names = sys.argv[1], sys.argv[2:]
if not names:
    print("good bad gone hangs other")
for name in names:
    if name == "gone":
        os._exit(3)
    if name == "hangs":
        time.sleep(60)
    state = {"bad": "failed", "other": "not built"}.get(name, "passed")
    row = {"name": name, "state": state, "why": mode if name == "bad" else "", "host": ["aten::nonzero"]}
    print(json.dumps(row), flush=True)
"""


@pytest.fixture(autouse=True)
def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models.py").write_text(_CHILD)
    monkeypatch.setattr(suite, "HERE", tmp_path)
    monkeypatch.setattr(suite, "LIMIT_S", 10)
    monkeypatch.setattr(suite.environments, "environment", lambda *_, **__: Path(sys.executable))


def test_a_type_that_ends_or_holds_its_process_is_a_failure_and_the_others_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suite.main(["--mode", "gradient", "--json", str(tmp_path / "rows.json")]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "passed    good [host: aten::nonzero]", "failed    bad: gradient [host: aten::nonzero]",
        "failed    gone: its process ended with 3", "failed    hangs: not done after 10 s",
        "not built other [host: aten::nonzero]", "1 passed, 3 failed, 0 undecided, 1 not built",
    ]  # fmt: skip
    rows: dict[str, Any] = json.loads((tmp_path / "rows.json").read_text())
    assert rows["mode"] == "gradient" and [row["state"] for row in rows["rows"]].count("failed") == 3


def test_types_are_chosen_by_name_and_unknown_ones_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert suite.main(["--only", "g*d"]) == 0
    assert capsys.readouterr().out.endswith("1 passed, 0 failed, 0 undecided, 0 not built\n")
    with pytest.raises(SystemExit):
        suite.main(["--only", "bert"])
    assert "no type of model is named bert" in capsys.readouterr().err
