"""Rows of category `model_inference`: encoders, CNNs and vision transformers on Trn1, Inf2 and Inf1.

Everything comes from the workload's text: the model and, in brackets, its sizes; instance, batch, sequence or image,
types, how it was served. The network is written by its published architecture (fidelity/networks), compiled for one
core, and its predicted device time becomes the published metrics by the formulas of `Serving`.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from networks import (
    CLIP_VOCABULARY,
    Encoder,
    Network,
    clip,
    decoder,
    encoder,
    perceiver,
    resnet,
    unet,
    vgg,
    vision_encoder,
)

from adapters import inf1
from adapters._common import NotReproducible, fields, roofline_us

CATEGORY = "model_inference"
THROUGHPUT = ("inferences/s",)
MILLISECONDS = {"ms": 1e-3, "us": 1.0}
LATENCIES = ("latency mean", "latency p50", "latency p95", "latency p99")

# Rows of these are of several programs (adapters/pipelines.py).
PIPELINES = ("Stable Diffusion", "PixArt")

# The benchmark scripts give CLIP the 100 class names of CIFAR-100 as "a photo of a ..."
# (aws-neuron-sdk@81ce03ae:archive/src/benchmark/pytorch/hf-openai-clip_benchmark.py), padded to the longest: start,
# four words, a name of three pieces (aquarium _ fish), end.
CLIP_TEXTS, CLIP_TOKENS = 100, 9
# AWS's pages of releases 2.8 and 2.9 have tables for latency without a column of sequence lengths, beside tables for
# throughput that have one: 128 for every model.
PAGE_TOKENS, PAGE_RELEASES = 128, ("2.8.", "2.9.")


@dataclass(frozen=True)
class Workload:
    """What a row's text says.

    family: "encoder", "decoder", "cnn" or "vit". side: of the square images; 0 for text. sizes: the bracket of the
    model, such as "enc 12L h768 a12 ffn3072 110M". element: of what lies between products. inf1: what works at once on
    NeuronCore-v1.
    """

    model: str
    sizes: str
    family: str
    instance: str
    chips: int
    cores: int
    batch: int
    tokens: int
    side: int
    product_type: str
    realtime: bool
    task: str
    element: str = "f32"
    inf1: inf1.Use | None = None

    def size(self, pattern: str, default: int | None = None) -> int:
        """The number of the bracket that `pattern` has in its group."""
        found = re.search(pattern, self.sizes)
        if not found and default is None:
            raise NotReproducible(f"no '{pattern}' in the sizes of {self.model}")
        return int(found[1]) if found else int(default or 0)


def family_of(row: dict[str, str]) -> str:
    """ "encoder", "decoder", "cnn", "vit", "pipeline", or "" for a model that is none of these."""
    model = fields(row).get("model", "")
    if model.startswith(PIPELINES):
        return "pipeline"
    for text, family in (
        ("(enc ", "encoder"),
        ("(dec ", "decoder"),
        ("(CNN", "cnn"),
        ("UNet", "cnn"),
        ("ViT", "vit"),
    ):
        if text in model:
            return family
    return "vit" if "vision-perceiver" in model else ""


def parse(row: dict[str, str]) -> Workload:
    """Raises NotReproducible when the text lacks what a prediction needs."""
    items = fields(row)
    if inf1.is_of(items):
        return _parse_inf1(row, items)
    named = re.match(r"([^(]+?)\s*(?:\((.*)\))?$", items["model"])
    instance = re.match(r"(\S+) x1 \((\d+) chips (\d+) cores .*NC-v2\)", items.get("instance", ""))
    if not named or not instance:
        raise NotReproducible("no instance with NeuronCore-v2 is stated")
    if "sdk" not in items:
        raise NotReproducible(
            "no release of the software is stated (published before its general availability)"
        )
    if items.get("mode") != "DataParallel":
        raise NotReproducible(f"mode {items.get('mode')} needs more than one core")
    family = family_of(row)
    image = re.fullmatch(r"(\d+)x\1", items.get("image", ""))
    if family in ("encoder", "decoder") and "seq" not in items and not _is_of_the_pages(items):
        raise NotReproducible("the sequence length is not stated")
    if family in ("cnn", "vit") and not image:
        raise NotReproducible("the image's size is not stated")
    return Workload(
        model=named[1].strip(),
        sizes=named[2] or "",
        family=family,
        instance=instance[1],
        chips=int(instance[2]),
        cores=int(instance[3]),
        batch=int(items["batch"]),
        tokens=int(items.get("seq", PAGE_TOKENS)) if family in ("encoder", "decoder") else 0,
        side=int(image[1]) if image else 0,
        product_type=_product_type(items),
        realtime=items.get("run") == "RealTime",
        task=items.get("task", ""),
    )


def _parse_inf1(row: dict[str, str], items: dict[str, str]) -> Workload:
    (model, sizes), use, family = inf1.name_of(items), inf1.use_of(items), family_of(row)
    image = re.fullmatch(r"(\d+)x\1", items.get("image", "224x224" if family == "cnn" else ""))
    is_text = family in ("encoder", "decoder")
    if not is_text and not image:
        raise NotReproducible("the image's size is not stated")
    return Workload(
        model=model,
        sizes=sizes,
        family=family,
        instance=items["instance"].split()[0],
        chips=1,
        cores=use.cores,
        batch=inf1.batch_of(items, use),
        tokens=int(items.get("seq", inf1.PAGE_TOKENS)) if is_text else 0,
        side=0 if is_text else int(image[1]),
        product_type=inf1.ELEMENT,
        realtime=items.get("run") == "RealTime",
        task=items.get("task", ""),
        element=inf1.ELEMENT,
        inf1=use,
    )


def _is_of_the_pages(items: dict[str, str]) -> bool:
    return items.get("sdk", "").startswith(PAGE_RELEASES)


def _product_type(items: dict[str, str]) -> str:
    cast, dtype = items.get("autocast", "None"), items.get("dtype", "")
    if cast == "Matmult-BF16" or "BF16" in dtype:
        return "bf16"
    if dtype == "FP32" and cast == "None":
        return "f32"
    raise NotReproducible(f"numerics {dtype}, autocast {cast}")


# -- networks
def _encoder(w: Workload) -> Network:
    # google-bert and google-research's configurations; RoBERTa: two more positions, one token type.
    name = w.model.split("/")[-1]
    if "xlm-roberta" in name:
        raise NotReproducible("the rows of xlm-roberta-base are bound by the host (facts, section 4)")
    distil, electra, albert = (kind in name for kind in ("distilbert", "electra", "albert"))
    albert = albert and "camembert" not in name
    roberta = "roberta" in name or "camembert" in name
    vocabulary = 50265 if roberta else 30000 if albert else 28996 if "-cased" in name else 30522
    config = Encoder(
        layers=w.size(r"(\d+)L"),
        hidden=w.size(r"h(\d+)"),
        heads=w.size(r"a(\d+)"),
        inner=w.size(r"ffn(\d+)"),
        vocabulary=w.size(r"vocab(\d+)", vocabulary),
        positions=514 if roberta else 512,
        embedding=w.size(r"emb(\d+)", 0),
        token_types=0 if distil else 1 if roberta else 2,
        pooled=not (distil or electra) or w.inf1 is not None,
        gelu="tanh" if albert else "erf",
        classes=inf1.CLASSES if w.inf1 else _classes(w.task, name),
    )
    return encoder(
        config,
        w.batch,
        w.tokens,
        w.product_type,
        shared=albert,
        element=w.element,
        words_by_host=w.inf1 is not None,
    )


def _classes(task: str, name: str) -> int:
    """The checkpoint of MRPC is one of a classifier, whether its row has a task or not."""
    return 2 if task == "Sequence Classification" or name.endswith("-mrpc") else 0


def _decoder(w: Workload) -> Network:
    hidden = w.size(r"h(\d+)")
    config = Encoder(w.size(r"(\d+)L"), hidden, w.size(r"a(\d+)"), 4 * hidden, 50257, 1024, gelu="tanh")
    return decoder(config, w.batch, w.tokens, w.product_type)


def _cnn(w: Workload) -> Network:
    if w.model == "UNet":
        return unet(w.batch, w.side, w.product_type)
    named = re.fullmatch(r"(resnet|vgg)-?(\d+)", w.model.lower())
    if not named:
        raise NotReproducible(f"no architecture for {w.model}")
    if named[1] == "resnet":
        return resnet(int(named[2]), w.batch, w.side, w.product_type, w.element)
    return vgg(int(named[2]), w.batch, w.side, w.product_type)


def _vit(w: Workload) -> Network:
    looks = re.search(r"vision-perceiver-(learned|fourier|conv)", w.model)
    if looks:
        if w.batch != 1:
            raise NotReproducible("the script of Perceiver has one image at a time")
        return perceiver(looks[1], w.side, w.product_type)
    patch = re.search(r"patch(\d+)", w.model)
    if not patch:
        raise NotReproducible(f"no architecture for {w.model}")
    tokens = (w.side // int(patch[1])) ** 2 + 1
    if "clip" not in w.model:
        config = Encoder(
            w.size(r"(\d+)L"),
            w.size(r"h(\d+)"),
            w.size(r"a(\d+)"),
            w.size(r"ffn(\d+)"),
            positions=tokens,
            classes=1000,
        )
        return vision_encoder(config, w.batch, w.side, int(patch[1]), w.product_type, w.element)

    def tower(part: str, positions: int, vocabulary: int) -> Encoder:
        layers, hidden = w.size(rf"{part} (\d+)L"), w.size(rf"{part} \d+L h(\d+)")
        return Encoder(layers, hidden, hidden // 64, 4 * hidden, vocabulary, positions, gelu="quick")

    vision, text = tower("vision", tokens, 0), tower("text", 77, CLIP_VOCABULARY)
    # Radford et al. 2021, table 20: both are compared in a space of the text's width.
    return clip(
        vision, text, text.hidden, w.batch, w.side, int(patch[1]), CLIP_TEXTS, CLIP_TOKENS, w.product_type
    )


_NETWORKS: dict[str, Callable[[Workload], Network]] = {
    "encoder": _encoder, "decoder": _decoder, "cnn": _cnn, "vit": _vit,
}  # fmt: skip


def network(w: Workload) -> Network:
    """One batch. Raises NotReproducible for a model without an architecture here."""
    return _NETWORKS[w.family](w)


# -- serving
@dataclass(frozen=True)
class Serving:
    """How a row's numbers were taken, and what follows from the device's time of one batch.

    cores: those that run a copy of the model each. workers: threads that feed one core. host_us: of one
    inference, outside the device.

        latency    = device + host                       one worker: the core waits while the host works
                   = max(2 device, device + host)        two: each batch waits for the other worker's
        throughput = cores * batch * workers / latency
    """

    cores: int
    workers: int
    batch: int
    host_us: float

    def latency_us(self, device_us: float) -> float:
        return max(self.workers * device_us, device_us + self.host_us)

    def throughput(self, device_us: float) -> float:
        """Inferences per second."""
        return self.cores * self.batch * self.workers / self.latency_us(device_us) * 1e6


def serving(w: Workload, moved_bytes: int) -> Serving:
    """NeuronPerf runs one copy or one per core, each with one worker or two, and the page for low latency takes from
    these four what is fastest, the page for throughput what does most (aws-neuron-sdk@81ce03ae:
    archive/neuronperf/neuronperf_benchmark_guide.rst). On the pages of encoders, and of Perceiver, both have one worker
    on each of the two cores of one chip, whatever the instance (facts, section 4: two batches in flight, four for CNN
    and ViT batch rows).

    moved_bytes: inputs and results of one inference.
    """
    host_us = host_us_of(moved_bytes)
    if w.inf1:
        return Serving(w.inf1.cores, w.inf1.workers, w.batch, host_us)
    cores = w.cores // w.chips
    if w.family in ("encoder", "decoder") or "perceiver" in w.model:
        return Serving(cores, 1, w.batch, host_us)
    return Serving(1, 1, w.batch, host_us) if w.realtime else Serving(cores, 2, w.batch, host_us)


def host_us_of(moved_bytes: int) -> float:
    """Of one run of a program: its launch, and the way of its inputs and results."""
    host = host_costs()
    return host["kernel_launch_us"] + moved_bytes / host["host_transfer_gb_s"] / 1e3


def host_costs() -> dict[str, float]:
    """The table `runtime` of src/arch/tables: microseconds and GB/s of the host."""
    return {key.removeprefix("runtime."): value for key, value in facts_of("runtime").items()}


@cache
def facts_of(table: str) -> dict[str, float]:
    """A table of src/arch/tables."""
    from opentrn import _core

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _core.run_cli(["describe", table, "--json"])
    return {fact["key"]: fact["value"] for fact in json.loads(printed.getvalue())["facts"]}


# -- prediction
@dataclass
class Served:
    """The device's time of one batch; value_of() gives what a row publishes."""

    device_us: float
    bound_by: str
    moved_bytes: int
    kind: str = ""
    roofline_us: float | None = None  # of the device

    def value_of(self, row: dict[str, str]) -> float:
        """The row's metric in the row's unit. Percentiles are equal: the prediction has no noise."""
        return self._value(row, self.device_us)

    def roofline_of(self, row: dict[str, str]) -> float | None:
        """value_of() of a device at its peak rates."""
        return None if self.roofline_us is None else self._value(row, self.roofline_us)

    def program(self) -> str:
        """Two networks of one program are predicted alike to the last digit."""
        return f"{self.kind} {self.device_us!r}"

    def launch_of(self, row: dict[str, str]) -> float:
        """None: the host's share is in the prediction as in the row."""
        return 0.0

    def _value(self, row: dict[str, str], device_us: float) -> float:
        served = serving(parse(row), self.moved_bytes)
        return published_as(row, served.latency_us(device_us), served.throughput(device_us))


def published_as(row: dict[str, str], latency_us: float, throughput: float) -> float:
    """The row's metric in the row's unit, of inferences of this latency and so many a second."""
    metric, unit = row["metric"], row["unit"]
    if metric == "throughput" and unit in THROUGHPUT:
        return throughput
    if metric in LATENCIES and unit in MILLISECONDS:
        return latency_us * MILLISECONDS[unit]
    raise NotReproducible(f"no figure for '{metric}' in {unit}")


def is_known(row: dict[str, str]) -> bool:
    """Whether a prediction has this row's metric."""
    metric, unit = row["metric"], row["unit"]
    return (metric == "throughput" and unit in THROUGHPUT) or (metric in LATENCIES and unit in MILLISECONDS)


def is_time(row: dict[str, str]) -> bool:
    return row["metric"] in LATENCIES and row["unit"] in MILLISECONDS


def run_key(row: dict[str, str]) -> Any:
    """Rows with the same key have the same network, hence one run: instance and serving do not matter."""
    if family_of(row) == "pipeline":
        items = fields(row)
        return tuple(items.get(name, "") for name in ("model", "image", "batch", "dtype", "autocast"))
    try:
        w = parse(row)
    except NotReproducible as reason:
        return str(reason), ""
    beside = w.inf1.of_chip if w.inf1 else 0
    return w.model, w.sizes, w.batch, w.tokens, w.side, w.product_type, w.task, beside


def predict(row: dict[str, str], checkouts: Path) -> Served:
    """Compiles and times one batch of the row's network on one NeuronCore."""
    from opentrn.model import compiled as model

    w = parse(row)
    written = network(w)
    if w.inf1:
        timing = inf1.time_of(model.compile(written.text, target=inf1.TARGET, strict=True), w.inf1)
    else:
        timing = model.compile(written.text, target="trn1", strict=True).time()
    return Served(
        timing.time_us, timing.bound_by, written.moved_bytes, timing.kind, roofline_us(timing.profile())
    )
