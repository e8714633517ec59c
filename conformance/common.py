"""When the results of a device are those of a reference: the one rule that the runners of this folder use.

A result that is missing, of another shape or another dtype differs, and so does a NaN or an infinity that is not in
the same place of the reference. What remains is rounding, and each runner says how much of it a result may have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """How far a float may be from the reference's: by `each` and `least` together, or by `largest` if that is more.

    each: fraction of the element's own magnitude.
    least: in the unit of the values.
    largest: fraction of the largest finite magnitude of the reference, for sums whose terms cancel.
    integers: whether whole numbers may be off as floats may; otherwise they are equal.
    """

    each: float = 0.0
    least: float = 0.0
    largest: float = 0.0
    integers: bool = False


def wide(array: Any) -> np.ndarray:
    """Floats of any format as float64, complex numbers as complex128; whole numbers and truth values as they are."""
    value = np.asarray(array)
    if value.dtype.kind in "biu":
        return value
    if value.dtype.kind == "c":
        return value.astype(np.complex128)
    if value.dtype.kind == "V":  # ml_dtypes: integers of less than a byte, and floats
        import ml_dtypes

        try:
            ml_dtypes.iinfo(value.dtype)
        except ValueError:
            return value.astype(np.float64)
        return value.astype(np.int8 if value.dtype.name.startswith("int") else np.uint8)
    if value.dtype.kind != "f":
        raise TypeError(f"values of dtype {value.dtype} cannot be compared as numbers")
    return value.astype(np.float64)


def _unlike(expected: np.ndarray, found: np.ndarray) -> str:
    """How shape or dtype differ, or ""."""
    if expected.shape == found.shape and expected.dtype == found.dtype:
        return ""
    return f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"


def _parts(values: np.ndarray) -> np.ndarray:
    """Real and imaginary parts behind each other, the parts of a real number alone."""
    return np.stack([values.real, values.imag]) if values.dtype.kind == "c" else values[np.newaxis]


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where both hold the same number, infinity or NaN."""
    return (a == b) | (np.isnan(a) & np.isnan(b))


def _apart(expected: np.ndarray, found: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    """Where wide() arrays of one shape differ beyond the tolerance."""
    if expected.dtype.kind in "biu":
        if not tolerance.integers or expected.dtype.kind == "b":
            return expected != found
        expected, found = expected.astype(np.float64), found.astype(np.float64)
    magnitude = np.abs(expected)
    scale = magnitude[np.isfinite(magnitude)].max(initial=0.0)
    a, b = _parts(expected), _parts(found)
    with np.errstate(invalid="ignore", over="ignore"):
        bound = np.maximum(tolerance.each * magnitude + tolerance.least, tolerance.largest * scale)
        # An infinite bound, of an element with one infinite part, allows nothing but the same number.
        near = (np.abs(a - b) <= bound) & np.isfinite(bound)
    return ~(_same(a, b) | near).all(axis=0)


def difference(expected: Any, found: Any, tolerance: Tolerance = Tolerance()) -> str:
    """What differs beyond the tolerance between an array and its reference; empty: nothing."""
    expected, found = np.asarray(expected), np.asarray(found)
    if why := _unlike(expected, found):
        return why
    a, b = wide(expected), wide(found)
    apart = _apart(a, b, tolerance)
    if not apart.any():
        return ""
    place = tuple(int(axis[0]) for axis in np.nonzero(apart)) if apart.ndim else ()
    many = f"{int(apart.sum())} of {apart.size} values differ"
    return f"{many}; at {place}: {found[place]}, expected {expected[place]}"


def differences(
    expected: Sequence[Any], found: Sequence[Any], tolerance: Tolerance | Sequence[Tolerance] = Tolerance()
) -> str:
    """The first difference of a list of results, all of which must be there; empty: none."""
    if len(expected) != len(found):
        return f"{len(found)} results, expected {len(expected)}"
    each = [tolerance] * len(expected) if isinstance(tolerance, Tolerance) else tolerance
    for number, (a, b, allowed) in enumerate(zip(expected, found, each, strict=True)):
        if why := difference(a, b, allowed):
            return f"result {number}: {why}"
    return ""


def distance(expected: Any, found: Any) -> float:
    """The largest difference as a fraction of the reference's largest magnitude.

    Infinite for another shape or dtype, and for a NaN or an infinity that is not in the reference's place.
    """
    expected, found = np.asarray(expected), np.asarray(found)
    if _unlike(expected, found):
        return math.inf
    a, b = wide(expected), wide(found)
    if a.dtype.kind in "biu":
        if np.array_equal(a, b):
            return 0.0
        a, b = a.astype(np.float64), b.astype(np.float64)
    magnitude = np.abs(a)
    scale = magnitude[np.isfinite(magnitude)].max(initial=0.0)
    a, b = _parts(a), _parts(b)
    with np.errstate(invalid="ignore"):
        off = np.where(_same(a, b), 0.0, np.abs(a - b))
    largest = float(np.where(np.isnan(off), math.inf, off).max(initial=0.0))
    return largest / max(float(scale), 1e-30) if math.isfinite(largest) else math.inf


def worst(distances: Iterable[float]) -> float:
    """The largest of some distances. NaN counts as infinite, as Python's max() loses it. ValueError: there is none."""
    return max(math.inf if math.isnan(value) else value for value in distances)
