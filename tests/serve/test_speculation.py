"""Guessed tokens in a server: answers, logprobs and usage are those without guesses; programs, times and metrics."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx  # that of the official clients
import pytest
from running import Running, served
from tiny import Tiny

from opentrn import _core
from opentrn.cli import main
from opentrn.errors import InputError
from opentrn.generate import LanguageModel
from opentrn.serve import Settings, build
from opentrn.serve.speculation import Speculation, speculation_of

GUESSES = 5
CONFIG = {"method": "ngram", "num_speculative_tokens": GUESSES, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
REPEATING = [1, 2, 3, 4] * 6
PROMPTS = [REPEATING, [7] * 9, list(range(40, 75))]


def settings_of(**more: Any) -> Settings:
    return Settings(served_name="tiny", dtype="f32", max_model_len=256, max_num_seqs=4, audit=True, **more)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Tiny(seed=7, context=256).write(tmp_path_factory.mktemp("speculation"))


def ask(running: Running, prompt: Any, **more: Any) -> Any:
    body = {"model": "tiny", "prompt": prompt, "max_tokens": 60, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True} | more  # fmt: skip
    reply = httpx.post(f"{running.url}/v1/completions", json=body, timeout=60)
    reply.raise_for_status()
    return reply.json()


def counters(running: Running) -> dict[str, float]:
    found = {}
    wanted = ("vllm:spec_decode", "vllm:generation_tokens_total", "vllm:inter_token_latency_seconds_count")
    for line in httpx.get(f"{running.url}/metrics").text.splitlines():
        if line.startswith(wanted):
            name, value = line.rsplit(" ", 1)
            place = f" {name.split('position=')[1][1:-2]}" if "position=" in name else ""
            found[name.split("{")[0].removeprefix("vllm:") + place] = float(value)
    return found


REQUESTS = (
    {}, {"temperature": 0.7, "seed": 3}, {"temperature": 1.0, "seed": 4, "top_k": 5, "min_p": 0.02},
    {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.2}, {"logprobs": 3},
    {"max_tokens": 7}, {"max_tokens": 1}, {"ignore_eos": False, "min_tokens": 3}, {"logit_bias": {"9": 4.0}},
)  # fmt: skip


@pytest.mark.parametrize("policy", ["neuron", "vllm"])
def test_answers_are_those_without_guesses(policy: str, path: Path) -> None:
    """One at a time and all at once; greedy and drawn, with penalties that count every token."""
    answers = []
    asked = [(REPEATING, more) for more in REQUESTS] + [(prompt, {}) for prompt in PROMPTS[1:]]
    for config in ({}, CONFIG):
        with served(path, settings_of(policy=policy, speculative=config)) as running:
            alone = [ask(running, prompt, **more) for prompt, more in asked]
            with ThreadPoolExecutor(6) as pool:
                together = list(pool.map(lambda row: ask(running, row[0], **row[1]), asked))
            rows = [(answer["choices"][0]["token_ids"], answer["choices"][0]["finish_reason"],
                     answer["usage"]["completion_tokens"]) for answer in [*alone, *together]]  # fmt: skip
            logprobs = [answer["choices"][0]["logprobs"] for answer in alone]
            answers.append((rows, logprobs))
            assert running.wait_idle()["used_blocks"] == 0
            seen = counters(running)
    (plain, plain_logprobs), (guessed, guessed_logprobs) = answers
    assert plain == guessed
    for one, other in zip(plain_logprobs, guessed_logprobs):
        assert (one is None) == (other is None)
        if one:
            assert one["token_logprobs"] == pytest.approx(other["token_logprobs"], abs=1e-4)
            assert one["tokens"] == other["tokens"] and len(one["top_logprobs"]) == len(other["top_logprobs"])
    assert seen["generation_tokens_total"] == sum(row[2] for row in guessed)
    drafts, right = seen["spec_decode_num_drafts_total"], seen["spec_decode_num_accepted_tokens_total"]
    assert 0 < right <= seen["spec_decode_num_draft_tokens_total"] <= GUESSES * drafts
    by_place = [seen[f"spec_decode_num_accepted_tokens_per_pos_total {i}"] for i in range(GUESSES)]
    assert sum(by_place) == right and by_place == sorted(by_place, reverse=True) and by_place[0] <= drafts
    # A step is one observation of a request, whatever it gave; each draft saved as many steps as were right.
    assert seen["inter_token_latency_seconds_count"] == sum(row[2] - 1 for row in guessed) - right


def test_a_step_of_guesses_takes_its_programs_time(path: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with served(path, settings_of(speculative=CONFIG, trace=str(trace), clock="virtual")) as running:
        answer = ask(running, REPEATING)
    rows = [json.loads(line) for line in trace.read_text().splitlines()]
    steps = [row["step"] for row in rows if "step" in row]
    verified = [step for step in steps if step["program"].startswith("verify_")]
    assert verified and {step["program"].rsplit("_", 1)[0] for step in verified} == {"verify_b1_t8"}
    assert all(1 < step["tokens"] <= 1 + GUESSES and step["padded_tokens"] == 8 for step in verified)
    model = LanguageModel(path, dtype="f32", context=256, sequences=4, speculate=GUESSES)
    for step in verified:
        context = int(step["program"].rsplit("_c", 1)[1])
        assert step["predicted_s"] == pytest.approx(model.program((1, 8, context, True)).predicted_us * 1e-6)
    assert len(steps) < answer["usage"]["completion_tokens"]
    [ended] = [row for row in rows if "request" in row]
    assert ended["predicted_end_s"] == pytest.approx(sum(step["predicted_s"] for step in steps))


def test_what_stands_behind_a_stop_string_is_dropped(path: Path) -> None:
    """It may come in the middle of a step's tokens."""
    with served(path, settings_of(speculative=CONFIG)) as running:
        whole = ask(running, REPEATING)["choices"][0]
        middles = 0
        for at in range(3, 40, 4):
            stop = whole["text"][at : at + 3]
            with_stop = ask(running, REPEATING, stop=[stop])
            choice, usage = with_stop["choices"][0], with_stop["usage"]
            assert choice["finish_reason"] == "stop" and choice["text"] == whole["text"].split(stop)[0]
            assert usage["completion_tokens"] == len(choice["token_ids"])
            assert choice["token_ids"] == whole["token_ids"][: usage["completion_tokens"]]
            middles += 1
        assert middles == 10
        lines = []
        body = {"model": "tiny", "prompt": REPEATING, "max_tokens": 60, "temperature": 0, "ignore_eos": True,
                "stream": True, "stream_options": {"include_usage": True}}  # fmt: skip
        with httpx.stream("POST", f"{running.url}/v1/completions", json=body, timeout=60) as reply:
            lines = [json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: {")]
        text = "".join(row["choices"][0]["text"] for row in lines if row["choices"])
        assert text == whole["text"] and lines[-1]["usage"]["completion_tokens"] == 60
        assert running.wait_idle()["used_blocks"] == 0


def test_a_grammar_is_kept_without_guesses(path: Path) -> None:
    with served(path, settings_of(speculative=CONFIG)) as running:
        answer = ask(running, REPEATING, structured_outputs={"regex": "(ab){20}"}, ignore_eos=False)
        assert answer["choices"][0]["text"] == "ab" * 20
        assert counters(running)["spec_decode_num_drafts_total"] == 0


def test_every_key_of_vllms_configuration_acts_or_is_refused() -> None:
    assert speculation_of({}) == Speculation(0)
    assert speculation_of(CONFIG) == Speculation(5, 4, 2)
    assert speculation_of({"num_speculative_tokens": 3}) == Speculation(3, 5, 5)
    assert speculation_of({"num_speculative_tokens": 3, "prompt_lookup_max": 7}) == Speculation(3, 7, 7)
    assert speculation_of({"num_speculative_tokens": 3, "prompt_lookup_min": 2}) == Speculation(3, 2, 2)
    assert set(CONFIG) | {"model"} == set(_core.speculation_keys(True))
    for key in _core.speculation_keys(False):
        with pytest.raises(InputError, match=f"{key} is refused"):
            speculation_of(CONFIG | {key: 1})


def test_the_command_explains_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "smollm2", "--explain-config", "--speculative-config"]
    assert main([*words, '{"num_speculative_tokens": 4, "model": "draft", "draft_tensor_parallel_size": 2}']) == 0
    assert capsys.readouterr().out == (
        "num_speculative_tokens = 4: values and time; guesses of a request in a step, at most\n"
        'model = "draft": values and time; that makes the guesses: a file, a folder or a name, as the server\'s own\n'
        "draft_tensor_parallel_size = 2: refused; guesses come from prompt lookup (ngram), a draft model "
        "(draft_model) or an EAGLE head (eagle, eagle3), which run as the server's model does\n"
    )
    assert main([*words, '{"method": "medusa"}']) == 0
    assert capsys.readouterr().out.startswith('method = "medusa": refused; ')
    assert main([*words, '{"tokens": 4}']) == 2


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"method": "medusa", "num_speculative_tokens": 3}, 'method is "medusa"'),
        ({"method": "ngram"}, "num_speculative_tokens is missing"),
        ({"num_speculative_tokens": 0}, "num_speculative_tokens is 0"),
        ({"num_speculative_tokens": True}, "num_speculative_tokens is true"),
        ({"num_speculative_tokens": 3, "prompt_lookup_max": "4"}, 'prompt_lookup_max is "4"'),
        ({"num_speculative_tokens": 3, "prompt_lookup_max": 2, "prompt_lookup_min": 3}, "prompt_lookup_min is 3"),
        ({"num_tokens": 3}, "no key num_tokens"),
    ],
)
def test_configurations_that_are_refused(config: dict[str, Any], reason: str, path: Path) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        build(path, settings_of(speculative=config))
    assert caught.value.label == "serve.settings"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"values": False, "linear": "step=100"}, "needs a model's own programs"),
        ({"step_times": "times.csv"}, "needs a model's own programs"),
        ({"speculative": {"num_speculative_tokens": 300}}, "300 guesses and a token; programs have at most 256"),
    ],
)
def test_settings_that_have_no_guesses(more: dict[str, Any], reason: str, path: Path) -> None:
    with pytest.raises(InputError, match=reason):
        build(path, settings_of(**({"speculative": CONFIG} | more)))
