"""A file of counts that one process writes and another one reads while it does: the engine's and the server's."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path

import numpy as np

__all__ = ["NAMES", "Totals"]

# In this order in the file, 8 bytes each, floats.
NAMES = (
    "steps", "predicted_s", "prefill_padding", "decode_padding", "programs", "compile_s",
    "requests", "first_token_s", "end_s",
)  # fmt: skip


class Totals:
    """Counts by name. The one that writes adds; the others read what is there."""

    def __init__(self, path: str) -> None:
        self.path = path
        with Path(path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8 * len(NAMES))
        self._values = np.frombuffer(self._map, dtype=np.float64)

    @classmethod
    def made(cls) -> Totals:
        """A new file of zeros, in the folder for temporary files."""
        with tempfile.NamedTemporaryFile(prefix="opentrn-vllm-", suffix=".totals", delete=False) as file:
            file.write(bytes(8 * len(NAMES)))
        return cls(file.name)

    def add(self, **amounts: float) -> None:
        for name, amount in amounts.items():
            self._values[NAMES.index(name)] += amount

    def __getitem__(self, name: str) -> float:
        return float(self._values[NAMES.index(name)])
