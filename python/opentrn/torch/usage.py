"""What a run did on the device, for `opentrn profile -- COMMAND`: the PyTorch side of src/pjrt/usage.cc.

Kept when OPENTRN_USAGE names a file; written beside it, as FILE.torch, when Python ends.
"""

from __future__ import annotations

import atexit
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentrn.torch.program import Program
    from opentrn.torch.settings import Settings

_PROGRAMS: list[Program] = []
_SETTINGS: list[Settings] = []


def note(program: Program, settings: Settings) -> None:
    """Remembers a program whose runs the file will tell."""
    if not os.environ.get("OPENTRN_USAGE"):
        return
    if not _PROGRAMS:
        atexit.register(write)
    _PROGRAMS.append(program)
    _SETTINGS.append(settings)


def row(program: Program) -> dict[str, Any]:
    """Runs, host and device time of one program; device_us is None, with `why`, where it has none."""
    facts: dict[str, Any] = {
        "name": program.name,
        "runs": program.runs,
        "devices": 1,
        "host_s": program.host_seconds,
        "device_us": None,
    }
    if program.host_reason:
        facts["on_host"] = facts["why"] = program.host_reason
        return facts
    try:
        timing = program.device_model.time([], None)
    except ValueError as fault:  # a loop whose trips depend on values, in a program that never ran
        facts["why"] = str(fault)
        return facts
    facts["instructions"] = program.device_model.instruction_count
    facts["device_us"] = timing.time_us
    facts["tensor_flops"] = timing.tensor_flops
    facts["bound_by"] = timing.bound_by
    return facts


# Kinds of the usage file and of a profile's table of instances.
_RATES = {"on_demand": "on_demand", "reserved": "reserved_3_years", "capacity_block": "capacity_block"}


def usd_per_core_hour(programs: list[Program]) -> dict[str, float | None]:
    """The cheapest published rate of each kind among the instances that have the chip; None where none is."""
    instances: list[dict[str, Any]] = []
    for program in programs:
        if program.device_model and not program.host_reason:
            try:
                timing = program.device_model.time([], None)
            except ValueError:  # as in row()
                continue
            instances = json.loads(timing.json())["model"]["serving"]
            break
    rates = {
        kind: [each[name]["usd_h"] / each["cores"] for each in instances if each[name]]
        for kind, name in _RATES.items()
    }
    return {kind: min(known, default=None) for kind, known in rates.items()}


def write() -> None:
    """The file. It has the keys of the JAX plugin's; bytes_peak is the HBM of the largest program's tensors."""
    from opentrn import _core

    rows = [row(program) for program in _PROGRAMS if program.runs]
    file = os.environ["OPENTRN_USAGE"] + ".torch"
    on_device = [program for program in _PROGRAMS if program.runs and program.device_model]
    peak = max((program.device_model.tensor_bytes for program in on_device), default=0)
    target = _SETTINGS[0].target
    facts = {
        "target": target,
        "cores": 1,
        "tensor_peak_tflops_bf16": _core.peak_tflops(target, "bf16"),
        "bytes_peak": peak,
        "usd_h": usd_per_core_hour(on_device),
        "programs": rows,
    }
    with open(file, "w") as out:
        json.dump(facts, out, indent=1)
