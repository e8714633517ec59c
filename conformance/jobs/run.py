#!/usr/bin/env python3
"""The example jobs of AWS Batch, ECS, ParallelCluster and SageMaker: each file's entry point is run here.

    ./dev conformance jobs [--only NAME]

None of the services is at hand. From each file of examples/jobs the command, its environment and its devices are
read; devices are compared with those of the instance that it names; the command runs once for each node, with the
variables that the service documents to set, beside OpenTrn's neuron-ls. Slurm's srun and scontrol are stand-ins of
two lines here; `./dev conformance slurm` has the real ones. Each node trains on two of its cores, as sixty-four
processes are too many here; all jobs train the same model on the same data: their losses agree.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

JOBS = ROOT / "examples" / "jobs"
IN_IMAGE = "/opt/opentrn"  # where the image has this checkout
LIMIT_S = 600
CORES = "0-1"  # of each node: a process for each of 64 cores is too much for a test


@dataclass
class Job:
    """`nodes`: the variables that the service sets on each node."""

    name: str
    command: list[str]
    environment: dict[str, str]
    instance: str
    devices: list[str]
    nodes: list[dict[str, str]]

    @property
    def words(self) -> list[str]:
        return [word.replace(IN_IMAGE, str(ROOT)) for word in self.command]


def _variables(rows: list[dict[str, str]]) -> dict[str, str]:
    return {row["name"]: row["value"] for row in rows}


def _batch() -> Job:
    properties = json.loads((JOBS / "aws_batch_job.json").read_text())["nodeProperties"]
    (group,) = properties["nodeRangeProperties"]
    container = group["container"]
    count = properties["numNodes"]
    nodes = [
        {"AWS_BATCH_JOB_NUM_NODES": str(count), "AWS_BATCH_JOB_NODE_INDEX": str(i),
         "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(properties["mainNode"]),
         # Batch sets it on the children only.
         **({"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": "127.0.0.1"} if i != properties["mainNode"] else {})}
        for i in range(count)
    ]  # fmt: skip
    devices = [row["hostPath"] for row in container["linuxParameters"]["devices"]]
    return Job("aws-batch", container["command"], _variables(container["environment"]), container["instanceType"],
               devices, nodes)  # fmt: skip


def _ecs() -> Job:
    task = json.loads((JOBS / "ecs_task.json").read_text())
    (container,) = task["containerDefinitions"]
    instance = task["placementConstraints"][0]["expression"].rpartition(" ")[2]
    devices = [row["hostPath"] for row in container["linuxParameters"]["devices"]]
    return Job("ecs", container["command"], _variables(container["environment"]), instance, devices, [{}])


def _parallelcluster() -> Job:
    text = (JOBS / "parallelcluster.sbatch").read_text()
    directives = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)", text, re.MULTILINE))
    family, _, count = directives["gres"].removeprefix("gpu:").partition(":")
    (instance,) = re.findall(r"InstanceType: (trn\S+)", (JOBS / "parallelcluster.yaml").read_text())
    if not instance.startswith(f"{family}."):
        raise ValueError(f"the job asks for {family}, the cluster has {instance}")
    nodes = [
        # What TaskProlog of `opentrn slurm config` exports for the 16 devices of the instance.
        {"SLURM_JOB_NUM_NODES": directives["nodes"], "SLURM_NODEID": str(i), "SLURM_JOB_NODELIST": "trn-[1-2]",
         "NEURON_RT_VISIBLE_CORES": "0-31"}
        for i in range(int(directives["nodes"]))
    ]  # fmt: skip
    script = text.replace(IN_IMAGE, str(ROOT))
    devices = [f"/dev/neuron{i}" for i in range(int(count))]
    return Job("parallelcluster", ["bash", "-c", script], {}, instance, devices, nodes)


def _sagemaker() -> Job:
    job = json.loads((JOBS / "sagemaker_training_job.json").read_text())
    algorithm, resources = job["AlgorithmSpecification"], job["ResourceConfig"]
    hosts = [f"algo-{i + 1}" for i in range(resources["InstanceCount"])]
    instance = resources["InstanceType"].removeprefix("ml.")
    nodes = [{"SM_HOSTS": json.dumps(hosts), "SM_CURRENT_HOST": host} for host in hosts]
    command = algorithm["ContainerEntrypoint"] + algorithm["ContainerArguments"]
    # SageMaker gives a container all devices of its instance.
    return Job("sagemaker", command, job["Environment"], instance, ["/dev/neuron0"], nodes)


def jobs() -> list[Job]:
    return [_batch(), _ecs(), _parallelcluster(), _sagemaker()]


def lacking(job: Job) -> str:
    """What of the job does not fit the instance that it names; "" where all does."""
    from opentrn import _core

    there = {f"/dev/neuron{device['index']}" for device in _core.machine_facts(job.instance)["devices"]}
    target = job.environment.get("NEURON_PLATFORM_TARGET_OVERRIDE", job.instance)
    if set(job.devices) - there:
        return f"{job.instance} has no {sorted(set(job.devices) - there)[0]}"
    return "" if target == job.instance else f"the environment names {target}, the job {job.instance}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def stand_ins(folder: Path) -> None:
    """srun runs its command; scontrol names this host, where all nodes are."""
    for name, text in (
        ("srun", 'while [[ $1 == --* ]]; do shift; done\nexec "$@"\n'),
        ("scontrol", "echo 127.0.0.1\necho 127.0.0.1\n"),
    ):
        (folder / name).write_text(f"#!/bin/bash\n{text}")
        (folder / name).chmod(0o755)


def start(job: Job, paths: list[Path], port: int, **more: str) -> list[subprocess.Popen[str]]:
    """A process for each node, with the folders of `paths` first in PATH."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("NEURON_", "SLURM_", "SM_"))}
    started = []
    for node in job.nodes:
        environment = clean | job.environment | node | {
            "PATH": ":".join([*map(str, paths), os.environ["PATH"]]), "MASTER_PORT": str(port),
            "PYTHONPATH": str(ROOT / "python"), **more,
        }  # fmt: skip
        started.append(subprocess.Popen(
            job.words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ))  # fmt: skip
    return started


def run(job: Job, paths: list[Path]) -> tuple[bool, str]:
    """(whether every node ended with 0, what node 0 printed)."""
    started = start(
        job, paths, free_port(), OMP_NUM_THREADS="1", OPENTRN_RUN_DIR="off", NEURON_RT_VISIBLE_CORES=CORES
    )
    try:
        said = [each.communicate(timeout=LIMIT_S) for each in started]
    finally:
        for each in started:
            each.kill()
    good = all(each.returncode == 0 for each in started)
    if not good:
        print("\n".join(error[-4000:] for _, error in said), file=sys.stderr)
    return good, "".join(out for out, _ in said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", choices=[job.name for job in jobs()])
    options = parser.parse_args()
    good, losses = 0, {}
    chosen = [job for job in jobs() if options.only in (None, job.name)]
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            [sys.executable, "-m", "opentrn", "neuron-tools", "install", "--prefix", place],
            env=dict(os.environ, PYTHONPATH=str(ROOT / "python")), check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        stand_ins(Path(place) / "bin")
        for job in chosen:
            why = lacking(job)
            ended, text = (False, "") if why else run(job, [Path(sys.executable).parent, Path(place) / "bin"])
            found = re.findall(r"step (\d+): loss ([\d.]+)", text)
            if ended and found:
                losses[job.name] = float(found[-1][1])
            good += ended and bool(found)
            last = f"step {found[-1][0]}: loss {found[-1][1]}" if found else why or "no loss"
            print(f"{job.name}: {len(job.nodes)} nodes of {job.instance}, {shlex.quote(job.words[0])}: {last}")
    agree = not losses or max(losses.values()) - min(losses.values()) < 1e-3
    print(f"{good} of {len(chosen)} jobs ran, losses {'agree' if agree else 'differ'}")
    return 0 if good == len(chosen) and agree else 1


if __name__ == "__main__":
    sys.exit(main())
