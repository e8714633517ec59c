"""Loops, program identity and scheduling regions of nki.language.

Run eagerly, registers hold concrete values, so dynamic loops are Python loops whose variable is a fresh
register. Source: nki/api/nki/language, nki/deep-dives/nki-dynamic-loops.rst.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from opentrn.errors import NkiValidationError, require
from opentrn.nki import _launch_context, _machine
from opentrn.nki import isa as nisa
from opentrn.nki._machine import VirtualRegister, is_tensor

# The static ranges unroll at trace time, which is what Python's range does.
affine_range = range
sequential_range = range
static_range = range

_thread = threading.local()


def _bound(value: Any, what: str) -> int:
    """A loop bound: an int, a register or a one-element tensor."""
    if isinstance(value, (int, VirtualRegister)):
        return int(value)
    if is_tensor(value):
        raise NkiValidationError(
            f"{what} is a tensor; load it into a register first: reg = nisa.register_alloc(); "
            "nisa.register_load(reg, tensor)"
        )
    return int(value)


def _check_loop(name: str, step: Any) -> None:
    require(
        isinstance(step, int) and not isinstance(step, bool) and step > 0,
        f"nl.{name}: step must be a positive compile-time int, got {step!r} (the hardware loop encodes it)",
    )
    if getattr(_thread, "no_reorder_depth", 0):
        raise NkiValidationError(
            f"nl.{name} inside nl.no_reorder() is not supported; "
            "put the no_reorder block inside the loop body"
        )


def dynamic_range(start, stop=None, step=1) -> Iterator[Any]:
    """Registers counting from `start` to `stop`; bounds may be registers, read when the loop starts."""
    if stop is None:
        start, stop = 0, start
    _check_loop("dynamic_range", step)
    for value in range(_bound(start, "start"), _bound(stop, "stop"), step):
        yield VirtualRegister(value, frozen=True)


def fori_loop(lower, upper, body_fun: Callable[[Any], Any], step=1) -> None:
    """Call body_fun(register) for lower, lower + step, ... below upper. The register is read-only."""
    _check_loop("fori_loop", step)
    for value in range(_bound(lower, "lower"), _bound(upper, "upper"), step):
        body_fun(VirtualRegister(value, frozen=True))


def while_loop(init, body_fun: Callable[[Any], Any]) -> None:
    """While the register is not 0, call it = body_fun(it). The condition is checked before each iteration."""
    _check_loop("while_loop", 1)
    value = _bound(init, "init")
    while value != 0:
        condition = body_fun(nisa.register_alloc(value))
        require(
            condition is not None,
            "nl.while_loop: the body returned None; "
            "it must return the register that holds the next condition",
        )
        value = _bound(condition, "the body's result")


class no_reorder:
    """Region in which instructions keep program order.

    Eager execution is program order; the region is recorded.
    """

    def __enter__(self) -> no_reorder:
        _thread.no_reorder_depth = getattr(_thread, "no_reorder_depth", 0) + 1
        _record_no_reorder(True)
        return self

    def __exit__(self, *exc: object) -> None:
        _thread.no_reorder_depth -= 1
        _record_no_reorder(_thread.no_reorder_depth > 0)


def _record_no_reorder(on: bool) -> None:
    """Mark the region in the recorded program, where the machine records one."""
    current = _machine.machine_or_none()
    if hasattr(current, "set_no_reorder"):
        current.set_no_reorder(on)


def program_id(axis: int = 0) -> int:
    """Index of this program along `axis` of the launch grid; 0 without a grid."""
    grid = _launch_context.grid()
    _check_axis("program_id", axis, grid)
    return _machine.machine().core_id if grid else 0


def num_programs(axes: int | tuple[int, ...] | None = 0) -> int:
    """Programs along `axes` of the launch grid (None: in all of it); 1 without a grid."""
    grid = _launch_context.grid()
    if axes is None:
        axes = tuple(range(len(grid)))
    count = 1
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        _check_axis("num_programs", axis, grid)
        count *= grid[axis] if grid else 1
    return count


def program_ndim() -> int:
    """Number of axes of the launch grid: 1 for kernel[lnc](...), 0 for kernel(...)."""
    return len(_launch_context.grid())


def _check_axis(name: str, axis: int, grid: tuple[int, ...]) -> None:
    # Without a grid axis 0 is still asked for by kernels that run either way.
    require(axis == 0 or axis < len(grid), f"nl.{name}(axis={axis}): the launch grid has {len(grid)} axes")
