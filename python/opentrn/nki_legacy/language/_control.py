"""Loops, programs of a launch grid, and reductions over them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from opentrn.base.notices import tell_once
from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki import _machine
from opentrn.nki_legacy import arithmetic, emit
from opentrn.nki_legacy.box import full_box, whole
from opentrn.nki_legacy.dtypes import host_dtype
from opentrn.nki_legacy.index import regions
from opentrn.nki_legacy.isa._common import no_options
from opentrn.nki_legacy.tile import Tile
from opentrn.nki_legacy.written_loops import written_loop
from opentrn.types.isa_ops import op_name


class LoopIndex(int):
    """The value of a loop variable in one iteration, an int that knows its loop (for nl.loop_reduce)."""

    loop: object = None


class _Loop:
    """One execution of a loop."""


def _iterate(args: tuple[Any, ...], independent: bool = False) -> Iterator[LoopIndex]:
    loop = _Loop()
    with written_loop(independent) as next_iteration:
        for value in range(*(whole(a, "a loop") for a in args)):
            index = LoopIndex(value)
            index.loop = loop
            next_iteration()
            yield index


def _trace(args: tuple[Any, ...], independent: bool = False) -> Iterator[LoopIndex]:
    launch = emit.session_or_none()
    if launch is None:  # outside a kernel
        yield from _iterate(args, independent)
        return
    with launch.traced.loop() as begin_iteration:
        for index in _iterate(args, independent):
            begin_iteration()
            yield index


def _tell_hints(loop: str, hints: dict[str, Any]) -> None:
    """Keywords of loops, such as directives, guide the official scheduler; here, program order rules."""
    for name in hints:
        tell_once(f"nl.{loop}({name}=) has no effect: it guides AWS's scheduler, and here program order rules")


def affine_range(*args: int, **hints: Any) -> Iterator[LoopIndex]:
    """Iterations that do not depend on each other (except by reduction). Executed one after the other."""
    _tell_hints("affine_range", hints)
    return _trace(args, independent=True)


def sequential_range(*args: int, **hints: Any) -> Iterator[LoopIndex]:
    """Iterations that depend on each other."""
    _tell_hints("sequential_range", hints)
    return _trace(args)


def static_range(*args: int, **hints: Any) -> Iterator[LoopIndex]:
    """Iterations that the compiler unrolls."""
    _tell_hints("static_range", hints)
    return _iterate(args)


def loop_reduce(x, op, loop_indices, *, dtype=None, mask=None, **extra) -> Tile:
    """A running op(destination, x) over loops.

    `t[...] = nl.loop_reduce(x, ...)` reduces into t, what t holds before the loop included; without such a
    destination (`b = nl.loop_reduce(x, ...)`) the result starts with the first x of the loop and is kept per
    call site.
    """
    emit.flush()
    no_options("nl.loop_reduce", extra)
    tile = emit.operand(x, "nl.loop_reduce")
    name = op_name(op)
    indices = loop_indices if isinstance(loop_indices, (tuple, list)) else (loop_indices,)
    kept = tuple(i.loop for i in indices if isinstance(i, LoopIndex))  # no reuse of an id while it counts
    frame = sys._getframe(1)
    key = (frame.f_code, frame.f_lasti, kept)
    boxes = regions(mask, tile.shape, "nl.loop_reduce")
    out = host_dtype(tile.dtype if dtype is None else dtype)

    def issue(dst: Tile) -> None:
        known = emit.session().reductions
        running = known.get(key)
        for box in boxes:
            part = tile.sub(box)
            if running is None:
                emit.copy_into(dst.sub(box), part)
            else:
                arithmetic.binary_into(dst.sub(box), name, running.sub(box), part)
        known[key] = dst

    result = emit.defer(tile.shape, out, issue, boxes=boxes, sources=[tile], in_place=False)
    result.deferred.reduce = (name, tile)
    return result


def _program_axis(axis: int, what: str) -> int:
    rank = len(emit.session().grid)
    if not -rank <= axis < rank:
        raise NkiValidationError(
            f"{what}: axis {axis} of a launch grid with {rank} dimensions", label="nki.grid"
        )
    return axis % rank


def program_id(axis: int) -> int:
    """This program's index along an axis of the launch grid."""
    return emit.session().program_ids[_program_axis(axis, "nl.program_id")]


def num_programs(axes: Any = None) -> Any:
    """Programs along one axis, along several (a tuple), or along all."""
    grid = emit.session().grid
    if axes is None:
        return grid
    if isinstance(axes, (tuple, list)):
        return tuple(grid[_program_axis(a, "nl.num_programs")] for a in axes)
    return grid[_program_axis(axes, "nl.num_programs")]


def program_ndim() -> int:
    """Dimensions of the launch grid."""
    return len(emit.session().grid)


def all_reduce(
    x, op, program_axes, *, dtype=None, mask=None, parallel_reduce=True, asynchronous=False, **extra
):
    """A reduction over programs: the programs of a grid run one after the other here, so none sees
    another's."""
    raise NotModelled(
        "nl.all_reduce over programs of a launch grid: programs run one after the other",
        label="nki.collective", hint="reduce in HBM with nl.atomic_rmw instead",
    )


class LaunchDim:
    """A dimension of a launch grid, possibly tiled over physical cores: nl.nc(2) * 2, nl.spmd_dim(2,
    nl.nc(2))."""

    def __init__(self, factors: tuple[tuple[int, bool], ...]):
        self.factors = factors  # outermost first: (size, whether it counts physical cores)

    def __int__(self) -> int:
        return int(np.prod([size for size, _ in self.factors]))

    __index__ = __int__

    @property
    def cores(self) -> int:
        """Physical cores that this dimension is spread over."""
        return int(np.prod([size for size, physical in self.factors if physical] or [1]))

    def __mul__(self, other: Any) -> LaunchDim:
        return LaunchDim(self.factors + _factors(other))

    def __rmul__(self, other: Any) -> LaunchDim:
        return LaunchDim(_factors(other) + self.factors)

    def __repr__(self) -> str:
        return " * ".join(f"nc({n})" if physical else str(n) for n, physical in self.factors)


def _factors(value: Any) -> tuple[tuple[int, bool], ...]:
    return value.factors if isinstance(value, LaunchDim) else ((int(value), False),)


def nc(size: int) -> LaunchDim:
    """A grid dimension spread over `size` physical NeuronCores."""
    return LaunchDim(((int(size), True),))


def spmd_dim(*factors: Any) -> LaunchDim:
    """A grid dimension made of several, outermost first."""
    return LaunchDim(tuple(f for factor in factors for f in _factors(factor)))


def device_print(prefix, x, *, mask=None, **extra) -> None:
    """Print a prefix and the values of a tile."""
    emit.flush()
    no_options("nl.device_print", extra)
    if not isinstance(x, Tile):
        print(prefix, x, flush=True)
        return
    if not getattr(_machine.machine_or_none(), "executes", True):
        return  # recorded for its time: there are no values
    boxes = regions(mask, x.shape, "nl.device_print")
    if boxes == [full_box(x.shape)]:
        if x.is_on_chip and not x.block_ranges:
            emit.read(x)
        print(prefix, x.to_numpy(), flush=True)
        return
    for box in boxes:
        print(prefix, x.sub(box).to_numpy(), flush=True)
