"""The launch that the current thread's program belongs to."""

from __future__ import annotations

import threading
from contextlib import contextmanager

_thread = threading.local()


def grid() -> tuple[int, ...]:
    """The launch grid: (lnc,) for kernel[lnc](...), () for kernel(...) and outside a launch."""
    return getattr(_thread, "grid", ())


@contextmanager
def launched(launch_grid: tuple[int, ...]):
    """Run the body as one program of a launch over `launch_grid`, in this thread."""
    previous = grid()
    _thread.grid = launch_grid
    try:
        yield
    finally:
        _thread.grid = previous
