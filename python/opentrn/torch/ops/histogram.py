"""Counts of values by equal bins."""

from __future__ import annotations

from typing import Any

import torch

from opentrn.torch.emitter import Emitter
from opentrn.torch.expression import Expr
from opentrn.torch.ops.scatter import scatter_op
from opentrn.torch.registry import emits
from opentrn.torch.text import Spec, Value, size_of
from opentrn.torch.types import math_dtype

_COMPARED = 2**24  # comparisons of every element with every bin; beyond it counts are scattered


@emits("histc.default")
def histc(body: Emitter, out: Spec, value: Value, bins: int = 100, low: Any = 0, high: Any = 0) -> Value:
    """torch's rule: low and high the same means the least and greatest element; what lies outside counts nowhere."""
    count = size_of(value.shape)
    if count == 0:
        return body.splat(0, out.dtype, out.shape)
    wide = math_dtype(out.dtype)
    flat = Expr(body, body.reshape(body.convert(value, wide), (count,)))
    if low == high:
        least, most = flat.min(0), flat.max(0)
        same = least.equals(most).to(wide)
        least, most = least - same, most + same
    else:
        least, most = flat.number(low, (1,)), flat.number(high, (1,))
    width = most - least
    place = ((flat - least) * float(bins) / width).to(torch.int32)
    last = place.number(bins - 1, place.shape)
    place = last.where(place > last, place)
    counted = ((flat >= least) & (most >= flat)).to(torch.int32)
    if count * bins <= _COMPARED:
        shape = (bins, count)
        hit = place.iota(shape, 0).equals(place.reshape((1, count)))
        total = counted.reshape((1, count)).where(hit, 0).sum(1).reshape((bins,))
    else:
        zero = body.splat(0, torch.int32, (bins,))
        where = place.number(0, place.shape).where(counted.equals(0), place)
        total = Expr(
            body, scatter_op(body, zero, where.reshape((count, 1)).value, counted.value, [0], [], "add")
        )
    return body.convert(total.value, out.dtype)
