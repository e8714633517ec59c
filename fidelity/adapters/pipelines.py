"""Rows of category `model_inference` that time a whole image pipeline: Stable Diffusion and PixArt on Inf2.

AWS's scripts (aws-neuron-sdk@81ce03ae:archive/src/benchmark/pytorch/{sd_15_512,sd2_512,sd2_768,sd2_inpainting,
sdxl_base_1024,sdxl_base_and_refiner_1024,pixart_alpha,pixart_sigma}_benchmark.py) call the pipeline of diffusers once
for one prompt: text encoders for the prompt and for the empty one, denoising steps whose two images (with and without
the prompt) are on two cores at once, and the decoder. Each is a program of its own, compiled for one core, with the
host's launch and transfers between them. What the host computes between two steps is not in the prediction, and
neither is the safety checker of Stable Diffusion 1.5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from networks import (
    CLIP_VOCABULARY,
    LATENT_SCALE,
    T5,
    UNETS,
    Dit,
    Encoder,
    Network,
    UNet,
    denoiser,
    dit,
    image_decoder,
    image_encoder,
    t5_encoder,
    text_encoder,
)

from adapters import models
from adapters._common import NotReproducible, fields, roofline_us

TOKENS = 77  # of CLIP's texts
PROMPTS = 2  # the prompt and the empty one
# Tokens of PixArt's texts, as its scripts compile them.
PIXART_TOKENS = {"Alpha": 120, "Sigma": 300}
# The text encoder of each checkpoint (`text_encoder/config.json`, `text_encoder_2/config.json`).
CLIP_L = Encoder(12, 768, 12, 3072, CLIP_VOCABULARY, TOKENS, gelu="quick")
OPEN_CLIP_H = Encoder(23, 1024, 16, 4096, CLIP_VOCABULARY, TOKENS)
OPEN_CLIP_G = Encoder(32, 1280, 20, 5120, CLIP_VOCABULARY, TOKENS)
OPEN_CLIP_G_WIDTH = 1280


@dataclass(frozen=True)
class Part:
    """A program of the pipeline, and how often it runs for one image."""

    network: Network
    runs: int


@dataclass(frozen=True)
class Workload:
    """What a row's text says. sides: of the image, width by height. element: type of activations and weights."""

    model: str
    sides: tuple[int, int]
    element: str

    @property
    def latents(self) -> tuple[int, int]:
        width, height = self.sides
        return height // LATENT_SCALE, width // LATENT_SCALE


def parse(row: dict[str, str]) -> Workload:
    """Raises NotReproducible when the text lacks what a prediction needs."""
    items = fields(row)
    image = re.fullmatch(r"(\d+)x(\d+)", items.get("image", ""))
    if not re.match(r"(\S+) x1 \((\d+) chips (\d+) cores .*NC-v2\)", items.get("instance", "")):
        raise NotReproducible("no instance with NeuronCore-v2 is stated")
    if not image or items.get("batch") != "1":
        raise NotReproducible("the image's sides or a batch of 1 are not stated")
    if items.get("autocast") != "Matmult-BF16":
        raise NotReproducible(f"numerics {items.get('dtype')}, autocast {items.get('autocast')}")
    element = "bf16" if "BF16" in items.get("dtype", "") else "f32"
    return Workload(items["model"].split(" (")[0], (int(image[1]), int(image[2])), element)


# -- what is run
def _stable_diffusion(w: Workload) -> list[Part]:
    version = w.model.removeprefix("Stable Diffusion ").strip()
    if version == "1.5":
        # Its script keeps the checkpoint's scheduler, PNDM, which takes one step more.
        return _of_version(w, UNETS["1.5"], CLIP_L, steps=51)
    if version == "2.1":
        return _of_version(w, UNETS["2.1"], OPEN_CLIP_H, steps=50)
    if "Inpainting" in version and version.startswith("2"):
        parts = _of_version(w, UNETS["2 Inpainting"], OPEN_CLIP_H, steps=50)
        width, height = w.sides
        return [Part(image_encoder((height, width)), 1), *parts]
    if version.startswith("XL Base"):
        return _extra_large(w, refined="Refiner" in version)
    raise NotReproducible(f"no architecture for {w.model}")


def _of_version(w: Workload, unet: UNet, text: Encoder, steps: int) -> list[Part]:
    return [
        Part(text_encoder(text, TOKENS, element=w.element), PROMPTS),
        Part(denoiser(unet, w.latents, TOKENS, element=w.element), steps),
        Part(image_decoder(w.latents), 1),  # in fp32 whatever the rest is in
    ]


def _extra_large(w: Workload, refined: bool) -> list[Part]:
    """The refiner's script has 40 steps, the last fifth of them the refiner's."""
    large = text_encoder(OPEN_CLIP_G, TOKENS, OPEN_CLIP_G_WIDTH, element=w.element)
    parts = [
        Part(text_encoder(CLIP_L, TOKENS, element=w.element), PROMPTS),
        Part(large, (2 if refined else 1) * PROMPTS),
        Part(denoiser(UNETS["XL Base"], w.latents, TOKENS, element=w.element), 32 if refined else 50),
        Part(image_decoder(w.latents), 1),
    ]
    if refined:
        parts.append(Part(denoiser(UNETS["XL Refiner"], w.latents, TOKENS, element=w.element), 8))
    return parts


def _pixart(w: Workload) -> list[Part]:
    """All of it in bf16, the decoder too; 20 steps are the pipeline's default."""
    tokens = PIXART_TOKENS.get(w.model.removeprefix("PixArt "))
    if tokens is None:
        raise NotReproducible(f"no architecture for {w.model}")
    return [
        Part(t5_encoder(T5(), tokens), PROMPTS),
        Part(dit(Dit(), w.latents, tokens), 20),
        Part(image_decoder(w.latents, element="bf16"), 1),
    ]


def parts(w: Workload) -> list[Part]:
    """Raises NotReproducible for a pipeline without an architecture here."""
    return _pixart(w) if w.model.startswith("PixArt") else _stable_diffusion(w)


# -- prediction
@dataclass
class Generated:
    """The time of one image, one after the other; value_of() gives what a row publishes."""

    latency_us: float
    roofline_latency_us: float | None
    bound_by: str
    kind: str
    part_us: list[float] = field(default_factory=list)

    def value_of(self, row: dict[str, str]) -> float:
        return models.published_as(row, self.latency_us, 1e6 / self.latency_us)

    def roofline_of(self, row: dict[str, str]) -> float | None:
        us = self.roofline_latency_us
        return None if us is None else models.published_as(row, us, 1e6 / us)

    def program(self) -> str:
        return f"{self.kind} {self.part_us!r}"

    def launch_of(self, row: dict[str, str]) -> float:
        """None: the host's share is in the prediction as in the row."""
        return 0.0


def predict(row: dict[str, str], checkouts: Path) -> Generated:
    """Compiles and times each program of the row's pipeline on one NeuronCore-v2."""
    from opentrn.model import compiled as model

    found = Generated(0.0, 0.0, "", "")
    longest = 0.0
    for part in parts(parse(row)):
        timing = model.compile(part.network.text, target="trn1", strict=True).time()
        host_us = models.host_us_of(part.network.moved_bytes)
        found.part_us.append(timing.time_us)
        found.latency_us += part.runs * (timing.time_us + host_us)
        roofline = roofline_us(timing.profile())
        if found.roofline_latency_us is not None:
            found.roofline_latency_us = (
                None if roofline is None else found.roofline_latency_us + part.runs * (roofline + host_us)
            )
        if part.runs * timing.time_us > longest:
            longest, found.bound_by, found.kind = part.runs * timing.time_us, timing.bound_by, timing.kind
    return found
