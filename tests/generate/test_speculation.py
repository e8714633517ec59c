"""Guessed tokens: greedy answers are those without them, in fewer steps where text repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    return Tiny(seed=7, context=256).write(folder)


@pytest.fixture(scope="module")
def smaller(folder: Path) -> Path:
    """Of the same words, with fewer positions."""
    (folder / "smaller").mkdir()
    return Tiny(seed=8, layers=1, hidden=32, context=160).write(folder / "smaller")


PROMPTS = [[1, 2, 3, 4] * 6, list(range(3, 97)) * 2]
DRAWN = Sampling(temperature=0.9, top_p=0.9, seed=5)


def answered(path: Path, sampling: Sampling, **more: Any) -> tuple[LanguageModel, list[list[int]]]:
    model = LanguageModel(path, dtype="f32", context=256, sequences=2, **more)
    list(model.generate(PROMPTS, max_tokens=41, sampling=sampling))
    return model, [answer.tokens for answer in model.answers]


@pytest.mark.parametrize("sampling", [Sampling(), DRAWN], ids=["likeliest", "drawn"])
def test_guesses_of_a_draft_model_change_no_answer(sampling: Sampling, path: Path, smaller: Path) -> None:
    _, alone = answered(path, sampling)
    itself, same = answered(path, sampling, speculate=3, draft_model=path)
    other, others = answered(path, sampling, speculate=3, draft_model=smaller)
    looking, looked_up = answered(path, sampling, speculate=3)
    assert alone == same == others == looked_up
    assert other.right < itself.right and other.guessed > 0 and looking.drafted_us == 0
    if sampling.temperature == 0:  # all are right
        assert itself.right == itself.guessed == 2 * 30


def test_a_token_takes_the_time_of_both_models(path: Path) -> None:
    """41 tokens of two answers: two prompts, ten steps of four tokens; guesses of 3 before each step but the first."""
    model, _ = answered(path, Sampling(), speculate=3, draft_model=path)
    assert model.draft
    runs = {program.text: program.runs for program in model.draft.choosing.values()}
    assert sum(runs.values()) == 2 + 3 + 3 + 9 * 3  # two prompts, of which one is read in two parts
    predicted = sum(program.runs * program.predicted_us for program in model.draft.choosing.values())
    assert model.drafted_us == pytest.approx(predicted)
    of_steps = [p for p in model.programs.values() if p.bucket[3]]
    assert sum(p.runs for p in of_steps) == 10 and model.decoded_tokens == 80
    assert model.decoded_us > sum(p.runs * p.predicted_us for p in of_steps)
    whole = predicted + sum(p.runs * p.predicted_us for p in model.programs.values())
    assert whole - model.decoded_us == pytest.approx(model.answers[1].predicted_first_us)


def test_the_command_reports_both_models(path: Path, smaller: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(path), "--context", "128", "--raw", "--prompt", "the", "--max-tokens", "9"]
    words += ["--speculate", "3", "--draft-model", str(smaller)]
    assert cli.main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    speculation = facts["speculation"]
    assert speculation["draft_model"] == str(smaller) and speculation["drafted_us"] > 0
    own = min(row["predicted_us"] for row in facts["programs"] if row["name"].startswith("score"))
    assert speculation["us_per_token"] * 8 > own
    assert any(row["name"].startswith("draft model's decode") for row in facts["programs"])
    assert cli.main(words) == 0
    report = capsys.readouterr().err
    assert "draft model's decode 1 x 128, token chosen" in report and "ms predicted for each token behind" in report


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
    with pytest.raises(InputError, match="200 tokens are guessed") as caught:
        LanguageModel(path, context=128, speculate=200).generate([[1]])
    assert caught.value.label == "decoder.request"
    with pytest.raises(InputError, match="a draft model without guesses") as caught:
        LanguageModel(path, context=128, draft_model=path)
    assert caught.value.label == "generate.draft_model"
    other = Tiny(seed=9)
    other.tokens[0] = "®"
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match="has other tokens than the model"):
        LanguageModel(path, context=128, speculate=3, draft_model=other.write(tmp_path / "other"))
    words = ["generate", str(path), "--context", "128", "--raw", "--prompt", "the the the", "--max-tokens", "30"]
    assert cli.main([*words, "--speculate", "4", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["speculation"]["tokens"] == 4
    assert facts["speculation"]["right"] <= facts["speculation"]["guessed"]
