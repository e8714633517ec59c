"""Files that are written whole or not at all, and file names as text.

src/base/new_file.h does the same for what C++ writes; names of files that are being written are alike.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["new_file", "shown"]


def shown(path: str | os.PathLike[str]) -> str:
    r"""The path as text that every stream and file takes: bytes that are not UTF-8 are written `\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside `path` to write to, which becomes `path` at the end and is removed when that fails.

    OSError names `path`. A link is followed; what is there and is no file (/dev/stdout) is written to as it is.
    """
    final = Path(os.path.realpath(path))
    special = final.exists() and not final.is_file()
    part = final if special else Path(f"{final}.{os.getpid()}.{secrets.token_hex(8)}.part")
    try:
        yield part
        if not special:
            os.replace(part, final)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error
    finally:
        if not special:
            part.unlink(missing_ok=True)
