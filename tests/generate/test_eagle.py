"""EAGLE heads: answers are those without guesses, and guesses those of the head in NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import Tiny
from tiny_eagle import GUESSES, Head, Head3

from opentrn import cli
from opentrn.errors import InputError, NotModelled
from opentrn.generate import LanguageModel, Sampling

PROMPTS = [[1, 2, 3, 4] * 6, list(range(3, 97)) * 2]
WANTED = 41


@pytest.fixture(scope="module")
def tiny() -> Tiny:
    return Tiny(seed=7, context=256)


@pytest.fixture(scope="module")
def path(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("model"))


def answered(path: Path, sampling: Sampling | None = None, **more: Any) -> tuple[LanguageModel, list[list[int]]]:
    model = LanguageModel(path, dtype="f32", context=256, sequences=2, **more)
    list(model.generate(PROMPTS, max_tokens=WANTED, sampling=sampling))
    return model, [answer.tokens for answer in model.answers]


@pytest.mark.parametrize("own", [False, True])
def test_answers_are_those_without_guesses_and_guesses_those_of_the_head(
    own: bool, tiny: Tiny, path: Path, tmp_path: Path
) -> None:
    head = Head(tiny, own=own, bias=not own)
    _, alone = answered(path)
    model, answers = answered(path, speculate=GUESSES, draft_model=head.write(tmp_path / "head"))
    assert answers == alone
    expected = np.sum([head.counts(prompt, answer) for prompt, answer in zip(PROMPTS, answers)], 0)
    assert (model.guessed, model.right) == tuple(expected)
    assert 5 < model.right < model.guessed


@pytest.mark.parametrize(
    "more",
    [{}, {"before": True, "own": True}, {"words": (5, *range(9, 60), *range(70, 95)), "layers": (1, 2)}],
    ids=["plain", "norm before residual", "words of its own"],
)
def test_guesses_are_those_of_a_head_of_the_third_version(
    more: dict[str, Any], tiny: Tiny, path: Path, tmp_path: Path
) -> None:
    head = Head3(tiny, **more)
    _, alone = answered(path)
    model, answers = answered(path, speculate=GUESSES, draft_model=head.write(tmp_path / "head"))
    assert answers == alone
    expected = np.sum([head.counts(prompt, answer) for prompt, answer in zip(PROMPTS, answers)], 0)
    assert (model.guessed, model.right) == tuple(expected)
    assert 5 < model.right < model.guessed


def test_features_of_the_third_version_come_from_layers_of_a_deeper_model(tmp_path: Path) -> None:
    """By default behind 2, half and all but 3 of the layers."""
    deep = Tiny(seed=7, context=256, layers=7)
    for name in (f"blk.{i}.{part}.weight" for i in range(7) for part in ("attn_output", "ffn_down")):
        deep.weights[name] *= 0.05  # so that features of the middle say what follows
    path, head = deep.write(tmp_path), Head3(deep, layers=())
    model, answers = answered(path, speculate=GUESSES, draft_model=head.write(tmp_path / "head"))
    expected = np.sum([head.counts(prompt, answer) for prompt, answer in zip(PROMPTS, answers)], 0)
    assert (model.guessed, model.right) == tuple(expected)
    assert model.right > 2


def test_drawn_answers_are_those_without_guesses(tiny: Tiny, path: Path, tmp_path: Path) -> None:
    sampling = Sampling(temperature=0.9, top_p=0.9, seed=5)
    folder = Head(tiny).write(tmp_path / "head")
    assert answered(path, sampling)[1] == answered(path, sampling, speculate=GUESSES, draft_model=folder)[1]


def test_a_token_takes_the_time_of_both(tiny: Tiny, path: Path, tmp_path: Path) -> None:
    """The head's programs are faster than the model's two layers, and part of each token's time."""
    model, _ = answered(path, speculate=GUESSES, draft_model=Head(tiny).write(tmp_path / "head"))
    assert model.draft
    drafted = [program for program in model.draft.choosing.values() if program.runs]
    assert model.drafted_us == pytest.approx(sum(p.runs * p.predicted_us for p in drafted))
    decode = next(p for p in drafted if p.bucket == (2, 1, 256, False))
    assert decode.predicted_us < model.program((2, 1, 256, False)).predicted_us
    steps = sum(p.runs * p.predicted_us for p in model.programs.values() if p.bucket[3])
    assert steps < model.decoded_us < steps + model.drafted_us


def test_the_command_takes_a_head(path: Path, tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(path), "--context", "128", "--raw", "--prompt", "the", "--max-tokens", "9", "--json"]
    folder = Head(tiny).write(tmp_path / "head")
    assert cli.main([*words, "--speculate", "3", "--draft-model", str(folder)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["speculation"]["draft_model"] == str(folder) and facts["speculation"]["drafted_us"] > 0


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"layers.0.input_layernorm.weight": np.ones(64, np.float32)}, NotModelled, "norms its input"),
        ({"config": {"num_hidden_layers": 2}}, NotModelled, "an EAGLE head of 2 layers"),
        ({"config": {"architectures": ["Qwen3ForCausalLM"]}}, NotModelled, "of the architecture qwen3"),
        ({"config": {"vocab_size": 50}}, InputError, "the vocabulary of the EAGLE head is 50"),
        ({"fc.weight": np.ones((64, 64), np.float32)}, InputError, "fc.weight is"),
    ],
)
def test_heads_that_are_refused(
    changes: dict[str, Any], error: type[Exception], match: str, path: Path, tiny: Tiny, tmp_path: Path
) -> None:
    folder = Head(tiny).write(tmp_path / "head", **changes)
    with pytest.raises(error, match=match) as caught:
        LanguageModel(path, context=128, speculate=2, draft_model=folder)
    assert caught.value.label in ("decoder.eagle", "decoder.weights")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"config": {"norm_before_fc": True}}, NotModelled, "an EAGLE-3 head with norm_before_fc"),
        ({"config": {"eagle_config": {"use_aux_hidden_state": False}}}, NotModelled, "features of one layer"),
        ({"config": {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 3]}}}, InputError, "layers 0, 3 of 2"),
        ({"config": {"eagle_config": {"eagle_aux_hidden_state_layer_ids": "x"}}}, InputError, "features behind"),
        ({"config": {"eagle_config": None}}, InputError, "features behind layers 2, 1, -1 of 2"),
        ({"config": {"draft_vocab_size": 50}}, InputError, "50 words, and no tensor d2t"),
        ({"d2t": np.zeros(7, np.int64)}, InputError, r"d2t of the EAGLE head is I64 \[7\]"),
        ({"config": {"draft_vocab_size": 2}, "d2t": np.array([0, 500])}, InputError, "token 1 \\+ 500 of 102"),
        ({"fc.bias": np.ones(64, np.float32)}, NotModelled, "whose fc has a bias"),
        ({"fc.weight": np.ones((64, 64), np.float32)}, InputError, "fc.weight is"),
        ({"config": {"hidden_size": 32}}, InputError, "the number of features of the EAGLE head is 32"),
    ],
)
def test_heads_of_the_third_version_that_are_refused(
    changes: dict[str, Any], error: type[Exception], match: str, path: Path, tiny: Tiny, tmp_path: Path
) -> None:
    folder = Head3(tiny).write(tmp_path / "head", **changes)
    with pytest.raises(error, match=match) as caught:
        LanguageModel(path, context=128, speculate=2, draft_model=folder)
    assert caught.value.label in ("decoder.eagle", "decoder.weights")  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", [1, 3])
def test_ranks_share_the_model_and_its_head(version: int, path: Path, tiny: Tiny, tmp_path: Path) -> None:
    words = (5, *range(9, 60), *range(70, 95))  # of 77, which two ranks do not share evenly
    head: Any = Head(tiny) if version == 1 else Head3(tiny, before=True, words=words, layers=(1, tiny.layers))
    folder = head.write(tmp_path / "head")
    one, alone = answered(path, speculate=GUESSES, draft_model=folder)
    two, answers = answered(path, speculate=GUESSES, draft_model=folder, ranks=2, instance="trn2.48xlarge")
    assert answers == alone
    assert (two.guessed, two.right) == (one.guessed, one.right)
    assert one.right > 5
