"""Guesses of a draft model in a server: answers are those without guesses, and steps take the time of both models."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from running import Running, served
from tiny import Tiny

from opentrn.errors import InputError
from opentrn.generate import LanguageModel
from opentrn.serve import Settings, build
from opentrn.serve.speculation import Speculation, speculation_of

GUESSES = 3
PROMPTS = [[1, 2, 3, 4] * 6, [7] * 9, list(range(40, 75)), list(range(3, 97)) * 2]
REQUESTS: tuple[dict[str, Any], ...] = (
    {}, {"temperature": 0.7, "seed": 3}, {"repetition_penalty": 1.2, "presence_penalty": 0.2}, {"max_tokens": 1},
    {"max_tokens": 2}, {"ignore_eos": False, "min_tokens": 3}, {"structured_outputs": {"regex": "(ab){9}"}},
)  # fmt: skip


def settings_of(**more: Any) -> Settings:
    base: dict[str, Any] = {"served_name": "tiny", "dtype": "f32", "max_model_len": 256, "max_num_seqs": 4}
    return Settings(**(base | {"audit": True} | more))


def by_model(path: Path) -> dict[str, Any]:
    return {"method": "draft_model", "model": str(path), "num_speculative_tokens": GUESSES}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Tiny(seed=7, context=256).write(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another model of the same words, smaller, with a shorter context."""
    return Tiny(seed=8, layers=1, hidden=32, context=160).write(tmp_path_factory.mktemp("draft"))


def ask(running: Running, prompt: Any, **more: Any) -> Any:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 40, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True} | more  # fmt: skip
    reply = httpx.post(f"{running.url}/v1/completions", json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    choice = reply.json()["choices"][0]
    return choice["token_ids"], choice["finish_reason"]


@pytest.mark.parametrize("policy", ["neuron", "vllm"])
def test_answers_are_those_without_guesses(policy: str, path: Path, other: Path) -> None:
    """One at a time, all at once, and preempted: a pool of 14 blocks does not hold four answers."""
    asked = [(PROMPTS[0], more) for more in REQUESTS] + [(prompt, {}) for prompt in PROMPTS[1:]]
    answers, drafts = [], []
    for config in ({}, by_model(path), by_model(other)):
        for blocks in ({}, {"num_blocks": 14}):
            with served(path, settings_of(policy=policy, speculative=config, **blocks)) as running:
                alone = [] if blocks else [ask(running, prompt, **more) for prompt, more in asked]
                with ThreadPoolExecutor(8) as pool:
                    together = list(pool.map(lambda row: ask(running, row[0], **row[1]), asked))
                stats = running.wait_idle()
            assert stats["used_blocks"] == 0
            drafts.append((stats["draft_tokens"], stats["accepted_tokens"]))
            answers.append((alone or answers[-1][0], together))
    assert all(answer == answers[0] for answer in answers)
    assert drafts[0] == (0, 0)
    (guessed, right), (others, others_right) = drafts[2], drafts[4]
    assert right > 0.5 * guessed > 0  # the model itself; a drawn token need not be the likeliest
    assert 0 <= others_right < 0.5 * others


def test_a_model_guesses_its_own_answers(path: Path) -> None:
    """The likeliest tokens are all right, but for rounding between programs; 41 tokens take a prompt and ten steps."""
    with served(path, settings_of(speculative=by_model(path))) as running:
        for prompt in PROMPTS[:3]:
            ask(running, prompt, max_tokens=41)
        stats = running.wait_idle()
    assert stats["accepted_tokens"] == stats["draft_tokens"] == 3 * 30
    assert stats["drafts"] == 3 * 10


def test_a_step_takes_the_time_of_both_models(path: Path, other: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    settings = settings_of(speculative=by_model(other), trace=str(trace), clock="virtual", policy="neuron")
    with served(path, settings) as running:
        ask(running, PROMPTS[2], max_tokens=6)
    steps = [row["step"] for row in map(json.loads, trace.read_text().splitlines()) if "step" in row]
    sizes: dict[str, Any] = {"dtype": "f32", "context": 256, "sequences": 4, "speculate": GUESSES}
    model, draft = LanguageModel(path, **sizes), LanguageModel(other, **sizes)

    def drafted(tokens: int, before: int) -> float:
        return draft.program(draft.engine.bucket_of(1, tokens, before + tokens), choice="likeliest").predicted_us

    # The prompt of 35 tokens, the last of them with the new one behind it; then two guesses more.
    length = len(PROMPTS[2])
    first = model.program(model.engine.bucket_of(1, length, length)).predicted_us + drafted(length, 0)
    first += drafted(1, length) + drafted(1, length + 1) + drafted(1, length + 2)
    assert 1e6 * steps[0]["predicted_s"] == pytest.approx(first)
    assert steps[1]["program"].startswith("verify_b1_t4")
    verified = model.program((1, 4, int(steps[1]["program"].rsplit("_c", 1)[1]), True)).predicted_us
    assert 1e6 * steps[1]["predicted_s"] > verified


def test_ranks_and_choices_on_the_device_go_together_with_it(path: Path, other: Path) -> None:
    answers = []
    for more in ({}, {"speculative": by_model(other), "on_device_sampling": "drawn-truncated"}):
        settings = settings_of(ranks=2, instance="trn2.48xlarge", max_model_len=128, max_num_seqs=1, **more)
        with served(path, settings) as running:
            answers.append(ask(running, PROMPTS[0], max_tokens=12))
    assert answers[0] == answers[1]


def test_its_keys(path: Path) -> None:
    drafts = {"model": "draft", "num_speculative_tokens": 3}
    assert speculation_of(drafts) == speculation_of(drafts | {"method": "draft_model"})
    assert speculation_of(drafts) == Speculation(3, 5, 5, "draft")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"method": "ngram", "model": "x"}, "ngram, which has no model"),
        ({"method": "draft_model"}, "model is null"),
        ({"model": 3}, "model is 3"),
        ({"model": "x", "prompt_lookup_max": 3}, "prompt_lookup_max is of prompt lookup"),
        ({"model": "x", "draft_tensor_parallel_size": 2}, "draft_tensor_parallel_size is refused"),
        ({"method": "eagle3", "model": "x"}, 'method is "eagle3"'),
    ],
)
def test_configurations_that_are_refused(config: dict[str, Any], reason: str, path: Path) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        build(path, settings_of(speculative={"num_speculative_tokens": 3} | config))
    assert caught.value.label == "serve.settings"


def test_a_model_of_other_words_is_refused(path: Path, tmp_path: Path) -> None:
    tiny = Tiny(seed=9)
    tiny.tokens[0] = "®"
    with pytest.raises(InputError, match="has other tokens than the model"):
        build(path, settings_of(speculative=by_model(tiny.write(tmp_path))))
