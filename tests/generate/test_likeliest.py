"""Tokens that a step's program chooses on the device are those of the largest logits of the same step."""

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
    tokens, largest = engine.choose_tokens(prompt, True)
    assert tokens == logits.argmax(axis=1).tolist()
    assert np.array_equal(np.float32(largest), logits.max(axis=1))
    assert len(set(tokens[: len(PROMPT)])) > 5

    # Of prompts only the last row's; and beside neighbours, in one decode step.
    assert engine.choose_tokens(prompt)[0][0] == tokens[len(PROMPT) - 1]
    step = [(PROMPT[-1:], len(PROMPT) - 1, [3, 1, 2]), (PROMPT[:1], 0, [5]), (PROMPT[1:2], 0, [6])]
    assert engine.choose_tokens(step)[0][:3] == engine.step(step)[0].argmax(axis=1).tolist()[:3]


@pytest.mark.parametrize("ranks", [1, 4])
def test_of_equal_logits_the_first_is_chosen(ranks: int, tmp_path: Path) -> None:
    """All words have one negative logit; the zeros behind the last rank's words are none."""
    tiny = Tiny(tied=False)
    head = tiny.weights["output.weight"]
    prompt = [(PROMPT, 0, [3, 1, 2])]
    first = engine_of(_core.read_gguf(tiny.write(tmp_path))).step(prompt)[0][0, 0]
    head[:] = -np.sign(first) * head[0]
    engine = engine_of(_core.read_gguf(tiny.write(tmp_path)), ranks)
    tokens, largest = engine.choose_tokens(prompt)
    assert tokens == [0]
    assert largest == pytest.approx([-abs(first)], rel=1e-3)


def test_a_pooled_model_has_no_tokens(tmp_path: Path) -> None:
    pooled = engine_of(_core.read_gguf(Tiny().write(tmp_path))).pooled()
    with pytest.raises(InputError, match="features, and no tokens"):
        pooled.choose_tokens([(PROMPT, 0, [3, 1, 2])])


def test_what_goes_to_the_host_and_between_ranks_is_less(tmp_path: Path) -> None:
    file = _core.read_gguf(Tiny().write(tmp_path))
    bucket = (4, 1, 64, False)
    engine = engine_of(file)
    # 4 rows of 102 words, and 4 tokens with their logits, at 5.6 GB/s.
    assert engine.results_us(bucket) == pytest.approx(4 * 102 * 4 / 5.6e3)
    assert engine.results_us(bucket, chooses=True) == pytest.approx(4 * 8 / 5.6e3)
    ranks = engine_of(file, 4)
    assert ranks.exchange_us(bucket, chooses=True) <= ranks.exchange_us(bucket)
    assert "token chosen" in engine.bucket_text(bucket, chooses=True)
