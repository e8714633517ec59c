"""Tokens that a step's program chooses on the device are those that the host chooses of the same step's logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import Tiny

from opentrn import _core
from opentrn.errors import InputError

PROMPT = [int(t) for t in np.random.default_rng(3).integers(0, 100, 33)]


def engine_of(file: Any, ranks: int = 1) -> Any:
    instance = "trn2.48xlarge" if ranks > 1 else ""
    return _core.decoder_engine(file, "trn2", "f32", 16, 9, [1, 4], [16, 48], [64], ranks=ranks, instance=instance)


@pytest.mark.parametrize("ranks", [1, 4])  # the 102 words do not divide by four
def test_every_row_gives_the_likeliest_token(ranks: int, tmp_path: Path) -> None:
    engine = engine_of(_core.read_gguf(Tiny(feed_forward=90).write(tmp_path)), ranks)
    prompt = [(PROMPT, 0, [3, 1, 2])]
    logits = engine.step(prompt, True)[0]
    tokens, largest = _core.choose_tokens(engine, prompt, [], [], every_token=True)
    assert tokens == logits.argmax(axis=1).tolist()
    assert np.array_equal(np.float32(largest), logits.max(axis=1))
    assert len(set(tokens[: len(PROMPT)])) > 5

    # Of prompts only the last row's; and beside neighbours, in one decode step.
    assert _core.choose_tokens(engine, prompt, [], [])[0][0] == tokens[len(PROMPT) - 1]
    step = [(PROMPT[-1:], len(PROMPT) - 1, [3, 1, 2]), (PROMPT[:1], 0, [5]), (PROMPT[1:2], 0, [6])]
    assert _core.choose_tokens(engine, step, [], [])[0][:3] == engine.step(step)[0].argmax(axis=1).tolist()[:3]


@pytest.mark.parametrize("ranks", [1, 4])
def test_of_equal_logits_the_first_is_chosen(ranks: int, tmp_path: Path) -> None:
    """All words have one negative logit; the zeros behind the last rank's words are none."""
    tiny = Tiny(tied=False)
    head = tiny.weights["output.weight"]
    prompt = [(PROMPT, 0, [3, 1, 2])]
    first = engine_of(_core.read_gguf(tiny.write(tmp_path))).step(prompt)[0][0, 0]
    head[:] = -np.sign(first) * head[0]
    engine = engine_of(_core.read_gguf(tiny.write(tmp_path)), ranks)
    tokens, largest = _core.choose_tokens(engine, prompt, [], [])
    assert tokens == [0]
    assert largest == pytest.approx([-abs(first)], rel=1e-3)


def test_a_pooled_model_has_no_tokens(tmp_path: Path) -> None:
    pooled = engine_of(_core.read_gguf(Tiny().write(tmp_path))).pooled()
    with pytest.raises(InputError, match="features, and no tokens"):
        _core.choose_tokens(pooled, [(PROMPT, 0, [3, 1, 2])], [], [])


def test_what_goes_to_the_host_and_between_ranks_is_less(tmp_path: Path) -> None:
    file = _core.read_gguf(Tiny().write(tmp_path))
    bucket = (4, 1, 64, False)
    engine = engine_of(file)
    # 4 rows of 102 words, and 4 tokens with their logits, at 5.6 GB/s.
    assert engine.results_us(bucket) == pytest.approx(4 * 102 * 4 / 5.6e3)
    assert engine.results_us(bucket, choice="likeliest") == pytest.approx(4 * 8 / 5.6e3)
    ranks = engine_of(file, 4)
    assert ranks.exchange_us(bucket, choice="likeliest") <= ranks.exchange_us(bucket)
    assert engine.results_us(bucket, choice="drawn") == engine.results_us(bucket, choice="likeliest")
    assert ranks.exchange_us(bucket, choice="drawn") == ranks.exchange_us(bucket)
    assert "token chosen" in engine.bucket_text(bucket, choice="likeliest")


def params(**more: Any) -> dict[str, Any]:
    return {"temperature": 0.9, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0,
            "frequency_penalty": 0.0, "presence_penalty": 0.0, "logprobs": -1, "bias": [], **more}  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize(
    ("choice", "asked"),
    [
        ("drawn", [params(), params(temperature=0), params(temperature=3, min_p=0.05)]),
        ("drawn-truncated", [params(top_k=5), params(top_p=0.6), params(temperature=2, top_k=40, top_p=0.9)]),
    ],
)
def test_tokens_are_drawn_as_on_the_host(choice: str, asked: Any, ranks: int, tmp_path: Path) -> None:
    engine = engine_of(_core.read_gguf(Tiny(feed_forward=90).write(tmp_path)), ranks)
    step = [(PROMPT[-1:], 0, [3]), (PROMPT[:1], 0, [5]), (PROMPT[1:2], 0, [6])]
    logits, _, _ = engine.step(step)
    seen = set()
    for seed in range(40):
        host, device = ([_core.TokenDraws(3 * seed + i) for i in range(3)] for _ in range(2))
        expected = [_core.choose_token(logits[i], asked[i], [], [], None, host[i])[0] for i in range(3)]
        tokens, largest = _core.choose_tokens(engine, step, asked, device, choice)
        assert tokens[:3] == expected
        assert np.array_equal(np.float32(largest[:3]), logits[:3].max(axis=1))
        seen.update(tokens[:3])
    assert len(seen) > 10

    # Behind every token of a prompt, with the numbers that come next of one stream.
    prompt = [(PROMPT, 0, [3, 1, 2])]
    logits, _, _ = engine.step(prompt, True)
    tokens, _ = _core.choose_tokens(engine, prompt, asked[:1], [_core.TokenDraws(9)], choice, True)
    draws = _core.TokenDraws(9)
    expected = [_core.choose_token(row, asked[0], [], [], None, draws)[0] for row in logits[: len(PROMPT)]]
    assert tokens[: len(PROMPT)] == expected


@pytest.mark.parametrize("choice", ["host", "greedy", "drawn"])
def test_what_is_no_choice(choice: str, tmp_path: Path) -> None:
    engine = engine_of(_core.read_gguf(Tiny().write(tmp_path)))
    with pytest.raises(InputError, match="decoder.choice|way to choose|by parameters of 0"):
        _core.choose_tokens(engine, [(PROMPT[:1], 0, [3])], [], [], choice)
