"""ALU operators on numpy arrays: float32 for arithmetic, unsigned integers for bit vectors.

Semantics: nki/api/nki.api.shared.rst, "Supported Math Operators for NKI ISA". Comparisons and logical
operators give 1.0 or 0.0. NaN handling of maximum and minimum is not documented: NaN wins here, as in numpy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError, require
from opentrn.types.dtypes import is_integer, to_numpy_dtype
from opentrn.types.isa_ops import is_bitvec, op_name

F32 = np.float32


def _truth(condition: np.ndarray) -> np.ndarray:
    return condition.astype(F32)


ARITHMETIC: dict[str, Callable[[Any, Any], np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": lambda a, b: _truth(np.equal(a, b)),
    "not_equal": lambda a, b: _truth(np.not_equal(a, b)),
    "greater": lambda a, b: _truth(np.greater(a, b)),
    "greater_equal": lambda a, b: _truth(np.greater_equal(a, b)),
    "less": lambda a, b: _truth(np.less(a, b)),
    "less_equal": lambda a, b: _truth(np.less_equal(a, b)),
    "logical_and": lambda a, b: _truth(np.logical_and(a, b)),
    "logical_or": lambda a, b: _truth(np.logical_or(a, b)),
    "logical_xor": lambda a, b: _truth(np.logical_xor(a, b)),
    "power": np.power,
    # The operand of larger (smaller) magnitude, sign kept; the second one when equal. Source: nl.abs_max.
    "abs_max": lambda a, b: np.where(np.abs(a) > np.abs(b), a, b),
    "abs_min": lambda a, b: np.where(np.abs(a) < np.abs(b), a, b),
    "mod": np.mod,
    "fmod": np.fmod,
    "average": lambda a, b: (a + b) * F32(0.5),
    "bypass": lambda a, b: a,
    # unary: the second operand is ignored
    "abs": lambda a, b: np.abs(a),
    "square": lambda a, b: np.square(a),
    "relu": lambda a, b: np.maximum(a, F32(0)),
    "rsqrt": lambda a, b: F32(1) / np.sqrt(a),
    "reciprocal": lambda a, b: F32(1) / a,
    "negative": lambda a, b: np.negative(a),
    "sqrt": lambda a, b: np.sqrt(a),
    "logical_not": lambda a, b: _truth(np.equal(a, 0)),
}


def _shift_left(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    return np.where(b < bits, a << (b % bits), 0).astype(a.dtype)


def _shift_right(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    return np.where(b < bits, a >> (b % bits), 0).astype(a.dtype)


def _arithmetic_shift_right(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    signed: np.ndarray = a.view(f"i{a.dtype.itemsize}")
    return (signed >> np.minimum(b, a.dtype.itemsize * 8 - 1).astype(signed.dtype)).view(a.dtype)


# Operands are unsigned integers of one width; shifts by the width or more give 0.
BITVEC: dict[str, Callable[[Any, Any], np.ndarray]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "invert": lambda a, b: np.invert(a),
    "left_shift": _shift_left,
    "right_shift": _shift_right,
    "arithmetic_right_shift": _arithmetic_shift_right,
}

# Where a reduction starts. Source: nisa.tensor_scalar_reduce and nisa.tensor_scalar_cumulative.
IDENTITY = {
    "add": 0.0,
    "subtract": 0.0,
    "average": 0.0,
    "multiply": 1.0,
    "maximum": -np.inf,
    "minimum": np.inf,
    "abs_max": 0.0,
    "abs_min": np.inf,
}

REDUCTIONS = frozenset(
    {
        "add", "subtract", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor",
        "abs_max", "abs_min", "bitwise_and", "bitwise_or", "bitwise_xor",
    }
)  # fmt: skip


def apply(name: str, a: Any, b: Any, reverse: bool = False) -> np.ndarray:
    """a <op> b in float32, or b <op> a when `reverse`. `name` is an arithmetic operator or bypass."""
    try:
        function = ARITHMETIC[name]
    except KeyError:
        raise NkiValidationError(f"{name} is not an arithmetic operator") from None
    with np.errstate(all="ignore"):
        return np.asarray(function(b, a) if reverse else function(a, b), F32)


def apply_bits(name: str, a: Any, b: Any, reverse: bool = False) -> np.ndarray:
    """a <op> b on unsigned integers of one width, or b <op> a when `reverse`."""
    return BITVEC[name](b, a) if reverse else BITVEC[name](a, b)


def as_bits(values: np.ndarray, what: str = "operand") -> np.ndarray:
    """The bit patterns of an integer array, as unsigned integers of the same width."""
    require(values.dtype.kind in "iu", f"{what}: bit-vector operators take integers, not {values.dtype}")
    return values.view(f"u{values.dtype.itemsize}")


def bits_to(bits: np.ndarray, dtype: Any) -> np.ndarray:
    """Bit patterns into the storage format of an integer dtype: truncated or zero-extended, never
    converted."""
    require(is_integer(dtype), f"bit-vector operators write integers, not {dtype}")
    target = to_numpy_dtype(dtype)
    return bits.astype(f"u{target.itemsize}").view(target)


def immediate_bits(value: Any, like: np.ndarray) -> np.ndarray:
    """An integer immediate as a bit pattern of `like`'s width (-1 is all ones)."""
    require(float(value) == int(value), f"bit-vector operators take integers, not {value!r}")
    width = like.dtype.itemsize * 8
    return np.array(int(value) & ((1 << width) - 1), like.dtype)


def _ufunc(function: Callable[[Any, Any], np.ndarray]) -> np.ufunc:
    assert isinstance(function, np.ufunc)
    return function


def reduce_bits(name: str, bits: np.ndarray, axis: int) -> np.ndarray:
    """Reduce unsigned integers along `axis` by a bitwise operator of two operands."""
    return _ufunc(BITVEC[name]).reduce(bits, axis=axis)


def reduce_rows(name: str, rows: np.ndarray) -> np.ndarray:
    """Reduce float32 [P, N] to [P], strictly in order along N.

    numpy would add pairwise along a contiguous axis; transposing first makes it accumulate row after row.
    """
    if name in ("maximum", "minimum"):
        return _ufunc(ARITHMETIC[name]).reduce(rows, axis=1)  # any order gives the same
    columns = np.ascontiguousarray(rows.T)
    with np.errstate(all="ignore"):
        if name in ("add", "multiply", "subtract"):
            return _ufunc(ARITHMETIC[name]).reduce(columns, axis=0)  # subtract: a - b - c ...
        if name in ("abs_max", "abs_min"):
            return functools.reduce(ARITHMETIC[name], columns)
        if name in ("logical_and", "logical_or", "logical_xor"):
            return getattr(np, name).reduce(columns, axis=0).astype(F32)
    raise NkiValidationError(f"{name} is not a reduction operator")


def reduce_op_name(op: Any) -> str:
    """The name of a legal reduction operator. Raises NkiValidationError for any other."""
    name = op_name(op)
    require(name in REDUCTIONS, f"{name} is not a legal reduction operator (nki.api.shared, nki-aluop)")
    return name


def same_class(instruction: str, name0: str, name1: str | None) -> bool:
    """Whether the operators of one instruction are bit-vector ones; they may not be mixed."""
    if name1 in (None, "bypass"):
        return is_bitvec(name0)
    if name0 == "bypass":
        return is_bitvec(name1)
    require(
        is_bitvec(name0) == is_bitvec(name1),
        f"{instruction}: {name0} and {name1} must both be bit-vector or both arithmetic operators",
    )
    return is_bitvec(name0)
