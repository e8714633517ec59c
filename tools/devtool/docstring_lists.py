"""For the site of the documents: what a docstring says of each argument becomes a list.

Docstrings say it in lines that begin with the argument's name: `target: None is the kernel's platform_target, ...`.
This runs in the site's own environment, which has griffe.
"""

from __future__ import annotations

import re

import griffe  # in .deps/docs alone

_ARGUMENT = re.compile(r"^([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*): ")


def as_lists(text: str, parameters: set[str]) -> str:
    """The docstring, in which lines that begin with names of `parameters` and a colon are items of a list."""
    lines: list[str] = []
    in_item = False
    for line in text.splitlines():
        found = _ARGUMENT.match(line)
        if found and set(found[1].split(", ")) <= parameters:
            names = ", ".join(f"`{name}`" for name in found[1].split(", "))
            lines += [*([] if in_item else [""]), f"- {names}: {line[found.end():]}"]
            in_item = True
            continue
        in_item = in_item and bool(line.strip())
        lines.append(f"  {line}" if in_item else line)
    return "\n".join(lines)


class ArgumentLists(griffe.Extension):
    """Rewrites the docstrings of functions."""

    def on_function(self, *, func: griffe.Function, **_: object) -> None:
        """Called for each function that was read."""
        if func.docstring is not None:
            func.docstring.value = as_lists(func.docstring.value, {each.name for each in func.parameters})
