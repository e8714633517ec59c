"""The `opentrn` program. `commands` reads the command line; the other modules hold what its commands do."""

from __future__ import annotations


def main(argv: list[str] | None = None) -> int:
    """The program's entry point; returns its exit status. `argv`: by default the process's, without its name.

    Without `argv` this is the whole program: where a signal or the deadline ended its command, the process ends here.
    """
    from opentrn.cli import interrupts

    try:
        from opentrn.cli import dispatch

        status = dispatch.main(argv)
    except KeyboardInterrupt as early:  # before the command was read
        status = interrupts.report(early)
    if argv is None and status in interrupts.STATUSES:
        interrupts.leave(status)
    return status
