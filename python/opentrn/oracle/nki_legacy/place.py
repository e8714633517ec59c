"""Where an instruction that waits was written: its line, and the iteration of the kernel's loops."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from opentrn.nki._machine import machine_or_none
from opentrn.nki_legacy.call_site import OWN, Site, issuer

_own_code: dict[types.CodeType, bool] = {}
_issuers: dict[Site, Callable[[Callable[[Any], None], Any], None]] = {}


def user_site() -> Site | None:
    """The innermost stack position outside OpenTrn, or None."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        own = _own_code.get(code)
        if own is None:
            own = _own_code[code] = code.co_filename.startswith(OWN)
        if not own:
            return code, frame.f_lineno
        frame = frame.f_back
    return None


def call_at(site: Site | None, function: Callable[[Any], None], tile: Any) -> None:
    """`function(tile)` from a frame at `site`."""
    if site is None:
        function(tile)
        return
    issue = _issuers.get(site)
    if issue is None:
        issue = _issuers[site] = issuer(*site)
    issue(function, tile)


def iteration() -> int | None:
    """The innermost iteration that is being recorded, or None where no program is."""
    return getattr(machine_or_none(), "iteration", None)


@contextlib.contextmanager
def at(place: int | None) -> Iterator[None]:
    """Record into iteration `place`: where an instruction was written that is issued only now."""
    now = iteration()
    if now == place:
        yield
        return
    machine = machine_or_none()
    machine.iteration = place
    try:
        yield
    finally:
        machine.iteration = now
