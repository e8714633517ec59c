"""Work that a signal is to end: what raises in the middle of it, and how soon."""

from __future__ import annotations

import itertools
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

# From the signal to the end of what it interrupts. A tenth of it on a quiet core; machines that test are busy.
SECONDS = 3.0
# The same in processor time of all threads: five to ten times what docs/findings.md measures, for slower processors.
CPU_SECONDS = 1.0


def longest_deafness(body: Callable[[], object]) -> float:
    """The most that this thread computes, in seconds, between two signals that it hears while `body` runs.

    User time, as the timer counts it: how long the system takes to find a page depends on who else asks for memory.
    """
    def used() -> float:
        return resource.getrusage(resource.RUSAGE_THREAD).ru_utime

    heard = [used()]
    before = signal.signal(signal.SIGVTALRM, lambda *_: heard.append(used()))
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.02, 0.02)
    try:
        body()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    heard.append(used())
    return max(after - so_far for so_far, after in itertools.pairwise(heard))


class Alarm(BaseException):
    """What the tests' handler raises; no Exception, which frameworks would wrap into one of theirs."""


@contextmanager
def raises_soon(after: float = 0.4, cpu_seconds: float = CPU_SECONDS) -> Iterator[list[str]]:
    """The body must be ended by an alarm that goes off `after` seconds; gives where the core stood, once it is over.

    cpu_seconds: the most processor time that may pass between the two.
    """
    where: list[str] = []

    def ring(number: int, frame: FrameType | None) -> None:
        raise Alarm

    # Frameworks drop what is raised in some of their callbacks, and Python what is raised in its own (of weak
    # references, finalisers), which pytest takes for a fault: it rings again until it is heard.
    report = sys.unraisablehook
    sys.unraisablehook = lambda dropped: None if dropped.exc_type is Alarm else report(dropped)
    before = signal.signal(signal.SIGALRM, ring)
    begin = time.perf_counter()
    used: list[float] = []  # processor time of this process when the alarm goes off
    sampler = threading.Timer(after, lambda: used.append(time.process_time()))
    sampler.start()
    signal.setitimer(signal.ITIMER_REAL, after, 1.0)
    try:
        with pytest.raises(Alarm) as caught:
            yield where
        ended, cpu = time.perf_counter(), time.process_time()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = report
    where.append(getattr(caught.value, "opentrn_where", ""))
    sampler.join()
    assert ended - begin - after < SECONDS
    assert cpu - used[0] < cpu_seconds
