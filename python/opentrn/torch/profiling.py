"""`torch_neuronx.profiling`: what torch.profiler is told of a device, and files of what it saw.

    config = NeuronConfig(modes=[ProfileMode.DEVICE, ProfileMode.RUNTIME], profile_output_dir="profile")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1], experimental_config=config,
                 on_trace_ready=NeuronProfiler(config).export_trace):
        ...

A folder for each process and trace has trace.json, torch's own, with the programs of the device (RUNTIME); and a
timeline of every instruction for each program in it (DEVICE), which ui.perfetto.dev opens too. AWS's files of these
modes (NEFF, NTFF, ntrace.pb) have no public format, nor have those of the host's use, which are not written.

Source: tools/neuron-explorer/how-to-profile-workload.rst of the Neuron SDK.
"""

from __future__ import annotations

import enum
import json
import os
import re
import time
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig

from opentrn import _core
from opentrn.errors import InputError
from opentrn.torch import usage

__all__ = ["NeuronConfig", "NeuronProfiler", "ProfileMode"]



class ProfileMode(enum.Enum):
    """What is captured."""

    DEVICE = "device"
    RUNTIME = "runtime"
    CPU_UTIL = "cpu_util"
    HOST_MEMORY = "host_memory"


_SAME_NS = 2.0  # events have whole nanoseconds, and their ends are rounded
_ON_HOST = (ProfileMode.CPU_UTIL, ProfileMode.HOST_MEMORY)


def cores_of(text: str) -> frozenset[int]:
    """The cores of "0,1,2-5". Raises InputError for other text."""
    found: set[int] = set()
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,4})\s*(?:-\s*(\d{1,4})\s*)?", part)
        if ends is None or (ends[2] is not None and int(ends[2]) < int(ends[1])):
            raise InputError(
                f"capture_enabled_for_nc is {text!r}; {part!r} in it is no core and no range", label="torch.profiling",
                hint="cores and ranges of them with commas between, for example '0,1,2-5'",
            )  # fmt: skip
        found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return frozenset(found)


class NeuronConfig(_ExperimentalConfig):
    """For torch.profiler.profile(experimental_config=...) and NeuronProfiler.

    modes: DEVICE and RUNTIME where none are named. max_events_per_nc: instructions of each timeline, the first ones.
    capture_enabled_for_nc: whose programs have timelines, as "0,1,2-5"; all where it is not given.
    profile_output_dir: ./profile_output. neff_cache_dir and precache_node_info have no effect, and warn.
    Raises InputError for what is no mode, no number and no list of cores.
    """

    def __init__(
        self, modes: Sequence[ProfileMode] | None = None, max_events_per_nc: int | None = None,
        capture_enabled_for_nc: str | None = None, profile_output_dir: str | os.PathLike[str] | None = None,
        neff_cache_dir: str | None = None, precache_node_info: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.modes = tuple((ProfileMode.DEVICE, ProfileMode.RUNTIME) if modes is None else modes)
        for mode in self.modes:
            if not isinstance(mode, ProfileMode):
                names = ", ".join(str(each) for each in ProfileMode)
                raise InputError(f"{mode!r} is no ProfileMode", label="torch.profiling", hint=names)
        if max_events_per_nc is not None and not (isinstance(max_events_per_nc, int) and max_events_per_nc > 0):
            raise InputError(
                f"max_events_per_nc is {max_events_per_nc!r}; it is a number of events", label="torch.profiling"
            )
        self.max_events_per_nc = max_events_per_nc
        self.cores = None if capture_enabled_for_nc is None else cores_of(capture_enabled_for_nc)
        self.profile_output_dir = Path("profile_output" if profile_output_dir is None else profile_output_dir)
        if left_out := [mode.name for mode in self.modes if mode in _ON_HOST]:
            warnings.warn(
                f"opentrn: nothing is written for {' and '.join(left_out)}: the files have no public format",
                stacklevel=2,
            )
        if neff_cache_dir is not None or not precache_node_info:
            warnings.warn(
                "opentrn: neff_cache_dir and precache_node_info have no effect: there are no NEFFs", stacklevel=2
            )


def _timeline(program: Any, path: Path, events_max: int | None) -> None:
    """Writes the instructions of one run, by the timing model; nothing where the program has no time."""
    model = program.device_model
    try:
        timing = model.traffic() if isinstance(model, _core.ShardedModel) else model.time([], None)
    except (ValueError, NotImplementedError):  # a loop that values end, a custom operator of unknown time
        return
    if timing is None:  # two cores that have nothing to do with each other
        return
    timing.save_perfetto(path)
    if events_max is not None:
        trace = json.loads(path.read_text())
        events = trace["traceEvents"]
        times = sorted(event["ts"] for event in events if event["ph"] == "X")[:events_max]
        last = times[-1] if times else 0
        trace["traceEvents"] = [event for event in events if event["ph"] == "M" or event["ts"] <= last]
        path.write_text(json.dumps(trace))


def _ran(events: Iterable[Any]) -> dict[tuple[int, str], list[float]]:
    """Nanoseconds of the runs of (core, program) in a trace's events."""
    device = torch.autograd.DeviceType.PrivateUse1
    found: dict[tuple[int, str], list[float]] = {}
    for each in events:
        if each.device_type == device:
            found.setdefault((each.device_index, each.name), []).append(each.time_range.elapsed_us() * 1e3)
    return found


def _is_of(program: Any, runs: Iterable[float]) -> bool:
    """Whether one of the runs takes what this program takes: programs of one op for several sizes have one name."""
    own = usage.on_stream_ns(program)
    return any(abs(own - each) < _SAME_NS for each in runs)


class NeuronProfiler:
    """Files of what torch.profiler saw: `on_trace_ready=NeuronProfiler(config).export_trace`."""

    def __init__(self, config: NeuronConfig) -> None:
        if not isinstance(config, NeuronConfig):
            raise InputError(
                f"NeuronProfiler takes a NeuronConfig, not a {type(config).__name__}", label="torch.profiling"
            )
        self.config = config

    def export_trace(self, prof: torch.profiler.profile) -> None:
        """Writes PROFILE_OUTPUT_DIR/i-simulated_pid_PID/TIME/: trace.json, and timelines nc_CORE_PROGRAM.json."""
        folder = self.config.profile_output_dir / f"i-simulated_pid_{os.getpid()}" / str(time.time_ns())
        folder.mkdir(parents=True)
        prof.export_chrome_trace(str(folder / "trace.json"))
        if ProfileMode.DEVICE in self.config.modes:
            self._timelines(prof.events() or (), folder)
        if ProfileMode.RUNTIME not in self.config.modes:
            _without_device(folder / "trace.json")

    def _timelines(self, events: Iterable[Any], folder: Path) -> None:
        by_name: dict[str, list[Any]] = {}
        for program in usage.that_ran():
            by_name.setdefault(program.name, []).append(program)
        for (core, name), runs in _ran(events).items():
            if self.config.cores is not None and core not in self.config.cores:
                continue
            for i, program in enumerate(each for each in by_name.get(name, ()) if _is_of(each, runs)):
                word = re.sub(r"\W+", "_", name).strip("_")
                path = folder / f"nc_{core}_{word}{f'_{i}' if i else ''}.json"
                _timeline(program, path, self.config.max_events_per_nc)


def _without_device(path: Path) -> None:
    """Takes the device's programs out of a trace of torch's."""
    trace = json.loads(path.read_text())
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("cat") != "kernel"]
    path.write_text(json.dumps(trace))
