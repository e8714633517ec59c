"""The C++ machine as a backend of the NKI front end: what `opentrn._core` has, plus what is easier in Python.

Offers the same names as the NumPy oracle (see opentrn.nki._machine): NkiTensor, VirtualRegister, DynamicSlice,
the module `isa`, from_array, current_or_none and run_cores.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from opentrn import _core, errors, strict
from opentrn.base import kernel_line, members
from opentrn.kernel import processes as _processes
from opentrn.kernel import register_truth, unwritten
from opentrn.settings import environment
from opentrn.settings import stochastic_rounding as rounding
from opentrn.types import dtypes, isa_ops
from opentrn.types.isa_enums import MemoryRegion, nc_version, require_logical_core, target_version
from opentrn.types.shapes import DynamicSlice as DynamicSlice
from opentrn.types.shapes import ShapeOf

EAGER_ENV = "OPENTRN_EAGER"
NAN_ENV = "OPENTRN_NAN"
FIT_ENV = "OPENTRN_FIT"
OVERLAP_ENV = "OPENTRN_OVERLAP"

_core.configure(dtypes.dtype_of, isa_ops.op_name, MemoryRegion)

NkiTensor = _core.NkiTensor
VirtualRegister = _core.VirtualRegister
Machine = _core.Machine
Launch = _core.Launch
current_or_none = _core.current_or_none
isa = _core.isa


def _register_alloc(x: Any = None) -> Any:
    """A new register: not set, with a number, or with the one element of a tensor."""
    return _core.register_alloc(x)


def _register_move(dst: Any, src: Any) -> None:
    """dst = a number or another register."""
    _core.register_move(dst, src)


def _register_load(dst: Any, src: Any) -> None:
    """dst = the one element of a tensor in HBM or SBUF."""
    _core.register_load(dst, src)


def _register_store(dst: Any, src: Any) -> None:
    """The one element of dst = the register src."""
    _core.register_store(dst, src)


_REGISTER_FUNCTIONS = (_register_alloc, _register_load, _register_move, _register_store)
for _function in _REGISTER_FUNCTIONS:
    _function.__name__ = _function.__qualname__ = _function.__name__.removeprefix("_")
    setattr(isa, _function.__name__, _function)

# The calls of nki.isa.
INSTRUCTIONS: tuple[str, ...] = (
    *_core.instruction_names(),
    *(function.__name__ for function in _REGISTER_FUNCTIONS),
)

_VERSIONS = {member.value: member for member in nc_version}


def _nc_version(self: Machine) -> nc_version:
    """The NeuronCore's version."""
    return _VERSIONS[self.generation]


members.add(Machine, {"nc_version": property(_nc_version)})
members.declare(
    Machine, {"executes": "bool", "ranks": "Ranks | None", "programs_of_all": "list[bytes]"}
)  # of the launch


def _numpy(self: Any) -> np.ndarray:
    """The elements as a strided numpy view of the tensor's memory. Executes what is pending."""
    if self.is_indirect():
        raise errors.NkiValidationError(
            f"{self!r} has a run-time index: it has no numpy view", label="NkiTensor.numpy"
        )
    dtype = dtypes.to_numpy_dtype(self.dtype)
    strides = tuple(step * dtype.itemsize for step in self.strides)
    return np.ndarray(
        self.shape,
        dtype,
        buffer=_core.storage_bytes(self),
        offset=self.offset * dtype.itemsize,
        strides=strides,
    )


def _to_numpy(self: Any) -> np.ndarray:
    """A contiguous copy of the elements; the tensor's own memory where it is already contiguous."""
    return np.ascontiguousarray(_numpy(self))


def _array(self: Any, dtype: Any = None, copy: Any = None) -> np.ndarray:
    data = np.array(_numpy(self))
    return data if dtype is None else data.astype(dtype)


def _set_item(self: Any, key: Any, value: Any) -> None:
    """`dst[...] = tensor or number`: a copy with one rounding to the destination."""
    destination = self[key]
    if not isinstance(value, NkiTensor):
        isa.memset(destination, value)
    elif destination.buffer.is_hbm or value.buffer.is_hbm:
        isa.dma_copy(destination, value)
    else:
        isa.tensor_copy(destination, value)


def _is_on_chip(self: NkiTensor) -> bool:
    """Whether the tensor is in SBUF or PSUM."""
    return self.buffer.is_on_chip


members.add(NkiTensor, {
    "numpy": _numpy, "to_numpy": _to_numpy, "numpy_or_gather": _numpy, "__array__": _array,
    "__setitem__": _set_item, "is_on_chip": property(_is_on_chip),
})  # fmt: skip


members.add(VirtualRegister, {"__bool__": register_truth.truth, "__hash__": object.__hash__})


def from_array(
    array: np.ndarray,
    name: str = "",
    buffer: MemoryRegion | str = MemoryRegion.private_hbm,
    dtype: Any = None,
) -> Any:
    """An HBM tensor of the array's shape and dtype: its memory where that is C-contiguous and writable, else a copy."""
    array = np.asarray(array)
    dtype = dtypes.dtype_of(array.dtype if dtype is None else dtype)
    if not (array.flags.c_contiguous and array.flags.writeable):
        array = np.array(array, order="C")
    errors.require(
        dtypes.to_numpy_dtype(dtype).itemsize == array.dtype.itemsize,
        f"array {name!r} of {array.dtype} cannot hold elements of {dtype}",
        label="nki.dtype",
    )
    return _core.from_bytes(
        array.reshape(-1).view(np.uint8), list(array.shape) or [1], dtype, MemoryRegion(buffer), name
    )


@dataclass
class _Observed:
    """What `observed_launches` asks of launches, and the machines of those there were."""

    execute: str | None = None
    uninitialised: str | None = None
    on_recorded: Callable[[list[list[Any]]], None] = staticmethod(lambda launches: None)
    stochastic_rounding: int | bool | None = None
    compiles: bool = False
    loop_limit: int | None = None
    launches: list[list[Any]] = field(default_factory=list)


class _LaunchObserver(threading.local):
    """Of this thread."""

    observed: _Observed | None = None


_observer = _LaunchObserver()


@contextmanager
def observed_launches(
    execute: str | None = None,
    uninitialised: str | None = None,
    on_recorded: Callable[[list[list[Any]]], None] = lambda launches: None,
    stochastic_rounding: int | bool | None = None,
    compiles: bool = False,
    loop_limit: int | None = None,
) -> Iterator[list[list[Any]]]:
    """Collects the machines of every launch of this thread, one list per launch, whatever dialect starts it.

    The arguments replace those of the launches, see run_cores(). With "never" there are no
    values: tensors that a kernel returns come back as `opentrn.types.shapes.ShapeOf`. `on_recorded(machines)` is called
    when the kernel's Python has ended on a core and
    what it recorded is about to be executed. `compiles`: what they record
    is compiled afterwards, which tells whether it fits. `loop_limit`: as opentrn.run() takes it.
    """
    previous = _observer.observed
    asked = rounding.checked(stochastic_rounding)
    _observer.observed = _Observed(execute, uninitialised, on_recorded, asked, compiles, loop_limit)
    try:
        yield _observer.observed.launches
    finally:
        _observer.observed = previous


def _shapes_of(value: Any) -> Any:
    """Tensors to ShapeOf, through tuples, lists and dicts."""
    return _core.map_leaves(value, _shape_of)


def _shape_of(leaf: Any) -> Any:
    return ShapeOf(tuple(leaf.shape), str(leaf.dtype)) if isinstance(leaf, NkiTensor) else leaf


def _tell_nan_origin(machines: list[Any]) -> None:
    """Warn where a NaN in the results first arose, or raise; OPENTRN_NAN is "warn", "error" or "off"."""
    what = environment.of_results(NAN_ENV)
    if what == "off":
        return
    origin = _core.nan_origin(machines)
    if origin is None:
        return
    if what == "error":
        raise origin
    warnings.warn(errors.NanOriginWarning(str(origin)), stacklevel=4)


def _check_fits(machines: list[Any]) -> None:
    """Raise for tiles that lie where none can, warn of more than fits; OPENTRN_FIT is "warn", "error" or "off"."""
    what = environment.of_results(FIT_ENV)
    if what == "off":
        return
    try:
        _core.check_fits(machines)
    except errors.CapacityExceeded as misfit:
        if what == "error":
            raise
        note = "this is in the order of the kernel; a compiler that orders it otherwise may find room"
        warnings.warn(errors.CapacityWarning(f"{misfit}\n    {note}"), stacklevel=4)


def _tell_overlap(machines: list[Any]) -> None:
    """Warn of a copy onto itself with an offset, or raise; OPENTRN_OVERLAP is "warn", "error" or "off"."""
    what = environment.of_results(OVERLAP_ENV)
    if what == "off":
        return
    found = _core.overlapping_copy(machines)
    if found is None:
        return
    if what == "error":
        raise errors.UndefinedBehavior(found, label="nki.overlap")
    warnings.warn(errors.OverlapWarning(found), stacklevel=4)


def _check_results(machines: list[Any], returned: Any, execute: str, compiles: bool) -> None:
    """What a launch on hardware would not have come to, and what its results should not be."""
    if execute == "never":
        return
    if not compiles:
        _check_fits(machines)
    _tell_overlap(machines)
    _tell_nan_origin(machines)
    unwritten.tell(machines, returned)


def _is_of_the_peer(error: BaseException) -> bool:
    return isinstance(error, errors.Refusal) and error.label in ("sim.peer_ended", "collectives.peer")


def _run_on(machine: Any, program: Callable[[Any], Any], on_recorded: Callable[[], None]) -> Any:
    with machine:
        try:
            result = program(machine)
            on_recorded()
            machine.flush()
        except Exception as error:
            if isinstance(error, (errors.NkiValidationError, errors.NotModelled)):
                kernel_line.locate(error)
            try:
                machine.flush_prints()
            except Exception as earlier:
                # What fails on the way to the last print comes before `error` in the program.
                if not _is_of_the_peer(earlier):
                    raise earlier from error
            raise
        return result


def _run_together(threads: list[threading.Thread], launches: list[Any]) -> None:
    """Start the cores' threads and wait for them; a signal handler that raises ends them all first."""
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        for launch in launches:
            launch.stop()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        raise


def run_cores(
    program: Callable[[Any], Any],
    lnc: int = 1,
    target: str | nc_version = "trn2",
    execute: str = "batched",
    uninitialised: str | None = None,
    on_machine: Callable[[Any], None] | None = None,
    stochastic_rounding: int | bool | None = None,
) -> list[Any]:
    """As `run_ranks` with one rank: its results by core."""
    return run_ranks([program], lnc, target, execute, uninitialised, on_machine, stochastic_rounding)[0]


def run_ranks(
    programs: Sequence[Callable[[Any], Any]],
    lnc: int = 1,
    target: str | nc_version = "trn2",
    execute: str = "batched",
    uninitialised: str | None = None,
    on_machine: Callable[[Any], None] | None = None,
    stochastic_rounding: int | bool | None = None,
    arguments: Sequence[Sequence[Any]] = (),
) -> list[list[Any]]:
    """Call `programs[rank](machine)` once per core of every rank, each in its own thread with its machine active.

    Returns the results by rank and core. Ranks have memories of their own and meet at collectives.
    With one rank and lnc=1 the program runs in the calling thread. The first failure is raised, of the lowest rank.
    `execute` is "batched", "eager" (every instruction at once; OPENTRN_EAGER=1 makes it the default) or "never"
    (record only). Reading memory that nothing wrote is
    an error, or with uninitialised="fill" gives NaN and 4 as AWS's simulator does; None is what
    OPENTRN_UNINITIALISED says. `on_machine(machine)` sees each machine before its program starts.
    `stochastic_rounding` is a seed, True, False, or None for what the environment says.
    Where mpirun has started several processes, which all have to call this, each runs its part of the ranks and
    all return all results; `arguments`: by rank the HBM tensors that the caller has too, whose values are shared so.
    """
    _core.load_custom_ops_of_environment()
    observed = _observer.observed or _Observed()
    execute = observed.execute or execute
    if observed.uninitialised is not None:
        uninitialised = observed.uninitialised
    if execute == "batched" and os.environ.get(EAGER_ENV, "") not in ("", "0"):
        execute = "eager"
    require_logical_core(target, lnc)
    generation = target_version(target).value
    named = target if isinstance(target, str) else ""
    processes = _processes.of_launch(len(programs), lnc, named or f"v{generation}")
    here = range(len(programs)) if processes is None else processes.ranks_here
    ranks = _core.Ranks(len(programs), lnc, generation, named, processes) if len(programs) > 1 else None
    launches = {
        rank: Launch(
            generation,
            lnc,
            fill_fresh_memory=environment.uninitialised(uninitialised) == "fill",
            core_races=environment.checks_core_races(),
            loop_limit=environment.loop_limit() if observed.loop_limit is None else observed.loop_limit,
            ranks=ranks,
            rank=rank,
        )
        for rank in here
    }
    # Of ranks elsewhere there are none.
    machines = [
        [Machine(generation, core, launches[rank], execute) for core in range(lnc)] if rank in launches else []
        for rank in range(len(programs))
    ]
    asked = observed.stochastic_rounding
    asked = rounding.checked(stochastic_rounding) if asked is None else asked
    for of_rank in machines:
        draw = rounding.of_launch(asked, len(observed.launches)) if execute != "never" else None
        observed.launches.append(of_rank)
        _set_up(of_rank, ranks, execute, draw, on_machine)
    # The observer is this thread's: the cores' threads do not see it.
    on_recorded = partial(observed.on_recorded, observed.launches)
    try:
        if ranks is None and lnc == 1:
            results = [[_run_on(machines[0][0], programs[0], on_recorded)]]
        else:
            results = _run_in_threads(programs, machines, launches, on_recorded)
        for rank in here:
            _check_results(machines[rank], results[rank][0], execute, observed.compiles)
        results = _shapes_of(results) if execute == "never" else results
        if processes is not None:
            values = () if execute == "never" else arguments
            programs_of_all = _processes.share(processes, results, machines, values, observed.compiles)
            for rank in here:
                machines[rank][0].programs_of_all = programs_of_all
    except BaseException as error:
        if processes is not None:
            processes.fail(f"{type(error).__name__}: {error}", _is_of_the_peer(error))
        raise
    return results


def _set_up(
    machines: list[Any], ranks: Any, execute: str, draw: Any, on_machine: Callable[[Any], None] | None
) -> None:
    """What a rank's machines need before their programs start. draw: of stochastic rounding; None: to the nearest."""
    for machine in machines:
        machine.executes = execute != "never"
        machine.ranks = ranks
        if draw is not None:
            machine.set_stochastic_rounding(*draw)
        machine.set_print_callback(print)
        machine.set_release(strict.minor(strict.release()))
        if on_machine is not None:
            on_machine(machine)


def _run_in_threads(
    programs: Sequence[Callable[[Any], Any]],
    machines: list[list[Any]],
    launches: dict[int, Any],
    on_recorded: Callable[[], None],
) -> list[list[Any]]:
    """The results by rank and core. Raises the first failure of the lowest rank that failed by itself."""
    places = [(rank, core) for rank, of_rank in enumerate(machines) for core in range(len(of_rank))]
    results: list[list[Any]] = [[None] * max(1, len(of_rank)) for of_rank in machines]
    failures: dict[tuple[int, int], BaseException] = {}

    def run_one(rank: int, core: int) -> None:
        failed = True
        try:
            results[rank][core] = _run_on(machines[rank][core], programs[rank], on_recorded)
            failed = False
        except BaseException as error:  # noqa: BLE001 -- handed to the caller below
            failures[rank, core] = error
        finally:
            launches[rank].core_done(core, failed)

    threads = [
        threading.Thread(target=run_one, args=place, name=f"rank{place[0]}core{place[1]}") for place in places
    ]
    _run_together(threads, list(launches.values()))
    if failures:
        own = [place for place, error in failures.items() if not _is_of_the_peer(error)]
        place = min(own or failures, key=lambda place: place[0])
        raise _of_rank(failures[place], place[0], len(machines))
    for launch in launches.values():
        launch.check_races()
    return results


def _of_rank(error: BaseException, rank: int, ranks: int) -> BaseException:
    """The error with a line that says which rank it is of, where there are several and it does not name them."""
    if ranks == 1 or not isinstance(error, errors.Refusal) or error.label.startswith("collectives."):
        return error
    stated = error.restated(notes=f"{error.notes}\n    rank: {rank} of {ranks}")
    return stated.with_traceback(error.__traceback__)
