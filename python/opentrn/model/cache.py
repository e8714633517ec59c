"""Compiled models by content: a compile that was done before is a file that is read.

The key is SHA-256 over what a compilation depends on: the bytes of the model and of the files that hold its weights,
the options, and the compiler itself (the bytes of the C++ library). Entries are .neuron files whose weights
stay in the model's files where they lie there. Entries appear by renaming, so several processes may compile
into one cache at once; two that compile the same model write the same entry. An entry holds its key, and is none of
another name's. Who can write to the cache can give its users any program, so a folder that others own or may write to
is not used; the super-user's is.

The folder: $OPENTRN_CACHE; else, as AWS's compiler has them, --cache_dir of $NEURON_CC_FLAGS and
$NEURON_COMPILE_CACHE_URL (a path or file://, no s3://); else $XDG_CACHE_HOME/opentrn or ~/.cache/opentrn.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from opentrn import _core
from opentrn.base.digest import sha256_of
from opentrn.base.files import shown
from opentrn.errors import InputError
from opentrn.settings.compiler_flags import parse_cache_dir

__all__ = [
    "Entry",
    "clear",
    "clear_layers",
    "entries",
    "folder",
    "key_of",
    "layers",
    "parts",
    "path_of",
    "stated_folder",
    "sweep",
    "why_not_trusted",
]

_FORMAT = "opentrn-model-cache-2"
KEY_FACT = "cache_key"  # of an entry, by which it is known whatever its file is called
PERMISSIONS = (
    0o644  # of an entry from its first byte on: nobody else may write to it, whatever the umask says
)
_STALE_AFTER = 3600.0  # seconds that nobody wrote to a file that is being written


@dataclass(frozen=True)
class Entry:
    """One compiled model of the cache. `used`: when it was last written or hit, seconds since the epoch."""

    key: str
    path: Path
    bytes: int
    used: float

    @property
    def facts(self) -> dict[str, str]:
        """What compile() noted: "source", "target", "options". Raises ValueError for a damaged entry."""
        return _core.load_models(str(self.path))[0]


def folder() -> Path:
    """Where compiled models are kept; it need not exist. ValueError for a URL of another scheme."""
    if stated := stated_folder():
        return stated
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "opentrn"


def stated_folder() -> Path | None:
    """What the environment names as the folder, or None. ValueError for a URL of another scheme."""
    if place := os.environ.get("OPENTRN_CACHE"):
        return Path(place)
    flag = parse_cache_dir(os.environ.get("NEURON_CC_FLAGS", ""))
    place = flag or os.environ.get("NEURON_COMPILE_CACHE_URL")
    if not place:
        return None
    url = urlparse(place)
    if url.scheme == "file":
        return Path(url2pathname(url.path))
    if url.scheme:
        name = "--cache_dir" if flag else "NEURON_COMPILE_CACHE_URL"
        raise InputError(
            f"{name}={place}: OpenTrn keeps compiled models in a folder",
            label="cache.url",
            hint="a path, or OPENTRN_CACHE=FOLDER, or --no-cache",
        )
    return Path(place)


@functools.cache
def _compiler() -> str:
    """What compiles: the C++ library, by content."""
    return sha256_of(_core.__file__)


def key_of(text: str | None, path: str, options: Mapping[str, Any]) -> str:
    """The key of a model: `text`, or the file at `path` with the files its weights lie in."""
    digest = hashlib.sha256()

    def add(what: str, data: str) -> None:
        digest.update(f"{what} {len(data)} {data}\n".encode("utf-8", "surrogateescape"))

    add("format", _FORMAT)
    add("compiler", _compiler())
    add("options", json.dumps(options, sort_keys=True))
    if times := _core.custom_op_times():  # a compiled program has them in it
        add("custom operators", json.dumps(times, sort_keys=True))
    if text is not None:
        add("text", text)
        return digest.hexdigest()
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{shown(path)} is no regular file", label="import.file", hint="the path of a file")
    add("suffix", Path(path).suffix)  # which says how the file is read
    if Path(path).suffix != ".onnx":
        add("path", os.path.abspath(path))  # locations of the program name the file
        add("file", sha256_of(path))
        return digest.hexdigest()
    for part in _core.files_of_onnx(path):
        add("file", f"{part.name} {part.begin} {hashlib.sha256(part.view).hexdigest()}")
    return digest.hexdigest()


def path_of(key: str) -> Path:
    """The file of an entry, whether it exists or not."""
    return folder() / "models" / key[:2] / f"{key}.neuron"


def why_not_trusted(entry: Path) -> str:
    """Why the file of an entry, which need not exist, is neither read nor written; "" when it is."""
    for path in (folder(), folder() / "models", entry.parent, entry):
        try:
            facts = path.stat()
        except OSError:
            continue  # it is not there yet, or cannot be read by us at all
        if facts.st_uid not in (os.geteuid(), 0):
            return f"{path} belongs to another user"
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others may write to {path} (try: chmod go-w {path})"
    return ""


def make_folder_of(entry: Path) -> None:
    """The folders of an entry, where they are missing: nobody else's to write to, whatever the umask says."""
    for path in (folder().parent, folder(), folder() / "models", entry.parent):
        path.mkdir(mode=0o777 if path == folder().parent else 0o755, parents=True, exist_ok=True)


def parts() -> Iterator[tuple[Path, bool]]:
    """Files that are being written, and whether nobody does so any more: their process is gone, or idle for an hour."""
    for path in (folder() / "models").glob("*/*.part"):
        try:
            age = time.time() - path.stat().st_mtime
        except FileNotFoundError:
            continue  # it took its name meanwhile
        yield path, age > _STALE_AFTER or not _is_alive(path)


def _is_alive(part: Path) -> bool:
    pid = part.name.split(".")[-3] if part.name.count(".") >= 3 else ""
    if not pid.isdigit():
        return True  # its age decides
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (OverflowError, PermissionError):
        return True
    return True


def sweep() -> tuple[int, int] | None:
    """Removes what interrupted writers left; (how many, bytes), None when there was nothing."""
    count = freed = 0
    for path, stale in parts():
        if stale:
            size = path.stat().st_size
            path.unlink(missing_ok=True)
            count, freed = count + 1, freed + size
    return (count, freed) if count else None


def entries() -> Iterator[Entry]:
    """What the cache holds, most recently used first."""
    found = []
    for path in (folder() / "models").glob("*/*.neuron"):
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue  # another process cleared it meanwhile
        found.append(Entry(path.stem, path, facts.st_size, facts.st_mtime))
    yield from sorted(found, key=lambda entry: -entry.used)


def touch(path: Path) -> None:
    """Notes that the entry was used."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return  # another process cleared it meanwhile
    except OSError as error:
        print(f"opentrn: the cache cannot be written: {error}", file=sys.stderr)


def layers() -> Iterator[Path]:
    """Files of the times of layers that `opentrn plan` has compiled, one for each build and generation."""
    yield from (folder() / "layers").glob("*.tsv")


def clear_layers(older_than_days: float = 0.0, *, now: float | None = None) -> tuple[int, int]:
    """Removes those that nobody has written to for that long; (how many, bytes)."""
    limit = (time.time() if now is None else now) - older_than_days * 86400
    count = freed = 0
    for path in list(layers()):
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue  # another process cleared it meanwhile
        if facts.st_mtime > limit:
            continue
        path.unlink(missing_ok=True)
        count, freed = count + 1, freed + facts.st_size
    return count, freed


def clear(older_than_days: float = 0.0, *, now: float | None = None) -> tuple[int, int]:
    """Removes entries that nobody has used for that long; (how many, bytes). Models that are open stay usable."""
    limit = (time.time() if now is None else now) - older_than_days * 86400
    count = freed = 0
    for entry in entries():
        if entry.used > limit:
            continue
        entry.path.unlink(missing_ok=True)
        count, freed = count + 1, freed + entry.bytes
    return count, freed
