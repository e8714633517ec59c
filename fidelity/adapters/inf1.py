"""Rows of NeuronCore-v1 (Inf1): what is otherwise about them.

torch-neuron and neuron-cc compile for it (aws-neuron-sdk@81ce03ae, paths below):

- `--fast-math fp32-cast-all` is the default (compiler/neuron-cc/command-line-reference.rst): all is in 16 bits.
- The host looks words up: `aten::embedding` was taken out of what goes to the device in 1.0.1001 and did not come back
  (release-notes/archive/neuron-cc/neuron-cc-ops/neuron-cc-ops-pytorch.rst).
- The scripts load every text model as a classifier of sequences (archive/src/benchmark/pytorch/*_compile.py;
  philschmid/aws-neuron-samples@193cb3e6:benchmark/scripts/inference_transformers.py).

Four cores share their chip's DRAM. Each has what the others leave it on average, at least an equal part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from adapters._common import NotReproducible

TARGET = "inf1"
CORES_OF_CHIP = 4
ELEMENT = "bf16"
# Every table of the pages that says a sequence length has this one; the tutorials' rows say it beside the model
# (about-neuron/benchmarks/inf1/data.csv: "sequence-length=128").
PAGE_TOKENS = 128
CLASSES = 2
SUSTAINED = "timing.v1.constant.hbm_sustained_gb_s"
# Rounds in which a core's share and its time are found from each other.
ROUNDS = 8


@dataclass(frozen=True)
class Use:
    """Cores of the instance that work at once, and threads that feed each."""

    cores: int
    workers: int

    @property
    def of_chip(self) -> int:
        return min(self.cores, CORES_OF_CHIP)


def is_of(items: dict[str, str]) -> bool:
    return items.get("instance", "").startswith("inf1.")


def name_of(items: dict[str, str]) -> tuple[str, str]:
    """The checkpoint, else the model's name, and its sizes: both stand in brackets, or the sizes alone."""
    named = re.fullmatch(r"(.+?)(?: \(([^()]+)\))? \(((?:enc|dec|CNN|ViT)[^()]*)\)", items["model"])
    if not named:
        raise NotReproducible(f"no sizes of {items['model']} are stated")
    checkpoint = re.search(r"(?:DISTIL)?BERT-BASE[-\w]*", items.get("dtype", ""))  # of tutorials
    return named[2] or (checkpoint[0].lower() if checkpoint else named[1]), named[3]


def use_of(items: dict[str, str]) -> Use:
    """Raises NotReproducible where the row does not say what runs at once."""
    if "1 NeuronCore" in items:  # one synchronous caller
        return Use(1, 1)
    if items.get("mode") != "DataParallel":
        raise NotReproducible(f"mode {items.get('mode')}: a model's layers on several cores")
    if "n_models" in items:
        return Use(int(items["n_models"]), int(items["workers_per_model"]))
    if "cores_used" not in items or "threads" not in items:
        raise NotReproducible("how many threads feed how many cores is not stated")
    cores, threads = int(items["cores_used"]), int(items["threads"])
    if threads % cores:
        raise NotReproducible(f"{threads} threads on {cores} cores")
    return Use(cores, threads // cores)


def batch_of(items: dict[str, str], use: Use) -> int:
    """TensorFlow's row has the images of both threads of a core: its name in data.csv says b5, its batch 10."""
    batch = int(items["batch"])
    return batch // use.workers if items.get("fw", "").startswith("Tensorflow") else batch


def time_of(compiled: Any, use: Use) -> Any:
    """The timing of one batch on a core beside use.of_chip - 1 others that do the same."""
    chip_gb_s = CORES_OF_CHIP * _fact("neuron_core.v1.hbm_bandwidth_gb_s")
    timing = compiled.time({SUSTAINED: chip_gb_s})
    others = use.of_chip - 1
    for _ in range(ROUNDS if others else 0):
        others_gb_s = others * timing.profile()["dma"]["bytes"] / (timing.time_us * 1e3)
        share = max(chip_gb_s / use.of_chip, chip_gb_s - others_gb_s)
        again = compiled.time({SUSTAINED: share})
        settled = abs(again.time_us - timing.time_us) < 0.005 * timing.time_us
        timing = again
        if settled:
            break
    return timing


def _fact(key: str) -> float:
    from adapters.models import facts_of

    return facts_of("neuron_core.v1")[key]
