"""For every test: compiled models are kept in a folder of the run, not in the user's cache."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _cache_of_the_run() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="opentrn-cache-") as folder:
        before = os.environ.get("OPENTRN_CACHE")
        os.environ["OPENTRN_CACHE"] = folder
        yield
        if before is None:
            del os.environ["OPENTRN_CACHE"]
        else:
            os.environ["OPENTRN_CACHE"] = before
