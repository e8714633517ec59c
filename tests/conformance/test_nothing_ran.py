"""A conformance run in which nothing ran is no success, and says why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def test_nki_samples(monkeypatch, capsys, tmp_path):
    from conformance.nki_samples import run

    monkeypatch.setattr(
        run, "extract", lambda checkout, folder: (folder / "test" / "unit").mkdir(parents=True)
    )
    monkeypatch.setattr(sys, "argv", ["run.py", str(tmp_path), "-k", "nomatch"])
    assert run.main() == 2
    assert "nomatch" in capsys.readouterr().err


def test_onnx(monkeypatch, capsys):
    pytest.importorskip("onnx")
    from conformance.onnx import run

    monkeypatch.setattr(run, "load_cases", lambda: [])
    monkeypatch.setattr(sys, "argv", ["run.py", "--filter", "nomatch"])
    assert run.main() == 2
    assert "nomatch" in capsys.readouterr().err


def test_models(monkeypatch, capsys):
    from conformance.models import run

    entry, route = next(
        (entry, route)
        for entry in run.ENTRIES
        for form, routes in run.ROUTES.items()
        for route in routes
        if form != entry.form and route not in run.ROUTES[entry.form]
    )
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", entry.name, "--route", route])
    assert run.main() == 2
    assert f"{entry.name} has no route {route}" in capsys.readouterr().err


def test_simgrid(monkeypatch, capsys):
    from conformance.simgrid import run

    monkeypatch.setattr(sys, "argv", ["run.py", "--graphs", "0"])
    with pytest.raises(SystemExit) as caught:
        run.main()
    assert caught.value.code == 2
    assert "nothing would be compared" in capsys.readouterr().err
