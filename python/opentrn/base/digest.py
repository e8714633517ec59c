"""Digests of files (hashlib.file_digest() came with Python 3.11)."""

from __future__ import annotations

import hashlib
from os import PathLike

_CHUNK = 1 << 20  # bytes


def sha256_of(path: str | PathLike[str]) -> str:
    """The SHA-256 of the file's bytes, in hexadecimal. Raises OSError when it cannot be read."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
