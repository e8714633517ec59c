"""What a run did on the device: the PyTorch side of src/pjrt/usage.cc.

For `opentrn profile -- COMMAND` (OPENTRN_USAGE names a file; written beside it, as FILE.torch.PID, when a process
ends), and for `opentrn.profile_program()`, which asks for a block.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentrn import _core
from opentrn.errors import InputError, NotModelled, StateError
from opentrn.settings import environment
from opentrn.torch import clocks, settings

if TYPE_CHECKING:
    from opentrn.torch.program import Program

# Every program, as long as torch keeps it; those that a file or a block will tell, as long as that takes.
_ALIVE: weakref.WeakSet[Program] = weakref.WeakSet()
_KEPT: list[Program] = []
# What each program had done when the profiled block began; None outside of one.
_before: dict[Program, tuple[int, float]] | None = None
# Of the block, and of a process whose usage a file will tell.
_block_clocks: clocks.Clocks | None = None
_process_clocks: clocks.Clocks | None = None


def note(program: Program) -> None:
    """Remembers a program that was made."""
    _ALIVE.add(program)
    if _before is not None:
        _before[program] = (0, 0.0)
    if not os.environ.get("OPENTRN_USAGE"):
        return
    if not _KEPT:
        atexit.register(write)
    _KEPT.append(program)


def begin_block() -> None:
    """From here on count runs; RuntimeError inside another block."""
    from opentrn.torch import eager

    global _before, _block_clocks
    if _before is not None:
        raise StateError("a block is being profiled already", label="pjrt.usage", hint="profile one block at a time")
    eager.keep_all(True)
    _block_clocks = clocks.Clocks()
    _before = {program: (program.runs, program.host_seconds) for program in _ALIVE}
    _before |= {program: (runs, seconds) for program, runs, seconds in _eager()}


def end_block() -> dict[str, Any]:
    """The facts of the block, as facts()."""
    global _before, _block_clocks
    from opentrn.torch import eager

    before, _before = _before or {}, None
    counted, _block_clocks = _block_clocks.end() if _block_clocks is not None else [], None
    op_by_op = _eager()
    eager.keep_all(False)
    now = {program: (program.runs, program.host_seconds) for program in before}
    now |= {program: (runs, seconds) for program, runs, seconds in op_by_op}
    done = [
        (program, runs - before.get(program, (0, 0.0))[0], seconds - before.get(program, (0, 0.0))[1])
        for program, (runs, seconds) in now.items()
        if runs > before.get(program, (0, 0.0))[0]
    ]
    return facts(done, counted)


@dataclass(frozen=True)
class _Run:
    """What the timing model says of one run. cores: physical ones that compute; flops of the Tensor engine of one."""

    total_ns: float
    launch_ns: float
    tensor_flops: float
    hbm_bytes: float
    bound_by: str
    instructions: int
    cores: int


def _run_of(program: Program) -> _Run:
    """InputError where the model has no time (a loop whose trips depend on values, in a program that never ran)."""
    model = program.device_model
    if isinstance(model, _core.ShardedModel):
        cost = model.cost()
        if cost["device_us"] is None:
            raise InputError(cost["why"], label="timing.trip_count")
        launch_ns = cost["launch_us"] * 1e3 if program.starts else 0.0
        devices = model.devices
        return _Run(
            cost["device_us"] * 1e3, launch_ns, cost["tensor_flops"], cost["hbm_bytes"] * devices, cost["bound_by"],
            cost["instructions"] * devices, devices,
        )  # fmt: skip
    timing = model.time([], None)
    launch_ns = float(timing.launch_ns) if program.starts else 0.0
    return _Run(
        timing.total_ns, launch_ns, timing.tensor_flops, timing.hbm_bytes, timing.bound_by or "",
        model.instruction_count, 1,
    )  # fmt: skip


# What is not known of programs' times, of which stderr has been told.
_TOLD: set[str] = set()


def on_stream_ns(program: Program) -> float:
    """Nanoseconds that one run takes on a stream; 0 where it has no time: a loop that values end, and a custom operator
    whose time nobody states, which a line on stderr says once.

    With the launch: how much of it the program before hides is not public, and none is assumed to be hidden.
    """
    try:
        run = _run_of(program)
    except ValueError:
        return 0.0
    except NotModelled as fault:
        why = str(fault).partition("\n")[0]
        if why not in _TOLD:
            _TOLD.add(why)
            print(f"opentrn: {program.name} takes no time on its stream: {why}; {fault.hint}", file=sys.stderr)
        return 0.0
    return run.launch_ns + run.total_ns


def _eager() -> list[tuple[Program, int, float]]:
    from opentrn.torch import eager

    return eager.rows()


def that_ran() -> list[Program]:
    """Programs of the device that have run and that torch still keeps."""
    return [each for each in _ALIVE if each.runs and each.device_model] + [each for each, runs, _ in _eager() if runs]


def row(program: Program, runs: int, host_seconds: float) -> dict[str, Any]:
    """Runs, host and device time (without the launch) of one program; device_us is None, with `why`, without one."""
    facts: dict[str, Any] = {
        "name": program.name,
        # Without the number of the graph: of one function compiled again, for other sizes.
        "is_op": program.is_op,
        "function": re.sub(r"_\d+_(forward|backward|inference)", r"_\1", program.name),
        "runs": runs,
        "devices": 1,
        "host_s": host_seconds,
        "device_us": None,
    }
    if program.host_reason:
        facts["on_host"] = facts["why"] = program.host_reason
        return facts
    try:
        run = _run_of(program)
    except (ValueError, NotModelled) as fault:  # a loop that values end, in a program that never ran; a custom operator
        facts["why"] = str(fault)
        return facts
    facts["instructions"] = run.instructions
    facts["device_us"] = run.total_ns / 1e3
    facts["launch_us"] = run.launch_ns / 1e3
    facts["tensor_flops"] = run.tensor_flops
    facts["hbm_bytes"] = run.hbm_bytes
    facts["bound_by"] = run.bound_by
    if run.cores > 1:
        facts["physical_cores_used"] = run.cores
        facts["both_cores_by"] = program.device_model.choice
    elif program.one_core_because:
        facts["physical_cores_used"] = 1
        facts["one_core_because"] = program.one_core_because
        facts["both_cores_us_min"] = _core.both_cores_us_min(
            program.settings.target, run.total_ns / 1e3, 0.0, run.hbm_bytes
        )
    return facts


def _rented(target: str) -> tuple[str, int]:
    """What is paid for, and physical cores of a logical one there: the environment's machine where programs are for it.

    Programs are compiled for a chip; the environment may name an instance that has it.
    """
    stated = environment.read()
    return (stated.target, stated.physical_cores_per_core) if target == stated.chip else (target, 1)


def facts(done: list[tuple[Program, int, float]], counted: list[dict[str, Any]]) -> dict[str, Any]:
    """Of programs with their runs and host seconds, and of clocks: the keys of the JAX plugin's file, and "clocks".

    bytes_peak is the HBM of the device's tensors at most, or of the largest program's, where that has more.
    """
    on_device = [program for program, _, _ in done if program.device_model]
    target, physical_cores = _rented(done[0][0].settings.target if done else settings.read(None).target)
    rates = _core.rates_of_core(target, physical_cores)
    return {
        "target": target,
        "cores": max(len(counted), 1),
        "clocks": counted,
        **({"rank": int(os.environ["RANK"])} if os.environ.get("RANK", "").isdigit() else {}),
        "tensor_peak_tflops_bf16": _core.peak_tflops(target, "bf16"),
        "bytes_peak": max([clocks.memory_peak(), *(program.device_model.tensor_bytes for program in on_device)]),
        "usd_h": {kind: rate and rate[0] for kind, rate in rates.items()},
        "rented": {kind: rate and rate[1] for kind, rate in rates.items()},
        "programs": [row(*each) for each in done],
    }


def start() -> None:
    """Clocks count from here on where a file will tell the process's usage."""
    global _process_clocks
    if os.environ.get("OPENTRN_USAGE") and _process_clocks is None:
        _process_clocks = clocks.Clocks()


def write() -> None:
    """The file, one for each process."""
    counted = _process_clocks.end() if _process_clocks is not None else []
    done = [(program, program.runs, program.host_seconds) for program in _KEPT if program.runs]
    done += [each for each in _eager() if each[1]]
    if done:
        with open(f"{os.environ['OPENTRN_USAGE']}.torch.{os.getpid()}", "w") as out:
            json.dump(facts(done, counted), out, indent=1)
