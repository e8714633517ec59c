"""fidelity/adapters/pipelines.py and the networks of image pipelines: texts, parameters, what runs how often."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fidelity.test_models import REPOSITORY, parameters, row

sys.path.insert(0, str(REPOSITORY / "fidelity"))

import networks  # noqa: E402
from adapters import NotReproducible, models, pipelines  # noqa: E402

SD15 = "Stable Diffusion 1.5 (UNet 860M + CLIP-L + VAE)"
WHERE = "batch=1; image=512x512"


def built(model: str = SD15, where: str = WHERE, rest: str = "dtype=FP32; autocast=Matmult-BF16; sdk=2.21.0"):
    return pipelines.parts(pipelines.parse(row(model, where, rest=rest)))


# As the checkpoints' pages and papers have them; a U-Net's and a transformer's inputs are no parameters.
@pytest.mark.parametrize(
    ("network", "inputs", "millions"),
    [
        (networks.denoiser(networks.UNETS["1.5"], (64, 64), 77), 4 * 64 * 64 + 77 * 768 + 320, 859.5),
        (networks.denoiser(networks.UNETS["2.1"], (64, 64), 77), 4 * 64 * 64 + 77 * 1024 + 320, 865.9),
        (networks.denoiser(networks.UNETS["XL Base"], (16, 16), 77), 4 * 16 * 16 + 77 * 2048 + 3136, 2567.5),
        (networks.denoiser(networks.UNETS["XL Refiner"], (16, 16), 77), 4 * 16 * 16 + 77 * 1280 + 2944, 2259.5),
        (networks.image_decoder((8, 8)), 4 * 8 * 8, 49.49),
        (networks.image_encoder((64, 64)), 3 * 64 * 64, 34.16),
        (networks.text_encoder(pipelines.CLIP_L, 77), 77 * 77, 123.06),
        (networks.text_encoder(pipelines.OPEN_CLIP_H, 77), 77 * 77, 340.4),
        (networks.text_encoder(pipelines.OPEN_CLIP_G, 77, 1280), 77 * 77, 694.7),
        # The bias of each distance is a constant in place of 32 x 64 parameters.
        (networks.t5_encoder(networks.T5(), 120), 64 * 120 * 120, 4762.3),
        (networks.dit(networks.Dit(), (32, 32), 120), 4 * 32 * 32 + 120 * 4096 + 256 + 256 * 1152, 610.9),
        (networks.perceiver("fourier", 224), 3 * 224 * 224 + 224 * 224 * 258, 48.4),
    ],
    ids=["1.5", "2.1", "XL", "refiner", "decoder", "encoder", "CLIP-L", "H", "G", "T5", "PixArt", "Perceiver"],
)  # fmt: skip
def test_networks_have_the_parameters_that_are_published(network, inputs, millions):
    assert parameters(network) - inputs == pytest.approx(millions * 1e6, rel=0.002)


def test_what_runs_how_often_is_the_scripts():
    assert [part.runs for part in built()] == [2, 51, 1]
    assert [part.runs for part in built("Stable Diffusion 2.1 (UNet 865M)")] == [2, 50, 1]
    assert [
        part.runs for part in built("Stable Diffusion XL Base (UNet 2.6B)", "batch=1; image=128x128")
    ] == [
        2,
        2,
        50,
        1,
    ]
    both = built("Stable Diffusion XL Base & Refiner (UNet 2.6B)", "batch=1; image=128x128")
    assert [part.runs for part in both] == [2, 4, 32, 1, 8]
    assert [
        part.runs for part in built("PixArt Sigma (DiT 0.6B)", rest="dtype=BF16; autocast=Matmult-BF16")
    ] == [
        2,
        20,
        1,
    ]


def test_types_are_those_of_the_text():
    narrow = built(rest="dtype=FP32, BF16; autocast=Matmult-BF16")
    assert "tensor<320x1x64x64xbf16>" in narrow[1].network.text
    assert "tensor<320x1x64x64xf32>" in built()[1].network.text
    assert (
        "xbf16> loc" not in narrow[2].network.text and "tensor<128x1x512x512xf32>" in narrow[2].network.text
    )


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"model": "Stable Diffusion 3 (MMDiT 2B)"}, "no architecture"),
        ({"model": "PixArt Delta (DiT 0.6B)"}, "no architecture"),
        ({"where": "batch=2; image=512x512"}, "batch of 1"),
        ({"rest": "dtype=FP32; autocast=None; sdk=2.21.0"}, "numerics"),
    ],
)
def test_what_is_not_known_is_not_guessed(changed, reason):
    with pytest.raises(NotReproducible, match=reason):
        built(**changed)


def test_an_image_takes_the_sum_of_its_programs(monkeypatch):
    small = networks.Encoder(1, 64, 1, 128, 100, 77)
    monkeypatch.setattr(pipelines, "CLIP_L", small)
    monkeypatch.setitem(networks.UNETS, "1.5", networks.UNet((64,), (1,), 64))
    monkeypatch.setattr(pipelines, "image_decoder", lambda sides: networks.text_encoder(small, 77))
    shown = pipelines.predict(row(SD15, "batch=1; image=64x64"), Path())
    host = models.host_costs()["kernel_launch_us"]
    text, step, decoder = shown.part_us
    assert shown.latency_us == pytest.approx(2 * text + 51 * step + decoder + 54 * host, rel=0.02)
    assert shown.value_of(row(SD15, metric="latency p50", unit="ms")) == pytest.approx(shown.latency_us / 1e3)
    assert shown.value_of(row(SD15)) == pytest.approx(1e6 / shown.latency_us)
    with pytest.raises(NotReproducible):
        shown.value_of(row(SD15, metric="price", unit="$"))


def test_rows_of_one_pipeline_share_a_run():
    assert models.run_key(row(SD15, WHERE)) == models.run_key(
        row(SD15, WHERE, metric="latency p50", unit="ms")
    )
    assert models.run_key(row(SD15, WHERE)) != models.run_key(row(SD15, "batch=1; image=768x768"))
