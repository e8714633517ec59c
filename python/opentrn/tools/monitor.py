"""neuron-monitor: one JSON object a line on standard output, until somebody ends it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from opentrn import _core
from opentrn.errors import InputError

_CONFIG_BYTES_MAX = 1 << 20  # the C++ core refuses more, and this does not read it
_NAP_S = 0.1  # signals are looked at that often


def run(config: Path | None, instance: str, verbose: int) -> int:
    """Reports until the reader goes or the program is interrupted. Raises InputError "monitor.config"."""
    text, name = "", ""
    if config is not None:
        name = str(config)
        try:
            with config.open("rb") as file:
                text = file.read(_CONFIG_BYTES_MAX + 1).decode()
        except OSError as error:
            raise InputError(f"{config}: {error.strerror}", label="monitor.config") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{config}: it is not UTF-8", label="monitor.config") from error
    _core.hold_as_tool()
    monitor = _core.Monitor(instance, text, name)
    number = 0
    while True:
        due = time.monotonic() + monitor.wait_s()
        while (left := due - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_S))
        sys.stdout.write(monitor.report() + "\n")
        sys.stdout.flush()
        number += 1
        if verbose:
            print(f"neuron-monitor: report {number}", file=sys.stderr)
