"""./dev release: the files of a release in out/release: a wheel for each Python, SHA-256 sums, the notes.

Nothing is published: .github/workflows/release.yml makes a draft of a release of them when a tag is pushed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from devtool.build import ccache_environment
from devtool.paths import OUT, ROOT, venv_bin
from devtool.report import DevError, run, say

FOLDER = OUT / "release"
# Most objects of a wheel know nothing of Python: with ccache the second wheel takes them from the first, if
# their paths are relative to the checkout.
BUILD_ENV = {"CXX": "c++", "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", **ccache_environment()}


def version() -> str:
    """The version of this checkout, from its one place."""
    text = (ROOT / "python" / "opentrn" / "__init__.py").read_text()
    (found,) = re.findall(r'^__version__ = "(\d+\.\d+\.\d+)"$', text, re.MULTILINE)
    return found


def notes(changelog: str, of: str) -> str:
    """The section `## VERSION` or `## VERSION (DATE)` of the changelog, without its heading.

    Raises DevError where there is none, or nothing in it.
    """
    sections = re.split(r"^## (.*)$", changelog, flags=re.MULTILINE)
    for heading, body in zip(sections[1::2], sections[2::2]):
        if heading.split(" ", 1)[0] == of and body.strip():
            return body.strip() + "\n"
    raise DevError(
        f"CHANGELOG.md has no section '## {of}'",
        f"name the section that is to be released '## {of} (DATE)', and begin a new '## Unreleased' above it",
    )


def check(tag: str) -> str:
    """The notes of the version that the tag names. DevError where this checkout is another version or has none."""
    if tag != f"v{version()}":
        raise DevError(
            f"the tag is {tag}, and this checkout is version {version()}",
            "write the version into python/opentrn/__init__.py, commit, and tag that commit",
        )
    return notes((ROOT / "CHANGELOG.md").read_text(), version())


def _expect_unchanged() -> None:
    command = ["git", "status", "--porcelain"]
    changed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    if changed != [""]:
        raise DevError(f"the checkout has changes, {changed[0].strip()} first", "commit them, or put them away")


def _wheel(python: str | Path) -> None:
    say(f"build the wheel for {python}")
    run(
        [python, "-m", "pip", "-q", "--disable-pip-version-check", "wheel", "--no-deps", "-w", FOLDER, ROOT],
        env=BUILD_ENV,
        hint="pip fetches scikit-build-core and nanobind; pyproject.toml names them",
    )


def sums(files: Sequence[Path]) -> str:
    """As `sha256sum` writes them."""
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files))


def make(arguments: argparse.Namespace) -> int:
    """The command; `python`: interpreters to build for, by default the development environment's."""
    text = check(arguments.tag or f"v{version()}")
    if arguments.check:
        print(text, end="")
        return 0
    _expect_unchanged()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    (FOLDER / "notes.md").write_text(text)
    for python in arguments.python or [venv_bin("python")]:
        _wheel(python)
    (FOLDER / "SHA256SUMS").write_text(sums([*FOLDER.glob("*.whl")]))
    say(f"the release is in {FOLDER.relative_to(ROOT)}")
    return 0
