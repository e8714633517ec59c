"""The environments of conformance suites: made once, in order, and again when what they hold changes."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from conformance import environments  # noqa: E402

CONFORMANCE = Path(environments.__file__).parent


@pytest.fixture()
def done(monkeypatch):
    """What was done: environments that were made, and the words of each pip install."""
    steps = []

    def create(folder, with_pip, clear):
        assert with_pip and clear
        (folder / "lib/python3.12/site-packages").mkdir(parents=True, exist_ok=True)
        steps.append("made")

    def run(words, **options):
        beside = next((Path(words[0]).parents[1] / "lib").glob("python3*/site-packages")) / "opentrn-beside.pth"
        steps.append((*map(str, words[6:]), beside.exists()))
        return SimpleNamespace(returncode=int("broken" in words))

    monkeypatch.setattr(environments.venv, "create", create)
    monkeypatch.setattr(subprocess, "run", run)
    return steps


@pytest.mark.parametrize(
    ("beside", "seen", "left"), [("after", False, True), ("before", True, True), ("never", False, False)]
)
def test_it_is_made_once_and_again_for_other_packages(tmp_path, done, beside, seen, left):
    wanted = tmp_path / "packages.txt"
    wanted.write_text("ray==1\n")
    folder, finished = tmp_path / "env", []
    for _ in range(2):
        python = environments.environment(folder, ["-r", wanted], ["numpy"], beside=beside, then=finished.append)
    assert python == folder / "bin" / "python" and finished == [python]
    assert done == ["made", ("-r", str(wanted), seen), ("numpy", seen)]
    assert bool(list(folder.glob("lib/*/site-packages/opentrn-beside.pth"))) == left
    wanted.write_text("ray==2\n")
    environments.environment(folder, ["-r", wanted], ["numpy"], beside=beside)
    environments.environment(folder, ["-r", wanted], ["numpy"], beside=beside, also="more")
    assert done.count("made") == 3


def test_one_that_could_not_be_made_is_made_again(tmp_path, done):
    for _ in range(2):
        with pytest.raises(SystemExit, match="pip could not install broken"):
            environments.environment(tmp_path / "env", ["broken"])
    assert done.count("made") == 2


def test_no_suite_makes_environments_by_itself():
    def makes(text):
        return "venv.create(" in text or '"-m", "venv"' in text

    makers = [path for path in CONFORMANCE.rglob("*.py") if makes(path.read_text())]
    assert [path.name for path in makers] == ["environments.py"]
