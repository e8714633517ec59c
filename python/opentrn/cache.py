"""Compiled models by content: a compile that was done before is a file that is read.

The key is SHA-256 over what a compilation depends on: the bytes of the model and of the files that hold its weights,
the options, and the compiler itself (the bytes of the C++ library). Entries are .neuron files whose weights
stay in the model's files where they lie there. Entries appear by renaming, so several processes may compile
into one cache at once; two that compile the same model write the same entry.

The folder: $OPENTRN_CACHE; else $NEURON_COMPILE_CACHE_URL, as AWS's compiler has it (a path or file://, no
s3://); else $XDG_CACHE_HOME/opentrn or ~/.cache/opentrn.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from opentrn import _core
from opentrn.digest import sha256_of

__all__ = ["Entry", "clear", "entries", "folder", "key_of", "path_of"]

_FORMAT = "opentrn-model-cache-1"


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
    if place := os.environ.get("OPENTRN_CACHE"):
        return Path(place)
    if place := os.environ.get("NEURON_COMPILE_CACHE_URL"):
        url = urlparse(place)
        if url.scheme == "file":
            return Path(url2pathname(url.path))
        if url.scheme:
            raise ValueError(
                f"NEURON_COMPILE_CACHE_URL={place}: OpenTrn keeps compiled models in a folder\n"
                "    try: a path, or OPENTRN_CACHE=FOLDER, or --no-cache"
            )
        return Path(place)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "opentrn"


@functools.cache
def _compiler() -> str:
    """What compiles: the C++ library, by content."""
    return sha256_of(_core.__file__)


def key_of(text: str | None, path: str, options: Mapping[str, Any]) -> str:
    """The key of a model: `text`, or the file at `path` with the files its weights lie in."""
    digest = hashlib.sha256()

    def add(what: str, data: str) -> None:
        digest.update(f"{what} {len(data)} {data}\n".encode())

    add("format", _FORMAT)
    add("compiler", _compiler())
    add("options", json.dumps(options, sort_keys=True))
    if times := _core.custom_op_times():  # a compiled program has them in it
        add("custom operators", json.dumps(times, sort_keys=True))
    if text is not None:
        add("text", text)
        return digest.hexdigest()
    add("suffix", Path(path).suffix)  # which says how the file is read
    if Path(path).suffix != ".onnx":
        add("path", os.path.abspath(path))  # locations of the program name the file
    files = [path, *(_core.external_files(path) if Path(path).suffix == ".onnx" else [])]
    for name in files:
        add("file", sha256_of(name))
    return digest.hexdigest()


def path_of(key: str) -> Path:
    """The file of an entry, whether it exists or not."""
    return folder() / "models" / key[:2] / f"{key}.neuron"


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
    except OSError as error:
        print(f"opentrn: the cache cannot be written: {error}", file=sys.stderr)


def clear(older_than_days: float = 0.0, *, now: float | None = None) -> tuple[int, int]:
    """Removes entries that nobody has used for that long; (how many, bytes). Models that are open stay usable."""
    import time

    limit = (time.time() if now is None else now) - older_than_days * 86400
    count = freed = 0
    for entry in entries():
        if entry.used > limit:
            continue
        entry.path.unlink(missing_ok=True)
        count, freed = count + 1, freed + entry.bytes
    return count, freed
