"""Guesses of an EAGLE head in a server: answers are those without guesses, and as many are right as in NumPy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
from running import Running, served
from tiny import Tiny
from tiny_eagle import GUESSES, Head, Head3

from opentrn.errors import InputError
from opentrn.serve import Settings, build

PROMPTS = [[1, 2, 3, 4] * 6, [7] * 9, list(range(40, 75)), list(range(3, 97)) * 2]
DRAWN: dict[str, Any] = {"temperature": 0.7, "seed": 3}


def settings_of(**more: Any) -> Settings:
    base: dict[str, Any] = {"served_name": "tiny", "dtype": "f32", "max_model_len": 256, "max_num_seqs": 4}
    return Settings(**(base | {"audit": True, "prefix_caching": False} | more))


def by_head(folder: Path, method: str = "eagle") -> dict[str, Any]:
    return {"method": method, "model": str(folder), "num_speculative_tokens": GUESSES}


@pytest.fixture(scope="module")
def tiny() -> Tiny:
    return Tiny(seed=7, context=256)


@pytest.fixture(scope="module")
def path(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def folder(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Head(tiny).write(tmp_path_factory.mktemp("head") / "head")


def ask(running: Running, prompt: Any, **more: Any) -> list[int]:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 40, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True} | more  # fmt: skip
    reply = httpx.post(f"{running.url}/v1/completions", json=body, timeout=60)
    assert reply.status_code == 200, reply.text
    return list(reply.json()["choices"][0]["token_ids"])


@pytest.mark.parametrize(("policy", "method"), [("neuron", "eagle"), ("vllm", "eagle"), ("neuron", "eagle3")])
def test_answers_are_those_without_guesses(policy: str, method: str, tiny: Tiny, path: Path, tmp_path: Path) -> None:
    """One at a time, all at once, and preempted: a pool of 14 blocks does not hold four answers."""
    head = Head(tiny) if method == "eagle" else Head3(tiny, words=tuple(range(3, 100)))
    folder = head.write(tmp_path / "head")
    asked: list[tuple[list[int], dict[str, Any]]] = [(prompt, {}) for prompt in PROMPTS] + [(PROMPTS[0], DRAWN)]
    answers: list[list[list[int]]] = []
    most = "drawn-truncated" if policy == "vllm" else "host"
    for more in ({}, {"speculative": by_head(folder, method), "on_device_sampling": most}):
        for blocks in ({}, {"num_blocks": 14}):
            with served(path, settings_of(policy=policy, **more, **blocks)) as running:
                if not blocks:
                    alone = [ask(running, prompt) for prompt in PROMPTS]
                    stats = running.wait_idle()
                    answers.append([*alone, ask(running, PROMPTS[0], **DRAWN)])
                with ThreadPoolExecutor(8) as pool:
                    together = list(pool.map(lambda row: ask(running, row[0], **row[1]), asked))
                assert together == answers[-1]
    assert answers[0] == answers[1]
    expected = np.sum([head.counts(prompt, answer) for prompt, answer in zip(PROMPTS, answers[1])], 0)
    assert (stats["draft_tokens"], stats["accepted_tokens"]) == tuple(expected)
    assert stats["accepted_tokens"] > 5


@pytest.mark.parametrize("method", ["eagle", "eagle3"])
def test_prefixes_come_with_their_features(method: str, tiny: Tiny, path: Path, tmp_path: Path) -> None:
    """Requests that find a prefix in the cache are guessed for as those that computed it."""
    head = Head(tiny) if method == "eagle" else Head3(tiny)
    folder = head.write(tmp_path / "head")
    shared = [int(t) for t in np.random.default_rng(5).integers(3, 97, 150)]
    prompts = [shared + [9, 8], shared + [9, 8], shared[:100] + [50, 51, 52], shared + [9, 8, 7] * 5]
    answers, stats = [], []
    for cached in (False, True):
        with served(path, settings_of(speculative=by_head(folder, method), prefix_caching=cached)) as running:
            answers.append([ask(running, prompt) for prompt in prompts])
            stats.append(running.wait_idle())
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(lambda prompt: ask(running, prompt), prompts)) == answers[-1]
    assert answers[0] == answers[1]
    assert stats[1]["prefix_hits"] > 300 and stats[0]["prefix_hits"] == 0
    for key in ("draft_tokens", "accepted_tokens"):
        assert stats[0][key] == stats[1][key]


def test_what_is_refused(path: Path, folder: Path) -> None:
    for settings, match in (
        (settings_of(speculative=by_head(folder, "draft_model")), "is an EAGLE head of the first version"),
        (settings_of(speculative=by_head(folder, "eagle3")), "is an EAGLE head of the first version"),
        (settings_of(speculative=by_head(path)), "is no EAGLE head"),
    ):
        with pytest.raises(InputError) as caught:
            build(path, settings)
        assert match in f"{caught.value} {caught.value.hint}" and caught.value.label == "serve.settings"
