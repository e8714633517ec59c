"""Access patterns of index expressions.

A kernel's loops index the same tensors with the same structure again and again, and only an offset differs.
For affine index expressions the access pattern follows from their forms (index_form.py) and the dimensions of
the indexed view; src/python/tile_views.cc remembers it, so that the offset and the bounds are left per index.
"""

from __future__ import annotations

from typing import NamedTuple

from opentrn.errors import NkiValidationError
from opentrn.nki_legacy.index import broadcast_shapes
from opentrn.nki_legacy.index_form import Form

Dims = tuple[tuple[int, int], ...]  # (stride, count) of each dimension


class Limit(NamedTuple):
    """An index that can leave its dimension unless a mask narrows it: constant + sum of step * i per axis."""

    constant: int
    steps: tuple[int, ...]
    size: int


class Plan(NamedTuple):
    """The access pattern of affine forms."""

    dims: Dims
    strides: tuple[int, ...]  # of the indexed dimensions: constants count by them
    bounds: tuple[tuple[int, int, int, tuple[int, ...]], ...]  # low, high, size and steps of each index


PLANS: dict[tuple[Dims, bool, tuple[Form, ...]], Plan | None] = {}


def plan(dims: Dims, on_chip: bool, forms: tuple[Form, ...]) -> Plan | None:
    """The pattern of a view with `dims` indexed by `forms`, one per dimension.

    None where the slow path has to look: the forms do not fit, or are refused.
    """
    try:
        shape = broadcast_shapes(*(form.shape for form in forms))
    except NkiValidationError:
        return None
    rank = len(shape)
    total = [0] * rank
    varies = [False] * rank
    bounds = []
    for position, (form, (stride, size)) in enumerate(zip(forms, dims)):
        steps = [0] * rank
        for axis, step in form.steps or ():
            axis += rank
            if on_chip and (position == 0) != (axis == 0):
                return None
            steps[axis] = step
            total[axis] += step * stride
            varies[axis] = True
        bounds.append((*form.range(), size, tuple(steps)))
    if on_chip and shape[0] == 1 and not varies[0]:
        total[0] = dims[0][0]
    return Plan(tuple(zip(total, shape)), tuple(stride for stride, _ in dims), tuple(bounds))


__all__ = ["PLANS", "Limit", "Plan", "plan"]
