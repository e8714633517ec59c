"""The official clients of OpenAI and Anthropic against the server."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest

KEY = "secret"
ASK = [{"role": "user", "content": "the thin"}]
TOOL = {
    "name": "find", "description": "Finds.",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 0}},
                   "required": ["n"], "additionalProperties": False},
}  # fmt: skip


@pytest.fixture(scope="module")
def client(model: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{model.url}/v1", api_key=KEY, max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def claude(model: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=model.url, api_key=KEY, max_retries=0, timeout=60)


def test_a_chat_is_the_models_own_answer(client: openai.OpenAI, model: Any):
    """Greedy: what LanguageModel.generate gives to the same prompt."""
    answer = client.chat.completions.create(model="tiny", messages=ASK, max_tokens=12)
    direct = model.built.model
    prompt = direct.encode(direct.chat_prompt(ASK))
    engine = type(direct)(direct.path, dtype="f32", context=1024)
    list(engine.generate([prompt], max_tokens=12))
    assert answer.choices[0].message.content == engine.answers[0].text
    assert answer.usage.prompt_tokens == len(prompt)
    assert answer.usage.completion_tokens == len(engine.answers[0].tokens)
    times = answer.usage.predicted_device_time
    assert 0 < times["first_token_ms"] < times["total_ms"]
    # Alone, and read in one step: the program's time.
    assert times["first_token_ms"] == pytest.approx(engine.answers[0].predicted_first_us / 1e3, abs=1e-6)


def test_a_stream_has_the_text_of_the_answer(client: openai.OpenAI):
    whole = client.chat.completions.create(model="tiny", messages=ASK, max_tokens=10, logprobs=True, top_logprobs=2)
    chunks = list(
        client.chat.completions.create(
            model="tiny", messages=ASK, max_tokens=10, stream=True, logprobs=True, top_logprobs=2,
            stream_options={"include_usage": True},
        )
    )  # fmt: skip
    parts = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(part.delta.content or "" for part in parts) == whole.choices[0].message.content
    assert parts[0].delta.role == "assistant" and parts[-1].finish_reason == whole.choices[0].finish_reason == "length"
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens == 10
    streamed = [row for part in parts if part.logprobs for row in part.logprobs.content]
    assert [row.logprob for row in streamed] == [row.logprob for row in whole.choices[0].logprobs.content]
    for row in streamed:
        assert len(row.top_logprobs) == 2 and row.logprob == row.top_logprobs[0].logprob  # greedy: the likeliest
        assert row.logprob <= 0


def test_n_answers_with_seeds(client: openai.OpenAI):
    def ask(seed: int) -> list[str]:
        answer = client.chat.completions.create(
            model="tiny", messages=ASK, max_tokens=8, n=3, seed=seed, temperature=1.0
        )
        return [choice.message.content for choice in answer.choices]

    first = ask(5)
    assert len(first) == 3 and len(set(first)) > 1
    assert ask(5) == first and ask(6) != first


def test_stop_strings_end_an_answer_and_are_not_shown(client: openai.OpenAI):
    whole = client.completions.create(model="tiny", prompt="the", max_tokens=30).choices[0]
    stop = whole.text[5:8]
    cut = client.completions.create(model="tiny", prompt="the", max_tokens=30, stop=[stop, "never"])
    assert cut.choices[0].text == whole.text[: whole.text.index(stop)]
    assert cut.choices[0].finish_reason == "stop" and whole.finish_reason == "length"
    streamed = client.completions.create(model="tiny", prompt="the", max_tokens=30, stop=stop, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == cut.choices[0].text
    kept = client.completions.create(model="tiny", prompt="the", max_tokens=30, stop=stop,
                                     extra_body={"include_stop_str_in_output": True})  # fmt: skip
    assert kept.choices[0].text == cut.choices[0].text + stop


def test_sampling_options_change_what_they_say(client: openai.OpenAI):
    def ask(**options: Any) -> Any:
        return client.completions.create(model="tiny", prompt="in the", max_tokens=6, **options).choices[0]

    usual = ask(extra_body={"return_token_ids": True})
    first = usual.token_ids[0]
    assert ask(logit_bias={str(first): -100}, extra_body={"return_token_ids": True}).token_ids[0] != first
    forced = ask(logit_bias={"7": 100}, extra_body={"return_token_ids": True})
    assert forced.token_ids == [7] * 6
    varied = ask(logit_bias={"7": 20, "9": 19}, presence_penalty=2, extra_body={"return_token_ids": True})
    assert set(varied.token_ids) == {7, 9}
    ended = ask(logit_bias={"101": 100}, extra_body={"return_token_ids": True})
    assert ended.finish_reason == "stop" and ended.text == ""
    later = ask(logit_bias={"101": 100}, extra_body={"min_tokens": 3, "return_token_ids": True})
    assert len(later.token_ids) == 4 and later.token_ids[3] == 101
    ignored = ask(logit_bias={"101": 100}, extra_body={"ignore_eos": True, "return_token_ids": True})
    assert ignored.token_ids == [101] * 6 and ignored.finish_reason == "length"
    stopped = ask(logit_bias={"7": 100}, extra_body={"stop_token_ids": [7], "return_token_ids": True})
    assert stopped.token_ids == [7] and stopped.stop_reason == 7 if hasattr(stopped, "stop_reason") else True
    picked = ask(temperature=1.0, seed=1, extra_body={"top_k": 1, "return_token_ids": True})
    assert picked.token_ids == usual.token_ids


def test_completions_take_many_prompts_and_tokens(client: openai.OpenAI):
    apart = [client.completions.create(model="tiny", prompt=p, max_tokens=5).choices[0].text for p in ("the", "in")]
    both = client.completions.create(model="tiny", prompt=["the", "in"], max_tokens=5)
    assert [choice.text for choice in both.choices] == apart
    tokens = client.completions.create(model="tiny", prompt=[[98], [100]], max_tokens=2, echo=True)
    assert [len(choice.text) > 0 for choice in tokens.choices] == [True, True]
    scored = client.completions.create(model="tiny", prompt="the", max_tokens=4, logprobs=2).choices[0].logprobs
    assert len(scored.tokens) == len(scored.token_logprobs) == len(scored.top_logprobs) == 4
    assert max(scored.token_logprobs) <= 0


def test_structured_output_is_what_the_schema_says(client: openai.OpenAI):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99},
                                               "ok": {"type": "boolean"}},
              "required": ["n", "ok"], "additionalProperties": False}  # fmt: skip
    answer = client.chat.completions.create(
        model="tiny", messages=ASK, max_tokens=60,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    )  # fmt: skip
    found = json.loads(answer.choices[0].message.content)
    assert set(found) == {"n", "ok"} and 0 <= found["n"] <= 99 and answer.choices[0].finish_reason == "stop"
    for outputs, expected in (
        ({"choice": ["thin", "in"]}, {"thin", "in"}),
        ({"regex": "(a|b)c"}, {"ac", "bc"}),
        ({"grammar": 'start: "x" "y"'}, {"xy"}),
    ):
        made = client.completions.create(model="tiny", prompt="the", max_tokens=20,
                                         extra_body={"structured_outputs": outputs})  # fmt: skip
        assert made.choices[0].text in expected


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "find"}}])
def test_a_tool_is_called(client: openai.OpenAI, choice: Any):
    options: dict[str, Any] = {"model": "tiny", "messages": ASK, "max_tokens": 80, "tool_choice": choice,
                               "tools": [{"type": "function", "function": TOOL}]}  # fmt: skip
    made = client.chat.completions.create(**options).choices[0]
    call = made.message.tool_calls[0]
    assert made.finish_reason == "tool_calls" and call.function.name == "find"
    assert json.loads(call.function.arguments).keys() == {"n"}
    chunks = [c.choices[0] for c in client.chat.completions.create(**options, stream=True)]
    streamed = [delta for c in chunks for delta in c.delta.tool_calls or []]
    assert "".join(d.function.arguments for d in streamed) == call.function.arguments
    assert chunks[-1].finish_reason == "tool_calls"
    after = [*ASK, {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
             {"role": "tool", "content": "7", "tool_call_id": call.id}]  # fmt: skip
    assert client.chat.completions.create(**options | {"messages": after, "tool_choice": "none"}).choices[0].message


def test_responses_remember(client: openai.OpenAI):
    first = client.responses.create(model="tiny", input="the", max_output_tokens=6, instructions="in")
    assert first.status == "incomplete" and first.output_text and first.usage.output_tokens == 6
    second = client.responses.create(model="tiny", input="thin", max_output_tokens=4, previous_response_id=first.id)
    assert second.usage.input_tokens > first.usage.input_tokens - 4
    assert client.responses.retrieve(first.id).output_text == first.output_text
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    options: Any = {"model": "tiny", "input": "the", "max_output_tokens": 6, "instructions": "in"}
    events = list(client.responses.create(**options, stream=True))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == first.output_text and events[-1].type == "response.incomplete"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    called = client.responses.create(
        model="tiny", input="the", max_output_tokens=80, tool_choice="required",
        tools=[{"type": "function", "name": "find", "parameters": TOOL["parameters"], "strict": False}],
    )  # fmt: skip
    assert called.output[0].type == "function_call" and json.loads(called.output[0].arguments).keys() == {"n"}


def test_messages(claude: anthropic.Anthropic, client: openai.OpenAI):
    options: dict[str, Any] = {"model": "tiny", "max_tokens": 8, "messages": ASK}
    whole = claude.messages.create(**options)
    chat = client.chat.completions.create(**options)
    assert whole.content[0].text == chat.choices[0].message.content and whole.stop_reason == "max_tokens"
    used = whole.usage
    assert used.input_tokens + used.cache_read_input_tokens == chat.usage.prompt_tokens
    with claude.messages.stream(**options) as stream:
        assert "".join(stream.text_stream) == whole.content[0].text
        assert stream.get_final_message().stop_reason == "max_tokens"
    counted = claude.messages.count_tokens(model="tiny", messages=ASK)
    assert counted.input_tokens == chat.usage.prompt_tokens
    called = claude.messages.create(
        **options | {"max_tokens": 80}, tool_choice={"type": "any"},
        tools=[{"name": "find", "input_schema": TOOL["parameters"]}],
    )  # fmt: skip
    block = called.content[-1]
    assert called.stop_reason == "tool_use" and block.type == "tool_use" and block.input.keys() == {"n"}
    used = block.model_dump(include={"type", "id", "name", "input"})
    result = {"type": "tool_result", "tool_use_id": block.id, "content": "7"}
    back = [*ASK, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]
    assert claude.messages.create(model="tiny", max_tokens=4, messages=back).content
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.create(**options | {"model": "other"})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"model": "other"}, openai.NotFoundError),
        ({"messages": []}, openai.BadRequestError),
        ({"max_tokens": 0}, openai.BadRequestError),
        ({"max_tokens": 10_000}, openai.BadRequestError),
        ({"temperature": 3}, openai.BadRequestError),
        ({"messages": [{"role": "user", "content": "the " * 1200}]}, openai.BadRequestError),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
         openai.BadRequestError),
        ({"logit_bias": {"99999": 1}}, openai.BadRequestError),
        ({"top_logprobs": 3}, openai.BadRequestError),
        ({"tool_choice": "required"}, openai.BadRequestError),
        ({"extra_body": {"no_such_field": 1}}, openai.BadRequestError),
        ({"extra_body": {"structured_outputs": {"regex": "("}}}, openai.BadRequestError),
        ({"messages": [{"role": "user", "content": "x" * 120_000}]}, openai.APIStatusError),
    ],
)  # fmt: skip
def test_refusals_are_the_clients_classes(client: openai.OpenAI, change: dict[str, Any], error: type[Exception]):
    with pytest.raises(error) as raised:
        client.chat.completions.create(**{"model": "tiny", "messages": ASK, "max_tokens": 4} | change)
    assert raised.value.status_code < 500 and raised.value.body["message"]


def test_a_wrong_key_is_refused(model: Any):
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{model.url}/v1", api_key="wrong", max_retries=0).models.list()
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=model.url, api_key="wrong", max_retries=0).messages.create(
            model="tiny", max_tokens=1, messages=ASK
        )


def test_models_and_tokens(client: openai.OpenAI, model: Any):
    assert [row.id for row in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").max_model_len == 1024
    made = client.post("/../tokenize", body={"model": "tiny", "prompt": "the thin"}, cast_to=object)
    assert made["count"] == len(made["tokens"]) and made["max_model_len"] == 1024
    back = client.post("/../detokenize", body={"tokens": made["tokens"]}, cast_to=object)
    assert back["prompt"] == "the thin"
