"""Steps of vLLM's scheduler on the engine, without vLLM: what its objects say comes as plain ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opentrn import _core
from opentrn.errors import InputError
from opentrn.generate import LanguageModel
from opentrn.generate.checkpoint import write_checkpoint
from opentrn.vllm.runner import Clock, Runner
from opentrn.vllm.settings import plugin_settings, sizes_of
from opentrn.vllm.totals import Totals

BLOCK = 32
PROMPT = [5, 9, 40, 33, 61, 7, 12]


def params(**more: Any) -> SimpleNamespace:
    """As vLLM's SamplingParams, greedy."""
    fields = {
        "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "seed": None,
        "frequency_penalty": 0.0, "presence_penalty": 0.0, "logprobs": None, "logit_bias": None, "min_tokens": 0,
        "all_stop_token_ids": set(), "allowed_token_ids": None, "bad_words_token_ids": None,
        "prompt_logprobs": None,
    }  # fmt: skip
    return SimpleNamespace(**fields | more)


def step(
    counts: dict[str, int], new: Sequence[SimpleNamespace] = (), cached: Sequence[tuple[str, int, Any]] = (),
    resumed: Sequence[str] = (), finished: Sequence[str] = (),
) -> SimpleNamespace:  # fmt: skip
    """As vLLM's SchedulerOutput. cached: (request, tokens computed before, new blocks or None)."""
    rows = SimpleNamespace(
        req_ids=[name for name, _, _ in cached], resumed_req_ids=set(resumed),
        num_computed_tokens=[computed for _, computed, _ in cached],
        new_block_ids=[None if blocks is None else (blocks,) for _, _, blocks in cached],
    )  # fmt: skip
    return SimpleNamespace(
        scheduled_new_reqs=list(new), scheduled_cached_reqs=rows, num_scheduled_tokens=counts,
        total_num_scheduled_tokens=sum(counts.values()), finished_req_ids=set(finished),
    )  # fmt: skip


def new(name: str, prompt: list[int], blocks: list[int], **more: Any) -> SimpleNamespace:
    return SimpleNamespace(
        req_id=name, prompt_token_ids=prompt, block_ids=(blocks,), num_computed_tokens=0, sampling_params=params(**more)
    )


@pytest.fixture(scope="module")
def engine(tiny_file: Path) -> Any:
    return LanguageModel(tiny_file, dtype="f32", context=256, sequences=2).engine


def greedy(tiny_file: Path, prompt: list[int], count: int) -> list[int]:
    model = LanguageModel(tiny_file, dtype="f32", context=256, sequences=2)
    generation = _core.decoder_generation(model.engine, [(prompt, count, [], (0.0, 0, 1.0, 0.0, 0))])
    made: list[int] = []
    while not generation.done:
        made += [token for _, token, _ in generation.step()[1]]
    return made


def answer(runner: Runner, name: str, prompt: list[int], blocks: list[int], count: int, **more: Any) -> list[int]:
    """Tokens of one request alone."""
    runner.run(step({name: len(prompt)}, new=[new(name, prompt, blocks, **more)]))
    tokens = [runner.sample({})[0].token]
    for i in range(count - 1):
        runner.run(step({name: 1}, cached=[(name, len(prompt) + i, None)]))
        tokens.append(runner.sample({})[0].token)
    runner.take(step({}, finished=[name]))
    return tokens


def test_tokens_are_those_of_generate_whatever_the_blocks(tiny_file: Path, engine: Any) -> None:
    expected = greedy(tiny_file, PROMPT, 6)
    runner = Runner(engine, clock=Clock())
    assert answer(runner, "a", PROMPT, [3], 6) == expected
    assert answer(runner, "b", PROMPT, [7], 6) == expected
    assert runner.requests == {}


@pytest.mark.parametrize(("most", "on_device"), [("likeliest", 1), ("drawn-truncated", 4)])
def test_a_plain_request_has_its_tokens_chosen_on_the_device(most: str, on_device: int, engine: Any) -> None:
    """One that asks for more takes logits, and so does its neighbour in the same step."""
    asked = (
        {}, {"temperature": 0.7, "seed": 3}, {"temperature": 0.8, "seed": 4, "top_k": 9, "top_p": 0.7},
        {"temperature": 0.9, "seed": 5, "min_p": 0.01}, {"logprobs": 1}, {"logit_bias": {9: 4.0}},
        {"frequency_penalty": 0.5}, {"allowed_token_ids": [5, 9]},
        {"bad_words_token_ids": [[40]]}, {"structured_outputs": object()},
        {"temperature": 0.7, "seed": 3, "logprobs": 0},
    )  # fmt: skip
    host, device = Runner(engine, clock=Clock()), Runner(engine, clock=Clock(), on_device_sampling=most)
    for i, more in enumerate(asked):
        first, second = host.clock.now, device.clock.now
        assert answer(host, "a", PROMPT, [3], 5, **more) == answer(device, "a", PROMPT, [3], 5, **more), more
        assert (device.clock.now - second == pytest.approx(host.clock.now - first)) == (i >= on_device), more
    together = []
    for runner in (host, device):
        both = [new("a", PROMPT, [2]), new("b", [11, 80, 3], [5], temperature=0.5, seed=1)]
        runner.run(step({"a": 7, "b": 3}, new=both))
        samples = [(sample.token, sample.logprob) for sample in runner.sample({})]
        runner.run(step({"a": 1, "b": 1}, cached=[("a", 7, None), ("b", 3, None)]))
        samples += [(sample.token, sample.logprob) for sample in runner.sample({})]
        together.append(samples)
    assert together[0] == together[1]


def test_two_requests_share_a_step_and_one_comes_back_after_it_was_preempted(tiny_file: Path, engine: Any) -> None:
    other = [11, 80, 3]
    expected, expected_other = greedy(tiny_file, PROMPT, 4), greedy(tiny_file, other, 3)
    runner = Runner(engine, clock=Clock())
    # A prompt in two parts: the first gives no token.
    runner.run(step({"a": 4}, new=[new("a", PROMPT, [2])]))
    assert runner.sample({}) == []
    runner.run(step({"a": 3, "b": 3}, new=[new("b", other, [5])], cached=[("a", 4, None)]))
    first = {sample.name: [sample.token] for sample in runner.sample({})}
    runner.run(step({"a": 1, "b": 1}, cached=[("a", 7, None), ("b", 3, None)]))
    for sample in runner.sample({}):
        first[sample.name].append(sample.token)
    # Its blocks are somebody else's now: all nine tokens are read again, into others.
    runner.run(step({"a": 9}, cached=[("a", 0, [4])], resumed=["a"]))
    first["a"].append(runner.sample({})[0].token)
    runner.run(step({"a": 1, "b": 1}, cached=[("a", 9, None), ("b", 4, None)]))
    for sample in runner.sample({}):
        first[sample.name].append(sample.token)
    assert first == {"a": expected, "b": expected_other}


def test_what_may_follow(tiny_file: Path, engine: Any) -> None:
    expected = greedy(tiny_file, PROMPT, 3)
    runner = Runner(engine, clock=Clock())
    assert answer(runner, "bias", PROMPT, [2], 3, logit_bias={17: 100.0}) == [17, 17, 17]
    assert set(answer(runner, "allowed", PROMPT, [2], 3, allowed_token_ids=[20, 40])) <= {20, 40}
    stopped = answer(runner, "stop", PROMPT, [2], 3, min_tokens=3, all_stop_token_ids=set(expected))
    assert not set(stopped) & set(expected)
    # A word of two tokens is never whole, but its first token may come.
    bad = answer(runner, "bad", PROMPT, [2], 3, bad_words_token_ids=[expected[:2]])
    assert bad[0] == expected[0] and bad[1] != expected[1]
    assert answer(runner, "one", PROMPT, [2], 1, bad_words_token_ids=[expected[:1]]) != expected[:1]
    mask = np.zeros(4, dtype=np.int32)
    mask[1] = 1 << 3
    runner.run(step({"grammar": len(PROMPT)}, new=[new("grammar", PROMPT, [2])]))
    assert [sample.token for sample in runner.sample({"grammar": mask})] == [35]


def test_draws_follow_the_seed_and_log_probabilities_the_logits(engine: Any) -> None:
    def drawn(name: str, seed: int | None) -> list[int]:
        return answer(Runner(engine, seed=3, clock=Clock()), name, PROMPT, [2], 8, temperature=1.5, seed=seed)

    assert drawn("a", 1) == drawn("b", 1) != drawn("c", 2)
    assert drawn("a", None) == drawn("b", None)
    runner = Runner(engine, clock=Clock())
    runner.run(step({"a": len(PROMPT)}, new=[new("a", PROMPT, [2], logprobs=2)]))
    sample = runner.sample({})[0]
    assert sample.rank == 1 and sample.top[0] == (sample.token, sample.logprob) and len(sample.top) == 2
    assert sample.top[0][1] > sample.top[1][1]


def test_what_the_model_says_of_a_prompt_in_parts(engine: Any) -> None:
    """Told once, with the last part, which may be a single token beside another request's; each log probability is that
    of the token as the answer to the prompt before it."""
    prompt = [*PROMPT, *range(20, 34)]
    runner = Runner(engine, clock=Clock())
    other = new("b", PROMPT, [4])
    runner.run(step({"b": 7}, new=[other]))
    runner.sample({})
    runner.run(step({"a": 8, "b": 1}, new=[new("a", prompt, [3], prompt_logprobs=2)], cached=[("b", 7, None)]))
    assert runner.prompt_scores("a") is None and [sample.name for sample in runner.sample({})] == ["b"]
    runner.run(step({"a": 12}, cached=[("a", 8, None)]))
    runner.sample({})
    runner.run(step({"b": 1, "a": 1}, cached=[("b", 8, None), ("a", 20, None)]))
    assert {sample.name for sample in runner.sample({})} == {"a", "b"}
    scores = runner.prompt_scores("a")
    assert scores is not None and len(scores) == 20 and runner.prompt_scores("a") is None
    assert runner.prompt_scores("b") is None
    alone = Runner(engine, clock=Clock())
    for at in (1, 8, 9, 20):
        asked = {"logprobs": 2, "allowed_token_ids": [prompt[at]]}
        alone.run(step({"c": at}, new=[new("c", prompt[:at], [5], **asked)]))
        [sample] = alone.sample({})
        tokens, values, rank = scores[at - 1]
        assert tokens[0] == sample.token == prompt[at] and rank == sample.rank
        assert values == pytest.approx([sample.logprob, *(value for _, value in sample.top)], abs=1e-5)
        alone.take(step({}, finished=["c"]))
    every = Runner(engine, clock=Clock())
    every.run(step({"d": 3}, new=[new("d", PROMPT[:3], [3], prompt_logprobs=-1)]))
    every.sample({})
    everything = every.prompt_scores("d")
    assert everything is not None and all(sum(np.exp(values[1:])) == pytest.approx(1) for _, values, _ in everything)


def test_predicted_times_are_those_of_the_programs_in_totals_trace_and_pace(engine: Any, tmp_path: Path) -> None:
    totals, waited, clock = Totals.made(), [], Clock()
    trace = tmp_path / "trace.jsonl"
    runner = Runner(engine, totals=totals, trace=str(trace), clock=clock, paced=True, wait=waited.append)
    clock.now = 1.0
    clock.arrivals["a"] = 0.5  # it waited for steps of others
    answer(runner, "a", PROMPT, [2], 3)
    runner.close()
    prefill, decode = (
        (engine.time(bucket).time_us + engine.results_us(bucket)) / 1e6
        for bucket in (engine.bucket_of(1, 7, 7), engine.bucket_of(1, 1, 8))
    )
    assert Totals(totals.path)["predicted_s"] == pytest.approx(prefill + 2 * decode)
    assert Totals(totals.path)["first_token_s"] == pytest.approx(0.5 + prefill)
    assert totals["steps"] == 3 and totals["requests"] == 1 and totals["prefill_padding"] == 16 - 7
    assert len(waited) == 3 and all(0 <= seconds <= prefill for seconds in waited)
    rows = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [sorted(row)[0] for row in rows[:3]] == ["step"] * 3
    assert rows[3]["request"] == "a" and rows[3]["output_tokens"] == 3
    assert rows[3]["predicted_own_s"] == pytest.approx(prefill + 2 * decode)
    Path(totals.path).unlink()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ([], "no object of JSON"),
        ({"other": 1}, "'other'"),
        ({"opentrn": {"policy": "best"}}, "policy is 'best'"),
        ({"opentrn": {"speed": "1"}}, "'speed'"),
        ({"opentrn": {"target": 2}}, "target is 2"),
        ({"neuron_config": {"ep_degree": 2}}, "ep_degree"),
        ({"neuron_config": 3}, "no object of JSON"),
    ],
)
def test_settings_that_are_none(config: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        plugin_settings(config)


def test_sizes_of_programs() -> None:
    settings = plugin_settings({"opentrn": {"target": "trn3", "time": "paced"}})
    assert (settings.target, settings.time, settings.policy) == ("trn3", "paced", "neuron")
    assert sizes_of(settings, 32, 1000, 6, 512) == ([1, 2, 4, 6], [16, 64, 128, 256, 512], [128, 256, 512, 1024])
    chosen = plugin_settings({"neuron_config": {"num_seqs_buckets": [4], "decode_context_length_buckets": [128]}})
    assert sizes_of(chosen, 32, 1000, 4, 48) == ([4], [16, 48], [128, 1024])
    with pytest.raises(InputError, match="num_seqs buckets is 4"):
        sizes_of(chosen, 32, 1000, 8, 512)


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "granite"])
def test_a_written_checkpoint_gives_the_logits_of_the_gguf_file(architecture: str, tmp_path: Path) -> None:
    from tiny import Tiny

    path = Tiny(architecture).write(tmp_path)
    folder = write_checkpoint(path, tmp_path / "folder", "f32")
    models = [LanguageModel(source, dtype="f32", context=64) for source in (path, folder)]
    rows = [model.step([(PROMPT, 0, [1])])[0].tobytes() for model in models]
    assert rows[0] == rows[1]
    text = "the inn!"
    assert LanguageModel(folder, context=64).encode(text) == LanguageModel(path, context=64).encode(text)
    with pytest.raises(InputError, match="is a folder already"):
        write_checkpoint(folder, tmp_path / "again")
    with pytest.raises(InputError, match="'f8'"):
        write_checkpoint(path, tmp_path / "again", "f8")
