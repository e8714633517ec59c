"""Programs under AWS's names: what install writes, leaves alone, and takes away."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from opentrn.cli import main
from opentrn.errors import InputError
from opentrn.tools.install import install, uninstall

MANIFEST = Path("share/opentrn/neuron-tools.json")


def test_installs_runs_and_leaves_nothing(tmp_path, capsys):
    assert main(["neuron-tools", "install", "--prefix", str(tmp_path)]) == 0
    program = tmp_path / "bin" / "neuron-ls"
    assert str(program) in capsys.readouterr().out
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NEURON_")}
    done = subprocess.run([program, "-j"], capture_output=True, text=True, env=clean, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    devices = json.loads(done.stdout)
    assert sum(device["nc_count"] for device in devices) == 64
    assert main(["neuron-tools", "uninstall", "--prefix", str(tmp_path)]) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_is_somebody_elses_stays(tmp_path):
    (tmp_path / "bin").mkdir()
    other = tmp_path / "bin" / "neuron-ls"
    other.write_text("AWS's own")
    with pytest.raises(InputError, match="is not of") as refused:
        install(tmp_path)
    assert refused.value.label == "tools.install" and other.read_text() == "AWS's own"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["bin", "neuron-ls"]


@pytest.mark.parametrize("leads_to", ["a file", "nothing"])
def test_a_link_is_somebody_elses(tmp_path, leads_to):
    target, link = tmp_path / "target", tmp_path / "bin" / "neuron-ls"
    link.parent.mkdir()
    if leads_to == "a file":
        target.write_text("x")
    link.symlink_to(target)
    with pytest.raises(InputError, match="is not of"):
        install(tmp_path)
    assert link.is_symlink()
    assert target.read_text() == "x" if leads_to == "a file" else not target.exists()


def test_a_changed_program_is_left_and_named(tmp_path):
    install(tmp_path)
    install(tmp_path)  # over its own
    changed = tmp_path / "bin" / "neuron-ls"
    changed.write_text("mine now")
    removed, left = uninstall(tmp_path)
    assert left == [changed] and tmp_path / "bin" / "nccom-test" in removed
    with pytest.raises(InputError, match="has no tools"):
        uninstall(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"files": {"../x": "1"}}', '{"files": {"bin/..": "1"}}', '{"files": {"bin/x": 1}}']
)
def test_a_damaged_manifest_removes_nothing(tmp_path, text):
    (tmp_path / MANIFEST).parent.mkdir(parents=True)
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match="damaged"):
        uninstall(tmp_path)
