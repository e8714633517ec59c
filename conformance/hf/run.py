#!/usr/bin/env python3
"""Hugging Face's libraries, Lightning and torch's pipelines, unmodified, on the device `neuron`.

    ./dev conformance hf [--only NAME]... [--ranks 2] [--environment FOLDER]

Makes an environment of its own in build/hf (or FOLDER) with the releases of packages.txt beside the torch of this
one, and runs in it accelerate's own scripts under torchrun, and the programs of programs.py, whose losses must be the
CPU's. OPENTRN_ACTIVATE=1 makes torch_neuronx importable there, which is what these libraries look for. Ends with
"N passed, N failed".
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))
from conformance import environments  # noqa: E402

LIMIT_S = 900

# accelerate/test_utils/scripts, each of which asserts what it is about.
SCRIPTS = ("test_script", "test_sync", "test_ops", "test_distributed_data_loop", "test_ddp_comm_hook", "test_notebook")
PROGRAMS = (
    "accelerator", "trainer", "trainer_ranks", "lora", "pipeline", "sft", "diffusion", "lightning", "titan",
    "titan_parallel", "deepspeed", "fp16_script",
)  # fmt: skip
SINGLE = ("accelerator", "trainer", "lora", "sft", "diffusion", "lightning", "titan_parallel")  # start ranks themselves


TRITON = "triton==3.9.0"  # which torchtitan imports and nothing here runs; beside the environment, for it alone


def triton(folder: Path) -> Path:
    """The folder that has it; made where it is not there."""
    place = folder / "triton"
    if not place.exists():
        pip = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run([*pip, "--target", place, TRITON], check=True)
    return place


def environment(folder: Path) -> Path:
    """The interpreter of an environment that has the packages; made where it is not there."""
    # The torch of the development environment is the one that all of them use.
    return environments.environment(folder, ["-r", HERE / "packages.txt"], beside="before", then=_with_entry_point)


def _with_entry_point(python: Path) -> None:
    environments.add_entry_point(next((python.parent.parent / "lib").glob("python3*/site-packages")))


def command(python: Path, name: str, ranks: int) -> list[str]:
    launch = [str(python), "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    if name in PROGRAMS:
        program = [str(HERE / "programs.py"), name]
        return [str(python), *program] if name in SINGLE else [*launch, *program]
    script = ["-m", f"accelerate.test_utils.scripts.{name}"]
    # A notebook starts its processes itself, as many as ACCELERATE_NUM_PROCESSES says.
    return [str(python), *script] if name == "test_notebook" else [*launch, *script]


def run(python: Path, name: str, ranks: int) -> tuple[bool, str]:
    stated = {
        **os.environ, "OPENTRN_ACTIVATE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")]),
    }  # fmt: skip
    if name == "test_notebook":
        stated |= {"ACCELERATE_NUM_PROCESSES": str(ranks), "NEURON_RT_NUM_CORES": str(ranks)}
    if name.startswith("titan"):
        stated["PYTHONPATH"] += os.pathsep + str(triton(python.parents[1]))
    try:
        done = subprocess.run(
            command(python, name, ranks), env=stated, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return False, str(late.stdout or "")[-3000:] + f"\nnot done after {LIMIT_S} s"
    return done.returncode == 0, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[*SCRIPTS, *PROGRAMS], help="this alone; may be repeated")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--environment", type=Path, default=ROOT / "build" / "hf", metavar="FOLDER")
    parser.add_argument("--verbose", action="store_true", help="print what passing programs print too")
    options = parser.parse_args()
    python = environment(options.environment)
    passed = failed = 0
    for name in options.only or [*PROGRAMS, *SCRIPTS]:
        began = time.monotonic()
        good, text = run(python, name, options.ranks)
        passed, failed = passed + good, failed + (not good)
        print(f"{'passed' if good else 'FAILED'} {name} ({time.monotonic() - began:.0f} s)", flush=True)
        for line in text.splitlines():
            if line.startswith("RESULT "):
                print(f"    {line.removeprefix('RESULT ')}")
        if options.verbose or not good:
            print(text[-6000:])
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
