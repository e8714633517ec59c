"""Quick views: the usual indices of the dialect, resolved without arrays.

A kernel's loops index the same tensors with the same structure again and again, and only an offset differs.
For affine index expressions the access pattern follows from their forms (index_form.py) and the dimensions of
the indexed view, and is remembered; per index, the offset and the bounds are left. For ints and slices it is
computed directly. Everything else gives None, and Tile._index_any finds the view, or refuses it, with words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from opentrn.errors import NkiValidationError
from opentrn.nki_legacy.index import DynamicSlice, IndexExpr, broadcast_shapes
from opentrn.nki_legacy.index_form import SCALAR, Form
from opentrn.nki_legacy.regions import Range

if TYPE_CHECKING:
    from opentrn.nki_legacy.tile import Tile

Dims = tuple[tuple[int, int], ...]  # (stride, count) of each dimension


class Limit(NamedTuple):
    """An index that can leave its dimension unless a mask narrows it: constant + sum of step * i per axis."""

    constant: int
    steps: tuple[int, ...]
    size: int


class _Plan(NamedTuple):
    """The access pattern of affine forms."""

    dims: Dims
    strides: tuple[int, ...]  # of the indexed dimensions: constants count by them
    bounds: tuple[tuple[int, int, int, tuple[int, ...]], ...]  # low, high, size and steps of each index


_plans: dict[tuple[Dims, bool, tuple[Form, ...]], _Plan | None] = {}


def quick_view(base: Tile, keys: tuple[Any, ...]) -> Tile | None:
    """`base[keys]`, or None where the index is not of a usual form or may be wrong."""
    if base._indirect is not None or base._limits:
        return None
    for key in keys:
        if type(key) is IndexExpr:
            return _affine_view(base, keys)
    return _basic_view(base, keys)


def _affine_view(base: Tile, keys: tuple[Any, ...]) -> Tile | None:
    forms, constants = [], []
    for key in keys:
        if type(key) is IndexExpr:
            form = key.form
            if form.steps is None or len(form.shape) < 2:
                return None
            forms.append(form)
            constants.append(key.constant)
        elif isinstance(key, int):
            forms.append(SCALAR)
            constants.append(int(key))
        else:
            return None
    dims = base._dims
    outer = len(base._open)
    if len(keys) != outer + len(dims):
        return None
    blocks = base._blocks
    if outer:
        blocks = _blocks(base, forms[:outer], constants)
        if blocks is None:
            return None
        forms, constants = forms[outer:], constants[outer:]
    cached = (dims, base.is_on_chip, tuple(forms))
    plan = _plans.get(cached)
    if plan is None:
        if cached not in _plans:
            plan = _plans[cached] = _plan(*cached)
        if plan is None:
            return None
    offset = base._offset
    limits: tuple[Limit, ...] = ()
    for constant, stride, (low, high, size, steps) in zip(constants, plan.strides, plan.bounds):
        offset += constant * stride
        if low + constant < 0 or high + constant >= size:
            limits += (Limit(constant, steps, size),)
    return type(base)(base._tensor, blocks, offset, plan.dims, base._dtype, None, limits)


def _blocks(base: Tile, forms: list[Form], constants: list[int]) -> tuple[Any, ...] | None:
    """The blocks with every open dimension fixed by a constant."""
    if any(form.steps for form in forms):
        return None
    chosen = []
    values = iter(constants)
    for block in base._blocks:
        if type(block) is Range:
            value = next(values)
            if value < 0:
                value += block.count
            if not 0 <= value < block.count:
                return None
            chosen.append(block.start + block.step * value)
        else:
            chosen.append(block)
    return tuple(chosen)


def _plan(dims: Dims, on_chip: bool, forms: tuple[Form, ...]) -> _Plan | None:
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
    return _Plan(tuple(zip(total, shape)), tuple(stride for stride, _ in dims), tuple(bounds))


def _basic_view(base: Tile, keys: tuple[Any, ...]) -> Tile | None:
    """Ints, slices and nl.ds, within the bounds."""
    dims = base._dims
    if base._open or len(keys) > len(dims):
        return None
    on_chip = base.is_on_chip
    offset = base._offset
    kept: list[tuple[int, int]] = []
    for position, ((stride, size), key) in enumerate(zip(dims, keys)):
        kind = type(key)
        if kind is slice:
            start = 0 if key.start is None else key.start
            stop = size if key.stop is None else key.stop
            step = 1 if key.step is None else key.step
            if not (isinstance(start, int) and isinstance(stop, int) and isinstance(step, int)):
                return None
            if not (0 <= start < stop <= size and step >= 1):
                return None
            count = -(-(stop - start) // step)
        elif kind is DynamicSlice:
            start, count, step = key.start, key.size, 1
            if not (isinstance(start, int) and isinstance(count, int)):
                return None
            if not (start >= 0 and count >= 1 and start + count <= size):
                return None
        elif isinstance(key, int):
            if not 0 <= key < size:
                return None
            offset += stride * int(key)
            if on_chip and position == 0:
                kept.append((stride, 1))
            continue
        else:
            return None
        offset += stride * int(start)
        kept.append((stride * int(step), int(count)))
    kept += dims[len(keys) :]
    if on_chip and len(kept) < 2:
        kept.append((0, 1))
    return type(base)(base._tensor, base._blocks, offset, tuple(kept), base._dtype)


__all__ = ["Limit", "quick_view"]
