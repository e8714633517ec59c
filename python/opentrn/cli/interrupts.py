"""What ends a command from outside: Ctrl-C, SIGTERM, --deadline.

All three are Python signal handlers that raise. The C++ core runs them while it works (src/base/interrupt.h), so that
what a command has begun is unwound: temporary files are removed and child processes ended. A second SIGTERM ends the
process at once. Once the command is unwound the process ends without the interpreter's own end, which takes a tenth of
a second and more: leave().
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing's, which takes longer to import than many a command
if TYPE_CHECKING:
    import argparse
    import signal
    from types import FrameType
    from typing import Any, NoReturn
else:
    import _signal as signal  # what `signal` is about, which adds names to its numbers and takes as long as `typing`

DEADLINE_ENV = "OPENTRN_DEADLINE"
STATUSES = INTERRUPTED, TERMINATED, OVER_DEADLINE = 130, 143, 124  # as shells and timeout(1) have them


class Terminated(BaseException):
    """SIGTERM."""


class DeadlineExceeded(BaseException):
    """The seconds of --deadline are over. No Exception: no handler of a kernel takes it for an error of its own."""

    def __init__(self, seconds: float):
        super().__init__(f"the deadline of {seconds:g} s is over")


ENDED = (KeyboardInterrupt, Terminated, DeadlineExceeded)


def _seconds(text: str) -> float:
    """The value of --deadline."""
    import argparse
    import math

    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of seconds; write one above 0, as in 60 or 0.5"
        )
    return seconds


def add_option(parser: argparse.ArgumentParser) -> None:
    """--deadline, for every command that may take long."""
    parser.add_argument("--deadline", type=_seconds, metavar="SECONDS",
                        help=f"end with status {OVER_DEADLINE} if the command takes longer; "
                        f"default ${DEADLINE_ENV}, or none")  # fmt: skip


def deadline_of(options: argparse.Namespace) -> float | None:
    """Seconds; None where the command has no deadline. UsageError for a value of the variable that is none."""
    import argparse

    from opentrn.cli.kernel_file import UsageError

    if not hasattr(options, "deadline"):
        return None
    text = os.environ.get(DEADLINE_ENV)
    if options.deadline is not None or not text:
        return options.deadline
    try:
        return _seconds(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{DEADLINE_ENV}: {error}", label="environment") from None


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Terminated


class terminable:
    """SIGTERM raises Terminated meanwhile, unless the process does something else with it."""

    def __enter__(self) -> None:
        try:
            self._is_set = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            if self._is_set:
                signal.signal(signal.SIGTERM, _terminate)
        except ValueError:  # not the main thread
            self._is_set = False

    def __exit__(self, *error: object) -> None:
        if self._is_set:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


class deadline:
    """DeadlineExceeded is raised in the main thread when it takes longer."""

    def __init__(self, seconds: float | None):
        self._seconds = seconds

    def __enter__(self) -> None:
        seconds = self._seconds
        if seconds is None:
            return

        def over(number: int, frame: FrameType | None) -> None:
            raise DeadlineExceeded(seconds)

        self._before = signal.signal(signal.SIGALRM, over)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def __exit__(self, *error: object) -> None:
        if self._seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)


def report(error: BaseException, options: argparse.Namespace | None = None) -> int:
    """Say what ended the command and where it stood; returns the exit status."""
    import linecache

    from opentrn.cli.errors import user_frame

    status, what = INTERRUPTED, "interrupted"
    if isinstance(error, Terminated):
        status, what = TERMINATED, "terminated"
    elif isinstance(error, DeadlineExceeded):
        status, what = OVER_DEADLINE, str(error)
    phase = getattr(options, "phase", "")
    text = f"opentrn: {what}" + (f" while {phase}" if phase else "")
    where: Any = getattr(error, "opentrn_where", "")
    frame = user_frame(error)
    if where:
        text += f"\n    at {where}"
    elif frame is not None:
        text += f"\n    at {frame.filename}:{frame.lineno} in {frame.name}"
        line = linecache.getline(frame.filename, frame.lineno or 0).strip()
        text += f"\n        {line}" if line else ""
    if status == OVER_DEADLINE:
        text += f"\n    try: more seconds (--deadline, {DEADLINE_ENV}), or less work"
    print(text, file=sys.stderr)
    return status


def leave(status: int) -> NoReturn:
    """Ends the process whose command was ended from outside: what the command and its modules began is cleaned up and
    all that was printed is written; nothing else is taken down, as the system does that."""
    import atexit
    from contextlib import suppress

    with suppress(BaseException):  # a second signal, or a module's own failure, changes nothing of it
        atexit._run_exitfuncs()
        if core := sys.modules.get("opentrn._core") or sys.modules.get("opentrn._cli"):
            core.leave_machine()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
    os._exit(status)
