"""Loops, program identity and scheduling regions of nki.language.

A machine that records loops sees the body of a dynamic loop once, between the loop's begin and end; one that
executes every instruction at once (the oracle, OPENTRN_EAGER=1) has concrete registers, and the loop is Python's.
docs/decisions/0011-device-loops.md says what follows. Source: nki/api/nki/language,
nki/deep-dives/nki-dynamic-loops.rst.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentrn.errors import NkiValidationError, require
from opentrn.nki import _launch_context, _machine
from opentrn.nki import isa as nisa
from opentrn.nki._machine import VirtualRegister, is_tensor

_thread = threading.local()


def affine_range(start, stop=None, step=1) -> range:
    """Numbers of a loop that Python unrolls; its iterations do not depend on each other."""
    return _unrolled(start, stop, step)


def sequential_range(start, stop=None, step=1) -> range:
    """Numbers of a loop that Python unrolls; an iteration may depend on those before it."""
    return _unrolled(start, stop, step)


def static_range(start, stop=None, step=1) -> range:
    """Numbers of a loop that Python unrolls."""
    return _unrolled(start, stop, step)


def _unrolled(start: Any, stop: Any, step: Any) -> range:
    return range(start) if stop is None else range(start, stop, step)


def _bound(value: Any, what: str) -> int:
    """A loop bound: an int, a register or a one-element tensor."""
    if isinstance(value, (int, VirtualRegister)):
        return int(value)
    if is_tensor(value):
        raise NkiValidationError(
            f"{what} is a tensor",
            label="nki.register",
            hint="load it into a register first: reg = nisa.register_alloc(); nisa.register_load(reg, tensor)",
        )
    return int(value)


def _check_loop(name: str, step: Any) -> None:
    require(
        isinstance(step, int) and not isinstance(step, bool) and step > 0,
        f"nl.{name}: step must be a positive compile-time int, got {step!r} (the hardware loop encodes it)",
        label="nki.loop",
    )
    if getattr(_thread, "no_reorder_depth", 0):
        raise NkiValidationError(
            f"nl.{name} inside nl.no_reorder() is not supported",
            label="nki.loop", hint="put the no_reorder block inside the loop body",
        )


def _recorder() -> Any:
    """The machine that records device loops, or None where loops are Python's."""
    machine = _machine.machine()
    return machine if getattr(machine, "records_loops", False) else None


def _begin(machine: Any, lower: Any, upper: Any, step: int) -> Any:
    bounds = [
        value if isinstance(value, VirtualRegister) else _bound(value, what)
        for value, what in ((lower, "the lower bound"), (upper, "the upper bound"))
    ]
    return machine.begin_loop(*bounds, step)


def _require_nothing(result: Any) -> None:
    allowed = result is None or isinstance(result, nisa.NkiInstruction)  # what a lambda's last call gives
    require(allowed, f"nl.fori_loop: the body returned {result!r}; it cannot return a value", "nki.loop")


@contextmanager
def _repeated() -> Iterator[None]:
    """Around the turns of a loop that is Python's: arithmetic on registers gives registers in it."""
    machine = _machine.machine()
    machine.repeated_loops = getattr(machine, "repeated_loops", 0) + 1
    try:
        yield
    finally:
        machine.repeated_loops -= 1


def dynamic_range(start, stop=None, step=1) -> Iterator[Any]:
    """Registers counting from `start` to `stop`; bounds may be registers, read when the loop starts."""
    if stop is None:
        start, stop = 0, start
    _check_loop("dynamic_range", step)
    machine = _recorder()
    if machine is None:
        values = range(_bound(start, "start"), _bound(stop, "stop"), step)
        with _repeated():
            for value in values:
                yield VirtualRegister(value, frozen=True)
        return
    counter = _begin(machine, start, stop, step)
    try:
        yield counter
    except GeneratorExit:
        machine.abandon_loop()
        raise
    machine.end_loop()


def fori_loop(lower, upper, body_fun: Callable[[Any], Any], step=1) -> None:
    """Call body_fun(register) for lower, lower + step, ... below upper. The register is read-only."""
    _check_loop("fori_loop", step)
    machine = _recorder()
    if machine is None:
        values = range(_bound(lower, "lower"), _bound(upper, "upper"), step)
        with _repeated():
            for value in values:
                _require_nothing(body_fun(VirtualRegister(value, frozen=True)))
        return
    counter = _begin(machine, lower, upper, step)
    _require_nothing(body_fun(counter))
    machine.end_loop()


def while_loop(init, body_fun: Callable[[Any], Any]) -> None:
    """While the register is not 0, call it = body_fun(it). The condition is checked before each iteration.

    `init` and what the body returns are 32-bit integers: a register or a number. Raises NkiValidationError where the
    body returns neither.
    """
    _check_loop("while_loop", 1)
    machine = _recorder()
    if machine is not None:
        condition = nisa.register_alloc()
        nisa.register_move(condition, init if isinstance(init, VirtualRegister) else _bound(init, "init"))
        machine.begin_while(condition)
        given = nisa.register_alloc()
        nisa.register_move(given, condition)
        following = body_fun(given)
        require(
            isinstance(following, (VirtualRegister, int)),
            f"nl.while_loop: the body returned {following!r}",
            label="nki.loop", hint="return the register that holds the next condition",
        )
        nisa.register_move(condition, following)
        machine.end_loop()
        return
    value = _bound(init, "init")
    while value != 0:
        with _repeated():
            condition = body_fun(nisa.register_alloc(value))
        require(
            condition is not None,
            "nl.while_loop: the body returned None",
            label="nki.loop", hint="return the register that holds the next condition",
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
    """Number of axes of the launch grid: 1 for `kernel[lnc](...)`, 0 for `kernel(...)`."""
    return len(_launch_context.grid())


def _check_axis(name: str, axis: int, grid: tuple[int, ...]) -> None:
    # Without a grid axis 0 is still asked for by kernels that run either way.
    require(
        axis == 0 or axis < len(grid),
        f"nl.{name}(axis={axis}): the launch grid has {len(grid)} axes",
        label="nki.grid",
    )
