#!/usr/bin/env python3
"""AWS's guides to neuron-ls, neuron-monitor and sysfs: their samples beside what OpenTrn prints.

    ./dev conformance neuron-tools CHECKOUT

CHECKOUT is one of aws-neuron/aws-neuron-sdk. The samples of neuron-ls are printed again and compared character by
character: their processes are handed to the printer, because no process of this machine has their numbers, and they
name trn2n.48xlarge, whose devices are those of trn2.48xlarge. Samples of neuron-monitor hold measurements:
neuron_hardware_info is compared value by value, of all other groups every key, in a report of a process that executes
a model; the example of a configuration is read. Of the guide to sysfs each path is looked for, and each value that
its samples print. What a simulated device does not know is named.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "python")]

from conformance.cloudwatch import run as with_cloudwatch  # noqa: E402
from opentrn import _core  # noqa: E402
from opentrn.tools import device_tree  # noqa: E402

GUIDE = "tools/neuron-sys-tools/neuron-ls.rst"
INSTANCE, INSTANCE_OF_GUIDE = "trn2.48xlarge", "trn2n.48xlarge"
LNC = 2
_PROCESS = re.compile(r"\| +(\d+) \| (\S.*?\S) +\| (\S+) +\|$")


def samples_of(text: str) -> list[tuple[list[str], str]]:
    """(options, what is printed) of every block that shows a call."""
    found = []
    for block in re.findall(r"^::\n\n((?:  .*\n|\n)+)", text, re.MULTILINE):
        lines = [line.removeprefix("  ") for line in block.rstrip("\n").split("\n")]
        if lines[0].startswith("$ neuron-ls"):
            found.append((lines[0].split()[2:], "\n".join(lines[1:]) + "\n"))
    return found


def processes_of(text: str) -> list[tuple[int, str, str, bool]]:
    """(number, command, version, whether it is a tool) of the rows of a sample."""
    rows = {match.groups() for line in text.splitlines() if (match := _PROCESS.search(line))}
    return sorted((int(pid), command, version, version == "NA") for pid, command, version in rows)


def elements_of(text: str) -> list[str]:
    """The devices of a list in JSON as they are printed, without the indentation of the list: the guide leaves some
    out, and prints the brackets of the list with another indentation than the rest."""
    inner = text.strip().removeprefix("[").removesuffix("]")
    parts = re.split(r"^ *\.\.\.\n", inner, flags=re.MULTILINE)
    return [textwrap.dedent(part.strip("\n")).rstrip().rstrip(",") for part in parts]


MONITOR = "tools/neuron-sys-tools/neuron-monitor-user-guide.rst"
# Keys that stay out of reports, because nobody knows their values.
MONITOR_UNKNOWN = {
    "memory_used.neuron_runtime_used_bytes.usage_breakdown.neuroncore_memory_usage.N.model_code",
    "memory_used.neuron_runtime_used_bytes.usage_breakdown.neuroncore_memory_usage.N.runtime_memory",
    "memory_used.neuron_runtime_used_bytes.usage_breakdown.neuroncore_memory_usage.N.tensors",
    *(f"memory_used.loaded_models.N.subgraphs.sg_N.memory_used_bytes.usage_breakdown.neuron_device.{name}"
      for name in ("model_code", "runtime_memory", "tensors")),
    "memory_used.loaded_models.N.uuid",
    # Whether an execution's values are numbers is not looked at.
    "execution_stats.error_summary.numerical", "execution_stats.execution_summary.completed_with_num_err",
}  # fmt: skip


def json_blocks(text: str) -> list[dict[str, Any]]:
    """The samples of JSON of a guide, without what they leave out ("[...]", "..."), their comments and slips."""
    found = []
    for block in re.findall(r"^::\n\n?((?:[ \t]+.*\n|\n)+)", text, re.MULTILINE):
        lines = [re.sub(r"\s//.*", "", line) for line in block.split("\n")]
        body = "\n".join(line for line in lines if line.strip() not in ("[...]", "[...],", "...", "...,"))
        body = body.strip().rstrip(",")
        if not body.startswith(("{", '"')):
            continue
        body = body if body.startswith("{") else "{" + body + "}"
        body = re.sub(r"([}\]\"\d])\s*\n(\s*\")", r"\1,\n\2", body)  # a comma that the guide forgot
        body = re.sub(r",(\s*[}\]])", r"\1", body)
        for extra in ("", "}", "}}"):  # brackets too
            try:
                found.append(json.loads(body + extra))
                break
            except ValueError:
                continue
    return found


def keys_of(value: Any, place: str = "") -> set[str]:
    """Paths of keys; numbers in names stand for any number."""
    listed = [("0", each) for each in value] if isinstance(value, list) else []
    rows = value.items() if isinstance(value, dict) else listed
    found = set()
    for key, inner in rows:
        path = f"{place}.{re.sub(r'[0-9]+(?![a-z])', 'N', key)}".lstrip(".")
        found |= {path} | keys_of(inner, path)
    return found


def groups_of(report: dict[str, Any]) -> dict[str, Any]:
    """All groups of a report, of its first process and of the system."""
    groups = {**report["neuron_runtime_data"][0]["report"], **report["system_data"]}
    return groups | {name: report[name] for name in ("instance_info", "neuron_hardware_info")}


def compare_monitor(text: str, report: dict[str, Any]) -> tuple[int, int]:
    """(good, bad) samples."""
    good = bad = 0
    ours = groups_of(report)
    for sample in json_blocks(text):
        if "neuron_runtimes" in sample:
            _core.Monitor(INSTANCE, json.dumps(sample), "guide")
            print("neuron-monitor: the configuration is read")
            good += 1
            continue
        for name in sample:
            if name not in ours:
                continue
            if name == "memory_used":  # whose sample lacks a bracket: what follows it stands one level too deep
                inner = sample[name]["neuron_runtime_used_bytes"]
                sample[name] |= {key: inner.pop(key) for key in ("loaded_models", "error") if key in inner}
            if name == "neuron_hardware_info":
                same = list(sample[name].items()) == list(ours[name].items())
                lacking = [] if same else [f"{sample[name]} and {ours[name]}"]
            else:
                there = keys_of({name: ours[name]})
                lacking = sorted(keys_of({name: sample[name]}) - there - MONITOR_UNKNOWN)
            unknown = sorted((keys_of({name: sample[name]}) & MONITOR_UNKNOWN) - keys_of({name: ours[name]}))
            verdict = "differs: " + ", ".join(lacking) if lacking else "every key" if not unknown else "every known key"
            print(f"neuron-monitor {name}: {verdict}" + (f" (unknown: {', '.join(unknown)})" if unknown else ""))
            good, bad = good + (not lacking), bad + bool(lacking)
    return good, bad


SYSFS = "tools/neuron-sys-tools/neuron-sysfs-user-guide.rst"
SYSFS_UNKNOWN = {
    # Of every device of Linux.
    *("subsystem", "uevent", "power", "async", "control", "runtime_active_kids", "runtime_active_time"),
    *("reset", "notify_delay", "serial_number", "utilization"),  # nothing to reset, to wait for or to weigh
    *("dma_rings", "driver_memory", "notifications", "uncategorized", "collectives", "nonshared_scratchpad"),
    *("runtime_memory", "model_code", "host_mem", "dma_buffers", "application_memory"),
    *("reset_fail_count", "reset_req_count", "mem_ecc_repairable_uncorrected"),
}  # fmt: skip


def tree_names(text: str) -> set[str]:
    """Names of files and folders that the guide draws for a device and its cores."""
    block = text.partition("  /sys/devices/virtual/neuron_device/\n")[2].partition("\n\n\n")[0]
    return {
        match.rstrip("/") for match in re.findall(r"\u2500\u2500 ([\w]+)/?", block) if not match.startswith("neuron")
    }


def compare_sysfs(text: str, files: dict[str, str]) -> tuple[int, int]:
    names = tree_names(text)
    ours = {part for path in files for part in Path(path).parts}
    lacking, unknown = names - ours - SYSFS_UNKNOWN, (names - ours) & SYSFS_UNKNOWN
    print(f"sysfs: {len(names & ours)} of {len(names)} names of the tree; unknown: {', '.join(sorted(unknown))}")
    for name in sorted(lacking):
        print(f"sysfs: {name} is missing")
    good, bad = int(not lacking), int(bool(lacking))
    for path, value in re.findall(r"\$ sudo cat /(sys/\S+) *\n\s*(\S+)", text):
        same = files.get(path, "").strip() == value
        print(f"sysfs {path}: {'equal' if same else f'{files.get(path)!r} and not {value}'}")
        good, bad = good + same, bad + (not same)
    return good, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    options = parser.parse_args()
    os.environ["OPENTRN_INSTANCE_ID"] = "i-aabbccdd123456789"  # the guide's
    equal = differing = 0
    for words, wanted in samples_of((options.checkout / GUIDE).read_text()):
        if "-j" in words:
            process = json.loads(elements_of(wanted)[0])["neuron_processes"][0]
            processes = [(process["pid"], process["command"], process["neuron_runtime_version"], False)]
        else:
            processes = processes_of(wanted)
        printed = _core.neuron_ls(INSTANCE, LNC, words, processes).replace(INSTANCE, INSTANCE_OF_GUIDE)
        same = printed.rstrip("\n") == wanted.rstrip("\n")
        if "-j" in words:
            same = all(part in elements_of(printed)[0] for part in elements_of(wanted))
        equal, differing = equal + same, differing + (not same)
        print(f"neuron-ls {' '.join(words)}: {'equal' if same else 'differs'}")
        if not same:
            lines = difflib.unified_diff(wanted.splitlines(), printed.splitlines(), "guide", "OpenTrn", lineterm="")
            print("\n".join(list(lines)[:20]))
    with tempfile.TemporaryDirectory() as place:
        report = json.loads(with_cloudwatch.reports(Path(place)).splitlines()[-1])
    machine = _core.machine_facts("trn1.32xlarge")  # whose arch_type the samples print
    for good, bad in (
        compare_monitor((options.checkout / MONITOR).read_text(), report),
        compare_sysfs((options.checkout / SYSFS).read_text(), device_tree.files_of(machine, [])),
    ):
        equal, differing = equal + good, differing + bad
    print(f"{equal} samples hold, {differing} differ")
    return 1 if differing or not equal else 0


if __name__ == "__main__":
    sys.exit(main())
