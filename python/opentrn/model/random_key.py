"""The key of a model's random numbers: an input that no caller gives (src/import/onnx/onnx.h, kRandomKey)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentrn.errors import InputError

if TYPE_CHECKING:
    import numpy as np

PORT = "opentrn.random_key"


class RandomKeys:
    """A key for each run: the same seed and number of the run since give the same random numbers."""

    def __init__(self, seed: int = 0) -> None:
        if not 0 <= seed < 2**32:
            raise InputError(
                f"seed {seed} is not within 32 bits", label="model.seed", hint="a seed from 0 to 2^32 - 1"
            )
        self._seed, self._runs = seed, 0

    def next(self) -> np.ndarray:
        """ui32 [2]."""
        import numpy as np

        key = np.array([self._seed, self._runs], np.uint32)
        self._runs += 1
        return key
