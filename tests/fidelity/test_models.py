"""fidelity/adapters/models.py and fidelity/networks: texts of workloads, networks, formulas of serving, families.

Sizes are checked against what the publishers state: parameters and multiplications of each network.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "fidelity"))

from adapters import NotReproducible, family_of, models  # noqa: E402

BERT = "bert-base-uncased (enc 12L h768 a12 ffn3072 110M)"
INF2 = "inf2.xlarge x1 (1 chips 2 cores Inferentia2/NC-v2)"


def row(
    model: str = BERT, where: str = "batch=1; seq=128", metric: str = "throughput", unit: str = "inferences/s",
    instance: str = INF2, rest: str = "dtype=FP32; autocast=Matmult-BF16; run=RealTime; sdk=2.26.0",
    mode: str = "DataParallel", value: float = 1.0,
) -> dict[str, str]:  # fmt: skip
    workload = f"model={model}; task=T; instance={instance}; mode={mode}; {where}; {rest}"
    return {"id": "a.b", "category": "model_inference", "workload": workload, "metric": metric,
            "value": str(value), "unit": unit, "source": "s", "note": ""}  # fmt: skip


def parameters(network) -> int:
    """Elements of the arguments that are not inputs, which stand first or have an integer type."""
    head = network.text.splitlines()[1]
    shapes = re.findall(r"%\d+: tensor<([\dx]+)x(f32|bf16|i32)>", head.split(") -> ")[0])
    sizes = [math.prod(int(size) for size in dims.split("x")) for dims, element in shapes if element != "i32"]
    return sum(sizes)


def test_a_workload_is_what_its_text_says():
    w = models.parse(row(where="batch=8; seq=128", rest="dtype=BF16; autocast=None; run=Batch; sdk=2.9.0"))
    assert (w.model, w.family, w.instance, w.chips, w.cores) == (
        "bert-base-uncased",
        "encoder",
        "inf2.xlarge",
        1,
        2,
    )
    assert (w.batch, w.tokens, w.side, w.product_type, w.realtime) == (8, 128, 0, "bf16", False)
    image = models.parse(row("resnet34 (CNN 21.8M 3.7GMAC)", "batch=1; image=224x224"))
    assert (image.family, image.side, image.realtime) == ("cnn", 224, True)
    full = models.parse(row(rest="dtype=FP32; autocast=None; run=RealTime; sdk=2.9.0"))
    assert full.product_type == "f32"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"instance": "trn2.48xlarge x1 (16 chips 128 cores Trainium2/NC-v3)"}, "NeuronCore-v2"),
        ({"where": "batch=1"}, "sequence length"),
        ({"model": "resnet34 (CNN 21.8M)", "where": "batch=1"}, "image"),
        ({"mode": "TensorParallel"}, "more than one core"),
        ({"rest": "dtype=FP32; autocast=Matmult-BF16"}, "release"),
        ({"rest": "dtype=INT8; autocast=None; sdk=1"}, "numerics"),
    ],
)
def test_what_is_not_stated_is_not_guessed(changed, reason):
    with pytest.raises(NotReproducible, match=reason):
        models.parse(row(**changed))


def test_the_pages_of_two_releases_have_one_sequence_length():
    """Their tables for throughput state it; those for latency have no such column."""
    for release in ("2.8.0", "2.9.0"):
        w = models.parse(row(where="batch=1", rest=f"dtype=BF16; autocast=None; run=RealTime; sdk={release}"))
        assert w.tokens == 128
    assert models.parse(row("resnet34 (CNN 21.8M 3.7GMAC)", "batch=1; image=224x224")).tokens == 0


def test_a_u_net_goes_up_by_transposed_convolutions():
    """Over zeros between positions: [channels, 2, 2, features] weights, four times the product of one place."""
    text = models.network(models.parse(row("UNet", "batch=1; image=224x224"))).text
    assert text.count("lhs_dilate = [2, 2]") == 4
    assert "(tensor<1024x1x14x14xbf16>, tensor<1024x2x2x512xbf16>) -> tensor<512x1x28x28xf32>" in text


def test_a_checkpoint_of_a_classifier_returns_classes():
    hidden, classes = (
        models.network(models.parse(row(f"bert-base-cased{name} (enc 12L h768 a12 ffn3072 110M)")))
        for name in ("", "-finetuned-mrpc")
    )
    assert hidden.moved_bytes - classes.moved_bytes == 4 * (128 * 768 + 768 - 2)


def test_clip_returns_what_its_script_asks_for():
    """`return_dict=False`: scores both ways, embeddings, hidden states and pooled ones of both towers."""
    name = "openai/clip-vit-base-patch32 (CLIP ViT-B/32 vision 12L h768 + text 12L h512 151M)"
    moved = models.network(models.parse(row(name, "batch=2; image=224x224"))).moved_bytes
    inputs = 100 * 9 + 2 * 3 * 224 * 224
    text, images = 100 * 9 * 512 + 100 * 512, 2 * 50 * 768 + 2 * 768
    assert moved == 4 * (inputs + 2 * 2 * 100 + (100 + 2) * 512 + text + images)


def test_the_rate_of_the_host_is_that_of_two_rows_that_differ_in_their_results():
    """BERT base of 16 sequences on trn1.2xlarge, release 2.22: hidden states or classes."""
    more = 4 * (16 * 128 * 768 + 16 * 768 - 16 * 2)
    rate = models.host_costs()["host_transfer_gb_s"]
    assert more / (9.54222679e6 - 8.39948654e6) == pytest.approx(rate, rel=0.02)


def test_models_without_an_architecture_are_refused():
    with pytest.raises(NotReproducible, match="architecture"):
        models.network(models.parse(row("wide (CNN 1M)", "batch=1; image=224x224")))
    with pytest.raises(NotReproducible, match="one image"):
        models.network(models.parse(row("deepmind/vision-perceiver-learned", "batch=2; image=224x224")))
    assert family_of(row("deepmind/multimodal-perceiver", "batch=1; image=16x224x224")) == ""
    with pytest.raises(NotReproducible, match="host"):
        models.network(models.parse(row("xlm-roberta-base (enc 12L h768 a12 ffn3072 vocab250002 278M)")))


# Parameters as published, in the brackets of the rows or by the checkpoints' pages.
@pytest.mark.parametrize(
    ("model", "where", "millions"),
    [
        (BERT, "batch=1; seq=128", 109.5),
        ("bert-large-cased (enc 24L h1024 a16 ffn4096 335M)", "batch=1; seq=128", 333.6),
        ("distilbert-base-uncased (enc 6L h768 a12 ffn3072 66M)", "batch=1; seq=128", 66.4),
        ("albert-base-v2 (enc 12L shared-weights h768 a12 ffn3072 emb128 12M)", "batch=1; seq=128", 11.7),
        ("roberta-large (enc 24L h1024 a16 ffn4096 355M)", "batch=1; seq=128", 355.4),
        ("gpt2 (dec 12L h768 a12 124M)", "batch=1; seq=128", 124.4),
        ("resnet34 (CNN 21.8M 3.7GMAC)", "batch=1; image=224x224", 21.8),
        ("resnet50 (CNN 25.6M 4.1GMAC)", "batch=1; image=224x224", 25.6),
        ("resnet152 (CNN 60.2M 11.5GMAC)", "batch=1; image=224x224", 60.2),
        ("vgg11 (CNN 132.9M 7.6GMAC)", "batch=1; image=224x224", 132.9),
        ("UNet", "batch=1; image=224x224", 31.0),
        ("google/vit-base-patch16-224 (ViT-B/16 12L h768 a12 ffn3072 197tok 86M)", "batch=1; image=224x224", 86.6),
        ("openai/clip-vit-base-patch32 (CLIP ViT-B/32 vision 12L h768 + text 12L h512 151M)",
         "batch=1; image=224x224", 151.3),
        ("openai/clip-vit-large-patch14 (CLIP ViT-L/14 vision 24L h1024 + text 12L h768 428M)",
         "batch=1; image=224x224", 427.6),
        ("deepmind/vision-perceiver-learned", "batch=1; image=224x224", 62.3),
    ],
)  # fmt: skip
def test_networks_have_the_parameters_that_are_published(model, where, millions):
    w = models.parse(row(model, where))
    built = models.network(w)
    images = 3 * w.side**2 * w.batch
    # Inputs, causal masks; batch norms are folded.
    assert parameters(built) - images == pytest.approx(millions * 1e6, rel=0.006)


@pytest.mark.parametrize(
    ("model", "gigamacs"),
    [
        ("resnet34 (CNN 21.8M 3.7GMAC)", 3.66),
        ("resnet50 (CNN 25.6M 4.1GMAC)", 4.09),
        ("vgg11 (CNN 132.9M)", 7.61),
    ],
)
def test_networks_multiply_as_often_as_is_published(model, gigamacs):
    import opentrn

    w = models.parse(row(model, "batch=1; image=224x224"))
    timing = opentrn.compile(models.network(w).text, target="trn1").time()
    flops = timing.profile()["flops"]
    multiplied = sum(count for kind, count in flops.items() if kind not in ("transpose", "elementwise"))
    assert multiplied / 2e9 == pytest.approx(gigamacs, rel=0.01)


def test_one_worker_waits_for_the_host_and_two_do_not():
    one = models.Serving(cores=2, workers=1, batch=8, host_us=100)
    assert one.latency_us(900) == 1000
    assert one.throughput(900) == pytest.approx(2 * 8 / 1000e-6)
    two = models.Serving(cores=2, workers=2, batch=8, host_us=100)
    assert two.latency_us(900) == 1800
    assert two.throughput(900) == pytest.approx(2 * 8 / 900e-6)
    slow_host = models.Serving(cores=1, workers=2, batch=1, host_us=300)
    assert slow_host.latency_us(100) == 400


def test_who_is_served_how():
    perceiver = models.serving(
        models.parse(row("deepmind/vision-perceiver-conv", "batch=1; image=224x224")), 0
    )
    assert (perceiver.cores, perceiver.workers) == (2, 1)
    encoder = models.serving(
        models.parse(row(instance="inf2.48xlarge x1 (12 chips 24 cores Inferentia2/NC-v2)")), 0
    )
    assert (encoder.cores, encoder.workers) == (2, 1)
    cnn = "resnet50 (CNN 25.6M 4.1GMAC)"
    realtime = models.serving(models.parse(row(cnn, "batch=1; image=224x224")), 0)
    assert (realtime.cores, realtime.workers) == (1, 1)
    batch = models.serving(
        models.parse(
            row(cnn, "batch=8; image=224x224", rest="dtype=FP32; autocast=Matmult-BF16; run=Batch; sdk=2")
        ),
        0,
    )
    assert (batch.cores, batch.workers) == (2, 2)


def test_the_host_costs_are_those_of_the_tables():
    host = models.host_costs()
    moved = 16_000_000
    assert models.serving(models.parse(row()), moved).host_us == pytest.approx(
        host["kernel_launch_us"] + moved / host["host_transfer_gb_s"] / 1e3
    )


def test_rows_of_one_network_share_a_run():
    trn1 = "trn1.2xlarge x1 (1 chips 2 cores Trainium/NC-v2)"
    assert models.run_key(row()) == models.run_key(row(instance=trn1, metric="latency p50", unit="ms"))
    assert models.run_key(row()) != models.run_key(row(where="batch=2; seq=128"))


def test_families():
    assert family_of(row("gpt2 (dec 12L h768 a12 124M)")) == "decoder"
    assert family_of(row("Stable Diffusion 1.5 (UNet 860M + CLIP-L + VAE)")) == "pipeline"
    assert family_of(row("DeiT (distilled)")) == ""
    assert family_of({"id": "nki.x", "category": "kernel"}) == "nki"


def test_the_last_line_has_the_families(tmp_path):
    small = "x (enc 1L h64 a2 ffn128 vocab100)"
    rows = [
        row(small, metric="latency p50", unit="ms", value=0.1),
        row("UNet", "batch=1; image=32x32", value=1000),
        row("y-patch16 (ViT-S/16 1L h64 a2 ffn128)", "batch=1; image=32x32", value=1000),
        row("z (distilled)", "batch=1; image=512x512", value=1),
    ]
    file = tmp_path / "rows.csv"
    lines = [",".join(rows[0])] + [",".join(each.values()) for each in rows]
    file.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, REPOSITORY / "fidelity/run.py", "--rows", file, "--checkouts", tmp_path, "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    families = ("cnn", "encoder", "vit")
    assert {name: summary["rows"][name]["predicted"] for name in families} == dict.fromkeys(families, 1)
    assert all(summary["evidence"][name]["runs"] == 1 for name in families)
    assert "no adapter for this family" in done.stdout
