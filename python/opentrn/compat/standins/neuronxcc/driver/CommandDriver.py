"""What `neuronx-cc` runs, under the name by which programs import it (nkipy)."""

from __future__ import annotations

import sys


def main() -> None:
    """The command of sys.argv. Returns where it succeeded; SystemExit with the status of the program otherwise."""
    from opentrn.tools.neuronx_cc import run

    if status := run(sys.argv[1:]):
        sys.exit(status)
