"""When results of a harness on two platforms are the same: by value, or by what a factorisation promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np

# Of a result's largest element: sums and functions round in other orders. float32's is eighty units in the last place.
TOLERANCE = {"float32": 1e-5, "complex64": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
# Factors of a matrix come out of many sums in turn.
FACTOR_TOLERANCE = 2e-4


def wide(array: Any) -> np.ndarray:
    """In float64 or complex128; whole numbers as they are."""
    value = np.asarray(array)
    if value.dtype.kind == "c":
        return value.astype(np.complex128)
    return value.astype(np.float64) if value.dtype.kind == "f" or value.dtype == ml_dtypes.bfloat16 else value


def difference(expected: Any, found: Any, tolerance: float | None = None) -> str:
    """What differs beyond rounding; empty: nothing."""
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return f"{expected.dtype}{list(expected.shape)} became {found.dtype}{list(found.shape)}"
    a, b = wide(expected), wide(found)
    if a.dtype.kind in "biu":
        count = int(np.count_nonzero(a != b))
        return f"{count} of {a.size} numbers differ" if count else ""
    limit = TOLERANCE[str(expected.dtype)] if tolerance is None else tolerance
    finite = np.isfinite(a)
    scale = float(np.max(np.abs(a[finite]), initial=0.0))
    apart = ~np.isclose(b, a, rtol=limit, atol=limit * scale, equal_nan=True)
    if not apart.any():
        return ""
    place = int(np.flatnonzero(apart)[0])
    return f"{int(apart.sum())} of {a.size} numbers differ, the first {a.flat[place]} is {b.flat[place]}"


def _adjoint(a: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(a, -1, -2))


def _unitary(q: np.ndarray) -> str:
    """Whether the columns (the rows, where they are fewer) are orthonormal."""
    product = _adjoint(q) @ q if q.shape[-1] <= q.shape[-2] else q @ _adjoint(q)
    return difference(
        np.broadcast_to(np.eye(product.shape[-1]).astype(product.dtype), product.shape),
        product,
        FACTOR_TOLERANCE,
    )


def _first(*found: str) -> str:
    return next((text for text in found if text), "")


def _svd(arguments: Sequence[Any], expected: Sequence[Any], found: Sequence[Any]) -> str:
    values = difference(expected[0], found[0], FACTOR_TOLERANCE)
    if len(found) == 1 or values:
        return values
    (s, u, v), a = map(wide, found), wide(arguments[0])
    count = s.shape[-1]
    made = (u[..., :count] * s[..., None, :]) @ v[..., :count, :]
    return _first(difference(a, made, FACTOR_TOLERANCE), _unitary(u), _unitary(v))


def _eigh(arguments: Sequence[Any], expected: Sequence[Any], found: Sequence[Any]) -> str:
    vectors, values, a = wide(found[0]), wide(found[1]), wide(arguments[0])
    made = (vectors * values[..., None, :]) @ _adjoint(vectors)
    return _first(
        difference(expected[1], found[1], FACTOR_TOLERANCE),
        difference(a, made, FACTOR_TOLERANCE),
        _unitary(vectors),
    )


def _qr(arguments: Sequence[Any], expected: Sequence[Any], found: Sequence[Any]) -> str:
    q, r, a = wide(found[0]), wide(found[1]), wide(arguments[0])
    if [np.shape(each) for each in expected] != [np.shape(each) for each in found]:
        return "other shapes"
    lower = float(np.max(np.abs(np.tril(r, -1)), initial=0.0))
    return _first(
        f"R has {lower} below its diagonal" if lower > 0 else "",
        difference(a, q @ r, FACTOR_TOLERANCE),
        _unitary(q),
    )


def _cholesky(arguments: Sequence[Any], expected: Sequence[Any], found: Sequence[Any]) -> str:
    # The primitive promises nothing of what is above the diagonal.
    theirs, ours = (np.tril(np.asarray(each[0])) for each in (expected, found))
    return difference(theirs, ours, None if theirs.dtype == ml_dtypes.bfloat16 else FACTOR_TOLERANCE)


def _approx_top_k(arguments: Sequence[Any], expected: Sequence[Any], found: Sequence[Any]) -> str:
    # Any of equal elements may be named.
    named = np.take_along_axis(np.asarray(arguments[0]), np.asarray(found[1]), -1)
    return _first(difference(expected[0], found[0]), difference(found[0], named))


# Harnesses whose results are not unique (signs and phases of vectors are free), or in parts undefined.
FACTORS: dict[str, Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], str]] = {
    "svd": _svd,
    "eigh": _eigh,
    "qr": _qr,
    "cholesky": _cholesky,
    "approx_top_k": _approx_top_k,
}


def compare(group: str, arguments: Sequence[Any], expected: Any, found: Any) -> str:
    """The first difference of the results of one harness; empty: none."""
    theirs, ours = jax.tree.leaves(expected), jax.tree.leaves(found)
    if len(theirs) != len(ours):
        return f"{len(theirs)} results became {len(ours)}"
    if group in FACTORS and all(np.size(each) for each in theirs):
        return FACTORS[group](arguments, theirs, ours)
    for number, (a, b) in enumerate(zip(theirs, ours)):
        if why := difference(a, b):
            return f"result {number}: {why}"
    return ""
