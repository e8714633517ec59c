"""Programs of AWS's names in a folder of the user's: small scripts that start `opentrn` with the same words; and libnrt
with its headers and its package for CMake, which lie beside OpenTrn's own libraries.

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
    "neuron-monitor-statsd.py": ["neuron-monitor-statsd"],
    "neuron-monitor-cloudwatch.py": ["neuron-monitor-cloudwatch"],
    "neuron-monitor-k8s-info.py": ["neuron-monitor-k8s-info"],
    "neuron-top": ["neuron-top"],
    "neuron-explorer": ["neuron-explorer"],
    "neuronx-cc": ["neuronx-cc"],
    "neuron_parallel_compile": ["neuron_parallel_compile"],
}
LIBRARY = "libnrt.so.1"
_LINK = "link to "  # in the manifest, in a digest's place
_MANIFEST = Path("share") / "opentrn" / "neuron-tools.json"
_MANIFEST_BYTES_MAX = 1 << 20
_FOLDERS = (("bin",), ("lib",), ("include",))


def install(prefix: Path) -> list[Path]:
    """Writes PREFIX/bin/PROGRAM of every program, PREFIX/lib and PREFIX/include; returns the paths.

    Raises InputError "tools.install" where a file of that name is there that this did not install, or is changed.
    """
    known = _manifest(prefix)
    files: dict[str, bytes] = {f"bin/{name}": _script(words).encode() for name, words in PROGRAMS.items()}
    files |= _libnrt()
    links = {"lib/libnrt.so": LIBRARY}
    foreign = [name for name in (*files, *links) if not _is_ours(prefix / name, known.get(name))]
    if foreign:
        raise InputError(
            f"{prefix / foreign[0]} is there, and is not of `opentrn neuron-tools install`",
            label="tools.install",
            hint="choose another --prefix; AWS's own tools stay as they are",
        )
    try:
        for name, content in files.items():
            path = prefix / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with new_file(path) as part:
                part.write_bytes(content)
                part.chmod(0o755 if name.startswith("bin/") else 0o644)
        for name, target in links.items():
            if not (prefix / name).is_symlink():
                (prefix / name).symlink_to(target)
        digests = {name: _digest(content) for name, content in files.items()}
        digests |= {name: _LINK + target for name, target in links.items()}
        manifest = prefix / _MANIFEST
        manifest.parent.mkdir(parents=True, exist_ok=True)
        with new_file(manifest) as part:
            part.write_text(json.dumps({"files": digests}, indent=1) + "\n")
    except OSError as error:
        raise InputError(f"{error.filename or prefix}: {error.strerror}", label="tools.install") from error
    return [prefix / name for name in (*files, *links)]


def uninstall(prefix: Path) -> tuple[list[Path], list[Path]]:
    """Removes what install() wrote: (removed, changed since and left). Raises InputError where nothing is installed."""
    known = _manifest(prefix)
    if not known:
        raise InputError(
            f"{prefix} has no tools of `opentrn neuron-tools install`",
            label="tools.install",
            hint="name its --prefix",
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
    folders = {
        parent for name in (*known, str(_MANIFEST)) for parent in Path(name).parents if parent != Path(".")
    }
    for folder in sorted(folders, key=lambda each: -len(each.parts)):
        try:
            (prefix / folder).rmdir()
        except OSError:  # not empty: somebody else's files are in it
            continue
    return removed, left


def _libnrt() -> dict[str, bytes]:
    """Content by path below the prefix. InputError where this build has no libnrt."""
    source = Path(__file__).resolve().parents[1] / "libnrt"
    library = source / "lib" / LIBRARY
    if not library.is_file():
        raise InputError(
            f"{library} is not there",
            label="tools.install",
            hint="build OpenTrn whole: ./dev demo, or pip install .",
        )
    kept = [library, *source.glob("include/**/*.h"), *source.glob("lib/cmake/opentrn/*.cmake")]
    return {str(path.relative_to(source)): path.read_bytes() for path in sorted(kept)}


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
        return digest is not None and digest == _LINK + str(path.readlink())
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
        good = all(p[:1] in _FOLDERS and len(p) >= 2 and ".." not in p for p in parts)
        good = good and all(isinstance(digest, str) for digest in files.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        good = False
    if not good:
        raise InputError(
            f"{path} is damaged", label="tools.install", hint="remove it and the scripts in bin by hand"
        )
    return dict(files)
