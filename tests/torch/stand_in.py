"""Packages of another project's shape, for tests where the project itself is not installed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest


@contextlib.contextmanager
def package(name: str, files: Mapping[str, str], folder: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of these files can be imported by `name` until the end; skips where the real one is there."""
    if importlib.util.find_spec(name) is not None:
        pytest.skip(f"{name} itself is here; conformance/hf runs it")
    for file, text in files.items():
        path = folder / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    patch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    yield
    for each in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[each]
