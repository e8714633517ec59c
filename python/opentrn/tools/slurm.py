"""Slurm: the lines of its configuration for simulated Neuron nodes, and what its TaskProlog says to a task.

Devices are Slurm's `gpu` (that plug-in chooses devices, keeps them apart and tells the task their numbers) of a type
named after the chip, as AWS's clusters have them. Slurm wants a character device for each: `--dev` has them.
"""

from __future__ import annotations

import os
import re
from typing import Any

from opentrn import _core
from opentrn.errors import InputError

_NODES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}(\[[0-9,\-]{1,40}\])?")
_PATH = re.compile(r"/[A-Za-z0-9._/%-]{1,200}")


def _family(machine: dict[str, Any]) -> str:
    return str(machine["instance_type"]).partition(".")[0]


def configuration(instance: str, nodes: str, dev: str, prolog: str) -> dict[str, str]:
    """Text of gres.conf, and lines for slurm.conf. Raises InputError "tools.slurm"."""
    if not _NODES.fullmatch(nodes):
        raise InputError(f"{nodes[:60]!r} names no nodes", label="tools.slurm", hint="as in trn or trn[0-3]")
    for path in (dev, prolog):
        if path and not _PATH.fullmatch(path):
            raise InputError(f"{path[:60]!r} is not an absolute path that Slurm takes", label="tools.slurm")
    machine = _core.machine_facts(instance)
    last = len(machine["devices"]) - 1
    files = f"{dev}/neuron" + (f"[0-{last}]" if last else "0")
    kind = _family(machine)
    lines = ["GresTypes=gpu", f"NodeName={nodes} Gres=gpu:{kind}:{last + 1}"]
    if prolog:
        lines.append(f"TaskProlog={prolog}")
    return {
        # The flag makes Slurm tell the devices' numbers in CUDA_VISIBLE_DEVICES, which the prolog takes away again.
        "gres.conf": f"NodeName={nodes} Name=gpu Type={kind} Flags=nvidia_gpu_env File={files}\n",
        "slurm.conf": "\n".join(lines) + "\n",
    }


def task_prolog(instance: str) -> str:
    """What a TaskProlog prints for the task of this environment; nothing where it has no devices.

    Raises InputError for numbers of devices that the instance has not.
    """
    text = os.environ.get("SLURM_STEP_GPUS") or os.environ.get("SLURM_JOB_GPUS") or ""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    text = text if visible is None else visible
    if not text:
        return ""
    machine = _core.machine_facts(instance)
    known = {str(device["index"]): device for device in machine["devices"]}
    numbers = text.split(",")
    if (unknown := next((number for number in numbers if number not in known), None)) is not None:
        raise InputError(
            f"Slurm gives device {unknown[:20]!r}; {machine['instance_type']} has 0 to {len(known) - 1}",
            label="tools.slurm",
            hint="gres.conf and --instance name the same machine",
        )
    cores = [core for number in numbers for core in known[number]["cores"]]
    return (
        f"export NEURON_RT_VISIBLE_CORES={_core.ranges_text(cores)}\n"
        f"export NEURON_PLATFORM_TARGET_OVERRIDE={machine['instance_type']}\n"
        f"export NEURON_LOGICAL_NC_CONFIG={machine['physical_cores_per_core']}\n"
        "unset CUDA_VISIBLE_DEVICES\n"
    )
