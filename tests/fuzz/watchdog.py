"""Ends a case that does not end, as watchdog.h does: the limit is of processor time.

A case that waits for a busy machine, or runs at low priority, is no hang. One that waits for ever uses no processor
time; for that there is a limit of wall time, far behind.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WALL_PER_CPU = 100
CASE_MARK = "@case "  # before each case, what runs it again: so that the parent can name it after a crash or a hang


def watch(cpu_seconds: float) -> None:
    """SIGPROF when this process used so much more processor time, SIGALRM after WALL_PER_CPU times that; 0: neither."""
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, cpu_seconds * WALL_PER_CPU)


def budget(seconds: float, cpu_seconds: float | None = None) -> Callable[[], bool]:
    """True until so much wall time is over, or processor time of this process, where that is given."""
    clock, limit = (time.monotonic, seconds) if cpu_seconds is None else (time.process_time, cpu_seconds)
    end = clock() + limit
    return lambda: clock() < end


def run_child(program: str, arguments: list[str], case_seconds: float) -> int:
    """Runs the cases of tests/fuzz/PROGRAM.py in a child, which ends itself where one does not end, and reports its
    crash or hang. 1: something was found.
    """
    path = ROOT / "tests" / "fuzz" / f"{program}.py"
    command = [sys.executable, "-X", "faulthandler", str(path), *arguments, "--child"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    case = ""
    for line in child.stdout or ():
        if line.startswith(CASE_MARK):
            case = line.removeprefix(CASE_MARK).rstrip()
        else:
            print(line, end="", flush=True)
    status = child.wait()
    if status not in (0, 1):
        hang = status in (-signal.SIGPROF, -signal.SIGALRM)
        what = f"HANG: no end in {case_seconds} s of processor time" if hang else f"CRASH with status {status}"
        print(f"{program}: {what}\n  again: python -m tests.fuzz.{program} --case {case}")
    return 1 if status else 0
