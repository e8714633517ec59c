"""A file of what the engine did: one JSON object a line, steps and ended requests, times in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from opentrn.errors import InputError

__all__ = ["Trace"]

_OF_STEP = ("program", "phase", "start_s", "end_s", "predicted_s", "tokens", "padded_tokens", "running", "waiting",
            "used_blocks", "requests", "preempted")  # fmt: skip


class Trace:
    """Raises InputError for a file that cannot be written."""

    def __init__(self, path: str) -> None:
        try:
            self._file: TextIO = Path(path).open("w", encoding="utf-8")  # noqa: SIM115 - until close()
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}", label="serve.trace") from error

    def step(self, report: dict[str, Any]) -> None:
        """After each step."""
        rows = [{"step": {name: report[name] for name in _OF_STEP}}]
        rows += [{"request": running.id, **delta.end} for running, delta in report["ended"]]
        self._file.write("".join(json.dumps(row) + "\n" for row in rows))
        self._file.flush()

    def close(self) -> None:
        """Nothing comes after it."""
        self._file.close()
