"""Whose fault a failure is: the program's message and its exit status."""

from __future__ import annotations

import argparse
import linecache
import os
import re
import sys
import traceback
from pathlib import Path
from typing import TypeGuard

from opentrn.base.files import shown
from opentrn.cli import style as cli_style

PROGRAM, INPUT, CAPACITY, NOT_MODELLED, UNSPECIFIED, INTERNAL = 1, 2, 3, 4, 5, 70
# By Refusal.kind.
_STATUS = {
    "program": PROGRAM,
    "input": INPUT,
    "capacity": CAPACITY,
    "not_modelled": NOT_MODELLED,
    "unspecified": UNSPECIFIED,
    "internal": INTERNAL,
}


def exit_code(error: BaseException) -> int:
    """Whose fault `error` is, as an exit status."""
    from opentrn import errors

    if isinstance(error, errors.Refusal):
        return _STATUS[error.kind]
    if isinstance(error, errors.RESULT_WARNINGS):
        return PROGRAM
    if isinstance(error, NotImplementedError):
        return NOT_MODELLED
    if user_frame(error) is not None or _is_users_syntax(error):
        return PROGRAM
    if isinstance(error, (ValueError, OSError, ImportError)):
        return INPUT
    return INTERNAL


def _is_users(file: str) -> bool:
    """Whether code of `file` is neither OpenTrn's nor Python's own."""
    package, stdlib = str(Path(__file__).parents[1]), os.path.dirname(os.__file__)
    if file.startswith((package, "<frozen")):
        return False
    return not file.startswith(stdlib) or "site-packages" in file


def user_frame(error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of the user's code, or None."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return next((frame for frame in frames if _is_users(frame.filename)), None)


def _is_users_syntax(error: BaseException) -> TypeGuard[SyntaxError]:
    """A file that does not parse runs nothing: it has a place in the user's code, but no frame."""
    return isinstance(error, SyntaxError) and error.filename is not None and _is_users(error.filename)


def report(error: Exception, options: argparse.Namespace) -> int:
    """Print what went wrong, where and what to try; returns the exit status."""
    code = exit_code(error)
    if getattr(options, "traceback", False) or code == INTERNAL:
        traceback.print_exception(error)
    text = f"opentrn: {_message(error, code)}{_advice(error, code, options)}"
    print(cli_style.message(text, sys.stderr), file=sys.stderr)
    return code


def _message(error: Exception, code: int) -> str:
    from opentrn.cli.kernel_file import UsageError
    from opentrn.errors import RESULT_WARNINGS, Refusal

    if _is_users_syntax(error):
        return _syntax_message(error)
    text = _in_options(error)
    ours = isinstance(error, (Refusal, *RESULT_WARNINGS))
    if not ours and not (code == INPUT and text):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frame = user_frame(error)
    has_place = isinstance(error, RESULT_WARNINGS) and _AT in text or getattr(error, "location", None) is not None
    if frame is not None and not has_place and not isinstance(error, UsageError):
        text += f"\n    at {frame.filename}:{frame.lineno} in {frame.name}"
        line = linecache.getline(frame.filename, frame.lineno or 0).strip()
        if line:
            text += f"\n        {line}"
    return text


def _in_options(error: Exception) -> str:
    """The error's text, with --dim for what an argument of the library is called."""
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, (str, bytes, os.PathLike)):
        return f"{shown(error.filename)}: {error.strerror}"
    text = str(error)
    if not getattr(error, "label", "").endswith(".dimension"):
        return text

    def options(found: re.Match[str]) -> str:
        return " ".join(f"--dim {name}={size}" for name, size in re.findall(r"'([^']+)': (\d+)", found[1]))

    return re.sub(r"dimensions=\{([^{}]*)\}", options, text)


def _syntax_message(error: SyntaxError) -> str:
    """The place as for every other error, the line and the caret as Python draws them."""
    drawn = traceback.format_exception_only(error)[1:-1]
    line = "".join(f"    {part}" for part in drawn).rstrip("\n")
    text = f"{type(error).__name__}: {error.msg}\n    at {error.filename}:{error.lineno}"
    return f"{text}\n{line}" if line else text


def _advice(error: Exception, code: int, options: argparse.Namespace) -> str:
    """What to try, in the words of the command line."""
    advice = ""
    if getattr(options, "no_execute", False) and getattr(error, "label", "") == "launch.no_values":
        advice += "\n    try: leave --no-execute out; this kernel looks at values"
    if code == PROGRAM and _takes_for_an_array(error):
        advice += (
            "\n    try: an input that is an array has a shape and a dtype: --input NAME=128x512:float32, "
            "or NAME=1024x for one dimension"
        )
    # Values are there before the time is asked for: only then do they need none.
    is_timing = getattr(options, "phase", "") == "timing" and not getattr(options, "no_execute", False)
    if code in (CAPACITY, NOT_MODELLED) and is_timing and hasattr(options, "no_time"):
        advice += "\n    --no-time computes the values alone"
    if code == INTERNAL:
        advice += "\n    this is a bug in OpenTrn; please report it with the kernel that caused it"
    return advice


_AT = "\n    at "
_OF_ARRAYS = ("shape", "dtype", "reshape", "buffer", "ap")


def _takes_for_an_array(error: Exception) -> bool:
    """Whether the kernel asked a plain value for what only arrays have."""
    if not isinstance(error, AttributeError) or error.name not in _OF_ARRAYS:
        return False
    return isinstance(error.obj, (int, float, tuple, str))
