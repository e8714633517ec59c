"""neuron-explorer inspect, and view of the folders that it fills: profiles of whole processes.

`inspect` runs a program with NEURON_RT_INSPECT_*, for which each process that executes programs writes a folder
(src/runtime/inspect.h). `view -d` reads such folders (src/monitor/explorer_session.h): of the system profile the
events, of each device profile the tables of explorer.py.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from opentrn import __version__, _core
from opentrn.base.files import new_file
from opentrn.errors import InputError
from opentrn.tools import explorer


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
    before = set(_core.session_folders(output))
    try:
        status = subprocess.run(program, env=environment, check=False).returncode
    except OSError as error:
        raise _refuse(f"{shlex.join(program[:1])}: {error.strerror}") from error
    made = sorted(set(_core.session_folders(output)) - before)
    for path in made:
        print(path)
    if not made:
        print("neuron-explorer: no process executed a program on the simulated device", file=sys.stderr)
    return status if status >= 0 else 128 - status


@dataclass
class Filters:
    """What of the folders is read; empty sets and texts: all. cores: "0,1"."""

    cores: str = ""
    types: set[str] = field(default_factory=set)
    instances: set[str] = field(default_factory=set)
    without_system: bool = False
    without_device: bool = False


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
    session = _core.ExplorerSession(
        folder, filters.cores, filters.types, filters.instances, filters.without_system, filters.without_device
    )
    if output_format.startswith("summary-"):
        text = session.summary(__version__, output_format == "summary-text")
        if output is None:
            print(text, end="")
            return []
        return [_write(output, text)]
    # A file that is named stands for its folder, as the tool writes several.
    place = output or Path("output") if output_format == "parquet" else (output.parent if output else Path("."))
    written = []
    if output_format == "parquet":
        if not filters.without_system:
            rows = json.loads(session.system_rows())
            written += explorer.write_tables({"SystemProfileEvents": (SYSTEM_TABLE, rows)}, place)
        for name, path in session.models:
            written += explorer.write_parquet(explorer.tables_of(path), place / f"device_profile_model_{name}")
        return written
    as_json = output_format == "json"
    if not filters.without_system:
        file = "system_profile.json" if as_json else "system_profile.pftrace"
        text = session.system_profile() if as_json else session.perfetto(grouping.primary, grouping.secondary)
        written.append(_write(place / file, text + "\n"))
    for name, path in session.models:
        tables = _core.explorer_tables(path, __version__)  # raises for what is no profile
        file = f"device_profile_model_{name}.{'json' if as_json else 'pftrace'}"
        written.append(_write(place / file, tables + "\n" if as_json else path.read_text()))
    return written
