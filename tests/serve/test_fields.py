"""Fields of requests that vLLM has beyond OpenAI's: what each changes of an answer, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2 as httpx
import openai
import pytest
from running import KEY, Running, served

from opentrn.errors import InputError
from opentrn.serve import Settings, build
from opentrn.serve.engine import Params

ASK = [{"role": "user", "content": "the thin"}]


def ask(running: Running, **body: Any) -> dict[str, Any]:
    body = {"model": "tiny", "max_tokens": 8, "temperature": 0, "ignore_eos": True, "return_token_ids": True, **body}
    route = "chat/completions" if "messages" in body else "completions"
    headers = {"Authorization": f"Bearer {KEY}"}
    return httpx.post(f"{running.url}/v1/{route}", json=body, headers=headers, timeout=60).json()


def tokens(answer: dict[str, Any]) -> list[int]:
    return answer["choices"][0]["token_ids"]


def cached(answer: dict[str, Any]) -> int:
    return (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)


def test_only_allowed_tokens_come_and_bad_words_do_not(model: Running):
    free = tokens(ask(model, prompt=[5, 6, 7]))
    allowed = sorted({*free[:2], 11, 12})
    assert set(tokens(ask(model, prompt=[5, 6, 7], allowed_token_ids=allowed))) <= set(allowed)
    error = ask(model, prompt=[5], allowed_token_ids=[10**6])["error"]
    assert "token 1000000" in error["message"]
    decode = model.built.service.text.tokenizer.decode
    word = next(text for token in free if (text := decode([token]).strip()))
    without = ask(model, prompt=[5, 6, 7], bad_words=[word])
    assert word in decode(free) and word not in decode(tokens(without)).split()


def test_a_salt_keeps_prefixes_apart(model: Running):
    prompt = list(range(20, 90))
    assert cached(ask(model, prompt=prompt, cache_salt="one")) == 0
    assert cached(ask(model, prompt=prompt, cache_salt="one")) == 64
    assert cached(ask(model, prompt=prompt, cache_salt="two")) == 0
    assert cached(ask(model, prompt=prompt)) == 0


def test_prompts_are_cut_and_conversations_go_on(model: Running):
    long = list(range(20, 90))
    cut = ask(model, prompt=long, truncate_prompt_tokens=9)
    assert cut["usage"]["prompt_tokens"] == 9 and tokens(cut) == tokens(ask(model, prompt=long[-9:]))
    right = ask(model, prompt=long, truncate_prompt_tokens=9, truncation_side="right")
    assert tokens(right) == tokens(ask(model, prompt=long[:9]))

    said = [*ASK, {"role": "assistant", "content": "thick and"}]
    more = ask(model, messages=said, continue_final_message=True, add_generation_prompt=False)
    text = model.built.service.prompts._template.prompt(said, begins_answer=False)
    assert text.endswith("thick and\n")
    assert tokens(more) == tokens(ask(model, prompt=text.removesuffix("\n")))
    error = ask(model, messages=said, continue_final_message=True, add_generation_prompt=True)["error"]
    assert error["param"] == "continue_final_message"


def test_ids_and_tokens_are_the_clients(model: Running):
    answer = ask(model, messages=ASK, request_id="mine", logprobs=True, return_tokens_as_token_ids=True, max_tokens=2)
    assert answer["id"] == "chatcmpl-mine"
    shown = [row["token"] for row in answer["choices"][0]["logprobs"]["content"]]
    assert shown == [f"token_id:{token}" for token in tokens(answer)]
    assert ask(model, prompt="the", priority=3)["error"]["param"] == "priority"


def settings_of(**more: Any) -> Settings:
    return Settings(
        served_name="tiny", max_model_len=256, max_num_seqs=1, values=False, linear="step=2000", clock="virtual",
        audit=True, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def templated(tiny_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A template that begins a thought unless it is asked not to."""
    template = tmp_path_factory.mktemp("templates") / "thinks.jinja"
    template.write_text(
        "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}"
        "{% if enable_thinking is not false %}<think>{% endif %}{{ reasoning_effort }}"
    )
    with served(tiny_file, settings_of(chat_template=str(template), api_keys=(KEY,))) as running:
        yield running


def test_templates_take_variables_and_begin_thoughts(templated: Running):
    thinks = ask(templated, messages=ASK, seed=1)
    message = thinks["choices"][0]["message"]
    assert message["content"] == "" and message["reasoning"]
    assert thinks["usage"]["completion_tokens_details"]["reasoning_tokens"] == 8
    quick = ask(templated, messages=ASK, seed=1, chat_template_kwargs={"enable_thinking": False})
    assert quick["choices"][0]["message"]["content"] == message["reasoning"]
    effort = ask(templated, messages=ASK, reasoning_effort="the thin the thin")
    assert effort["usage"]["prompt_tokens"] > thinks["usage"]["prompt_tokens"] > quick["usage"]["prompt_tokens"]
    # Names of the template's own words stay what they are, and nothing but a template's error comes of others.
    odd = {"messages": 1, "tools": 2, "add_generation_prompt": 3, "begins_answer": 4, "self": 5, "enable_thinking": []}
    assert ask(templated, messages=ASK, chat_template_kwargs=odd)["choices"]


def test_official_clients_read_reasoning(templated: Running):
    """Whole and in streams; all of the answer is a thought here, and nothing of it with thinking disabled."""
    client = openai.OpenAI(base_url=f"{templated.url}/v1", api_key=KEY, max_retries=0, timeout=60)
    whole = client.responses.create(model="tiny", input="the thin", max_output_tokens=6, store=False)
    assert [item.type for item in whole.output] == ["reasoning"] and whole.output[0].content[0].text
    events = list(client.responses.create(model="tiny", input="the thin", max_output_tokens=6, stream=True))
    told = "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
    assert told == events[-1].response.output[0].content[0].text

    claude = anthropic.Anthropic(base_url=templated.url, api_key=KEY, max_retries=0, timeout=60)
    asked = {"model": "tiny", "max_tokens": 6, "messages": ASK}
    with claude.messages.stream(**asked, thinking={"type": "enabled", "budget_tokens": 1024}) as stream:
        told = "".join(event.thinking for event in stream if event.type == "thinking")
        message = stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking"] and message.content[0].thinking == told != ""
    plain = claude.messages.create(**asked, thinking={"type": "disabled"})
    assert [block.type for block in plain.content] == ["text"]
    back = [*ASK, {"role": "assistant", "content": message.content}, *ASK]
    assert claude.messages.create(**{**asked, "messages": back}).content


def test_the_lowest_priority_number_is_answered_first(tiny_file: Path):
    core = build(tiny_file, settings_of(policy="vllm", scheduling_policy="priority")).service.engine.core
    asked = {priority: Params(max_tokens=2, priority=priority).core() for priority in (5, -1, 3)}
    numbers = {core.add([5, 6], params, None): priority for priority, params in asked.items()}
    given = []
    while (step := core.step(0.0, False)) is not None:
        given += [numbers[event[0]] for event in step["events"]]
    assert given == [-1, -1, 3, 3, 5, 5]


def test_settings_of_orders_that_no_policy_knows_are_refused(tiny_file: Path):
    with pytest.raises(InputError, match="policy neuron takes requests as they come"):
        build(tiny_file, settings_of(scheduling_policy="priority"))
    with pytest.raises(InputError, match="tool_call_parser is 'xml'"):
        build(tiny_file, settings_of(tool_call_parser="xml"))
    with pytest.raises(InputError, match="the chat template .*absent"):
        build(tiny_file, settings_of(chat_template="absent.jinja"))


def test_what_the_model_says_of_a_prompt(model: Running):
    """Each token's log probability is that of a request whose prompt ends before it, whatever is cached or in parts."""
    prompt = [int(t) for t in range(3, 63)]
    ask(model, prompt=prompt)  # cached now, and computed nevertheless
    scored = ask(model, prompt=prompt, prompt_logprobs=2, max_tokens=1)
    rows = scored["choices"][0]["prompt_logprobs"]
    assert cached(scored) == 0 and len(rows) == 60 and rows[0] is None
    for at in (1, 7, 59):
        alone = ask(model, prompt=prompt[:at], max_tokens=1, logprobs=2, allowed_token_ids=[prompt[at]])
        expected = alone["choices"][0]["logprobs"]
        row = rows[at][str(prompt[at])]
        assert row["logprob"] == pytest.approx(expected["token_logprobs"][0], abs=1e-5)
        likeliest = sorted((each["logprob"] for each in rows[at].values() if each["rank"] <= 2), reverse=True)
        tops = sorted(expected["top_logprobs"][0].values(), reverse=True)[:2]
        assert likeliest == pytest.approx(tops, abs=1e-5)
    assert ask(model, messages=ASK, prompt_logprobs=0)["choices"][0]["prompt_logprobs"][0] is None
    assert ask(model, prompt=prompt, prompt_logprobs=1, stream=True)["error"]["param"] == "prompt_logprobs"


def test_a_repeated_prompt_has_its_log_probabilities(model: Running):
    """As lm-evaluation-harness asks."""
    prompt = [int(t) for t in range(3, 23)]
    rows = ask(model, prompt=prompt, prompt_logprobs=0, max_tokens=1)["choices"][0]["prompt_logprobs"]
    own = [None, *(row[str(token)]["logprob"] for row, token in zip(rows[1:], prompt[1:]))]
    one, none = (ask(model, prompt=prompt, echo=True, logprobs=1, max_tokens=count)["choices"][0] for count in (1, 0))
    text = model.built.service.text.tokenizer.decode(prompt)
    assert one["logprobs"]["token_logprobs"][:20] == own == none["logprobs"]["token_logprobs"]
    assert len(one["logprobs"]["tokens"]) == 21 and one["logprobs"]["top_logprobs"][0] is None
    assert one["text"].startswith(text) and none["text"] == text and none["logprobs"]["text_offset"][0] == 0
    assert "".join(none["logprobs"]["tokens"]) == text
    assert ask(model, prompt=prompt, max_tokens=0)["error"]["param"] == "max_tokens"
    # A step of two prompts, and of others' answers: each has its own.
    both = ask(model, prompt=[prompt, prompt[::-1]], echo=True, logprobs=0, max_tokens=3, n=2)["choices"]
    assert [len(each["logprobs"]["tokens"]) for each in both] == [23] * 4
    assert both[0]["logprobs"]["token_logprobs"][:20] == pytest.approx(own, abs=1e-5)
