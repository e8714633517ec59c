"""./dev conformance: starts the runner of another project's test suite, conformance/<suite>/run.py."""

from __future__ import annotations

import ast
import hashlib
import re

from devtool.paths import ROOT, TOOLS, VENV, venv_bin
from devtool.report import DevError, run, say

_FOLDER = ROOT / "conformance"


def names() -> list[str]:
    """Suites as the command line names them: nki-docs, nki-library, ..."""
    return sorted(path.parent.name.replace("_", "-") for path in _FOLDER.glob("*/run.py"))


def module(suite: str) -> str:
    """The runner's module. Raises DevError with the known names for any other."""
    if suite not in names():
        known = " | ".join(names()) or "none yet"
        raise DevError(f"no conformance suite '{suite}'", f"./dev conformance {known} PATH")
    return f"conformance.{suite.replace('-', '_')}.run"


def help_text() -> str:
    """Every suite with what it is and how it is called, as its runner's docstring says."""
    parts = ["usage: ./dev conformance SUITE [PATH] [options]", "./dev conformance SUITE --help says more."]
    for name in names():
        runner = ROOT.joinpath(*module(name).split(".")).with_suffix(".py")
        doc = ast.get_docstring(ast.parse(runner.read_text())) or ""
        calls = [line.strip() for line in doc.splitlines() if line.startswith("    ")]
        calls = [re.sub(r"^(python \S*( \S+\.run)?|\./dev conformance \S+)", f"./dev conformance {name}", call)
                 for call in calls if call.startswith(("python ", "./dev "))]  # fmt: skip
        parts.append("\n".join([f"{name}: {doc.splitlines()[0]}", *(f"    {call}" for call in calls)]))
    return "\n\n".join(parts)


def install_requirements(suite: str) -> None:
    """Installs what the suite's tests import, once per content of its requirements.txt."""
    file = _FOLDER / suite.replace("-", "_") / "requirements.txt"
    if not file.exists():
        return
    stamp = VENV / f"opentrn-{suite}.sha256"
    wanted = hashlib.sha256(file.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"pip: {file.relative_to(ROOT)}")
    files = ("requirements-build.txt", "requirements.txt", "requirements-torch.txt")
    pins = [word for name in files for word in ("-c", TOOLS / name)]
    pip = [venv_bin("python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run(
        [*pip, *pins, "-r", file],
        hint=f"a package that {suite}'s tests import could not be installed; see {file.relative_to(ROOT)}",
        quiet=True,
    )
    stamp.write_text(wanted)
