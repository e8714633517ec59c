"""When results of a harness on two platforms are the same: by value, or by what a factorisation promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np

from conformance import common

# Of a result's largest element: sums and functions round in other orders. float32's is eighty units in the last place.
TOLERANCE = {"float32": 1e-5, "complex64": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
# Factors of a matrix come out of many sums in turn.
FACTOR_TOLERANCE = 2e-4


def difference(expected: Any, found: Any, tolerance: float | None = None) -> str:
    """What differs beyond rounding; empty: nothing."""
    values = common.wide(expected)
    if values.dtype.kind in "biu":
        return common.difference(expected, found)
    limit = TOLERANCE[str(np.asarray(expected).dtype)] if tolerance is None else tolerance
    scale = float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))
    return common.difference(expected, found, common.Tolerance(each=limit, least=limit * scale))


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
    (s, u, v), a = map(common.wide, found), common.wide(arguments[0])
    count = s.shape[-1]
    made = (u[..., :count] * s[..., None, :]) @ v[..., :count, :]
    return _first(difference(a, made, FACTOR_TOLERANCE), _unitary(u), _unitary(v))


def _eigh(arguments: Sequence[Any], expected: Sequence[Any], found: Sequence[Any]) -> str:
    vectors, values, a = common.wide(found[0]), common.wide(found[1]), common.wide(arguments[0])
    made = (vectors * values[..., None, :]) @ _adjoint(vectors)
    return _first(
        difference(expected[1], found[1], FACTOR_TOLERANCE),
        difference(a, made, FACTOR_TOLERANCE),
        _unitary(vectors),
    )


def _qr(arguments: Sequence[Any], expected: Sequence[Any], found: Sequence[Any]) -> str:
    q, r, a = common.wide(found[0]), common.wide(found[1]), common.wide(arguments[0])
    if [np.shape(each) for each in expected] != [np.shape(each) for each in found]:
        return "other shapes"
    lower = float(np.max(np.abs(np.tril(r, -1)), initial=0.0))
    return _first(
        f"R has {lower} below its diagonal" if lower != 0 else "",
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


def unstable_sort(expected: Sequence[Any], found: Sequence[Any], keys: int, dimension: int) -> str:
    """Of a sort that leaves the order of equal keys free: the keys, and along each line the same rows in some order.

    A row is what the operands hold at one place, bit for bit: none may be lost, doubled or torn apart.
    """
    theirs, ours = ([np.asarray(each) for each in results] for results in (expected, found))
    for number, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"result {number}: {common.difference(a, b)}"
        if number < keys and (why := common.difference(a, b)):
            return f"key {number}: {why}"
    for line in np.ndindex(*np.delete(theirs[0].shape, dimension)):
        wanted, got = (
            Counter(
                zip(
                    *([v.tobytes() for v in np.moveaxis(each, dimension, -1)[line]] for each in side),
                    strict=True,
                )
            )
            for side in (theirs, ours)
        )
        if lost := sum((wanted - got).values()):
            return f"{lost} of {sum(wanted.values())} rows are not those that were sorted, in line {line}"
    return ""


def compare(
    group: str,
    arguments: Sequence[Any],
    expected: Any,
    found: Any,
    parameters: Mapping[str, Any] | None = None,
) -> str:
    """The first difference of the results of one harness; empty: none. `parameters`: the harness's own."""
    theirs, ours = jax.tree.leaves(expected), jax.tree.leaves(found)
    if len(theirs) != len(ours):
        return f"{len(theirs)} results became {len(ours)}"
    if group in FACTORS and all(np.size(each) for each in theirs):
        return FACTORS[group](arguments, theirs, ours)
    if group == "sort" and parameters and not parameters["is_stable"]:
        return unstable_sort(theirs, ours, parameters["num_keys"], parameters["dimension"])
    for number, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        if why := difference(a, b):
            return f"result {number}: {why}"
    return ""
