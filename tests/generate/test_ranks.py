"""Several cores that share a model give the logits of one, and a step takes what `step-times --ranks` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import Tiny
from tiny_folders import FOLDERS, Folder

from opentrn import _core, cli
from opentrn.errors import InputError
from opentrn.generate import LanguageModel
from opentrn.generate.sizes_only import SizesOnly

PROMPT = [int(t) for t in np.random.default_rng(7).integers(0, 100, 37)]
INSTANCE = "trn2.48xlarge"


def logits_of(file: Any, ranks: int, element: str = "f32") -> tuple[np.ndarray, np.ndarray]:
    """Behind every token of the prompt in one step; and behind its last ones by a prefill and a decode step."""
    engine = _core.decoder_engine(
        file, "trn2", element, 16, 9, [1, 2], [16, 48], [64], ranks=ranks, instance=INSTANCE if ranks > 1 else ""
    )
    every = engine.step([(PROMPT, 0, [3, 1, 2])], True)[0][: len(PROMPT)]
    first = engine.step([(PROMPT[:-1], 0, [6, 4, 7])])[0]
    # Beside a neighbour, in one program.
    last = engine.step([(PROMPT[-1:], len(PROMPT) - 1, [6, 4, 7]), (PROMPT[:1], 0, [5])])[0]
    return every, np.array([first[0], last[0]])


def expect_equal(file: Any, ranks: int, expected: np.ndarray, within: float = 3e-4) -> None:
    every, steps = logits_of(file, ranks)
    assert np.abs(every - expected).max() < within * np.abs(expected).max()
    assert np.abs(steps - expected[-2:]).max() < within * np.abs(expected).max()


@pytest.mark.parametrize("name", ["gemma2", "gemma3", "mixtral", "qwen2 moe", "qwen3 moe", "gpt-oss", "gpt2 n_inner",
                                  "smollm3", "phi3"])  # fmt: skip
def test_two_ranks_give_the_logits_of_the_architecture(name: str, tmp_path: Path) -> None:
    architecture, config = FOLDERS[name]
    model = Folder(architecture, **config)
    expect_equal(_core.read_checkpoint(model.write(tmp_path / "model")), 2, model.logits(PROMPT))


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "granite"])
def test_four_ranks_share_two_heads_of_keys(architecture: str, tmp_path: Path) -> None:
    """Neither the 90 features nor the 102 words divide by four: the last rank's end in zeros."""
    model = Tiny(architecture, feed_forward=90, tied=architecture != "qwen2")
    expect_equal(_core.read_gguf(model.write(tmp_path)), 4, model.logits(PROMPT))


def test_sums_are_rounded_to_the_weights_type(tmp_path: Path) -> None:
    file = _core.read_gguf(Tiny().write(tmp_path))
    one, two = logits_of(file, 1, "bf16")[0], logits_of(file, 2, "bf16")[0]
    assert 0 < np.abs(one - two).max() < 0.05 * np.abs(one).max()
    assert logits_of(file, 2, "bf16")[0].tobytes() == two.tobytes()


def test_answers_of_ranks_are_those_of_one_core(tmp_path: Path) -> None:
    path = Tiny().write(tmp_path)
    answers, vectors = [], []
    for more in ({}, {"ranks": 2, "instance": INSTANCE}):
        model = LanguageModel(path, context=64, sequences=2, **more)
        list(model.generate([PROMPT[:9], PROMPT[9:30]], max_tokens=12))
        answers.append([answer.tokens for answer in model.answers])
        vectors.append(model.embed(PROMPT)[0])
    assert answers[0] == answers[1]
    assert float(vectors[0] @ vectors[1]) > 0.999


def test_a_step_takes_what_step_times_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, config = Tiny().write(tmp_path), Tiny().write_folder(tmp_path) / "config.json"
    sizes: Any = {"context": 64, "ranks": 2, "instance": INSTANCE}
    model, by_config = LanguageModel(path, **sizes), SizesOnly(config, **sizes)
    bucket = (1, 1, 64, False)
    expected, found = by_config.program(bucket), model.program(bucket)
    assert (found.predicted_us, found.collectives_us) == (expected.predicted_us, expected.collectives_us)
    assert model.target == INSTANCE and 0 < found.collectives_us < found.predicted_us

    words = ["generate", str(path), "--raw", "--prompt", "the", "--max-tokens", "2", "--context", "64"]
    assert cli.main([*words, "--ranks", "2", "--instance", INSTANCE, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    [decode] = [program for program in facts["programs"] if program["tokens"] == 1]
    assert facts["ranks"] == 2 and decode["predicted_us"] == expected.predicted_us
    assert cli.main(["step-times", str(path), "--max-model-len", "64", "--max-num-seqs", "1", "--ranks", "2",
                     "--instance", INSTANCE]) == 0  # fmt: skip
    assert f"decode_b1,{expected.predicted_us:.3f}\n" in capsys.readouterr().out


def test_ranks_of_two_physical_cores_share_their_stack_and_exchange_as_logical_cores(tmp_path: Path) -> None:
    """Two ranks of LNC 2 are four cores: each pair adds up its halves first, then logical cores meet."""
    path, config = Tiny().write(tmp_path), Tiny().write_folder(tmp_path) / "config.json"
    bucket = (1, 1, 64, False)
    logical: Any = {"context": 64, "ranks": 2, "lnc": 2, "instance": INSTANCE}
    by_config, model = SizesOnly(config, **logical).program(bucket), LanguageModel(path, **logical)
    assert model.program(bucket).predicted_us == by_config.predicted_us
    single = SizesOnly(config, context=64, ranks=4, instance=INSTANCE).program(bucket)
    device = by_config.predicted_us - by_config.collectives_us
    assert device == pytest.approx(single.predicted_us - single.collectives_us)  # the same parts on the same stacks
    alone = _core.time_of_config(config.read_text(), INSTANCE, "f16", bucket, 4, 0)
    results = _core.results_us_of_config(config.read_text(), bucket)
    assert device - results == pytest.approx(alone.beside_ns / 1e3)
    assert alone.beside_ns >= alone.total_ns and results > 0
    one = SizesOnly(config, context=64, ranks=1, lnc=2, instance=INSTANCE).program(bucket)
    assert 0 < one.collectives_us < by_config.collectives_us
    list(model.generate([PROMPT[:9]], max_tokens=4))
    assert model.answers[0].tokens == answer_of_one_core(path)


def answer_of_one_core(path: Path) -> list[int]:
    model = LanguageModel(path, context=64)
    list(model.generate([PROMPT[:9]], max_tokens=4))
    return model.answers[0].tokens


@pytest.mark.parametrize(
    ("more", "label", "reason"),
    [
        ({"ranks": 3, "instance": INSTANCE}, "decoder.ranks", "3 ranks cannot share 4 heads"),
        ({"ranks": 2}, "generate.ranks", "links of an instance"),
        ({"instance": INSTANCE}, "generate.ranks", "this is one NeuronCore"),
        ({"lnc": 2}, "generate.ranks", "two physical cores of a rank"),
        ({"lnc": 3, "instance": INSTANCE}, "generate.ranks", "3 physical cores"),
        ({"lnc": 2, "instance": "trn1.32xlarge"}, "decoder.ranks", "2 physical ones on NeuronCore-v2"),
        ({"ranks": 2, "instance": "trn1.32xlarge", "target": "trn2"}, "decoder.ranks", "of one generation"),
    ],
)
def test_ranks_that_cannot_share_a_model(more: dict[str, Any], label: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        LanguageModel(Tiny().write(tmp_path), context=64, **more)
    assert raised.value.label == label
    assert reason in str(raised.value)
