"""Special functions and what else has its own op in CHLO."""

from __future__ import annotations

import math
from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.ops.arithmetic import both
from opentrn.torch.ops.scatter import packed_by_mask, places_of_chosen, scatter_op
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value, size_of
from opentrn.torch.types import is_float, math_dtype


@emits("polygamma.default")
def polygamma(body: Emitter, out: Spec, order: int, value: Value) -> Value:
    wide = body.convert(value, math_dtype(out.dtype))
    if order == 0:
        return body.convert(body.unary("chlo.digamma", wide), out.dtype)
    return body.convert(body.binary("chlo.polygamma", body.like(order, wide), wide), out.dtype)


@emits("prims.zeta")
def zeta(body: Emitter, out: Spec, x: Any, q: Any) -> Value:
    return body.binary("chlo.zeta", *both(body, out, x, q))


@emits("prims.bessel_i1e")
def bessel_i1e(body: Emitter, out: Spec, value: Value) -> Value:
    return body.unary("chlo.bessel_i1e", value)


@emits("hypot.default", "prims.hypot")
def hypot(body: Emitter, out: Spec, left: Any, right: Any) -> Value:
    """The larger leg times sqrt(1 + ratio^2), which does not overflow."""
    a, b = (body.unary("abs", each) for each in both(body, out, left, right, math_dtype(out.dtype)))
    high, low = body.binary("maximum", a, b), body.binary("minimum", a, b)
    zero, one = body.like(0, high), body.like(1, high)
    ratio = body.divide(low, body.select(body.compare("EQ", high, zero), one, high))
    size = body.multiply(high, body.unary("sqrt", body.add(one, body.multiply(ratio, ratio))))
    infinite = body.compare("EQ", high, body.like(math.inf, high))
    return body.convert(body.select(infinite, high, size), out.dtype)


@emits("nextafter.default", "prims.nextafter")
def nextafter(body: Emitter, out: Spec, value: Any, towards: Any) -> Value:
    return body.binary("chlo.next_after", *both(body, out, value, towards))


@emits("angle.default")
def angle(body: Emitter, out: Spec, value: Value) -> Value:
    """Of a real number 0 or pi."""
    if value.dtype.is_complex:
        parts = [body.op(name, [value], value.shape, out.dtype) for name in ("imag", "real")]
        return body.binary("atan2", *parts)
    wide = body.convert(value, out.dtype)
    zero, pi = body.like(0, wide), body.like(math.pi, wide)
    made = body.select(body.compare("LT", wide, zero), pi, zero)
    return body.select(body.is_nan(wide), wide, made) if is_float(value.dtype) else made


@emits("_cdist_forward.default")
def cdist(body: Emitter, out: Spec, left: Value, right: Value, p: float, _mode: int | None) -> Value:
    """Distances of every pair of rows, by their differences."""
    if 0 in out.shape or left.shape[-1] == 0:
        return body.splat(0, out.dtype, out.shape)
    lead = out.shape[:-2]
    rows, columns, width = left.shape[-2], right.shape[-2], left.shape[-1]
    shape = (*lead, rows, columns, width)
    a = body.broadcast(
        body.reshape(body.broadcast(left, (*lead, rows, width)), (*lead, rows, 1, width)), shape
    )
    b = body.broadcast(
        body.reshape(body.broadcast(right, (*lead, columns, width)), (*lead, 1, columns, width)), shape
    )
    return norm_of_last(body, body.subtract(a, b), p)


def norm_of_last(body: Emitter, value: Value, p: float) -> Value:
    """The p-norm over the last dimension."""
    size, last = body.unary("abs", value), [value.rank - 1]
    if p == 0:
        return body.reduce(
            "add", body.convert(body.compare("NE", value, body.like(0, value)), value.dtype), last, 0
        )
    if p == 1:
        return body.reduce("add", size, last, 0)
    if math.isinf(p):
        return body.reduce("maximum", size, last, 0)
    if p == 2:
        return body.unary("sqrt", body.reduce("add", body.multiply(value, value), last, 0))
    total = body.reduce("add", body.binary("power", size, body.like(p, size)), last, 0)
    return body.binary("power", total, body.like(1 / p, total))


@emits("_cdist_backward.default")
def cdist_backward(
    body: Emitter, out: Spec, gradient: Value, left: Value, right: Value, p: float, distances: Value
) -> Value:
    """Of the left rows; a distance of zero sends nothing back."""
    if 0 in out.shape or 0 in gradient.shape:
        return body.splat(0, out.dtype, out.shape)
    lead = distances.shape[:-2]
    rows, columns, width = left.shape[-2], right.shape[-2], left.shape[-1]
    shape = (*lead, rows, columns, width)
    a = body.broadcast(
        body.reshape(body.broadcast(left, (*lead, rows, width)), (*lead, rows, 1, width)), shape
    )
    b = body.broadcast(
        body.reshape(body.broadcast(right, (*lead, columns, width)), (*lead, 1, columns, width)), shape
    )
    pair = range(len(shape) - 1)
    given = body.broadcast_in_dim(body.broadcast(gradient, distances.shape), shape, pair)
    distance = body.broadcast_in_dim(distances, shape, pair)
    step = body.subtract(a, b)
    zero, one = body.like(0, step), body.like(1, step)
    size = body.unary("abs", step)
    sign = body.select(
        body.compare("GT", step, zero),
        one,
        body.select(body.compare("LT", step, zero), body.like(-1, step), zero),
    )
    if p == 0:
        share = zero
    elif p == 1:
        share = sign
    elif math.isinf(p):
        share = body.select(body.compare("EQ", size, distance), sign, zero)
    else:
        safe = body.select(body.compare("EQ", distance, zero), one, distance)
        ratio = body.divide(size, safe)
        raised = ratio if p == 2 else body.binary("power", ratio, body.like(p - 1, ratio))
        share = body.select(body.compare("EQ", step, zero), zero, body.multiply(sign, raised))
    share = body.select(body.compare("EQ", distance, zero), zero, share)
    return body.reduce("add", body.multiply(given, share), [len(shape) - 2], 0)


@emits("_pdist_forward.default")
def pdist(body: Emitter, out: Spec, value: Value, p: float = 2.0) -> Value:
    """Of every pair of rows, once."""
    if 0 in out.shape or value.shape[1] == 0:
        return body.splat(0, out.dtype, out.shape)
    parts = []
    for row in range(value.shape[0] - 1):
        rest = body.slice_axis(value, 0, row + 1, value.shape[0])
        one = body.broadcast(body.slice_axis(value, 0, row, row + 1), rest.shape)
        parts.append(body.subtract(one, rest))
    return norm_of_last(body, body.concatenate(parts, 0), p)


@emits("masked_scatter.default")
def masked_scatter(body: Emitter, out: Spec, value: Value, mask: Value, source: Value) -> Value:
    """Chosen elements take the source's one after the other."""
    if 0 in out.shape or 0 in source.shape:
        return body.tensor(value, out.dtype, out.shape)
    chosen = body.tensor(mask, torch.bool, out.shape)
    return body.select(chosen, packed_by_mask(body, chosen, source), body.tensor(value, out.dtype, out.shape))


@emits("masked_scatter_backward.default")
def masked_scatter_backward(body: Emitter, out: Spec, gradient: Value, mask: Value, _sizes: Any) -> Value:
    """Gradients of the chosen elements one after the other, then zeros."""
    if 0 in out.shape or 0 in gradient.shape:
        return body.splat(0, out.dtype, out.shape)
    flat = (size_of(gradient.shape),)
    chosen = body.reshape(body.tensor(mask, torch.bool, gradient.shape), flat)
    given = body.reshape(gradient, flat)
    updates = body.select(chosen, given, body.like(0, given))
    places = body.reshape(places_of_chosen(body, chosen), (*flat, 1))
    made = scatter_op(body, body.splat(0, out.dtype, (size_of(out.shape),)), places, updates, [0], [], "add")
    return body.reshape(made, out.shape)


@emits("_pdist_backward.default")
def pdist_backward(
    body: Emitter, out: Spec, gradient: Value, value: Value, p: float, distances: Value
) -> Value:
    """As cdist's of the rows with themselves, each pair once from either side."""
    rows = value.shape[0]
    if 0 in out.shape or 0 in gradient.shape:
        return body.splat(0, out.dtype, out.shape)

    def square(pairs: Value) -> Value:
        parts, at = [], 0
        for row in range(rows):
            count = rows - row - 1
            parts.append(body.pad(body.slice_axis(pairs, 0, at, at + count), [row + 1], [0]))
            at += count
        upper = body.concatenate([body.reshape(part, (1, rows)) for part in parts], 0)
        return body.add(upper, body.transpose(upper, [1, 0]))

    spec = Spec((rows, value.shape[1]), out.dtype)
    return cdist_backward(body, spec, square(gradient), value, value, p, square(distances))
