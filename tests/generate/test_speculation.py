"""Guessed tokens: greedy answers are those without them, in fewer steps where text repeats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tiny import Tiny

from opentrn import _core, cli
from opentrn.errors import InputError
from opentrn.generate import LanguageModel, Sampling


def lookup(text: list[int], most: int, longest: int = 4, shortest: int = 2) -> list[int]:
    """What stood behind the latest place of the longest match of the newest tokens."""
    for length in range(min(longest, len(text) - 1), shortest - 1, -1):
        for at in range(len(text) - length - 1, -1, -1):
            if text[at : at + length] == text[-length:]:
                return text[at + length :][:most]
    return []


@pytest.mark.parametrize("seed", [0, 7])
def test_answers_are_those_without_guesses(seed: int, tmp_path: Path) -> None:
    path = Tiny(seed=seed, context=512).write(tmp_path)
    random = np.random.default_rng(seed)
    prompts = [[int(t) for t in random.integers(0, 100, size)] for size in (5, 70)]
    rows = []
    for speculate in (0, 5):
        model = LanguageModel(path, dtype="f32", context=256, sequences=2, speculate=speculate)
        pieces = list(model.generate(prompts, max_tokens=100))
        rows.append([answer.tokens for answer in model.answers])
        assert [[p.token for p in pieces if p.answer == i] for i in range(2)] == rows[-1]
        assert [answer.text for answer in model.answers] == [model.decode(tokens) for tokens in rows[-1]]
    assert rows[0] == rows[1]
    assert 0 < model.right <= model.guessed  # small random models repeat themselves soon


def test_a_step_gives_a_token_more_than_guesses_were_right(tmp_path: Path) -> None:
    model = LanguageModel(Tiny(seed=7, context=512).write(tmp_path), dtype="f32", context=256, speculate=5)
    list(model.generate([[1, 2, 3] * 5], max_tokens=100))
    assert model.answers[0].finish == "length" and model.right > 10
    assert sum(program.runs for program in model.programs.values()) == 100 - model.right


def test_guesses_are_the_latest_place_of_the_longest_match() -> None:
    random = np.random.default_rng(1)
    found = 0
    for _ in range(300):
        text = [int(t) for t in random.integers(0, 4, int(random.integers(1, 25)))]
        most = int(random.integers(0, 6))
        assert _core.guessed_tokens(text, (5, 4, 2), most) == lookup(text, min(most, 5))
        found += bool(lookup(text, 5))
    assert found > 100


def test_an_answer_ends_where_it_was_to(tmp_path: Path) -> None:
    path = Tiny(seed=5).write(tmp_path)
    model = LanguageModel(path, dtype="f32", context=128, speculate=7)
    for wanted in (1, 2, 40):
        list(model.generate([[1, 2, 3] * 5], max_tokens=wanted))
        assert len(model.answers[0].tokens) <= wanted
        assert model.answers[0].finish == ("length" if len(model.answers[0].tokens) == wanted else "stop")


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Tiny().write(tmp_path)
    model = LanguageModel(path, context=128, speculate=3)
    with pytest.raises(InputError, match="likeliest") as caught:
        model.generate([[1]], sampling=Sampling(temperature=1.0))
    assert caught.value.label == "decoder.request"
    with pytest.raises(InputError, match="200 tokens are guessed"):
        LanguageModel(path, context=128, speculate=200).generate([[1]])
    words = ["generate", str(path), "--context", "128", "--raw", "--prompt", "the the the", "--max-tokens", "30"]
    assert cli.main([*words, "--speculate", "4", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["speculation"]["tokens"] == 4
    assert facts["speculation"]["right"] <= facts["speculation"]["guessed"]
