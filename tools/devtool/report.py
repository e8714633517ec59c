"""Progress lines, and the one way ./dev gives up: what went wrong and what to do about it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_START = time.monotonic()


class DevError(Exception):
    """A step of ./dev failed. `hint` says what to try; `code` becomes the exit status."""

    def __init__(self, message: str, hint: str = "", code: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


def elapsed_s() -> float:
    """Seconds since ./dev started."""
    return time.monotonic() - _START


def say(text: str) -> None:
    """Prints one progress line with the elapsed time."""
    minutes, seconds = divmod(int(elapsed_s()), 60)
    print(f"[dev {minutes:02d}:{seconds:02d}] {text}", flush=True)


def run(
    command: Sequence[str | Path],
    *,
    hint: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    quiet: bool = False,
    check: bool = True,
) -> int:
    """Runs a command, showing its output (when quiet, only if it fails).

    Raises DevError with `hint` when the command fails and `check` is set; returns its exit status otherwise.
    """
    words = [str(word) for word in command]
    full_env = dict(os.environ, **(env or {}))
    pipe = subprocess.PIPE if quiet else None
    sys.stdout.flush()
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=full_env,
            stdout=pipe,
            stderr=subprocess.STDOUT if quiet else None,
            check=False,
        )
    except FileNotFoundError as error:
        raise DevError(f"{words[0]} is not installed", hint) from error
    if done.returncode != 0 and check:
        if quiet and done.stdout:
            sys.stdout.write(done.stdout.decode(errors="replace"))
        raise DevError(f"exit status {done.returncode} from: {shlex.join(words)}", hint)
    return done.returncode
