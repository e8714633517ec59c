"""A release: its notes, the tag that names it, and the workflow files that make it."""

import fnmatch
import re
import subprocess
import sys
from pathlib import Path

import pytest
from house import ROOT, tracked

from devtool import release
from devtool.report import DevError

CHANGELOG = """# Changelog

## Unreleased

- Later.

## 0.2.0 (2027-01-02)

### Models

- Faster.

## 0.1.0

- First.

## 0.0.9

"""


def test_notes_are_the_section_of_the_version():
    assert release.notes(CHANGELOG, "0.2.0") == "### Models\n\n- Faster.\n"
    assert release.notes(CHANGELOG, "0.1.0") == "- First.\n"


@pytest.mark.parametrize("version", ["0.0.9", "0.3.0", "0.2"])
def test_a_version_without_notes_is_refused(version: str):
    with pytest.raises(DevError, match=f"no section '## {re.escape(version)}'"):
        release.notes(CHANGELOG, version)


def test_the_tag_is_that_of_the_version():
    with pytest.raises(DevError, match="this checkout is version"):
        release.check("v99.0.0")


def test_sums_are_those_of_sha256sum(tmp_path: Path):
    for name in ("b.whl", "a.whl"):
        (tmp_path / name).write_text(name)
    command = ["sha256sum", "a.whl", "b.whl"]
    wanted = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert release.sums([tmp_path / "b.whl", tmp_path / "a.whl"]) == wanted


@pytest.mark.parametrize("path", tracked(".github/workflows/*.yml"), ids=lambda path: path.name)
def test_workflows_run_commands_that_there_are(path: Path):
    text = re.sub(r"#.*", "", path.read_text())
    used = set(re.findall(r"\./dev ([a-z-]+)", text))
    helped = subprocess.run([sys.executable, "-m", "devtool", "--help"], cwd=ROOT / "tools", capture_output=True,
                            text=True, check=True).stdout  # fmt: skip
    assert used and used <= set(re.findall(r"^ {4}([a-z-]+)", helped, re.MULTILINE))


def test_the_workflow_of_a_release_gives_options_that_there_are():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    used = set(re.findall(r"(--[a-z]+)", "".join(re.findall(r"\./dev release(.*(?:\n {10}--python.*)?)", text))))
    helped = subprocess.run([sys.executable, "-m", "devtool", "release", "--help"], cwd=ROOT / "tools",
                            capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert used == {"--tag", "--check", "--python"} and all(option in helped for option in used)


def test_every_file_has_an_owner_and_every_line_a_file():
    lines = [line.split() for line in (ROOT / ".github" / "CODEOWNERS").read_text().splitlines()
             if line.strip() and not line.startswith("#")]  # fmt: skip
    assert lines[0][0] == "*"
    files = ["/" + path.relative_to(ROOT).as_posix() for path in tracked("*")]
    for pattern, *owners in lines:
        assert owners and all(re.fullmatch(r"@[\w-]+(/[\w-]+)?", owner) for owner in owners)
        wanted = pattern + "*" if pattern.endswith("/") else pattern
        assert any(fnmatch.fnmatch(file, wanted) for file in files), pattern
