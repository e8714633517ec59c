"""Tokens that are chosen on the device: answers are those of the host, and programs and times those of the choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from running import Running, served

from opentrn.errors import InputError
from opentrn.generate import LanguageModel
from opentrn.serve import Settings
from opentrn.serve.neuron_config import applied

PLAIN = Settings(served_name="tiny", dtype="f32", max_model_len=128, max_num_seqs=2, audit=True)
CONFIG = {"on_device_sampling_config": {"temperature": "0"}}
PROMPT = [5, 6, 7] * 5
# The first three are chosen on the device; each of the others asks for more than the likeliest token.
REQUESTS: tuple[dict[str, Any], ...] = (
    {}, {"ignore_eos": False}, {"top_p": 0.5}, {"temperature": 0.8, "seed": 2}, {"logprobs": 2},
    {"frequency_penalty": 0.5}, {"logit_bias": {"9": 4.0}}, {"ignore_eos": False, "min_tokens": 3},
    {"structured_outputs": {"choice": ["the", "in"]}},
)  # fmt: skip
CHOSEN_ON_DEVICE = 3


def ask(running: Running, **more: Any) -> Any:
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 6, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True} | more  # fmt: skip
    reply = httpx.post(f"{running.url}/v1/completions", json=body, timeout=60)
    reply.raise_for_status()
    return reply.json()


def test_answers_are_those_of_the_host_and_times_those_of_the_choice(tiny_file: Path):
    with served(tiny_file, PLAIN) as running:
        expected = [ask(running, **request) for request in REQUESTS]
    with served(tiny_file, applied(PLAIN, CONFIG)) as running:
        found = [ask(running, **request) for request in REQUESTS]
    model = LanguageModel(tiny_file, dtype="f32", context=128, sequences=2)
    buckets = [model.engine.bucket_of(1, len(PROMPT), len(PROMPT)), *[model.engine.bucket_of(1, 1, 20)] * 5]
    of_host, of_device = (
        sum(model.program(bucket, choice=choice).predicted_us for bucket in buckets) for choice in ("host", "likeliest")
    )
    assert of_device != of_host
    for number, (request, one, other) in enumerate(zip(REQUESTS, expected, found)):
        assert one["choices"][0]["token_ids"] == other["choices"][0]["token_ids"], request
        own = other["usage"]["predicted_device_time"]["own_steps_ms"]
        if "min_tokens" in request:  # the end may come from the third token on, which is chosen on the device again
            assert min(of_host, of_device) < 1000 * own < max(of_host, of_device)
        elif other["usage"]["completion_tokens"] == 6:
            assert own == pytest.approx((of_device if number < CHOSEN_ON_DEVICE else of_host) / 1000, abs=1e-4), request


@pytest.mark.parametrize(
    ("choice", "request_of"),
    [
        ("likeliest", {}),
        ("drawn", {"temperature": 0.8, "seed": 2}),
        ("drawn", {"temperature": 1.1, "seed": 3, "min_p": 0.01}),
        ("drawn-truncated", {"temperature": 1.1, "seed": 4, "top_k": 20}),
        ("drawn-truncated", {"temperature": 0.9, "seed": 5, "top_p": 0.8}),
        ("host", {"temperature": 0.9, "seed": 6, "logprobs": 1}),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_tokens_that_are_drawn_on_the_device_are_those_of_the_host(
    choice: str, request_of: dict[str, Any], ranks: int, tiny_file: Path
):
    sharing = {"ranks": ranks, "instance": "trn2.48xlarge"} if ranks > 1 else {}
    plain = Settings(**{**vars(PLAIN), **sharing})
    with served(tiny_file, plain) as running:
        expected = ask(running, **request_of)
    config = {"on_device_sampling_config": {"do_sample": True}}
    with served(tiny_file, applied(plain, config, nxdi=True)) as running:
        found = ask(running, **request_of)
    assert found["choices"][0]["token_ids"] == expected["choices"][0]["token_ids"]
    model = LanguageModel(tiny_file, dtype="f32", context=128, sequences=2, **sharing)
    buckets = [model.engine.bucket_of(1, len(PROMPT), len(PROMPT)), *[model.engine.bucket_of(1, 1, 20)] * 5]
    predicted = sum(model.program(bucket, choice=choice).predicted_us for bucket in buckets)
    assert found["usage"]["predicted_device_time"]["own_steps_ms"] == pytest.approx(predicted / 1000, abs=1e-4)


def test_guesses_are_chosen_on_the_device(tiny_file: Path):
    guesses = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    answers = []
    for config in ({}, CONFIG, {"on_device_sampling_config": {"all_greedy": False}}):
        settings = applied(Settings(**{**vars(PLAIN), "speculative": guesses}), config)
        with served(tiny_file, settings) as running:
            asked = ({}, {"temperature": 0.4, "seed": 7}, {"temperature": 0.6, "top_p": 0.7, "seed": 8})
            answers.append([ask(running, max_tokens=40, **more)["choices"][0]["token_ids"] for more in asked])
            stats = running.wait_idle()
        assert stats["accepted_tokens"] > 0
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    ("value", "match"), [("greedy", "not an object"), ({"global_top_k": 4}, "global_topk"), ({"x": 1}, "all_greedy"),
                         ({"do_sample": 1}, "neither true nor false"),
                         ({"do_sample": True, "all_greedy": True}, "all_greedy too")]  # fmt: skip
)
@pytest.mark.parametrize("nxdi", [False, True])
def test_what_is_no_configuration(value: Any, match: str, nxdi: bool):
    with pytest.raises(InputError) as raised:
        applied(PLAIN, {"on_device_sampling_config": value}, nxdi=nxdi)
    assert match in f"{raised.value} {raised.value.hint}"
