"""Ends a case that does not end, as watchdog.h does: the limit is of processor time.

A case that waits for a busy machine, or runs at low priority, is no hang. One that waits for ever uses no processor
time; for that there is a limit of wall time, far behind.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

WALL_PER_CPU = 100


def watch(cpu_seconds: float) -> None:
    """SIGPROF when this process used so much more processor time, SIGALRM after WALL_PER_CPU times that; 0: neither."""
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, cpu_seconds * WALL_PER_CPU)


def budget(seconds: float, cpu_seconds: float | None = None) -> Callable[[], bool]:
    """True until so much wall time is over, or processor time of this process, where that is given."""
    clock, limit = (time.monotonic, seconds) if cpu_seconds is None else (time.process_time, cpu_seconds)
    end = clock() + limit
    return lambda: clock() < end
