"""What a command is doing, while it takes long."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any


class Progress:
    """A line on stderr, once a command takes more than a second."""

    def __init__(self, options: argparse.Namespace):
        self._options = options
        self._wanted = getattr(options, "progress", False) or sys.stderr.isatty()
        self._phase = ""
        self._machines: Sequence[list[Any]] = ()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def begin(self, phase: str, machines: Sequence[list[Any]] = ()) -> None:
        """What runs from now on, and the machines so far, one list per launch."""
        self._phase, self._machines = phase, machines
        self._options.phase = phase  # what is worth trying after a failure depends on it

    def __enter__(self) -> Progress:
        if self._wanted:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._wanted:
            self._thread.join()

    def _text(self) -> str:
        count = sum(machine.instruction_count for launch in list(self._machines) for machine in launch)
        return f"{self._phase}: {count:,} instructions" if self._machines else self._phase

    def _show(self) -> None:
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
