"""fidelity/adapters/inf1.py: what rows of NeuronCore-v1 state, and cores that share their chip's DRAM."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "fidelity"))

from adapters import NotReproducible, inf1, models  # noqa: E402

XLARGE = "inf1.xlarge x1 (1 chips 4 cores Inferentia/NC-v1)"
DISTIL = "DistilBERT base (distilbert-base-uncased) (enc 6L h768 a12 ffn3072 66M)"
PAGE = "dtype=FP32; n_models=4; workers_per_model=2; threads=8; run=Batch; fw=PyTorch 1.13.1; sdk=2.20.0"


def row(model=DISTIL, instance=XLARGE, how="cores_used=4; mode=DataParallel", where="batch=8; seq=128", rest=PAGE):
    workload = f"model={model}; instance={instance}; {how}; {where}; {rest}"
    return {"id": "a.b", "category": "model_inference", "workload": workload, "metric": "throughput",
            "value": "1", "unit": "inferences/s", "source": "s", "note": ""}  # fmt: skip


def test_a_row_of_the_pages_says_model_copies_and_workers():
    w = models.parse(row())
    assert (w.model, w.sizes) == ("distilbert-base-uncased", "enc 6L h768 a12 ffn3072 66M")
    assert (w.batch, w.tokens, w.product_type, w.element) == (8, 128, "bf16", "bf16")
    assert w.inf1 == inf1.Use(cores=4, workers=2)
    served = models.serving(w, 0)
    # distilbert-base-uncased, release 2.20: 33.7 ms and 1,876.7 a second are eight batches in flight.
    assert served.throughput(33.7e3 / 2) * 33.7e-3 == pytest.approx(4 * 2 * 8)


def test_rows_without_copies_say_threads_and_cores():
    old = row(rest="dtype=FP32; threads=8; run=Batch; fw=PyTorch 1.11.0; sdk=2.5.0")
    assert models.parse(old).inf1 == inf1.Use(4, 2)
    tutorial = row(
        "BERT base (enc 12L h768 a12 ffn3072 110M)",
        where="batch=6",
        rest="dtype=FP32, BERT-BASE-CASED-FINETUNED-MRPC; threads=4; run=Batch; fw=PyTorch 1.13; sdk=2.15.0",
    )
    w = models.parse(tutorial)
    assert (w.model, w.tokens, w.inf1) == ("bert-base-cased-finetuned-mrpc", 128, inf1.Use(4, 1))


def test_one_synchronous_caller_has_a_core_of_its_own():
    w = models.parse(row("bert-base-uncased (enc 12L h768 a12 ffn3072 110M)", "inf1.2xlarge", "1 NeuronCore",
                         "batch=1; seq=64", "torch.neuron.trace defaults"))  # fmt: skip
    assert w.inf1 == inf1.Use(1, 1) and w.inf1.of_chip == 1


def test_tensorflow_counts_the_images_of_both_threads():
    w = models.parse(row("Resnet-50 (CNN 25.6M 4.1GMAC)", where="batch=10",
                         rest="dtype=FP16; threads=8; run=Batch; fw=Tensorflow 1.15; sdk=2.12.0"))  # fmt: skip
    assert (w.batch, w.side, w.inf1.workers) == (5, 224, 2)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"how": "cores_used=16; mode=ModelPipeline"}, "layers on several cores"),
        ({"rest": "dtype=FP32; run=Batch; sdk=2.15.0"}, "how many threads"),
        ({"rest": "dtype=FP32; threads=6; run=Batch; sdk=2.15.0"}, "6 threads on 4 cores"),
        ({"model": "BERT base"}, "sizes"),
        ({"model": "vit-base-patch16-224 (ViT-B/16 12L h768 a12 ffn3072 197tok 86M)"}, "image"),
    ],
)
def test_what_is_not_stated_is_not_guessed(changed, reason):
    with pytest.raises(NotReproducible, match=reason):
        models.parse(row(**changed))


def test_the_host_looks_words_up():
    network = models.network(models.parse(row(where="batch=2; seq=8")))
    head = network.text.splitlines()[1]
    assert "tensor<2x8x768xf32>" in head and "gather" not in network.text
    assert network.moved_bytes == 4 * (2 * 8 * 768 + 2 * 8) + 2 * 2 * 2  # rows, mask, two classes in bf16


class Moves:
    """A compiled model that only moves bytes, and needs a millisecond beside."""

    def __init__(self, megabytes):
        self.bytes = megabytes * 1e6

    def time(self, settings):
        found = Moves(self.bytes / 1e6)
        (share,) = settings.values()
        found.time_us = max(self.bytes / share / 1e3, 1000)
        return found

    def profile(self):
        return {"dma": {"bytes": self.bytes}}


def test_a_core_has_what_the_others_leave_it():
    alone, four = inf1.Use(1, 1), inf1.Use(4, 1)
    assert inf1.time_of(Moves(10), alone).time_us == inf1.time_of(Moves(10), four).time_us == 1000
    # 40 MB in a millisecond are more than a quarter of the chip's rate: all wait for each other.
    assert inf1.time_of(Moves(40), alone).time_us == 1000
    assert inf1.time_of(Moves(40), four).time_us == pytest.approx(40e6 / 13.42 / 1e3, rel=1e-3)
