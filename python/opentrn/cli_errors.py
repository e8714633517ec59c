"""Whose fault a failure is: the program's message and its exit status."""

from __future__ import annotations

import argparse
import linecache
import os
import re
import sys
import traceback
from pathlib import Path

PROGRAM, INPUT, CAPACITY, NOT_MODELLED, UNSPECIFIED, INTERNAL = 1, 2, 3, 4, 5, 70
# How the texts of src/base/fault.h begin.
_FAULT_KINDS = {
    "program error": PROGRAM,
    "input error": INPUT,
    "capacity exceeded": CAPACITY,
    "not modelled": NOT_MODELLED,
    "unspecified behaviour": UNSPECIFIED,
    "internal error": INTERNAL,
}


def exit_code(error: BaseException) -> int:
    """Whose fault `error` is, as an exit status."""
    from opentrn import errors
    from opentrn.kernel_file import UsageError

    text = str(error)
    for beginning, code in _FAULT_KINDS.items():
        if text.startswith(beginning):
            return code
    if isinstance(error, UsageError):
        return INPUT
    if isinstance(error, errors.UndefinedBehavior):
        return UNSPECIFIED
    if isinstance(error, (errors.NkiValidationError, *errors.RESULT_WARNINGS)):
        return PROGRAM
    if isinstance(error, NotImplementedError):
        return NOT_MODELLED
    if _user_frame(error) is not None or _is_users_syntax(error):
        return PROGRAM
    if isinstance(error, (ValueError, OSError, ImportError)):
        return INPUT
    return INTERNAL


def _is_users(file: str) -> bool:
    """Whether code of `file` is neither OpenTrn's nor Python's own."""
    package, stdlib = str(Path(__file__).parent), os.path.dirname(os.__file__)
    if file.startswith((package, "<frozen")):
        return False
    return not file.startswith(stdlib) or "site-packages" in file


def _user_frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of the user's code."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((frame for frame in frames if _is_users(frame.filename)), None)


def _is_users_syntax(error: BaseException) -> bool:
    """A file that does not parse runs nothing: it has a place in the user's code, but no frame."""
    return isinstance(error, SyntaxError) and error.filename is not None and _is_users(error.filename)


def report(error: Exception, options: argparse.Namespace) -> int:
    """Print what went wrong, where and what to try; returns the exit status."""
    code = exit_code(error)
    if getattr(options, "traceback", False) or code == INTERNAL:
        traceback.print_exception(error)
    print(f"opentrn: {_message(error, code)}{_advice(str(error), code, options)}", file=sys.stderr)
    return code


def _message(error: Exception, code: int) -> str:
    from opentrn.errors import RESULT_WARNINGS, NkiValidationError, NotModelled
    from opentrn.kernel_file import UsageError

    if _is_users_syntax(error):
        return _syntax_message(error)
    text = str(error)
    ours = isinstance(error, (UsageError, NkiValidationError, NotModelled, *RESULT_WARNINGS))
    ours = ours or text.startswith(tuple(_FAULT_KINDS))
    if not ours and not (code == INPUT and text):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frame = _user_frame(error)
    if frame is not None and "\n    at " not in text and not isinstance(error, UsageError):
        text += f"\n    at {frame.filename}:{frame.lineno} in {frame.name}"
        line = linecache.getline(frame.filename, frame.lineno or 0).strip()
        if line:
            text += f"\n        {line}"
    return text


def _syntax_message(error: SyntaxError) -> str:
    """The place as for every other error, the line and the caret as Python draws them."""
    drawn = traceback.format_exception_only(error)[1:-1]
    line = "".join(f"    {part}" for part in drawn).rstrip("\n")
    text = f"{type(error).__name__}: {error.msg}\n    at {error.filename}:{error.lineno}"
    return f"{text}\n{line}" if line else text


def _advice(text: str, code: int, options: argparse.Namespace) -> str:
    """What to try, in the words of the command line."""
    advice = ""
    if getattr(options, "no_execute", False) and "it has no values" in text:
        advice += "\n    try: leave --no-execute out; this kernel looks at values"
    if code == PROGRAM and re.search(
        r"'(int|float|tuple|str)' object has no attribute '(shape|dtype)'", text
    ):
        advice += "\n    try: an input that is an array has a shape and a dtype: --input NAME=128x512:float32"
    # Values are there before the time is asked for: only then do they need none.
    is_timing = getattr(options, "phase", "") == "timing" and not getattr(options, "no_execute", False)
    if code in (CAPACITY, NOT_MODELLED) and is_timing and hasattr(options, "no_time"):
        advice += "\n    --no-time computes the values alone"
    if code == INTERNAL:
        advice += "\n    this is a bug in OpenTrn; please report it with the kernel that caused it"
    return advice
