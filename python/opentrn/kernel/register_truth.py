"""The truth of a register.

NKI makes a device loop of `while register:` and of nothing else that looks at a register
(nki/deep-dives/nki-dynamic-loops.rst). Python only calls `__bool__`, so the source around the call decides: asked
by a `while` for the first time, the register begins a loop and is true, so that the body is recorded; asked again
it ends the loop and is false. Elsewhere it has its value.
"""

from __future__ import annotations

import sys
from typing import Any

from opentrn.base.while_conditions import in_while_condition


def truth(register: Any) -> bool:
    """`bool(register)` on a machine that records device loops where there is one."""
    from opentrn.kernel.machine import current_or_none

    machine = current_or_none()
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("opentrn.strict."):
        frame = frame.f_back  # strict mode looks first
    if machine is None or not machine.records_loops or not in_while_condition(frame):
        return register.value != 0
    loops = machine.__dict__.setdefault("while_loops", [])
    # The frame is kept, so that its identity is not given to another while the loop is open.
    if loops and loops[-1][0] is frame and loops[-1][1] is register and loops[-1][2] == frame.f_lineno:
        loops.pop()
        machine.end_loop()
        return False
    loops.append((frame, register, frame.f_lineno))
    machine.begin_while(register)
    return True
