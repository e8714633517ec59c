"""The `opentrn` program. `commands` reads the command line; the other modules hold what its commands do."""

from __future__ import annotations


def main(argv: list[str] | None = None) -> int:
    """The program's entry point; returns its exit status. `argv`: by default the process's, without its name."""
    from opentrn.cli import commands

    return commands.main(argv)
