"""`nki.jit`, `nki.simulate` and the launch of a kernel.

A launch turns the caller's arrays into HBM tensors, runs the kernel's Python once per core of the logical
NeuronCore (two programs for kernel[2], sharing HBM), and hands returned tensors back in the caller's kind
of array. There is one execution path: `kernel(...)`, `nki.simulate(kernel)(...)` and NKI_SIMULATOR=1 are
the same, because the machine that OpenTrn runs kernels on is the simulated one.
"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from opentrn import strict
from opentrn.base import hooks
from opentrn.base.notices import tell_without_effect
from opentrn.errors import ArgumentError, NkiValidationError, NotModelled
from opentrn.nki import _arrays, _dynamo, _launch_context, _machine, _ranks
from opentrn.nki import _returned as returned
from opentrn.nki._objects import NKIObject
from opentrn.nki._target import resolve_target
from opentrn.nki.typing import check_arguments
from opentrn.settings import stochastic_rounding as rounding
from opentrn.types.isa_enums import LNC_MAX, MemoryRegion, nc_version, require_logical_core

# Arguments that some release of nki.jit took. Most choose a compiler or a framework path, which a launch here decides
# by itself: they are accepted, kept in `kernel.options`, and told to have no effect.
_KNOWN_OPTIONS = frozenset(
    {
        "mode", "platform_target", "grid", "kernel_return", "enable_out_of_bound_check", "experimental_flags",
        "show_compiler_tb", "additional_compile_opt", "compiler_opts", "debug_kernel", "disable_tensorizer",
        "frontend", "opts", "klir", "verbose", "version", "save_trace_name", "artifacts_dir",
        "dump_python_ast",
    }
)  # fmt: skip
_DEPRECATED_OPTIONS = ("platform_target", "mode")
# Every mode is a simulation, as a warning says.
_ACTING_OPTIONS = frozenset({"platform_target", "grid", "additional_compile_opt", "mode"})


@dataclass(frozen=True)
class LaunchReport:
    """What the last launch of this process ran on."""

    kernel: str
    backend: str
    target: nc_version
    lnc: int
    ranks: int = 1


_last_launch: LaunchReport | None = None


def last_launch() -> LaunchReport | None:
    """Backend, target and LNC of the most recent launch, or None before the first."""
    return _last_launch


class Kernel:
    """A function decorated with `nki.jit`. Called inside another kernel it is an ordinary function."""

    __name__: str  # the function's

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        grid: tuple[int, ...] = (),
        target: str | nc_version | None = None,
        schedule: tuple[tuple[str, tuple[str, ...]], ...] = (),
        options: dict[str, Any] | None = None,
        ranks: int | None = None,
        rank_inputs: _ranks.RankInputs | None = None,
    ):
        functools.update_wrapper(self, func)
        self.func = func
        self.grid = grid
        self.target = target
        self.schedule = schedule
        self.options = dict(options or {})
        self.ranks = ranks
        self.rank_inputs = rank_inputs

    def parts(self) -> dict[str, Any]:
        """What it is made of, as its constructor takes it."""
        return {
            "func": self.func, "grid": self.grid, "target": self.target, "schedule": self.schedule,
            "options": self.options, "ranks": self.ranks, "rank_inputs": self.rank_inputs,
        }  # fmt: skip

    def _with(self, **changes: Any) -> Kernel:
        return type(self)(**{**self.parts(), **changes})

    def __getitem__(self, grid: Any) -> Kernel:
        """kernel[lnc]: launch on a logical NeuronCore of `lnc` physical cores (1 or 2)."""
        return self._with(grid=_checked_grid(grid, self.__name__))

    def with_schedule(self, edges: Iterable[tuple[str, Any]]) -> Kernel:
        """A copy with extra scheduling edges (consumer, producer or producers), by instruction name.

        Execution is in program order, so the edges change no value; they bind the scheduler, and so the time.
        A name that no instruction has fails the launch.
        """
        checked = []
        for edge in edges:
            if not isinstance(edge, (tuple, list)) or len(edge) != 2 or not isinstance(edge[0], str):
                raise ArgumentError(
                    f"with_schedule takes pairs (consumer name, producer name or list of names), got {edge!r}",
                    label="nki.option",
                )
            producers = (edge[1],) if isinstance(edge[1], str) else tuple(edge[1])
            checked.append((edge[0], producers))
        return self._with(schedule=tuple(checked))

    def on_target(self, target: str | nc_version) -> Kernel:
        """A copy that runs on `target` ("trn1", "trn2", "trn3") whatever the environment says."""
        return self._with(target=target)

    def on_ranks(self, ranks: int, inputs: _ranks.RankInputs | None = None) -> Kernel:
        """A copy that runs on `ranks` logical cores, which meet at the collectives of nki.collectives.

        A call then returns a list with the results of each rank. Of the arguments a list has one value for each
        rank; everything else is given to all. `inputs(rank)`: further keyword arguments of a rank.
        """
        return self._with(ranks=_ranks.checked_count(ranks), rank_inputs=inputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _dynamo.is_tracing():
            return _dynamo.call(self, args, kwargs)
        if _machine.machine_or_none() is not None:
            return self.func(*args, **kwargs)  # a kernel called by a kernel is inlined
        if _arrays.holds_tracer((args, kwargs)):
            return hooks.ask("jax_call").call(self, args, kwargs)
        with strict.version(self.options.get("strict")):
            return launch(
                self.func, self.grid, resolve_target(self.target), args, kwargs,
                {"stochastic_rounding": self.options.get("stochastic_rounding")},
                options=self.options, schedule=self.schedule, ranks=self.ranks, rank_inputs=self.rank_inputs,
            )  # fmt: skip

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        suffix = f"[{', '.join(map(str, self.grid))}]" if self.grid else ""
        return f"<nki kernel {self.__name__}{suffix}>"


def _checked_grid(grid: Any, name: str) -> tuple[int, ...]:
    axes = grid if isinstance(grid, tuple) else (grid,)
    sizes = tuple(int(axis.lnc if hasattr(axis, "lnc") else axis) for axis in axes)
    if len(sizes) != 1 or not 1 <= sizes[0] <= max(LNC_MAX.values()):
        raise NkiValidationError(
            f"{name}[{', '.join(map(str, axes))}]: since NKI 0.2 the launch grid is the number of physical "
            "cores of a logical NeuronCore, [1] or [2]",
            label="nki.grid", hint="larger SPMD grids belong to neuronxcc.nki (0.1)",
        )
    return sizes


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a function as an NKI kernel. Used bare or with arguments; see `Kernel`.

    Arguments of earlier releases are accepted; `platform_target` selects the target of the launch, `grid` its logical
    core as kernel[grid] does. The others have no effect, which is told on stderr once. Raises ArgumentError for an
    unknown argument.
    """
    unknown = set(options) - _KNOWN_OPTIONS
    if unknown:
        raise ArgumentError(
            f"nki.jit got unknown arguments {sorted(unknown)}",
            label="nki.option", hint=f"one of {', '.join(sorted(_KNOWN_OPTIONS))}",
        )
    if fn is None:
        return functools.partial(jit, **options)
    deprecated = [name for name in _DEPRECATED_OPTIONS if name in options]
    if deprecated:
        warnings.warn(
            f"nki.jit({', '.join(f'{n}=' for n in deprecated)}) was removed in NKI 0.3; "
            f"OpenTrn still accepts it{', and every mode is a simulation' if 'mode' in deprecated else ''}",
            DeprecationWarning,
            stacklevel=2,
        )
    tell_without_effect("nki.jit", options, _ACTING_OPTIONS)
    kernel = fn if isinstance(fn, Kernel) else Kernel(fn)
    kernel = kernel._with(
        options={**kernel.options, **options}, target=options.get("platform_target", kernel.target)
    )
    return kernel if options.get("grid") is None else kernel[options["grid"]]


def simulate(
    kernel: Callable[..., Any],
    *,
    backend: str | None = None,
    target: str | nc_version | None = None,
    strict: str | None = None,
    stochastic_rounding: int | bool | None = None,
    ranks: int | None = None,
) -> Kernel | _OnBackend:
    """A kernel that runs in the simulator: what `@nki.jit` gives, for plain functions as well.

    `backend` ("core" or "oracle"), `target` ("trn1", "trn2", "trn3") and `strict` (an NKI release whose
    documented refusals hold, "0.6") override the process's choice for this kernel. `stochastic_rounding`: engines
    round to narrower floats stochastically from this seed, so that every call gives the same bits; True: from
    the environment's seed; False: to nearest even whatever the environment says. `ranks`: as Kernel.on_ranks().
    """
    simulated = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    if stochastic_rounding is not None:
        asked = rounding.checked(stochastic_rounding)
        simulated = simulated._with(options={**simulated.options, "stochastic_rounding": asked})
    if strict is not None:
        simulated = simulated._with(options={**simulated.options, "strict": strict})
    if target is not None:
        simulated = simulated._with(target=target)
    if ranks is not None:
        simulated = simulated.on_ranks(ranks)
    if backend is not None:
        simulated = simulated._with(options={**simulated.options, "backend": backend})
        return _OnBackend(simulated)
    return simulated


class _OnBackend:
    """A kernel bound to one backend: selects it for the duration of each launch."""

    def __init__(self, kernel: Kernel):
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> _OnBackend:
        return _OnBackend(self._kernel[grid])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        previous = _machine.select(self._kernel.options["backend"])
        try:
            return self._kernel(*args, **kwargs)
        finally:
            _machine.select(previous)


def cpu_simulate(kernel: Callable[..., Any]) -> _CpuSimulated:
    """`nki_cpu_simulator.nki.cpu_simulate`: as `simulate`, the target taken from NKI_NC_VERSION first."""
    return _CpuSimulated(kernel)


class _CpuSimulated:
    def __init__(self, kernel: Callable[..., Any], grid: tuple[int, ...] = ()):
        self._kernel = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
        self._grid = grid or self._kernel.grid

    def __getitem__(self, grid: Any) -> _CpuSimulated:
        return _CpuSimulated(self._kernel, _checked_grid(grid, self._kernel.__name__))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        target = resolve_target(self._kernel.target, nc_version_first=True)
        # The entry of AWS's simulator, so with its rule for memory that nothing wrote: NaN, no error.
        options = {"uninitialised": "fill"} if _machine.backend().name == "core" else {}
        return launch(
            self._kernel.func, self._grid, target, args, kwargs, options,
            ranks=self._kernel.ranks, rank_inputs=self._kernel.rank_inputs,
        )  # fmt: skip


# --- launch
# -----------------------------------------------------------------------------------------------------


def launch(
    func: Callable[..., Any],
    grid: tuple[int, ...],
    target: nc_version,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    machine_options: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    schedule: tuple[tuple[str, tuple[str, ...]], ...] = (),
    ranks: int | None = None,
    rank_inputs: _ranks.RankInputs | None = None,
) -> Any:
    """Run `func` on a fresh machine and return its results in the caller's kind of array; of `ranks` as a list.

    Raises whatever the kernel raises, with the argument, instruction or tensor named by the raiser.
    """
    global _last_launch
    lnc = grid[0] if grid else 1
    require_logical_core(target, lnc)
    prepared = _prepare(func, grid, args, kwargs, schedule, ranks, rank_inputs)
    backend = _machine.backend()
    name = getattr(func, "__name__", repr(func))
    _last_launch = LaunchReport(name, backend.name, target, lnc, len(prepared))
    programs = [of_rank.program for of_rank in prepared]
    with strict.guarded(func, prepared[0].by_name, options or {}, legacy=False):
        if len(programs) == 1:
            results = [backend.run_cores(programs[0], lnc, target, **(machine_options or {}))]
        elif backend.run_ranks is not None:
            arguments = [[tensor for _, tensor in of_rank.arrays.values()] for of_rank in prepared]
            results = backend.run_ranks(programs, lnc, target, arguments=arguments, **(machine_options or {}))
        else:
            raise NotModelled(
                f"the backend {backend.name!r} runs one rank, and {name} is launched on {len(programs)}",
                label="launch.ranks",
                hint="use the C++ machine: OPENTRN_NKI_BACKEND=core",
            )
    outputs = [of_rank.outputs(result[0]) for of_rank, result in zip(prepared, results)]
    return outputs[0] if ranks is None else outputs


def _prepare(
    func: Callable[..., Any],
    grid: tuple[int, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    schedule: tuple[tuple[str, tuple[str, ...]], ...],
    ranks: int | None,
    rank_inputs: _ranks.RankInputs | None,
) -> list[_Prepared]:
    if ranks is None:
        return [_Prepared(func, grid, args, kwargs, schedule)]
    shared = _ranks.SharedMemory()
    prepared = []
    for rank in range(ranks):
        own_args, own_kwargs = _ranks.arguments_of(rank, ranks, args, kwargs, rank_inputs)
        prepared.append(_Prepared(func, grid, own_args, own_kwargs, schedule, shared))
        for host, _ in prepared[-1].arrays.values():
            shared.add(host.original)
    return prepared


class _Prepared:
    """The arguments of a launch as HBM tensors, and the program that each of its cores runs."""

    def __init__(
        self,
        func: Callable[..., Any],
        grid: tuple[int, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        schedule: tuple[tuple[str, tuple[str, ...]], ...],
        shared: _ranks.SharedMemory | None = None,
    ):
        """`shared`: memory that this launch may not write, because another rank of it has it."""
        self.func, self.grid, self.schedule = func, grid, schedule
        # By the id of the caller's array.
        self.arrays: dict[int, tuple[_arrays.HostArray, Any]] = {}
        region = MemoryRegion.shared_hbm if grid and grid[0] > 1 else MemoryRegion.private_hbm
        wrap = functools.partial(_wrap, arrays=self.arrays, region=region, shared=shared)
        kwargs = {name.removesuffix(".must_alias_input"): value for name, value in kwargs.items()}
        named = _argument_names(func, args)
        self.by_name = {**dict(zip(named, args)), **kwargs}
        self.device_args = tuple(wrap(value, name) for value, name in zip(args, named))
        self.device_kwargs = {name: wrap(value, name) for name, value in kwargs.items()}
        check_arguments(func, {**dict(zip(named, self.device_args)), **self.device_kwargs})

    def program(self, machine: Any) -> Any:
        with _launch_context.launched(self.grid):
            result = self.func(*self.device_args, **self.device_kwargs)
        if hasattr(machine, "add_schedule"):  # the oracle has no scheduled execution
            machine.add_schedule([(consumer, p) for consumer, producers in self.schedule for p in producers])
        returned.require_hbm(result, self.func, lambda leaf: leaf if _machine.is_tensor(leaf) else None)
        strict.check_outputs(result, [tensor for _, tensor in self.arrays.values()])
        return result

    def outputs(self, result: Any) -> Any:
        """What the program returned in the caller's kind of array; what it wrote to arguments goes to the caller."""
        hosts = [host for host, _ in self.arrays.values()]
        for host in hosts:
            host.write_back()
        return _unwrap(result, _arrays.caller_kind([host.value for host in hosts]))


def record(
    func: Callable[..., Any],
    grid: tuple[int, ...],
    target: nc_version,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    on_machine: Callable[[Any], None],
    options: dict[str, Any],
    schedule: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> tuple[Any, dict[int, Any]]:
    """As `launch`, without values: (what core 0 returned, with its tensors; the tensor of every array, by its id).

    `on_machine` sees the machine of every core, in order.
    """
    lnc = grid[0] if grid else 1
    require_logical_core(target, lnc)
    prepared = _Prepared(func, grid, args, kwargs, schedule)
    results: dict[int, Any] = {}

    def program(machine: Any) -> Any:
        results[machine.core_id] = prepared.program(machine)

    with strict.version(options.get("strict")), strict.guarded(func, prepared.by_name, options, legacy=False):
        _machine.backend().run_cores(program, lnc, target, execute="never", on_machine=on_machine)
    return results[0], {key: tensor for key, (_, tensor) in prepared.arrays.items()}


def _argument_names(func: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    try:
        names = [
            p.name
            for p in inspect.signature(func).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    return names[: len(args)] + [f"arg{i}" for i in range(len(names), len(args))]


def _wrap(
    value: Any, name: str, *, arrays: dict, region: MemoryRegion, shared: _ranks.SharedMemory | None
) -> Any:
    """Arrays to HBM tensors, through containers, NKIObjects and dataclasses; other values unchanged."""
    if _arrays.is_array(value):
        found = arrays.get(id(value))
        if found is None:
            host = _arrays.HostArray(value, name)
            if shared is not None and shared.holds(host.original):
                host.detach()
            tensor = _machine.backend().from_array(host.array, name, region, host.dtype)
            found = arrays[id(value)] = (host, tensor)
        return found[1]
    if isinstance(value, np.generic):
        return value.item()
    if not _holds_array(value):
        return value
    recurse = functools.partial(_wrap, arrays=arrays, region=region, shared=shared)
    if isinstance(value, dict):
        return {key: recurse(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(recurse(item, f"{name}.{f}") for f, item in zip(value._fields, value)))
    if isinstance(value, (list, tuple)):
        return type(value)(recurse(item, f"{name}[{i}]") for i, item in enumerate(value))
    clone = copy.copy(value)
    for attribute in _attributes(value):
        object.__setattr__(clone, attribute, recurse(getattr(value, attribute), f"{name}.{attribute}"))
    return clone


def _attributes(value: Any) -> list[str]:
    """Names of the attributes a kernel can see in a configuration object; none for other values."""
    if isinstance(value, NKIObject) or (is_dataclass(value) and not isinstance(value, type)):
        if hasattr(value, "__dict__"):
            return list(vars(value))
        return [field.name for field in fields(value)] if is_dataclass(value) else []
    return []


def _holds_array(value: Any) -> bool:
    """True if an array is somewhere inside a container or configuration object."""
    if _arrays.is_array(value):
        return True
    if isinstance(value, dict):
        return any(_holds_array(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_array(item) for item in value)
    return any(_holds_array(getattr(value, attribute)) for attribute in _attributes(value))


def _unwrap(value: Any, kind: str) -> Any:
    """Tensors to arrays, through tuples, lists and dicts."""

    def array(leaf: Any) -> Any:
        return _arrays.wrap_output(leaf.to_numpy(), leaf.dtype, kind) if _machine.is_tensor(leaf) else leaf

    return _machine.backend().map_leaves(value, array)
