"""The kernel's line in errors that Python code of OpenTrn raises; the C++ core gives its own one."""

from __future__ import annotations

import os
import traceback

from opentrn.errors import Refusal, SourceLocation

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def locate(error: Refusal) -> None:
    """Give the error the line of the kernel that it comes from, where it has none yet."""
    if error.location is not None:
        return
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if not frame.filename.startswith(_PACKAGE)), None)
    if place is not None:
        error.locate(SourceLocation(place.filename, place.lineno or 0, place.name))
