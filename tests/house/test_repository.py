"""Rules about the files of the repository."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from house import ROOT, relative, tracked

FILE_LINES_MAX = 800
# Path -> why it may be longer. An entry whose file is no longer too long must go.
LONG_FILES: dict[str, str] = {}

# A machine's own paths and names have no place in the repository: they hold nowhere else.
FOREIGN = [
    (re.compile(r"(?<![\w./-])/(?:work|root|home)/[\w.]"), "a path of somebody's machine"),
    (re.compile(r"(?<![\w./-])/tmp/[\w]"), "a fixed path in /tmp"),
    (re.compile(r"\bip-\d+-\d+-\d+-\d+\b|\b[\w-]+\.(?:internal|corp|lan)\b"), "a host name"),
]
TEXT = (
    "*.h",
    "*.cc",
    "*.py",
    "*.md",
    "*.toml",
    "*.cmake",
    "*CMakeLists.txt",
    "*.json",
    "*.csv",
    "*.txt",
    "dev",
    ".ci/run",
)
# C++ sources that are programs, one instruction's body each, or PyTorch's registrations: no unit with an interface.
NO_HEADER = re.compile(
    r"(^|/)main\.cc$|_test\.cc$|_benchmark\.cc$|_fuzz\.cc$|^src/python/|^src/cli/|^benchmarks/|/instructions/"
    r"|^src/torch/(autocast|attention|nested|group/ddp_timer)\.cc$"
)


def test_no_file_has_marks_of_an_unfinished_merge():
    mark = re.compile(r"^(<{7}|>{7})( |$)", re.MULTILINE)
    files = tracked("*.h", "*.cc", "*.py", "*.md", "*.toml", "*.cmake", "*.txt", "*.def")
    assert [relative(p) for p in files if mark.search(p.read_text(errors="replace"))] == []


def test_source_files_stay_short():
    too_long = {
        relative(p): lines
        for p in tracked("*.h", "*.cc", "*.py")
        if (lines := p.read_text().count("\n")) > FILE_LINES_MAX
    }
    unexplained = {path: lines for path, lines in too_long.items() if path not in LONG_FILES}
    assert unexplained == {}, (
        f"split these, or add them to LONG_FILES with the reason (limit {FILE_LINES_MAX} lines)"
    )
    assert [path for path in LONG_FILES if path not in too_long] == [], (
        "no longer too long: remove from LONG_FILES"
    )


def test_no_path_or_host_of_a_machine():
    found = []
    for path in tracked(*TEXT):
        if path.name == "test_repository.py":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found += [
                f"{relative(path)}:{number}: {what}: {line.strip()[:80]}"
                for rule, what in FOREIGN
                if rule.search(line)
            ]
    assert found == []


def test_every_source_has_an_interface():
    """A .cc includes a header of its own folder: the one that declares what it defines."""
    lonely = []
    for path in tracked("src/*.cc"):
        folder = relative(path.parent).removeprefix("src/")
        own = re.compile(rf'^#include "{folder}/[\w.-]+"|^int main\(', re.MULTILINE)  # a program declares nothing
        if not NO_HEADER.search(relative(path)) and not own.search(path.read_text()):
            lonely.append(relative(path))
    assert lonely == []


def test_no_leftover_of_an_editor_or_patch_is_kept():
    assert tracked("*.orig", "*.rej", "*.bak", "*~") == []


def test_every_cpp_test_is_built():
    unbuilt = []
    for path in tracked("src/*_test.cc"):
        if not re.search(r"^#include <g(test|mock)/", path.read_text(), re.MULTILINE):
            continue  # nccom_test.cc is the command nccom-test
        folders = [
            folder for folder in path.parents if (folder / "CMakeLists.txt").exists() and folder != ROOT
        ]
        if not any(path.name in (folder / "CMakeLists.txt").read_text() for folder in folders):
            unbuilt.append(relative(path))
    assert unbuilt == []


def test_cpp_headers_are_guarded():
    """Highway's -inl.h files are included once per target on purpose and carry Highway's own guard."""
    headers = [p for p in tracked("src/*.h") if not p.stem.endswith("-inl")]
    # An #ifndef guard is for headers that are also C.
    guard = re.compile(r"^#(pragma once|ifndef \w+_H_?)$", re.MULTILINE)
    assert [relative(p) for p in headers if not guard.search(p.read_text())] == []


def test_ruff_is_clean():
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "-q", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_python_asks_for_nothing_newer_than_it_says():
    """Ubuntu 22.04 has Python 3.10, and so says pyproject.toml."""
    assert 'requires-python = ">=3.10"' in (ROOT / "pyproject.toml").read_text()
    vermin = Path(sys.executable).with_name("vermin")
    options = ("--quiet", "--no-tips", "--violations", "--target=3.10-")
    done = subprocess.run([vermin, *options, *tracked("*.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_clang_format_is_clean():
    pinned = Path(sys.executable).with_name("clang-format")
    program = str(pinned) if pinned.exists() else shutil.which("clang-format")
    if program is None:
        pytest.skip("clang-format is not installed (tools/requirements.txt pins it)")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    if "version 14." not in version:
        pytest.skip(
            "other clang-format releases break lines differently; 14 is the one the sources are written with"
        )
    files = [str(p) for p in tracked("src/*.h", "src/*.cc")]
    done = subprocess.run([program, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    changed = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.MULTILINE)))
    assert done.returncode == 0, f"run ./dev format: {changed}"


def test_there_is_one_version_number():
    """python/opentrn/__init__.py has it; the build, the wheel and the shims take it from there."""
    source = (ROOT / "python" / "opentrn" / "__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(\d+\.\d+\.\d+)"$', source, re.MULTILINE)
    said = re.compile(rf"(?<![\w.]){re.escape(version)}(?![\w.])")
    own = re.compile(r"(?i)^\s*version\s*=|__version__|opentrn[ -_/]*v?\d|project\(")
    elsewhere = [
        f"{relative(path)}:{number}"
        for path in tracked("*.py", "*.toml", "*.cmake", "*CMakeLists.txt", "*.cc", "*.h")
        if "_test." not in path.name and "tests" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if said.search(line) and own.search(line)
    ]
    assert elsewhere == [f"python/opentrn/__init__.py:{source[: source.index('__version__ =')].count(chr(10)) + 1}"]
    released = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert all(tuple(map(int, each.split("."))) <= tuple(map(int, version.split("."))) for each in released)
    done = subprocess.run([sys.executable, "-m", "opentrn", "--version"], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(ROOT / "python"), "PATH": ""})  # fmt: skip
    assert version in done.stdout


def test_changelog_has_unreleased():
    """What changed since the newest version stands there; nothing did if this checkout is that version."""
    text = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    version = re.search(r'__version__ = "(.*?)"', (ROOT / "python" / "opentrn" / "__init__.py").read_text())
    released = re.search(r"^## (\d+\.\d+\.\d+)", text, re.MULTILINE)
    assert version is not None
    is_new = released is not None and released[1] == version[1]
    assert section.group(1).strip().startswith(("- ", "### ")) or (is_new and not section.group(1).strip())


def test_pinned_python_packages_are_exact():
    loose = []
    for path in tracked("tools/requirements*.txt"):
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#") and "==" not in line:
                loose.append(f"{path.name}: {line}")
    assert loose == []


def test_no_test_is_skipped_for_want_of_the_extension():
    """An extension that does not import is a failure of the build, and hides every test that it skips."""
    skips = re.compile(r"importorskip\(\s*[\"']opentrn")
    assert [relative(path) for path in tracked("tests/*.py") if skips.search(path.read_text())] == []


def test_no_decision_is_made_by_the_text_of_an_error():
    """Errors of OpenTrn have fields (opentrn.errors); what torch raises has none."""
    text = r"\bstr\((e|err|error|exc|exception)\)"
    decides = re.compile(rf"\bin {text}|{text}\.(startswith|find)\b")
    assert decides.search('if "[onnx." in str(error):') and not decides.search("tell(str(error))")
    ours = [path for path in tracked("python/*.py") if "torch" not in path.parts]
    assert [relative(path) for path in ours if decides.search(path.read_text())] == []


def test_what_mypy_is_told_to_ignore_has_a_code_and_a_reason():
    """`# type: ignore[code]  # why`: without a code it hides other errors, without a reason nobody can remove it."""
    right = re.compile(r"# type: ignore\[[a-z-]+\]  # \w")
    lines = [
        f"{relative(path)}:{number}"
        for path in tracked("python/opentrn/*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if "type: ignore" in line and not right.search(line)
    ]
    assert not lines, f"write `# type: ignore[code]  # why`: {', '.join(lines)}"
