"""Reductions and normalisations of nki.language, each a short sequence of nki.isa instructions.

Source: nki/api/nki/language. `axis` names free dimensions, the last contiguous ones of the tile.
"""

from __future__ import annotations

from typing import Any

from opentrn.base.notices import tell_once
from opentrn.errors import require
from opentrn.nki import isa as nisa
from opentrn.nki._machine import is_tensor
from opentrn.nki.language import _elementwise as ew
from opentrn.types import dtypes


def _axes(x, axis) -> tuple[int, ...]:
    """`axis` as ascending positive dimensions; they must be the trailing free dimensions of the tile."""
    rank = len(x.shape)
    axes = tuple(sorted(a % rank for a in (axis if isinstance(axis, (tuple, list)) else (axis,))))
    require(
        len(axes) > 0 and axes == tuple(range(rank - len(axes), rank)) and axes[0] > 0,
        f"axis {axis!r} of a tile of shape {tuple(x.shape)}: a reduction covers trailing free dimensions, "
        f"such as {list(range(1, rank))}, never the partition dimension 0",
        label="nki.axis",
    )
    return axes


def _reduced_shape(x, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    kept = tuple(x.shape[: axes[0]])
    if keepdims:
        return kept + (1,) * len(axes)
    return kept if len(kept) > 1 else kept + (1,)  # an on-chip tile keeps a free dimension


def _tensor_reduce(op, x, axis, dtype, keepdims):
    axes = _axes(x, axis)
    dst = ew.tile(_reduced_shape(x, axes, keepdims), ew.kept(dtype, x))
    nisa.tensor_reduce(dst, op, x, axes if len(axes) > 1 else axes[0])
    return dst


def _count(x, axes: tuple[int, ...]) -> int:
    count = 1
    for a in axes:
        count *= x.shape[a]
    return count


def sum(x, axis, dtype=None, keepdims=False):
    """Sum along trailing free axes, accumulated in fp32."""
    return _tensor_reduce(ew.add, x, axis, dtype, keepdims)


def max(x, axis, dtype=None, keepdims=False):
    """Maximum along trailing free axes."""
    return _tensor_reduce(ew.maximum, x, axis, dtype, keepdims)


def min(x, axis, dtype=None, keepdims=False):
    """Minimum along trailing free axes."""
    return _tensor_reduce(ew.minimum, x, axis, dtype, keepdims)


def prod(x, axis, dtype=None, keepdims=False):
    """Product along trailing free axes."""
    return _tensor_reduce(ew.multiply, x, axis, dtype, keepdims)


def all(x, axis, dtype=None):
    """1 where every element along the axes is non-zero, else 0."""
    return _tensor_reduce(ew.logical_and, x, axis, dtype, False)


def mean(x, axis, dtype=None, keepdims=False):
    """Arithmetic mean along trailing free axes: fp32 sum times 1/count."""
    total = sum(x, axis, dtypes.float32, keepdims)
    dst = ew.tile(tuple(total.shape), ew.kept(dtype, x))
    nisa.tensor_scalar(dst, total, ew.multiply, 1.0 / _count(x, _axes(x, axis)))
    return dst


def var(x, axis, dtype=None, keepdims=False):
    """Population variance along trailing free axes.

    The result always keeps the axes as size one (documented), whatever `keepdims` says; given, it is told so.
    """
    if keepdims:
        tell_once("nl.var(keepdims=) has no effect: its result keeps the axes as size one, as AWS documents")
    axes = _axes(x, axis)
    flat_shape = tuple(x.shape[: axes[0]]) + (1,) * len(axes)
    average = mean(x, axis, dtypes.float32, keepdims=True)
    centred = ew.subtract(x, average, dtypes.float32)
    squared = ew.square(centred)
    total = sum(squared, axis, dtypes.float32, keepdims=True)
    dst = ew.tile(flat_shape, ew.kept(dtype, x))
    nisa.tensor_scalar(dst, total, ew.multiply, 1.0 / _count(x, axes))
    return dst


def softmax(x, axis=-1, dtype=None):
    """exp(x - max) / sum(exp(x - max)) along trailing free axes."""
    peak = max(x, axis, dtypes.float32, keepdims=True)
    shifted = ew.subtract(x, peak, dtypes.float32)
    weights = ew.exp(shifted)
    total = sum(weights, axis, dtypes.float32, keepdims=True)
    nisa.reciprocal(total, total)
    return ew.multiply(weights, total, ew.kept(dtype, x))


def rms_norm(x, w, axis, n, epsilon=1e-06, dtype=None, compute_dtype=None):
    """x / sqrt(mean(x^2) + epsilon) * w along trailing free axes, the mean taken over `n` values."""
    compute: Any = compute_dtype if compute_dtype is not None else dtypes.float32
    squared = ew.square(x, compute)
    total = sum(squared, axis, dtypes.float32, keepdims=True)
    scale = ew.fp32(tuple(total.shape))
    nisa.tensor_scalar(scale, total, ew.multiply, 1.0 / n, False, ew.add, epsilon)
    nisa.activation(scale, ew.rsqrt, scale)
    normalised = ew.multiply(x, scale, compute)
    return ew.multiply(normalised, w, ew.kept(dtype, x))


def dropout(x, rate, dtype=None):
    """Zero each element with probability `rate` (a number, or a tile with one value per partition).

    No rescaling; a new tile of x's shape, and of its dtype or `dtype`. Raises NkiValidationError for what is no tile.
    """
    require(is_tensor(x), f"nl.dropout needs a tile, got {type(x)}", "nki.operand")
    dst = ew.tile(tuple(x.shape), ew.kept(dtype, x))
    nisa.dropout(dst, x, rate)
    return dst
