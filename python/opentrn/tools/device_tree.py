"""The files that Neuron's driver shows under /sys/devices/virtual/neuron_device, in a folder of the user's.

AWS's "Neuron Sysfs User Guide" has the names. A simulated device has no driver: the tree is written from the records of
processes (neuron-monitor reads them too), once or again and again. Counters are sums over the live processes, so that
they fall when one ends; the guide's "write to clear" does nothing. Files whose values nobody knows are not there
(serial_number, host memory, power). ROOT/dev/neuronN are empty plain files, for programs that only look for names.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.errors import InputError

_MARK = ".opentrn-device-tree"
_SYS = Path("sys") / "devices" / "virtual" / "neuron_device"
# Of device::Outcome; the rest of the guide's statuses never happen here.
_STATUS = ("success", "infer_completed_with_error", "exec_bad_input")
_NEVER = (
    *("hw_error", "infer_failed_to_queue", "resource_nc_error", "unsupported_neff_version", "failure"),
    *(
        "invalid_error",
        "oob_error",
        "generic_error",
        "infer_completed_with_num_error",
        "resource_error",
        "timeout",
    ),
)
# Of device::Memory.
_MEMORY = ("constants", "model_code", "model_shared_scratchpad", "tensors")
_ABSENT_MEMORY = ("collectives", "nonshared_scratchpad", "notifications")
_HARDWARE = ("mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected", "sram_ecc_uncorrected")


def _cores(processes: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    rows: dict[int, list[dict[str, Any]]] = {}
    for process in processes:
        for core in process["cores"]:
            rows.setdefault(core["index"], []).append(core)
    return rows


def _core_files(rows: list[dict[str, Any]], arch: str) -> Iterator[tuple[str, str]]:
    yield "info/architecture/arch_type", arch
    for number, name in enumerate(_STATUS):
        total = sum(row["outcomes"][number] for row in rows)
        yield f"stats/status/{name}/total", str(total)
        yield f"stats/status/{name}/present", str(min(total, 1))  # counted one by one
    for name in _NEVER:
        yield f"stats/status/{name}/total", "0"
        yield f"stats/status/{name}/present", "0"
    for number, name in enumerate(_MEMORY):
        yield f"stats/memory_usage/device_mem/{name}/total", str(sum(row["memory"][number] for row in rows))
        yield (
            f"stats/memory_usage/device_mem/{name}/peak",
            str(sum(row["memory_peak"][number] for row in rows)),
        )
    for name in _ABSENT_MEMORY:
        yield f"stats/memory_usage/device_mem/{name}/total", "0"
        yield f"stats/memory_usage/device_mem/{name}/peak", "0"
    yield "stats/other_info/flop_count", str(sum(row["flops"] for row in rows))
    yield "stats/other_info/inference_count", str(sum(row["outcomes"][0] for row in rows))
    yield "stats/other_info/model_load_count", str(sum(row["loads"] for row in rows))
    yield "stats/other_info/reset_fail_count", "0"
    yield "stats/other_info/reset_req_count", "0"
    yield "stats/other_info/nc_time_in_use", str(max([row["last_ns"] for row in rows], default=0) // 1000)


def files_of(machine: dict[str, Any], processes: list[dict[str, Any]]) -> dict[str, str]:
    """Text by path below the root."""
    arch = f"NCv{machine['generation']}"
    by_core = _cores(processes)
    family = machine["instance_type"].partition(".")[0].capitalize()
    files: dict[str, str] = {}
    for device in machine["devices"]:
        folder = _SYS / f"neuron{device['index']}"
        own = {
            "core_count": str(len(device["cores"])),
            "connected_devices": ", ".join(str(other) for other in device["connected_to"]),
            "info/notify_delay": "-1",
            "info/architecture/arch_type": arch,
            "info/architecture/device_name": machine["chip"],
            "info/architecture/instance_type": family,
        }
        own |= {f"stats/hardware/{name}/total": "0" for name in _HARDWARE}
        for number, core in enumerate(device["cores"]):
            rows = by_core.get(core, [])
            own |= {f"neuron_core{number}/{name}": text for name, text in _core_files(rows, arch)}
        files |= {str(folder / name): text + "\n" for name, text in own.items()}
        files[f"dev/neuron{device['index']}"] = ""
    files["sys/devices/virtual/dmi/id/product_name"] = machine["instance_type"] + "\n"
    return files


def write(root: Path, files: dict[str, str]) -> None:
    """Raises InputError "tools.device_tree" for a folder that holds something else."""
    mark = root / _MARK
    try:
        if root.is_symlink() or (root.exists() and not mark.is_file() and any(root.iterdir())):
            raise InputError(
                f"{root} is not empty, and is not a tree of `opentrn device-tree`",
                label="tools.device_tree",
                hint="name a new folder",
            )
        root.mkdir(parents=True, exist_ok=True)
        mark.touch()
        made: set[Path] = set()
        for name, text in files.items():
            path = root / name
            if path.parent not in made:
                path.parent.mkdir(parents=True, exist_ok=True)
                made.add(path.parent)
            _put(path, text)
    except OSError as error:
        raise InputError(f"{error.filename or root}: {error.strerror}", label="tools.device_tree") from error


def _put(path: Path, text: str) -> None:
    """A reader sees the old number or the new one. Raises InputError for a link."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if path.is_symlink():
            raise InputError(f"{path} is a link", label="tools.device_tree", hint="remove it") from error
        raise
    with os.fdopen(descriptor, "r+") as file:
        old = file.read()
        if old == text:
            return
        if not old:
            file.write(text)
            return
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    os.replace(part, path)


def remove(root: Path) -> None:
    """Raises InputError "tools.device_tree" for a folder that write() did not make."""
    if root.is_symlink() or not (root / _MARK).is_file():
        raise InputError(
            f"{root} is not a tree of `opentrn device-tree`", label="tools.device_tree", hint="name its --root"
        )
    for name in ("sys", "dev"):
        if (root / name).is_dir() and not (root / name).is_symlink():
            shutil.rmtree(root / name)
    (root / _MARK).unlink()
    try:
        root.rmdir()
    except OSError:  # somebody else's files are in it
        return


def run(root: Path, instance: str, every_s: float | None) -> int:
    """Once; with `every_s` until it is interrupted, which leaves the tree."""
    machine = _core.machine_facts(instance)
    if every_s is not None:
        _core.hold_as_tool()
    while True:
        watch = 0.0 if every_s is None else 2 * every_s
        write(root, files_of(machine, _core.device_processes(watch)))
        if every_s is None:
            return 0
        time.sleep(every_s)
