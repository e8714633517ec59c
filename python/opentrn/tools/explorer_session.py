"""neuron-explorer inspect, and view of the folders that it fills: profiles of whole processes.

`inspect` runs a program with NEURON_RT_INSPECT_*, for which each process that executes programs writes a folder
(src/runtime/inspect.h). `view -d` reads such folders: of the system profile the events, of each device profile the
tables of explorer.py.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentrn.base.files import new_file
from opentrn.errors import InputError
from opentrn.tools import explorer

_FILE_BYTES_MAX = 1 << 30
_FORMAT = "opentrn-inspect-1"
_GROUPS = {"instance_id": "instance_id", "process_id": "process_id", "lnc_idx": "nc_idx"}


def _refuse(message: str, hint: str = "") -> InputError:
    return InputError(message, label="tools.explorer", hint=hint)


def inspect(output: Path, events_max: int | None, program: list[str]) -> int:
    """Runs the program; its exit status. Raises InputError "tools.explorer" where it cannot be started."""
    if not program:
        raise _refuse("no program is named", "neuron-explorer inspect -o DIR PROGRAM ...")
    environment = dict(
        os.environ, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="1",
        NEURON_RT_INSPECT_OUTPUT_DIR=str(output.absolute()),
    )  # fmt: skip
    if events_max is not None:
        if events_max < 1:
            raise _refuse(f"--num-trace-events {events_max}", "a number from 1")
        environment["NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC"] = str(events_max)
    before = _folders(output)
    try:
        status = subprocess.run(program, env=environment, check=False).returncode
    except OSError as error:
        raise _refuse(f"{shlex.join(program[:1])}: {error.strerror}") from error
    made = sorted(_folders(output) - before)
    for path in made:
        print(path)
    if not made:
        print("neuron-explorer: no process executed a program on the simulated device", file=sys.stderr)
    return status if status >= 0 else 128 - status


def _folders(output: Path) -> set[Path]:
    return {path.parent for path in output.glob("*/trace_info.json")} if output.is_dir() else set()


@dataclass
class Process:
    """One folder: what trace_info.json says, the events, and device profiles by their names."""

    folder: Path
    info: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)
    profiles: list[Path] = field(default_factory=list)

    @property
    def instance_id(self) -> str:
        return self.folder.name.partition("_pid_")[0]


def _json_of(path: Path, key: str = "") -> Any:
    """The file, or one of its keys. Raises InputError for what is no such file."""
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise _refuse(f"{path}: more than {_FILE_BYTES_MAX >> 30} GiB")
        content = json.loads(path.read_bytes())
        return content[key] if key else content
    except OSError as error:
        raise _refuse(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _refuse(f"{path} is damaged", "run neuron-explorer inspect again") from error


def _events_of(path: Path) -> list[dict[str, Any]]:
    events = _json_of(path, "events")
    kinds = (("name", str), ("type", str), ("id", int), ("nc_idx", int), ("timestamp", int), ("duration", int))
    good = isinstance(events, list) and all(
        isinstance(event, dict)
        and all(isinstance(event.get(key), kind) and not isinstance(event[key], bool) for key, kind in kinds)
        and all(0 <= event[key] < 1 << 62 for key, kind in kinds if kind is int)
        for event in events
    )
    if not good:
        raise _refuse(f"{path} is damaged", "run neuron-explorer inspect again")
    return events


@dataclass
class Filters:
    """What of the folders is read; empty sets: all."""

    cores: set[int] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    instances: set[str] = field(default_factory=set)
    without_system: bool = False
    without_device: bool = False


def cores_of(text: str) -> set[int]:
    """Of --system-trace-filter-neuron-core. Raises InputError."""
    parts = [part for part in text.split(",") if part]
    if not all(part.isascii() and part.isdecimal() and len(part) < 7 for part in parts):
        raise _refuse(f"--system-trace-filter-neuron-core {text[:40]!r}", "numbers, as in 0,1")
    return {int(part) for part in parts}


def read(folder: Path, filters: Filters) -> list[Process]:
    """The processes of a folder of inspect's. Raises InputError "tools.explorer"."""
    found = []
    for path in sorted(_folders(folder)) or ([folder] if (folder / "trace_info.json").is_file() else []):
        info = _json_of(path / "trace_info.json")
        if not isinstance(info, dict) or info.get("format") != _FORMAT or not isinstance(info.get("pid"), int):
            raise _refuse(f"{path} is not a profile of OpenTrn's", "neuron-explorer inspect writes one")
        process = Process(path, info)
        if filters.instances and process.instance_id not in filters.instances:
            continue
        if not filters.without_system and (path / "ntrace.json").is_file():
            process.events = [event for event in _events_of(path / "ntrace.json") if _wanted(event, filters)]
        if not filters.without_device:
            process.profiles = sorted(path.glob("*.ntff"))
        found.append(process)
    if not found:
        raise _refuse(f"{folder} holds no profile", "neuron-explorer inspect -o DIR PROGRAM ... writes one")
    return found


def _wanted(event: dict[str, Any], filters: Filters) -> bool:
    return (not filters.cores or event["nc_idx"] in filters.cores) and (
        not filters.types or event["name"] in filters.types
    )


SYSTEM_TABLE = [
    ("id", "int64", True, "number of the row"),
    ("name", "string", True, "of the event: nrt_execute, nc_exec_running, model_load"),
    ("start_ts", "int64", True, "its begin, in ns since the epoch, of this host's clock"),
    ("end_ts", "int64", True, "start_ts and the duration"),
    ("duration_ns", "int64", True, "of nc_exec_running predicted, else this host's"),
    ("trace_event_source", "string", True, "neuron_rt, or neuron_hw of the simulated device"),
    ("instance_id", "string", True, "OPENTRN_INSTANCE_ID, or simulated"),
    ("process_id", "int64", True, "of this host"),
    ("thread_id", "int64", True, "unknown: null"),
    ("nc_idx", "int64", False, "logical core"),
    ("extra_attributes_json", "string", False, "model_id, and the simulated core's own clock"),
]


def system_rows(processes: list[Process]) -> list[dict[str, Any]]:
    """Rows of SystemProfileEvents."""
    rows: list[dict[str, Any]] = []
    for process in processes:
        for event in process.events:
            extra = {key: event[key] for key in ("model_id", "nc_timestamp_ns") if key in event}
            rows.append(
                {"id": len(rows), "name": event["name"], "start_ts": event["timestamp"],
                 "end_ts": event["timestamp"] + event["duration"], "duration_ns": event["duration"],
                 "trace_event_source": "neuron_hw" if event["type"] == "hardware" else "neuron_rt",
                 "instance_id": process.instance_id, "process_id": process.info["pid"], "thread_id": None,
                 "nc_idx": event["nc_idx"], "extra_attributes_json": json.dumps(extra)}
            )  # fmt: skip
    return rows


def _host_rows(processes: list[Process], file: str, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for process in processes:
        if (process.folder / file).is_file():
            found = _json_of(process.folder / file, key)
            if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
                raise _refuse(f"{process.folder / file} is damaged", "run neuron-explorer inspect again")
            rows += [{"instance_id": process.instance_id, "process_id": process.info["pid"], **row} for row in found]
    return rows


def _models(processes: list[Process]) -> Iterator[tuple[str, dict[str, list[dict[str, Any]]]]]:
    """(number of the model and of its core, tables) of each device profile; equal ones of several processes once."""
    seen = set()
    for process in processes:
        for path in process.profiles:
            name = path.stem.replace("_instid_0_vnc_", "_core_")
            if name not in seen:
                seen.add(name)
                yield name, explorer.tables_of(explorer.read_trace(path))


def summary_of(processes: list[Process], filters: Filters) -> dict[str, Any]:
    """What summary-json prints, and summary-text in lines."""
    rows = system_rows(processes)
    runs = [row for row in rows if row["name"] == "nc_exec_running"]
    host = [row for row in rows if row["name"] == "nrt_execute"]
    summary: dict[str, Any] = {"is_simulation": True, "processes": len(processes)}
    if not filters.without_system:
        summary |= {
            "executions": len(host),
            "neuroncores": sorted({row["nc_idx"] for row in rows}),
            "device_time_s": sum(row["duration_ns"] for row in runs) / 1e9,
            "host_time_s": sum(row["duration_ns"] for row in host) / 1e9,
        }
    summary["models"] = {name: tables["Summary"][0] for name, tables in _models(processes)}
    return summary


def _summary_text(summary: dict[str, Any]) -> str:
    lines = [f"{name:<40} {value}" for name, value in summary.items() if name != "models"]
    for name, row in summary["models"].items():
        lines += ["", f"model {name}", *(f"{key:<40} {value:.6g}" for key, value in row.items())]
    return "\n".join(lines) + "\n"


def _perfetto(rows: list[dict[str, Any]], primary: list[str], secondary: list[str]) -> dict[str, Any]:
    """Chrome's JSON: a process for each group of the first order, a row for each of the second."""
    def key(row: dict[str, Any], fields: list[str]) -> str:
        return ", ".join(f"{name} {row[_GROUPS[name]]}" for name in fields)

    events: list[dict[str, Any]] = []
    numbers: dict[tuple[str, ...], int] = {}
    for row in rows:
        first, second = key(row, primary), key(row, secondary)
        for place in ((first,), (first, second)):
            if place not in numbers:
                numbers[place] = len(numbers) + 1
                what = "process_name" if len(place) == 1 else "thread_name"
                events.append({"ph": "M", "name": what, "pid": numbers[first,], "tid": numbers[place],
                               "args": {"name": place[-1]}})  # fmt: skip
        events.append(
            {"ph": "X", "name": row["name"], "pid": numbers[first,], "tid": numbers[first, second],
             "ts": row["start_ts"] / 1e3, "dur": row["duration_ns"] / 1e3,
             "args": json.loads(row["extra_attributes_json"])}
        )  # fmt: skip
    return {"traceEvents": events, "otherData": {"is_simulation": "true"}}


def groups_of(text: str, option: str) -> list[str]:
    """Of --system-trace-primary-group and --system-trace-secondary-group. Raises InputError."""
    fields = [part for part in text.split(",") if part]
    if unknown := [name for name in fields if name not in _GROUPS]:
        raise _refuse(
            f"{option} {unknown[0][:40]!r}", f"a simulated device knows {', '.join(_GROUPS)}; no threads and workers"
        )
    if not fields:
        raise _refuse(f"{option} names nothing", f"of {', '.join(_GROUPS)}")
    return fields


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as part:
            part.write_text(text)
    except OSError as error:
        raise _refuse(f"{path}: {error.strerror}") from error
    return path


@dataclass
class Grouping:
    """Of the rows of the system profile in Perfetto."""

    primary: str = "instance_id,process_id"
    secondary: str = "lnc_idx"


def view(folder: Path, output_format: str, output: Path | None, filters: Filters, grouping: Grouping) -> list[Path]:
    """Writes the profiles of a folder; the files. A summary without an output goes to standard output.

    Raises InputError "tools.explorer", and MissingModule without pyarrow for Parquet.
    """
    processes = read(folder, filters)
    if output_format.startswith("summary-"):
        summary = summary_of(processes, filters)
        text = _summary_text(summary) if output_format == "summary-text" else json.dumps(summary, indent=1) + "\n"
        if output is None:
            print(text, end="")
            return []
        return [_write(output, text)]
    # A file that is named stands for its folder, as the tool writes several.
    place = output or Path("output") if output_format == "parquet" else (output.parent if output else Path("."))
    rows = system_rows(processes)
    written = []
    if output_format == "parquet":
        if not filters.without_system:
            written += explorer.write_tables({"SystemProfileEvents": (SYSTEM_TABLE, rows)}, place)
        for name, tables in _models(processes):
            written += explorer.write_parquet(tables, place / f"device_profile_model_{name}")
        return written
    if not filters.without_system:
        if output_format == "json":
            content: Any = {
                "is_simulation": True, "events": rows, "mem_usage": _host_rows(processes, "host_mem.json", "mem_usage"),
                "cpu_util": _host_rows(processes, "cpu_util.json", "cpu_util"),
            }  # fmt: skip
            written.append(_write(place / "system_profile.json", json.dumps(content, indent=1) + "\n"))
        else:
            trace = _perfetto(
                rows, groups_of(grouping.primary, "--system-trace-primary-group"),
                groups_of(grouping.secondary, "--system-trace-secondary-group"),
            )  # fmt: skip
            written.append(_write(place / "system_profile.pftrace", json.dumps(trace) + "\n"))
    if output_format == "json":
        for name, tables in _models(processes):
            text = json.dumps(tables, indent=1) + "\n"
            written.append(_write(place / f"device_profile_model_{name}.json", text))
    else:
        for process in processes:
            for path in process.profiles:
                name = path.stem.replace("_instid_0_vnc_", "_core_")
                explorer.read_trace(path)
                written.append(_write(place / f"device_profile_model_{name}.pftrace", path.read_text()))
    return written
