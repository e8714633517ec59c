"""Compiled models by content: a compile that was done before is a file that is read (src/model/cache.h).

The key is SHA-256 over what a compilation depends on: the bytes of the model and of the files that hold its weights,
the options, and the compiler itself (the bytes of the C++ library). Entries are .neuron files whose weights
stay in the model's files where they lie there.

The folder: $OPENTRN_CACHE; else, as AWS's compiler has them, --cache_dir of $NEURON_CC_FLAGS and
$NEURON_COMPILE_CACHE_URL (a path or file://, no s3://); else $XDG_CACHE_HOME/opentrn or ~/.cache/opentrn.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opentrn import _core

__all__ = ["clear", "clear_layers", "entries", "folder", "kept", "key_of", "sweep"]


def folder() -> Path:
    """Where compiled models are kept; it need not exist. InputError for a URL of another scheme."""
    return _core.cache_folder()


def kept() -> _core.Cache:
    """The cache in the folder that the environment names now. InputError as folder()."""
    return _core.Cache(folder())


@functools.cache
def _compiler() -> str:
    """What compiles: the C++ library, by content."""
    return _core.sha256_of_file(_core.__file__)


def key_of(text: str | None, path: str, options: Mapping[str, Any]) -> str:
    """The key of a model: `text`, or the file at `path` with the files its weights lie in. InputError for no file."""
    files = _core.files_of_onnx(path) if text is None and Path(path).suffix == ".onnx" else []
    return _core.cache_key(text, path, json.dumps(options), _compiler(), files)


def entries() -> list[_core.CacheEntry]:
    """What the cache holds, most recently used first."""
    return kept().entries()


def sweep() -> tuple[int, int]:
    """Removes what interrupted writers left; (how many, bytes)."""
    return kept().sweep()


def clear(older_than_days: float = 0.0) -> tuple[int, int]:
    """Removes entries that nobody has used for that long; (how many, bytes). Models that are open stay usable."""
    return kept().clear(time.time() - older_than_days * 86400)


def clear_layers(older_than_days: float = 0.0) -> tuple[int, int]:
    """Removes the times of layers of `opentrn plan` that nobody has written to for that long; (how many, bytes)."""
    return kept().clear_layers(time.time() - older_than_days * 86400)
