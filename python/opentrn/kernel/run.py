"""Run a kernel on a simulated NeuronCore: its outputs, its predicted time and where the time goes.

    result = opentrn.run(kernel, x, y, target="trn2")
    result.outputs, result.time_us
    print(result.timing.text())
    result.save_html("profile.html")

Time is predicted from the instructions, never from the values, so `execute=False` with shapes in place of
arrays gives the same time in a fraction of the time; branches that depend on data then cannot be followed
and raise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.base import members
from opentrn.base.files import new_file
from opentrn.errors import InputError
from opentrn.kernel import machine as core
from opentrn.kernel.unwritten import UnwrittenOutput, of_launch
from opentrn.settings import environment
from opentrn.settings.compiler_flags import generates_descriptors
from opentrn.strict import version as strict_version
from opentrn.types.isa_enums import nc_version, require_logical_core
from opentrn.types.shapes import ShapeOf

Timing = _core.Timing
COMPILERS = ("nki", "neuronx-cc")

__all__ = ["COMPILERS", "Collective", "RunResult", "ShapeOf", "Timing", "run"]


def bound_text(timing: Any) -> str:
    """What bounds the run, as a clause; a run without time is bound by nothing."""
    return f"bound by {timing.bound_by}" if timing.total_ns else "nothing ran"


def predicted_text(timing: Any, target: str = "") -> str:
    """The prediction as one line."""
    on = f" on {target}" if target else ""
    text = f"predicted: {timing.time_us:.2f} us{on}, {bound_text(timing)}"
    if not timing.total_ns:
        return text
    return f"{text}; MFU {timing.mfu_percent:.1f} %, MBU {timing.mbu_percent:.1f} %"


def _events(self: Timing) -> np.ndarray:
    """Every event of the run as one structured array over the simulator's own memory (read-only).

    `track` indexes `tracks()`; `name`, `file` and `function` index `strings()`; `opcode` and `stall` index
    `_core.opcode_names()` and `_core.stall_names()`. Times are nanoseconds from the start of the kernel.
    """
    return self.event_bytes().view(np.dtype(_core.event_layout()))


def _critical_path(self: Timing) -> np.ndarray:
    """The critical path, latest first, as a structured array; `resource` indexes `_core.resource_names()`."""
    return self.critical_bytes().view(np.dtype(_core.critical_layout()))


def _profile(self: Timing) -> dict[str, Any]:
    """The whole profile as plain data; docs/profiling.md lists the keys."""
    return json.loads(self.json())


def _tracks(self: Timing) -> list[dict[str, Any]]:
    """The rows of the timeline: {"kind", "name", "engine", "core"} of each; `track` of an event counts them."""
    return json.loads(self.tracks_json())


def _skipped(self: Timing) -> list[dict[str, Any]]:
    """Where iterations of loops were not stepped: {"core", "start_ns", "end_ns", "iterations", "text"}."""
    return json.loads(self.skipped_json())


def _band(self: Timing) -> dict[str, Any]:
    """Where the measured time is expected: {"share", "low_ns", "high_ns", "runs", "kind"}, or {"unknown": why}."""
    return json.loads(self.trust_json())["band"]


def _basis(self: Timing) -> dict[str, Any]:
    """How many constants and instruction rules the time rests on, and which of them are assumed or fitted."""
    return json.loads(self.trust_json())["basis"]


def _kind(self: Timing) -> str:
    """Whose errors the band is made of, such as "kernel.v3.nki"."""
    return json.loads(self.trust_json())["kind"]


def _time_us(self: Timing) -> float:
    """The predicted time of the run in microseconds, without the launch."""
    return self.total_ns / 1e3


def _repr(self: Timing) -> str:
    return f"<timing {self.total_ns / 1e3:.2f} us, {bound_text(self)}>"


members.add(Timing, {
    "events": _events, "band": property(_band), "basis": property(_basis), "kind": property(_kind),
    "critical_path": _critical_path, "profile": _profile, "time_us": property(_time_us), "__repr__": _repr,
    "tracks": _tracks, "skipped": _skipped,
})  # fmt: skip


@dataclass(frozen=True)
class Collective:
    """A collective that one group of ranks executed.

    `function`: of nki.collectives; `what`: with its operation, operands and groups.
    `bytes`: of one rank's sources. `core`: of operands in SBUF, which core of each rank.
    `computed_by`: the algorithm that computed the values, "" where none were computed.
    `places`: by rank, three indices into its program: copies to what is sent begin, the ranks meet, copies of what
    arrived end.
    """

    function: str
    what: str
    group: list[int]
    core: int
    bytes: int
    computed_by: str
    file: str
    line: int
    places: dict[int, tuple[int, int, int]]


@dataclass
class RunResult:
    """What a run gave.

    `name`: of the kernel.
    `outputs`: what the kernel returned, in the caller's kind of array; `ShapeOf` where nothing was executed. Of
    several ranks a list, by rank.
    `timings`: one per launch of the call, in order, or per rank; empty with time=False.
    `ranks`: how many the kernel ran on; None where no ranks were asked for.
    """

    outputs: Any
    name: str
    target: str | nc_version
    machines: list[list[Any]]
    timings: list[Timing]
    ranks: int | None = None
    # Of several ranks that were timed: what their collectives did to the fabric; see docs/collectives.md.
    traffic: Any = None

    @property
    def timing(self) -> Timing:
        """Timing of the only launch, or of the slowest rank.

        Raises ValueError when nothing was timed, or several launches were.
        """
        if self.ranks is not None:
            return max(self._timed(), key=lambda timing: timing.total_ns)
        if len(self._timed()) > 1:
            raise InputError(
                f"this run has {len(self.timings)} timed launches",
                label="run.result", hint="see `timings`",
            )
        return self.timings[0]

    @property
    def time_us(self) -> float:
        """Predicted microseconds on the device, without the overhead of launching: launches added up, or the slowest
        rank's.

        Ranks are on one clock: collectives take the time of their transfers over the fabric, and of waiting for
        others.
        Raises ValueError when nothing was timed.
        """
        if self.ranks is not None:
            return self.timing.total_ns / 1e3
        return sum(timing.total_ns for timing in self._timed()) / 1e3

    @property
    def collectives(self) -> list[Collective]:
        """The collectives that the ranks met at, those of one group in the order of its program."""
        # Of ranks that another process of mpirun has there is no machine.
        meetings = next((machine.ranks for launch in self.machines for machine in launch), None)
        if meetings is None:
            return []
        records = meetings.records()
        places: list[dict[int, tuple[int, int, int]]] = [{} for _ in records]
        for rank, launch in enumerate(self.machines):
            for machine in launch:
                for number, begin, met, end in machine.collectives:
                    places[number][rank] = (begin, met, end)
        return [Collective(**record, places=place) for record, place in zip(records, places)]

    @property
    def unwritten(self) -> list[UnwrittenOutput]:
        """Outputs with elements that nothing wrote, of which UnwrittenOutputWarning told; launches in order."""
        return [output for launch in self.machines if launch for output in of_launch(launch)]

    @property
    def instruction_count(self) -> int:
        """Instructions recorded, over all cores."""
        return sum(machine.instruction_count for launch in self.machines for machine in launch)

    def program_text(self, launch: int = 0, core: int = 0, scheduled: bool = False) -> str:
        """The recorded program, one instruction per line (src/isa/text.h says how to read it).

        scheduled: then the compiler's placements, streams and schedule, which need a timed run (time=True).
        """
        if not scheduled:
            return _core.listing(self.machines[launch][core], self.name)
        return self._timed()[launch].executable_text(core)

    def _timed(self) -> list[Timing]:
        if not self.timings:
            raise InputError(
                f"{self.name} was run with time=False, so nothing was scheduled or timed",
                label="run.result", hint="opentrn.run(..., time=True)",
            )
        return self.timings

    def save_program(self, path: str | Path, scheduled: bool = False) -> list[Path]:
        """Write the recorded program of the only launch; further cores go to `path`.core1, ..., further ranks to
        `path`.rank1, ...

        scheduled: as program_text() says. A name that ends in .txt gets the text form. `opentrn profile FILE`
        and `opentrn disasm FILE` read all of these, without the kernel's Python. Raises InputError for
        several launches.
        """
        if self.ranks is None and len(self.machines) != 1:
            raise InputError(
                f"this run has {len(self.machines)} launches; a program is of one",
                label="run.result", hint="run one launch at a time",
            )
        paths = []
        for rank, launch in enumerate(self.machines):
            for core_number, machine in enumerate(launch):
                suffixes = [f".rank{rank}"] * (rank > 0) + [f".core{core_number}"] * (core_number > 0)
                file = Path(f"{path}{''.join(suffixes)}")
                paths.append(file)
                if Path(path).suffix == ".txt":
                    text = self.program_text(rank, core_number, scheduled)
                    with new_file(file) as part:
                        part.write_text(text, encoding="utf-8")
                elif scheduled:
                    self._timed()[rank].save_executable(str(file), core_number)
                else:
                    _core.save_program(machine, str(file), self.name)
        return paths

    def save_html(self, path: str | Path, embed_source: Iterable[str | Path] = ()) -> Path:
        """Write the profile as one page that needs no network.

        It holds the text of the kernel's source files. Of other files that the program names, as a model's, it holds
        those listed in `embed_source`.
        """
        from opentrn.report import html

        traffic = None if self.traffic is None else json.loads(self.traffic.json())
        return html.save(self.timing, path, embed_source, traffic)

    def save_perfetto(self, path: str | Path) -> Path:
        """Write the events for ui.perfetto.dev; of several ranks those of all, the CC-cores and the links."""
        with new_file(path) as part:
            (self.traffic or self.timing).save_perfetto(part)
        return Path(path)

    def save_json(self, path: str | Path) -> Path:
        """Write the profile as JSON."""
        with new_file(path) as part:
            part.write_text(json.dumps(self.timing.profile(), indent=1) + "\n", encoding="utf-8")
        return Path(path)


def run(
    kernel: Any,
    *args: Any,
    target: str | None = None,
    lnc: int = 1,
    execute: bool = True,
    time: bool = True,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    strict: str | None = None,
    compiler: str | None = None,
    eager: bool = False,
    loop_iterations: int | None = None,
    uninitialised: str | None = None,
    stochastic_rounding: int | bool | None = None,
    look_ahead: int | None = None,
    dge: bool | None = None,
    loop_limit: int | None = None,
    on_progress: Callable[[str, list[list[Any]]], None] | None = None,
    ranks: int | None = None,
    rank_inputs: Callable[[int], Mapping[str, Any]] | None = None,
    **kwargs: Any,
) -> RunResult:
    """Run `kernel(*args, **kwargs)` on one logical NeuronCore of `target`, or on several `ranks`.

    kernel: decorated with `nki.jit`, or a plain function. target: None is the kernel's platform_target, else
    NEURON_PLATFORM_TARGET_OVERRIDE, else trn2. lnc: physical cores of the logical core, 1 or 2.
    args, kwargs: what the kernel takes; `ShapeOf(shape, dtype)` stands for an array when execute=False.
    execute: compute values. time: compile and predict the time; with neither, instructions are only recorded.
    overrides: table values to change,
    {"timing.v3.constant.hbm_sustained_gb_s": 300}, or a list of "key=value" and "@file.toml" (see `opentrn describe
    --tables`); they change time and capacity, not values.
    strict: an NKI release ("0.1", "0.3" to "0.6") whose documented refusals hold; see opentrn.strict.
    compiler: whose habits the backend follows, one of COMPILERS. "nki" only orders each engine's
    instructions; "neuronx-cc" also computes equal results once and spills what does not fit.
    None: "neuronx-cc" for NKI 0.1 kernels, which it compiles, unless they skip_middle_end_transformations, else "nki".
    eager: execute every instruction at once, so that a debugger and print() see values; device loops are
    then repeated by Python. loop_iterations: of device loops whose bounds depend on values, with execute=False.
    look_ahead: over how many instructions the compiler orders those of an engine. None: its usual; 0: they stay
    as written (what AWS's compiler does with enable-instruction-scheduling=false).
    dge: whether NeuronCore-v3 and later generate DMA descriptors while they run. False: transfers are prepared
    before the launch, as AWS's compiler does it with --disable-dge. None: as the kernel's additional_compile_opt and
    NEURON_CC_FLAGS say.
    uninitialised: what reading memory that nothing wrote does: "fault", the default, or "fill", which reads NaN
    and 4 as AWS's simulator does. Copies and transposes may move unwritten elements, see docs/decisions/0014.
    stochastic_rounding: a seed, from which engines round fp32 to narrower floats stochastically: the same seed
    gives the same bits. True: from that of NEURON_RT_STOCHASTIC_ROUNDING_SEED. False: to nearest even. None: as
    NEURON_RT_STOCHASTIC_ROUNDING_EN says, where further launches of the process draw afresh.
    loop_limit: iterations after which a device loop whose end depends on values is an error ("sim.while_iterations",
    "sim.loop_iterations"). None: as OPENTRN_LOOP_LIMIT says; without it 2^24 for a `while`, none for counted loops.
    on_progress: called with what begins ("recording", "computing", "timing") and the machines so far, one list per
    launch, or per rank.
    ranks: logical cores that run the kernel, each with memory of its own, and meet at nki.collectives. An argument
    that is a list has one value for each rank, everything else is given to all; `outputs` is a list by rank.
    rank_inputs: rank -> further keyword arguments of that rank.

    Raises what the kernel raises; NkiValidationError when the program does not fit; NotModelled for an
    instruction without a sourced cost; ValueError for an unknown target or table key.
    """
    compiler_of(kernel, compiler)
    require_iterations(loop_iterations)
    require_loop_limit(loop_limit)
    if execute:
        _refuse_shapes([*args, *kwargs.values()])
    args = tuple(_materialise(value) for value in args)
    kwargs = {name: _materialise(value) for name, value in kwargs.items()}
    chosen = environment.target(target, kernel)
    bound = _bind(kernel, chosen, lnc)
    if ranks is not None:
        bound = _on_ranks(bound, kernel, ranks, rank_inputs, execute)
    elif rank_inputs is not None:
        raise InputError("rank_inputs is of a run with ranks", label="launch.ranks", hint="ranks=N too")
    timed_on = chosen.name if isinstance(chosen, nc_version) else chosen
    if time:
        _core.check_settings(_settings(overrides))
    report = on_progress or (lambda phase, machines: None)
    observed = core.observed_launches(
        _mode(execute, eager),
        uninitialised,
        lambda launches: report("computing", launches),
        stochastic_rounding,
        compiles=time,
        loop_limit=loop_limit,
    )
    with observed as machines, strict_version(strict):
        report("recording", machines)
        outputs = bound(*args, **kwargs)
    if not machines:
        raise InputError(
            f"{_name(kernel)} launched nothing",
            label="run.kernel", hint="give a kernel decorated with nki.jit",
        )
    timings: list[Timing] = []
    traffic = None
    if time:
        report("timing", machines)
        how = _How(_settings(overrides), look_ahead, compiler, dge, loop_iterations)
        timings, traffic = _timed(machines, kernel, timed_on, ranks, how)
    return RunResult(outputs, _name(kernel), chosen, machines, timings, ranks, traffic)


@dataclass(frozen=True)
class _How:
    """How a run is compiled and timed: of run()'s arguments those of the same names; settings: overrides as text."""

    settings: list[str]
    look_ahead: int | None
    compiler: str | None
    dge: bool | None
    loop_iterations: int | None


def _timed(
    machines: list[list[Any]], kernel: Any, target: str, ranks: int | None, how: _How
) -> tuple[list[Timing], Any]:
    """Times of the launches, or of the ranks with what their collectives did to the fabric."""
    named: Any = {
        "name": _name(kernel), "settings": how.settings, "look_ahead": how.look_ahead,
        "neuronx_cc": compiler_of(kernel, how.compiler) == "neuronx-cc", "dge": generates_descriptors(kernel, how.dge),
        "default_trip_count": how.loop_iterations, "target": target, "middle_end": _middle_end(kernel),
    }  # fmt: skip
    if ranks is None or ranks == 1:
        return [_core.compile_and_time(launch, **named) for launch in machines], None
    # Where processes of mpirun share the ranks, from what they have sent each other.
    first = next(machine for launch in machines for machine in launch)
    encoded = getattr(first, "programs_of_all", [])
    return _core.time_ranks(machines, encoded=encoded, **named)


def _on_ranks(
    bound: Any,
    kernel: Any,
    ranks: int,
    rank_inputs: Callable[[int], Mapping[str, Any]] | None,
    execute: bool,
) -> Any:
    """The kernel set to launch on several ranks."""
    if is_legacy(kernel):
        raise InputError("an NKI 0.1 kernel runs on one rank: it has no collectives", label="launch.ranks")

    if rank_inputs is None:
        return bound.on_ranks(ranks, None)

    def inputs(rank: int) -> Any:
        values = rank_inputs(rank)
        if not isinstance(values, Mapping):
            return values  # which on_ranks() refuses
        if execute:
            _refuse_shapes(values.values())
        return {name: _materialise(value) for name, value in values.items()}

    return bound.on_ranks(ranks, inputs)


def compiler_of(kernel: Any, compiler: str | None) -> str:
    """The compiler to imitate for `kernel`. ValueError when `compiler` is not one of COMPILERS."""
    if compiler is None:
        return "neuronx-cc" if is_legacy(kernel) else "nki"
    if compiler not in COMPILERS:
        raise InputError(
            f"unknown compiler {compiler!r}",
            label="compiler.option", hint=f"one of {', '.join(COMPILERS)}",
        )
    return compiler


def _middle_end(kernel: Any) -> bool:
    """Whether the compiler may rewrite the kernel's instructions."""
    from opentrn.nki_legacy.compiler.switches import SKIP_MIDDLE_END, switches_of

    return SKIP_MIDDLE_END not in switches_of(kernel)


def require_iterations(count: int | None) -> None:
    """ValueError for a number of iterations that no loop has: they are counted in 64 bits."""
    if count is not None and not 0 <= count < 1 << 63:
        raise InputError(
            f"loop_iterations is {count}; a loop runs 0 times or more, and fewer than 2^63",
            label="run.argument",
        )


def require_loop_limit(limit: int | None) -> None:
    """ValueError for a limit that no loop reaches: they count in 32 bits."""
    if limit is not None and not 1 <= limit < 1 << 31:
        raise InputError(f"loop_limit is {limit}; it is from 1 to 2^31 - 1", label="run.argument")


def is_legacy(kernel: Any) -> bool:
    """Whether `kernel` is of NKI 0.1."""
    return type(kernel).__module__.startswith("opentrn.nki_legacy")


def _mode(execute: bool, eager: bool) -> str:
    """What `observed_launches` takes."""
    if not execute:
        return "never"
    return "eager" if eager else "batched"


def _settings(overrides: Mapping[str, Any] | Iterable[str]) -> list[str]:
    if isinstance(overrides, Mapping):
        return [f"{key}={value}" for key, value in overrides.items()]
    return [str(setting) for setting in overrides]


def _name(kernel: Any) -> str:
    return getattr(kernel, "__name__", None) or type(kernel).__name__


def _bind(kernel: Any, target: str | nc_version, lnc: int) -> Any:
    """The kernel set to launch on `target` with `lnc` cores, for every dialect."""
    from opentrn.nki import _machine, simulate

    require_logical_core(target, lnc)
    if _machine.backend().name != "core":
        raise InputError(
            "opentrn.run needs the C++ machine; OPENTRN_NKI_BACKEND=oracle has no time",
            label="nki.backend", hint="unset OPENTRN_NKI_BACKEND",
        )
    if is_legacy(kernel):
        if lnc != 1:
            raise InputError(
                "an NKI 0.1 kernel runs on one core: its grid is in kernel[grid]",
                label="run.argument",
            )
        return kernel._with(options={**kernel.options, "platform_target": target})
    bound = simulate(kernel, target=target)
    return bound[lnc] if lnc != 1 else bound


def _materialise(value: Any) -> Any:
    """ShapeOf to untouched zeros, through containers."""
    return _core.map_leaves(value, lambda leaf: leaf.zeros() if isinstance(leaf, ShapeOf) else leaf, exact=True)


def _refuse_shapes(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, ShapeOf):
            raise InputError(
                f"{value} has no values",
                label="launch.no_values", hint="give an array, or execute=False for the time only",
            )
        if isinstance(value, (tuple, list)):
            _refuse_shapes(value)
        elif isinstance(value, dict):
            _refuse_shapes(value.values())
