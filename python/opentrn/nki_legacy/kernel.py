"""`nki.jit` and the ways to launch a kernel in NKI 0.1.

Every mode runs the same way here: the kernel's Python executes eagerly on the simulated NeuronCore, once
per program of the launch grid, one program after the other. Arrays become HBM tensors over the caller's
memory, so kernels that write an output argument (the style before results were returned) work as well.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from opentrn import strict
from opentrn.base import hooks
from opentrn.base.notices import tell_without_effect
from opentrn.errors import ArgumentError, InputError, NkiValidationError, NotModelled, SourceLocation
from opentrn.nki import _arrays, _dynamo, _machine
from opentrn.nki import _returned as returned
from opentrn.nki._target import NC_VERSION_ENV, PLATFORM_ENV, environment_target
from opentrn.nki_legacy import emit, typing
from opentrn.nki_legacy.compiler.switches import FORCE_AUTO_ALLOC, SKIP_MIDDLE_END, switches_of
from opentrn.nki_legacy.dtypes import host_dtype
from opentrn.nki_legacy.isa.move import IndirectOutOfBounds
from opentrn.nki_legacy.language._control import LaunchDim
from opentrn.nki_legacy.rewrite import rewritten
from opentrn.nki_legacy.tile import Place, Tensor, Tile
from opentrn.settings import environment
from opentrn.settings.compiler_flags import generates_descriptors
from opentrn.types.isa_enums import MemoryRegion, nc_version, target_version

MODES = frozenset(
    {"auto", "jax", "torchxla", "baremetal", "benchmark", "simulation", "trace", "profile", "torch", None}
)
_SIMULATION = "simulation"  # runs as AWS's simulator of 0.1 does, also in what it returns and raises
DEFAULT_TARGET = "trn2"  # the newest chip of the dialect's time; NEURON_PLATFORM_TARGET_OVERRIDE changes it

# Accepted and kept. Those that do not act configure the official compiler, its files, or a device, and say so.
_OPTIONS = frozenset(
    {
        "platform_target", "kernel_return", "experimental_flags", "enable_out_of_bound_check",
        "show_compiler_tb", "additional_compile_opt", "save_neff_name", "save_trace_name", "artifacts_dir",
        "working_directory", "overwrite", "profile_nth", "num_execs", "warmup", "iters", "debug_kernel",
        "grid", "device_count", "metrics", "quiet", "disable_allocation_opt",
    }
)  # fmt: skip


_ACTING_OPTIONS = frozenset({"platform_target", "grid", "additional_compile_opt"})


def _target(explicit: Any) -> nc_version:
    if explicit is not None:
        return target_version(explicit)
    if os.environ.get(PLATFORM_ENV) or os.environ.get(NC_VERSION_ENV):
        return environment_target()
    return target_version(DEFAULT_TARGET)


class Kernel:
    """A function decorated as a kernel. Called inside a kernel, it is an ordinary function."""

    __name__: str  # the function's

    def __init__(
        self,
        func: Callable[..., Any],
        mode: str | None = "auto",
        grid: tuple[Any, ...] = (),
        options: dict[str, Any] | None = None,
        body: Callable[..., Any] | None = None,
    ):
        functools.update_wrapper(self, func)
        self.func = func
        self.mode = mode
        self.grid = grid
        self.options = dict(options or {})
        self.body = body or rewritten(func)
        self.benchmark_result = BenchmarkResult(self.__name__)

    def parts(self) -> dict[str, Any]:
        """What it is made of, as its constructor takes it."""
        return {
            "func": self.func, "mode": self.mode, "grid": self.grid, "options": self.options,
            "body": self.body,
        }  # fmt: skip

    def _with(self, **changes: Any) -> Kernel:
        return type(self)(**{**self.parts(), **changes})

    def __getitem__(self, grid: Any) -> Kernel:
        """kernel[4, 2]: a launch of 4 x 2 programs; nl.nc(n) spreads a dimension over physical cores."""
        axes = grid if isinstance(grid, tuple) else (grid,)
        return self._with(grid=axes)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _dynamo.is_tracing():
            return _dynamo.call(self, args, kwargs)
        if emit.session_or_none() is not None:
            return self.body(*args, **kwargs)
        if _arrays.holds_tracer((args, kwargs)):
            return hooks.ask("jax_call").call(self, args, kwargs)
        if self.mode == "profile":
            raise NotModelled(
                f"nki.profile of {self.__name__}: NEFF and NTFF files come from a device",
                label="nki.profile", hint="opentrn.run(kernel, ...).save_html(path), which gives a predicted profile",
            )
        if self.mode != "benchmark":
            return launch(self, args, kwargs)
        machines: list[Any] = []
        result = launch(self, args, kwargs, machines.append)
        self.benchmark_result.record(machines, generates_descriptors(self), SKIP_MIDDLE_END not in switches_of(self))
        return result

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<nki kernel {self.__name__}{list(map(str, self.grid)) if self.grid else ''}>"


class Latency:
    """A predicted latency. The prediction has no spread: every percentile is the same."""

    PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)

    def __init__(self, microseconds: float):
        self._microseconds = microseconds

    def get_latency_percentile(self, percentile: int) -> float:
        """Microseconds. `percentile` is one of PERCENTILES, as documented for nki.benchmark."""
        if percentile not in self.PERCENTILES:
            raise InputError(
                f"no percentile {percentile} is kept", label="nki.profile", hint=f"one of {self.PERCENTILES}"
            )
        return self._microseconds


class BenchmarkResult:
    """What `nki.benchmark` leaves behind: the latency of the last call, predicted by the timing model."""

    def __init__(self, kernel: str):
        self._kernel = kernel
        self._machines: list[Any] = []
        self._dge = self._middle_end = True
        self._latency: Latency | None = None

    def record(self, machines: list[Any], dge: bool, middle_end: bool) -> None:
        """The machines of a finished launch; timed when the latency is asked for. dge: as opentrn.run takes it;
        middle_end: whether the compiler may rewrite the kernel's instructions."""
        self._machines, self._dge, self._middle_end, self._latency = machines, dge, middle_end, None

    @property
    def nc_latency(self) -> Latency:
        if self._latency is None:
            self._latency = Latency(self._predicted_us())
            self._machines = []
        return self._latency

    def _predicted_us(self) -> float:
        if _machine.backend().name != "core":
            raise NotModelled(
                f"latency of {self._kernel}: only the core backend predicts time", label="nki.backend"
            )
        if not self._machines:
            raise NkiValidationError(
                f"latency of {self._kernel}, which was not called",
                label="nki.profile", hint="call the benchmarked kernel first"
            )
        from opentrn import _core

        timing = _core.compile_and_time(
            self._machines, self._kernel, [], neuronx_cc=True, dge=self._dge, middle_end=self._middle_end
        )
        return timing.nc_latency_ns / 1e3


def _decorator(default_mode: str) -> Callable[..., Any]:
    def decorate(func: Any = None, mode: str | None = default_mode, **options: Any) -> Any:
        if func is None:
            return functools.partial(decorate, mode=mode, **options)
        if mode not in MODES:
            raise InputError(
                f"unknown mode {mode!r}", label="nki.option", hint=f"one of {', '.join(sorted(m for m in MODES if m))}"
            )
        unknown = set(options) - _OPTIONS
        if unknown:
            raise ArgumentError(
                f"unknown arguments {sorted(unknown)}", label="nki.option", hint=f"one of {sorted(_OPTIONS)}"
            )
        tell_without_effect(f"nki.{default_mode if default_mode != 'auto' else 'jit'}", options, _ACTING_OPTIONS)
        kernel = func if isinstance(func, Kernel) else Kernel(func)
        kernel = kernel._with(mode=mode, options={**kernel.options, **options})
        return kernel if options.get("grid") is None else kernel[options["grid"]]

    return decorate


jit = _decorator("auto")
jit.__doc__ = "Decorate a function as a kernel; used bare or with arguments (mode, platform_target, ...)."
trace = _decorator("trace")
trace.__doc__ = "A kernel to be called by other kernels, or run with nki.simulate_kernel."
baremetal = _decorator("baremetal")
baremetal.__doc__ = "A kernel that takes and returns numpy arrays; simulated here."
benchmark = _decorator("benchmark")
benchmark.__doc__ = (
    "A kernel whose predicted latency is in `benchmark_result.nc_latency` after a call. "
    "NEFF and NTFF files, which only a device gives, are not written."
)
profile = _decorator("profile")
profile.__doc__ = "A kernel to be profiled on a device."


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run `kernel` (or `kernel[grid]`) on numpy arrays; output arguments are written in place."""
    if not isinstance(kernel, Kernel):
        kernel = Kernel(kernel)
    if emit.session_or_none() is not None:
        raise NkiValidationError(
            "nki.simulate_kernel inside a kernel", label="nki.scope", hint="call the kernel directly"
        )
    return launch(kernel._with(mode=_SIMULATION), args, kwargs)


# -- launch --------------------------------------------------------------------------------------------------


def _holds_array(value: Any) -> bool:
    """Whether lists and tuples, at any depth, hold an array: the others stay the caller's own objects."""
    if type(value) in (list, tuple):
        return any(map(_holds_array, value))
    return isinstance(value, dict) or _arrays.is_array(value)


class _Arguments:
    """The caller's arrays as HBM tensors, one tensor per array."""

    def __init__(self) -> None:
        self.hosts: dict[int, tuple[_arrays.HostArray, Tensor]] = {}
        self._stand_ins: list[np.ndarray] = []  # kept, as `hosts` knows arrays by their id

    def wrap(self, value: Any, name: str) -> Any:
        if isinstance(value, type) and issubclass(value, typing.tensor) and value.dtype is not None:
            value = np.zeros(value.shape, host_dtype(value.dtype))
            self._stand_ins.append(value)
        if _arrays.is_array(value):
            return self._tensor(value, name).tile()
        if isinstance(value, dict):
            return {key: self.wrap(item, f"{name}[{key!r}]") for key, item in value.items()}
        if type(value) in (list, tuple) and _holds_array(value):
            return type(value)(self.wrap(item, f"{name}[{i}]") for i, item in enumerate(value))
        return value

    def _tensor(self, value: Any, name: str) -> Tensor:
        found = self.hosts.get(id(value))
        if found is None:
            host = _arrays.HostArray(value, name)
            raw = _machine.backend().from_array(host.array, name, MemoryRegion.private_hbm, host.dtype)
            dtype = np.dtype(np.bool_) if str(host.dtype) == "bool_" else host.array.dtype
            tensor = Tensor(host.array.shape, dtype, Place(MemoryRegion.private_hbm), name, raw)
            tensor.parameter = tensor.written = True
            found = self.hosts[id(value)] = (host, tensor)
        return found[1]

    def write_back(self) -> str:
        """Deliver what the kernel wrote; the caller's kind of array."""
        for host, _ in self.hosts.values():
            host.write_back()
        return _arrays.caller_kind([host.value for host, _ in self.hosts.values()])


def launch(
    kernel: Kernel,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    on_machine: Callable[[Any], None] | None = None,
) -> Any:
    """Run every program of the kernel's grid on a fresh machine; the results of the last program.

    `on_machine` sees the machine before the kernel runs.
    """
    grid = tuple(int(axis) for axis in kernel.grid)
    if any(n < 1 for n in grid):
        raise NkiValidationError(f"{kernel!r}: launch grid {grid} must be positive", label="nki.grid")
    arguments = _Arguments()
    device_args = tuple(arguments.wrap(value, f"arg{i}") for i, value in enumerate(args))
    device_kwargs = {name: arguments.wrap(value, name) for name, value in kwargs.items()}

    def program(machine: Any) -> Any:
        with _session(kernel, grid) as current:
            result = _run_instances(kernel, machine, current, device_args, device_kwargs)
            _refuse_written_parameters(kernel, machine, result, device_args, device_kwargs)
            return _to_host(result) if getattr(machine, "executes", True) else None

    target = _target(kernel.options.get("platform_target"))
    with _errors_of_the_simulator(kernel), strict.guarded(kernel.func, {}, kernel.options, legacy=True):
        (values,) = _machine.backend().run_cores(program, 1, target, **_machine_options(on_machine))
    kind = arguments.write_back()
    return _finish(values, kind)


def record(
    kernel: Kernel,
    target: nc_version,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    on_machine: Callable[[Any], None],
) -> tuple[Any, dict[int, Any]]:
    """As `launch`, without values: (what the last program returned, with the machine's tensors; the machine's tensor
    of every array, by its id).
    """
    arguments = _Arguments()
    device_args = tuple(arguments.wrap(value, f"arg{i}") for i, value in enumerate(args))
    device_kwargs = {name: arguments.wrap(value, name) for name, value in kwargs.items()}
    result: Any = None

    def program(machine: Any) -> None:
        nonlocal result
        with _session(kernel, tuple(int(axis) for axis in kernel.grid)) as current:
            result = _to_machine(_run_instances(kernel, machine, current, device_args, device_kwargs))

    with strict.guarded(kernel.func, {}, kernel.options, legacy=True):
        _machine.backend().run_cores(program, 1, target, execute="never", **_machine_options(on_machine))
    return result, {key: tensor.machine(()) for key, (_, tensor) in arguments.hosts.items()}


@contextmanager
def _session(kernel: Kernel, grid: tuple[int, ...]) -> Iterator[emit.Session]:
    """The session of a launch, this thread's inside the block."""
    current = emit.Session(grid, FORCE_AUTO_ALLOC in switches_of(kernel))
    emit.set_session(current)
    try:
        yield current
    finally:
        emit.set_session(None)


@contextmanager
def _errors_of_the_simulator(kernel: Kernel) -> Iterator[None]:
    """AWS's 0.1 simulator raises numpy's IndexError for an indirect access, and kernels' tests compare its class."""
    try:
        yield
    except IndirectOutOfBounds as fault:
        if kernel.mode != _SIMULATION:
            raise
        raise IndexError(str(fault)).with_traceback(fault.__traceback__) from fault


def _run_instances(
    kernel: Kernel, machine: Any, current: emit.Session, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run the kernel's body once per instance of the grid, one after another; what the last one returned."""
    result = None
    begins = []
    for ids in itertools.product(*(range(n) for n in current.grid)):
        current.program_ids = ids
        current.shared_made = 0
        begins.append(getattr(machine, "instruction_count", 0))
        result = kernel.body(*args, **kwargs)
        emit.flush()
    returned.require_hbm(result, kernel.func, _on_chip, simulation=kernel.mode == _SIMULATION)
    checks = len(begins) > 1 and _machine.backend().name == "core" and machine.executes
    if checks and environment.checks_core_races():
        from opentrn import _core

        _core.check_instances(machine, begins)
    return result


def _refuse_written_parameters(
    kernel: Kernel, machine: Any, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Where a release documents it, parameters are not written, but those that are annotated nt.mutable_tensor.

    Parameters of a kernel that returns nothing are its outputs, as they were before kernels returned results.
    """
    from opentrn import _core

    release = strict.current()
    rules = strict.rules_of(release, "written_parameter") if release else ()
    if release is None or not rules or result is None or _machine.backend().name != "core":
        return
    signature = inspect.signature(kernel.func)
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        if not isinstance(value, Tile) or "mutable_tensor" in str(signature.parameters[name].annotation):
            continue
        if (where := _core.first_write(machine, value.raw())) is not None:
            file, line, function = where
            place = SourceLocation(file, line, function)
            raise strict.StrictRefusal(rules[0], release, f"it writes parameter {name}", place)


def _on_chip(value: Any) -> Any:
    """The machine's tensor of a tile in SBUF or PSUM, of its first block where it has several; else None."""
    if not isinstance(value, Tile) or value.region.is_hbm:
        return None
    tensor = value.realised().tensor
    return tensor.machine(tensor.block_indices()[0])


def _to_machine(value: Any) -> Any:
    """Tiles to the machine's tensors, through containers."""
    return _machine.backend().map_leaves(value, _machine_tensor)


def _machine_tensor(leaf: Any) -> Any:
    return leaf.raw().reshape(leaf.shape or (1,)) if isinstance(leaf, Tile) else leaf


def _machine_options(on_machine: Callable[[Any], None] | None) -> dict[str, Any]:
    """Options of the launch, as far as the backend has them.

    Masks leave parts of tiles unwritten, and kernels of the dialect compute on whole tiles anyway (the
    documents' layernorm example does): reading such memory gives NaN or 4 here, it is no fault. Its compiler moves
    rows to partitions that engines take: one element of a tile, on any partition, is written in the documents'
    gather example."""

    def prepare(machine: Any) -> None:
        machine.set_release(strict.minor("0.1"))
        if on_machine is not None:
            on_machine(machine)

    takes = inspect.signature(_machine.backend().run_cores).parameters
    wanted = {"uninitialised": "fill", "on_machine": prepare}
    return {name: value for name, value in wanted.items() if name in takes}


class _Result:
    """A returned tile: its values, and the tensor behind one that lies in HBM."""

    def __init__(self, tile: Tile):
        self.array = tile.to_numpy()
        self.tensor = tile.raw() if tile.region.is_hbm and not tile.block_ranges else None


def _to_host(value: Any) -> Any:
    """Tiles to arrays, through containers, while the machine is active."""
    return _machine.backend().map_leaves(value, _host_result)


def _host_result(leaf: Any) -> Any:
    if not isinstance(leaf, Tile):
        return leaf
    if leaf.region is MemoryRegion.psum and not leaf.block_ranges:
        emit.read(leaf)
    return _Result(leaf)


def _finish(value: Any, kind: str) -> Any:
    def found(leaf: Any) -> Any:
        return _callers(leaf.array, kind) if isinstance(leaf, _Result) else leaf

    return _machine.backend().map_leaves(value, found)


def _callers(array: np.ndarray, kind: str) -> Any:
    """The array in the caller's kind."""
    if kind == "torch":
        return _arrays.numpy_to_torch(array)
    if kind == "jax":
        import jax.numpy as jnp

        return jnp.asarray(array)
    return array


__all__ = [
    "Kernel",
    "LaunchDim",
    "baremetal",
    "benchmark",
    "jit",
    "launch",
    "profile",
    "simulate_kernel",
    "trace",
]
