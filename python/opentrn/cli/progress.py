"""What a command is doing, while it takes long."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any


class Progress:
    """What a command is at, on stderr: in a terminal one line that is written over, once the command takes more than
    a second; elsewhere, if --progress asks for it, a line for each step when it begins.
    """

    def __init__(self, options: argparse.Namespace):
        self._options = options
        self._overwrites = sys.stderr.isatty()
        self._tells_steps = getattr(options, "progress", False) and not self._overwrites
        self._started = self._told = time.monotonic()
        self._phase = self._last = ""
        self._machines: Sequence[list[Any]] = ()
        self._done = threading.Event()
        show = self._overwrite if self._overwrites else self._tell_activities
        self._thread = threading.Thread(target=show, daemon=True)

    def begin(self, phase: str, machines: Sequence[list[Any]] = ()) -> None:
        """What runs from now on, and the machines so far, one list per launch."""
        if self._tells_steps and phase != self._phase:
            self._tell(phase)
        self._phase, self._machines = phase, machines
        self._options.phase = phase  # what is worth trying after a failure depends on it

    def __enter__(self) -> Progress:
        if self._overwrites or self._tells_steps:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._overwrites or self._tells_steps:
            self._thread.join()

    def _text(self) -> str:
        if self._machines:
            count = sum(machine.instruction_count for launch in list(self._machines) for machine in launch)
            return f"{self._phase}: {count:,} instructions"
        activity = activity_text()
        return f"{self._phase}: {activity}" if activity else self._phase

    def _tell(self, text: str) -> None:
        now = time.monotonic()
        print(f"opentrn: {now - self._started:.1f} s: {text}", file=sys.stderr)
        self._told, self._last = now, text

    def _tell_activities(self) -> None:
        """A line for what has begun, at most one in a second: passes of a small model are not told."""
        while not self._done.wait(0.25):
            text = self._text()
            if text not in ("", self._last) and time.monotonic() - self._told >= 1:
                self._tell(text)

    def _overwrite(self) -> None:
        start, width = time.monotonic(), 0
        while not self._done.wait(0.25):
            elapsed = time.monotonic() - start
            if elapsed < 1 or not self._phase:
                continue
            text = f"{self._text()}, {elapsed:.0f} s"
            sys.stderr.write(f"\r{text:<{width}}")
            sys.stderr.flush()
            width = max(width, len(text))
        if width:
            sys.stderr.write(f"\r{'':<{width}}\r")


def activity_text() -> str:
    """What native work is under way; "" without one."""
    from opentrn import _core

    what, done, total = _core.activity()
    return f"{what}, {done:,} of {total:,}" if total else what
