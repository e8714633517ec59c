"""Compares a kernel's result with the reference's and says how far apart they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from PyTorch's fp32 result, and why."""

    max_absolute: float
    relative: float
    cosine: float


# Against PyTorch in fp32, with everything before the kernel also in the kernel's dtype. LayerNorm keeps
# values of order 1, the largest about 10.
# fp32: both sides sum in fp32 in different orders; 1536 terms of order 1 lose about 1536 * 2^-24 = 1e-4.
# bf16: an operand keeps 8 bits, so it is off by up to 2^-9 = 0.2 % of itself. A layer rounds some eight
# times one after the other and six layers follow each other: sqrt(48) * 0.2 % = 1.4 % of a value, and of the
# largest values (10) 0.14, twice that for the worst of 200 000.
TOLERANCE = {
    "fp32": Tolerance(max_absolute=1e-4, relative=1e-5, cosine=0.999999),
    "bf16": Tolerance(max_absolute=0.28, relative=0.014, cosine=0.9995),
}


# Of sentence embeddings, for the whole encoder as one model; "bf16" rounds the operands of matrix products only.
WHOLE_MODEL_COSINE = {"fp32": 0.9999, "bf16": 0.999}


@dataclass(frozen=True)
class Difference:
    """Distance of a result from the reference."""

    max_absolute: float
    relative: float  # root of the mean squared error over root of the mean square
    cosine: float  # smallest over the tokens

    def within(self, tolerance: Tolerance) -> bool:
        return (
            self.max_absolute <= tolerance.max_absolute
            and self.relative <= tolerance.relative
            and self.cosine >= tolerance.cosine
        )


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosine of the angle between corresponding vectors along the last axis, in fp64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def difference(result: np.ndarray, reference: np.ndarray) -> Difference:
    """Of two arrays of one shape, [..., features]. A NaN anywhere gives NaN, which is within no tolerance."""
    error = result.astype(np.float64) - reference.astype(np.float64)
    scale = np.sqrt(np.mean(reference.astype(np.float64) ** 2))
    return Difference(
        max_absolute=float(np.abs(error).max()),
        relative=float(np.sqrt(np.mean(error**2)) / scale),
        cosine=float(cosine(result, reference).min()),
    )
