"""Answers in Harmony's channels: what of them is text, reasoning and a call, however the text is cut into pieces."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from opentrn import _core
from opentrn.serve import openai
from opentrn.serve.engine import Delta, Params, Running
from opentrn.serve.harmony import Thought, WithMarkers, parts_of, writes_channels
from opentrn.serve.prompts import NO_TOOLS, Call
from opentrn.serve.service import Answer

THINKS = "<|channel|>analysis<|message|>They ask for 2 < 3.<|end|>"
SAYS = "<|start|>assistant<|channel|>final<|message|>Yes: 2 < 3.<|return|>"
PREAMBLE = "<|start|>assistant<|channel|>commentary<|message|>I look it up.<|end|>"
CALLS = '<|start|>assistant<|channel|>commentary to=functions.sum <|constrain|>json<|message|>{"a":2,"b":3}<|call|>'
CALLS_ELSEWHERE = '<|start|>assistant to=functions.sum<|channel|>commentary json<|message|>{"a":2,"b":3}<|call|>'


def read(text: str, size: int) -> dict[str, Any]:
    reader = _core.HarmonyReader()
    parts = [part for at in range(0, len(text), size) for part in parts_of(reader.add(text[at : at + size]))]
    parts += parts_of(reader.rest())
    calls = [(part.name, part.arguments) for part in parts if isinstance(part, Call)]
    thoughts = "".join(part for part in parts if isinstance(part, Thought))
    shown = "".join(part for part in parts if isinstance(part, str) and not isinstance(part, Thought))
    assert reader.calls == len(calls)
    return {"shown": shown, "thoughts": thoughts, "calls": calls}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 13, 1000])
def test_channels_are_told_apart_however_the_text_comes(size: int) -> None:
    thoughts, called = "They ask for 2 < 3.", [("sum", '{"a": 2, "b": 3}')]
    assert read(THINKS + SAYS, size) == {"shown": "Yes: 2 < 3.", "thoughts": thoughts, "calls": []}
    for call in (CALLS, CALLS_ELSEWHERE):
        assert read(THINKS + PREAMBLE + call, size) == {"shown": "I look it up.", "thoughts": thoughts, "calls": called}
    # The token that ends an answer has no text; an answer can end anywhere, and can be in no channel.
    assert read(THINKS + CALLS.removesuffix("<|call|>"), size)["calls"] == called
    assert read(THINKS.removesuffix(" 2 < 3.<|end|>"), size)["thoughts"] == "They ask for"
    assert read("Only text, to=functions.", size)["shown"] == "Only text, to=functions."
    assert read('{"a": 1}', size)["shown"] == '{"a": 1}'
    assert read("<|channel|>ana", size) == {"shown": "", "thoughts": "", "calls": []}
    assert read(CALLS.replace('{"a":2,"b":3}', "{2"), size)["calls"] == [("sum", "{2")]


def test_templates_with_channels_are_known() -> None:
    assert writes_channels("{{ '<|channel|>final<|message|>' }}") and not writes_channels("<|im_start|>")


def test_a_stream_has_its_markers_only_where_asked() -> None:
    from tokenizers import AddedToken, Tokenizer, models

    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.add_special_tokens([AddedToken("<|end|>", special=True)])
    ids = [0, words.token_to_id("<|end|>"), 1]
    assert "<|end|>" not in words.decode(ids) and "<|end|>" in WithMarkers(words).decode(ids, skip_special_tokens=True)
    engine: Any = SimpleNamespace(tokenizer=words)
    shown = {}
    for markers in (False, True):
        text = Running(engine, Params(max_tokens=3, markers=markers), None).text
        shown[markers] = "".join(map(text.add, ids)) + text.rest()
    assert "<|end|>" in shown[True] and "<|end|>" not in shown[False]


def answer_of(pieces: list[str]) -> Answer:
    async def step() -> Delta:
        text = pieces.pop(0)
        end = None if pieces else {"predicted_first_token_s": 1, "predicted_end_s": 2, "predicted_own_s": 1}
        return Delta(text, [(7, 0.0, 0, [])], "" if pieces else "stop", None, end)

    running: Any = SimpleNamespace(next=step, params=Params(max_tokens=9, markers=True), ended=True)
    return Answer(running, NO_TOOLS)


def test_chat_has_reasoning_beside_content_whole_and_streamed() -> None:
    pieces = [THINKS[:30], THINKS[30:], *SAYS.partition("<|message|>")]
    service: Any = SimpleNamespace(abort=lambda answers: None)
    body: Any = SimpleNamespace(logprobs=None, return_token_ids=False, stream_options=None, model="tiny")
    answer = asyncio.run(answer_of(list(pieces)).whole())
    choice = openai._choice(service, body, 0, answer)
    assert choice["message"]["reasoning"] == "They ask for 2 < 3." and choice["message"]["content"] == "Yes: 2 < 3."
    assert choice["finish_reason"] == "stop"
    details = openai.usage(4, [answer])["completion_tokens_details"]
    assert details["reasoning_tokens"] == 1  # the step within the channel; that which leaves it is not one

    async def streamed() -> list[dict[str, Any]]:
        chunks = openai._chat_chunks(service, body, [1, 2], [answer_of(list(pieces))])
        return [chunk["choices"][0]["delta"] async for chunk in chunks]

    deltas = asyncio.run(streamed())
    assert "".join(delta.get("reasoning", "") for delta in deltas) == "They ask for 2 < 3."
    assert "".join(delta.get("content", "") for delta in deltas) == "Yes: 2 < 3."


def test_a_call_ends_a_chat_with_tool_calls() -> None:
    answer = asyncio.run(answer_of([THINKS, CALLS]).whole())
    assert [call.name for call in answer.calls] == ["sum"] and answer.finish == "tool_calls" and answer.text == ""
