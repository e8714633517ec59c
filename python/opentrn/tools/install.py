"""Programs of AWS's names in a folder of the user's: small scripts that start `opentrn` with the same words.

Nothing is installed unless asked, and nothing is overwritten that this did not install: a manifest under
PREFIX/share/opentrn says what did, with the digest of each file. uninstall() removes those that are still as they were.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from opentrn.base.files import new_file
from opentrn.errors import InputError

# A program, and the words of `opentrn` that it stands for. AWS's companions are installed with .py.
PROGRAMS = {
    "neuron-ls": ["neuron-ls"],
    "nccom-test": ["nccom-test"],
    "neuron-monitor": ["neuron-monitor"],
    "neuron-monitor-prometheus.py": ["neuron-monitor-prometheus"],
}
_MANIFEST = Path("share") / "opentrn" / "neuron-tools.json"
_MANIFEST_BYTES_MAX = 1 << 20


def install(prefix: Path) -> list[Path]:
    """Writes PREFIX/bin/PROGRAM of every program; returns their paths.

    Raises InputError "tools.install" where a file of that name is there that this did not install, or is changed.
    """
    known = _manifest(prefix)
    files = {f"bin/{name}": _script(words) for name, words in PROGRAMS.items()}
    foreign = [name for name in files if not _is_ours(prefix / name, known.get(name))]
    if foreign:
        raise InputError(
            f"{prefix / foreign[0]} is there, and is not of `opentrn neuron-tools install`",
            label="tools.install",
            hint="choose another --prefix; AWS's own tools stay as they are",
        )
    try:
        for name, text in files.items():
            path = prefix / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with new_file(path) as part:
                part.write_text(text)
                part.chmod(0o755)
        digests = {name: _digest(text.encode()) for name, text in files.items()}
        manifest = prefix / _MANIFEST
        manifest.parent.mkdir(parents=True, exist_ok=True)
        with new_file(manifest) as part:
            part.write_text(json.dumps({"files": digests}, indent=1) + "\n")
    except OSError as error:
        raise InputError(f"{error.filename or prefix}: {error.strerror}", label="tools.install") from error
    return [prefix / name for name in files]


def uninstall(prefix: Path) -> tuple[list[Path], list[Path]]:
    """Removes what install() wrote: (removed, changed since and left). Raises InputError where nothing is installed."""
    known = _manifest(prefix)
    if not known:
        raise InputError(
            f"{prefix} has no tools of `opentrn neuron-tools install`", label="tools.install", hint="name its --prefix"
        )
    removed, left = [], []
    for name, digest in known.items():
        path = prefix / name
        if not path.exists() and not path.is_symlink():
            continue
        if _is_ours(path, digest):
            path.unlink()
            removed.append(path)
        else:
            left.append(path)
    (prefix / _MANIFEST).unlink()
    for folder in ("bin", "share/opentrn", "share"):
        try:
            (prefix / folder).rmdir()
        except OSError:  # not empty: somebody else's files are in it
            continue
    return removed, left


def _script(words: list[str]) -> str:
    start = shlex.join([sys.executable, "-m", "opentrn", *words])
    source = Path(__file__).resolve().parents[2]
    # A checkout is not installed in its environment: its sources are found by their path.
    path = f"export PYTHONPATH={shlex.quote(str(source))}${{PYTHONPATH:+:$PYTHONPATH}}\n"
    return (
        "#!/bin/sh\n# OpenTrn: a simulated Neuron device. Installed by `opentrn neuron-tools install`.\n"
        f'{"" if "site-packages" in source.parts else path}exec {start} "$@"\n'
    )


def _is_ours(path: Path, digest: str | None) -> bool:
    """True too where there is no such file."""
    if path.is_symlink():
        return False
    if not path.exists():
        return True
    return digest is not None and path.is_file() and _digest(path.read_bytes()) == digest


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _manifest(prefix: Path) -> dict[str, str]:
    """The files of an earlier install with their digests; names that lead out of the prefix are refused."""
    path = prefix / _MANIFEST
    if not path.exists():
        return {}
    try:
        files: Any = {"": ""}  # none, of a file that is too large
        if path.stat().st_size <= _MANIFEST_BYTES_MAX:
            files = json.loads(path.read_text())["files"]
        parts = [Path(name).parts for name in files]
        good = all(p[:1] == ("bin",) and len(p) == 2 and p[1] != ".." for p in parts)
        good = good and all(isinstance(digest, str) for digest in files.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        good = False
    if not good:
        raise InputError(
            f"{path} is damaged", label="tools.install", hint="remove it and the scripts in bin by hand"
        )
    return dict(files)
