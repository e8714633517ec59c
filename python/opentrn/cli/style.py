"""Colour in a terminal: for errors, warnings and headings, and never where a program reads.

NO_COLOR (https://no-color.org) turns it off, FORCE_COLOR on; without either a stream has colour if it is a terminal
that knows more than TERM=dumb.
"""

from __future__ import annotations

import functools
import os
import re
import textwrap
from typing import Any

_CODES = {"bold": "1", "dim": "2", "red": "1;31", "yellow": "1;33", "cyan": "36"}


def has_colour(stream: Any) -> bool:
    """Whether text for this stream may hold escape sequences."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced:
        return forced != "0"
    return bool(getattr(stream, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, stream: Any) -> str:
    """The text in a style of _CODES, if the stream has colour."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text and has_colour(stream) else text


def message(text: str, stream: Any) -> str:
    """A message of the program: `opentrn:` with its kind stands out, and so does what to try."""
    if not has_colour(stream):
        return text
    first, newline, rest = text.partition("\n")
    style = "yellow" if first.startswith("opentrn: warning:") else "red"
    first = re.sub(
        r"^opentrn( \w+)?: (warning:|[a-z ]+ \[[\w.]+\]:|[a-z]+ (error|exceeded|modelled|behaviour):)?",
        lambda found: styled(found[0], style, stream),
        first,
    )
    rest = re.sub(r"^(\s*)(try:.*)$", lambda found: found[1] + styled(found[2], "cyan", stream), rest, flags=re.M)
    return first + newline + rest


def width(stream: Any) -> int:
    """Columns of a line for this stream: a terminal's, 100 at most and where it is none."""
    try:
        return max(40, min(100, os.get_terminal_size(stream.fileno()).columns))
    except (OSError, ValueError, AttributeError):
        return 100


def fitted(text: str, stream: Any) -> str:
    """Sentences in lines that fit a terminal; as they are for what is none."""
    if not getattr(stream, "isatty", lambda: False)():
        return text
    fill = functools.partial(textwrap.wrap, width=width(stream), break_long_words=False, break_on_hyphens=False)
    lines = [fill(line, subsequent_indent=" " * (len(line) - len(line.lstrip()) + 4)) for line in text.split("\n")]
    return "\n".join("\n".join(parts) for parts in lines)


def headed(text: str, stream: Any) -> str:
    """A report whose headings are bold: lines at the margin that have an indented line below them."""
    if not has_colour(stream):
        return text
    lines = text.split("\n")
    for i, line in enumerate(lines[:-1]):
        if line and not line[0].isspace() and lines[i + 1][:1].isspace():
            lines[i] = styled(line, "bold", stream)
    return "\n".join(lines)
