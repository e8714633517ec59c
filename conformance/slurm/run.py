#!/usr/bin/env python3
"""Jobs on a real Slurm: slurmctld and two slurmd on this machine, each a simulated trn2.48xlarge.

    ./dev conformance slurm

Needs Debian's slurm-wlm and munge, and root (Slurm's daemons, device files in a folder of this run's own). The
configuration is that of `opentrn slurm config`, the prolog `opentrn slurm task-prolog`. Asked for are: devices apart
between jobs, a job on both nodes, tasks with devices of their own, a job that is too large, and one that runs a model.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTANCE, DEVICES = "trn2.48xlarge", 16
LIMIT_S = 60
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "sinfo")
MODEL = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = dict(os.environ, SLURM_CONF=str(folder / "slurm.conf"))
        self._pids: list[Path] = []

    def _run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S)
        if check and done.returncode:
            raise SystemExit(
                f"{shlex.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}{self.logs()}"
            )
        return done

    def logs(self) -> str:
        return "".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in self.folder.glob("*.log"))

    def srun(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run("srun", *words, check=check)

    def start(self) -> None:
        folder = self.folder
        folder.chmod(0o755)
        for name in ("state", "run", "n0", "n1"):
            (folder / name).mkdir()
        for node in ("n0", "n1"):
            for number in range(DEVICES):
                os.mknod(folder / node / f"neuron{number}", 0o020600, os.makedev(240, number))
        key = folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self._run("munged", "--force", f"--key-file={key}", f"--socket={folder}/run/munge.sock",
                  f"--pid-file={folder}/run/munged.pid", f"--log-file={folder}/munged.log",
                  f"--seed-file={folder}/run/seed")  # fmt: skip
        self._pids.append(folder / "run" / "munged.pid")
        self._configure()
        self._run("slurmctld", "-c")
        self._pids.append(folder / "run" / "ctld.pid")
        for node in ("n0", "n1"):
            self._run("slurmd", "-N", node)
            self._pids.append(folder / "run" / f"slurmd-{node}.pid")
        end = time.monotonic() + LIMIT_S
        while self._run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() != "2":
            if time.monotonic() > end:
                raise SystemExit(f"the nodes do not become idle\n{self.logs()}")
            time.sleep(0.2)

    def _configure(self) -> None:
        folder, host = self.folder, socket.gethostname().partition(".")[0]
        opentrn = f"PYTHONPATH={ROOT / 'python'} exec {sys.executable} -m opentrn"
        prolog = folder / "prolog.sh"
        prolog.write_text(f"#!/bin/sh\n{opentrn} slurm task-prolog --instance {INSTANCE}\n")
        prolog.chmod(0o755)
        made = {}
        for node in ("n0", "n1"):
            text = subprocess.run(
                [sys.executable, "-m", "opentrn", "slurm", "config", "--instance", INSTANCE, "--nodes", node,
                 "--dev", str(folder / node), "--prolog", str(prolog)],
                env=dict(os.environ, PYTHONPATH=str(ROOT / "python")), capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
            made[node] = dict(re.findall(r"^# (\S+)\n((?:[^#\n].*\n)+)", text, re.MULTILINE))
        (folder / "gres.conf").write_text("".join(files["gres.conf"] for files in made.values()))
        ours = {line for files in made.values() for line in files["slurm.conf"].splitlines()}
        control, *nodes = _free_ports(3)
        gres = {
            node: next(line for line in files["slurm.conf"].splitlines() if "Gres=" in line)
            for node, files in made.items()
        }
        lines = [
            "ClusterName=opentrn", f"SlurmctldHost={host}(127.0.0.1)", "SlurmUser=root", "SlurmdUser=root",
            "AuthType=auth/munge", f"AuthInfo=socket={folder}/run/munge.sock", f"SlurmctldPort={control}",
            f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool-%n",
            f"SlurmctldPidFile={folder}/run/ctld.pid", f"SlurmdPidFile={folder}/run/slurmd-%n.pid",
            f"SlurmctldLogFile={folder}/ctld.log", f"SlurmdLogFile={folder}/slurmd-%n.log",
            "ProctrackType=proctrack/pgid", "TaskPlugin=task/none", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core", "MpiDefault=none", "ReturnToService=2",
            *sorted(line for line in ours if "Gres=" not in line),
            *(f"{gres[node]} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN"
              for node, port in zip(("n0", "n1"), nodes, strict=True)),
            "PartitionName=neuron Nodes=ALL Default=YES State=UP",
        ]  # fmt: skip
        (folder / "slurm.conf").write_text("\n".join(lines) + "\n")

    def stop(self) -> None:
        for file in reversed(self._pids):
            try:
                os.kill(int(file.read_text()), signal.SIGTERM)
            except (OSError, ValueError):
                continue
        end = time.monotonic() + 10
        while any(file.exists() for file in self._pids) and time.monotonic() < end:
            time.sleep(0.1)


def _values(text: str, name: str) -> list[str]:
    return sorted(re.findall(rf"^{name}=(.*)$", text, re.MULTILINE))


def checks(cluster: Cluster) -> list[tuple[str, bool, str]]:
    show = ["sh", "-c", "env | grep -E '^(NEURON_|CUDA_)'"]
    rows = []

    def check(what: str, good: bool, found: object) -> None:
        rows.append((what, good, str(found)))

    both = cluster.srun("-N2", "--ntasks-per-node=1", "--gres=gpu:trn2:4", *show).stdout
    check(
        "a job on two nodes has four devices of each",
        _values(both, "NEURON_RT_VISIBLE_CORES") == ["0-15"] * 2,
        both,
    )
    check("the machine is named", _values(both, "NEURON_PLATFORM_TARGET_OVERRIDE") == [INSTANCE] * 2, both)
    check("no CUDA_VISIBLE_DEVICES is left", "CUDA_" not in both, both)
    tasks = cluster.srun("-N1", "-n2", "--gpus-per-task=3", *show).stdout
    check("tasks of a job have devices of their own",
          _values(tasks, "NEURON_RT_VISIBLE_CORES") == ["0-11", "12-23"], tasks)  # fmt: skip
    first = subprocess.Popen(
        ["srun", "-w", "n0", "-n1", "--gres=gpu:2", "sh", "-c", "env | grep NEURON_RT_VISIBLE; sleep 5"],
        env=cluster.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert first.stdout is not None
    one = first.stdout.readline()
    other = cluster.srun("-w", "n0", "-n1", "--gres=gpu:2", *show).stdout
    first.communicate(timeout=LIMIT_S)
    cores = [set(_cores(text)) for text in (one, other)]
    check("two jobs at once have no core in common", len(cores[0]) == len(cores[1]) == 8 and not cores[0] & cores[1],
          f"{one}{other}")  # fmt: skip
    large = cluster.srun("-N1", "--gres=gpu:17", "true", check=False)
    check(
        "a job of 17 devices is refused",
        large.returncode != 0 and "not available" in large.stderr,
        large.stderr,
    )
    program = cluster.folder / "twice.mlir"
    program.write_text(MODEL)
    words = f"PYTHONPATH={ROOT / 'python'} {sys.executable} -m opentrn run {program} --json"
    ran = cluster.srun("-N1", "-n1", "--gres=gpu:1", "sh", "-c", words, check=False)
    check("a model runs inside of a job", ran.returncode == 0, ran.stdout + ran.stderr)
    script = cluster.folder / "job.sh"
    say = "echo $SLURM_NODEID $NEURON_RT_VISIBLE_CORES"
    script.write_text(f"#!/bin/sh\n#SBATCH -N 2\n#SBATCH --gres=gpu:trn2:16\nsrun sh -c '{say}'\n")
    out = cluster.folder / "job.out"
    cluster._run("sbatch", "--wait", f"--output={out}", str(script))
    found = sorted(out.read_text().split("\n"))
    check("a batch job has both nodes whole", found[-2:] == ["0 0-63", "1 0-63"], found)
    return rows


def _cores(text: str) -> list[int]:
    cores: list[int] = []
    for part in text.partition("NEURON_RT_VISIBLE_CORES=")[2].split("\n")[0].split(","):
        begin, _, end = part.partition("-")
        cores += range(int(begin), int(end or begin) + 1)
    return cores


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    missing = [
        name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None
    ]
    if missing:
        print(f"{missing[0]} is not installed: apt-get install slurm-wlm munge")
        return 2
    if os.geteuid() != 0:
        print("this starts Slurm's daemons, which needs root")
        return 2
    os.environ["PATH"] += ":/usr/sbin"
    with tempfile.TemporaryDirectory(prefix="opentrn-slurm-") as name:
        cluster = Cluster(Path(name))
        try:
            cluster.start()
            print(cluster._run("sinfo", "--version").stdout.strip())
            rows = checks(cluster)
        finally:
            cluster.stop()
    for what, good, found in rows:
        print(f"{'ok    ' if good else 'FAILED'} {what}" + ("" if good else f"\n{found}"))
    print(f"{sum(good for _, good, _ in rows)} of {len(rows)} checks")
    return 0 if all(good for _, good, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
