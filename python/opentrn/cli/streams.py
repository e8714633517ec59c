"""Where results go: what is for stdout and what for stderr, and whether files can be written."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing's, which takes longer to import than many a command
if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractContextManager


def is_read_by_machines(options: argparse.Namespace) -> bool:
    """Whether stdout carries a result that programs read: JSON or a listing, and nothing else then."""
    return getattr(options, "json", None) in (True, "-") or getattr(options, "prints_aside", False)


def prints_aside(wanted: bool = True) -> AbstractContextManager[object]:
    """What kernels and other code of the user print goes to stderr meanwhile."""
    from contextlib import nullcontext, redirect_stdout

    return redirect_stdout(sys.stderr) if wanted else nullcontext()


def require_writable(options: argparse.Namespace, *names: str) -> None:
    """UsageError for a file of these options that cannot be written, before what it is to hold is computed."""
    from pathlib import Path

    from opentrn.cli.kernel_file import UsageError

    for name in names:
        path = getattr(options, name, None)
        if not path or path == "-":
            continue
        file, option = Path(path), "--" + name.replace("_", "-")
        if not file.parent.is_dir():
            raise UsageError(
                f"{option} {path}: there is no folder {file.parent}",
                label="cli.output", hint="make the folder first",
            )
        if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
            raise UsageError(f"{option} {path}: not a file that can be written", label="cli.output")


def take_every_text() -> None:
    """Names of files are bytes: those that the streams have no characters for are written out."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def flushed(status: int, failed: int) -> int:
    """`status` once all that was printed is written; `failed`, with a message, when it cannot be."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
    except OSError as error:
        discard_stdout()
        print(f"opentrn: cannot write to standard output: {error.strerror}", file=sys.stderr)
        return status or failed
    return status


def discard_stdout() -> None:
    """What is still in stdout's buffer goes nowhere, so that Python's end does not try once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
