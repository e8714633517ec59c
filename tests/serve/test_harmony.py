"""Answers in Harmony's channels: what of them is text, reasoning and a call, however the text is cut into pieces."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from opentrn import _core
from opentrn.serve.engine import Params, Running
from opentrn.serve.harmony import WithMarkers

THINKS = "<|channel|>analysis<|message|>They ask for 2 < 3.<|end|>"
SAYS = "<|start|>assistant<|channel|>final<|message|>Yes: 2 < 3.<|return|>"
PREAMBLE = "<|start|>assistant<|channel|>commentary<|message|>I look it up.<|end|>"
CALLS = '<|start|>assistant<|channel|>commentary to=functions.sum <|constrain|>json<|message|>{"a":2,"b":3}<|call|>'
CALLS_ELSEWHERE = '<|start|>assistant to=functions.sum<|channel|>commentary json<|message|>{"a":2,"b":3}<|call|>'


FACTS = {"name": "tiny", "adapters": {}, "context": 4096, "defaults": {}, "stop_tokens": [], "structured": True,
         "max_logprobs": 20, "version": "0", "template": "<|channel|>final<|message|>", "template_variables": {},
         "by_priority": False, "reasoning_parser": "auto", "tool_call_parser": "auto",
         "special_tokens": []}  # fmt: skip
END = {"cached_tokens": 0, "predicted_first_token_s": 1, "predicted_end_s": 2, "predicted_own_s": 1}


Row = dict[str, Any]


def chat(pieces: list[str], template: str = "<|channel|>final<|message|>", **body: Any) -> tuple[list[Row], Row]:
    """Deltas of a stream whose steps give these pieces of text, and the whole answer."""
    served = _core.ServedModel(json.dumps(FACTS | {"template": template}))
    request = {"model": "tiny", "messages": [{"role": "user", "content": "a"}], **body}
    exchange = _core.open_exchange("chat", served, json.dumps(request), lambda token: ("", b""), _core.ResponseStore(1))
    ((_, params),) = exchange.plan([4], [""])
    assert json.loads(params)["markers"] == ("<|channel|>" in template)
    events = exchange.begin([])
    for number, text in enumerate(pieces, 1):
        last = number == len(pieces)
        events += exchange.take(0, text, [(7, 0.0, 0, [])], "stop" if last else "", None, END if last else None)
    rows = [json.loads(row.removeprefix(b"data: ")) for row in events.split(b"\n\n") if row]
    return [row["choices"][0]["delta"] for row in rows], json.loads(exchange.whole())


def read(text: str, size: int) -> dict[str, Any]:
    message = chat([text[at : at + size] for at in range(0, len(text), size)])[1]["choices"][0]["message"]
    calls = [(each["function"]["name"], each["function"]["arguments"]) for each in message.get("tool_calls", ())]
    return {"shown": message["content"] or "", "thoughts": message.get("reasoning", ""), "calls": calls}


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
    assert chat(["<|channel|>"], template="<|im_start|>")[1]["choices"][0]["message"]["content"] == "<|channel|>"


def test_a_stream_has_its_markers_only_where_asked() -> None:
    from tokenizers import AddedToken, Tokenizer, models

    words = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    words.add_special_tokens([AddedToken("<|end|>", special=True)])
    ids = [0, words.token_to_id("<|end|>"), 1]
    assert "<|end|>" not in words.decode(ids) and "<|end|>" in WithMarkers(words).decode(ids, skip_special_tokens=True)
    engine: Any = SimpleNamespace(tokenizer=words)
    shown = {}
    for markers in (False, True):
        text = Running(engine, Params(max_tokens=3, markers=markers), None, before=[]).text
        shown[markers] = "".join(map(text.add, ids)) + text.rest()
    assert "<|end|>" in shown[True] and "<|end|>" not in shown[False]


def test_chat_has_reasoning_beside_content_whole_and_streamed() -> None:
    pieces = [THINKS[:30], THINKS[30:], *SAYS.partition("<|message|>")]
    whole = chat(pieces)[1]
    choice = whole["choices"][0]
    assert choice["message"]["reasoning"] == "They ask for 2 < 3." and choice["message"]["content"] == "Yes: 2 < 3."
    assert choice["finish_reason"] == "stop"
    # The step within the channel; that which leaves it is not one.
    assert whole["usage"]["completion_tokens_details"]["reasoning_tokens"] == 1
    deltas = chat(pieces, stream=True)[0]
    assert "".join(delta.get("reasoning", "") for delta in deltas) == "They ask for 2 < 3."
    assert "".join(delta.get("content", "") for delta in deltas) == "Yes: 2 < 3."


def test_a_call_ends_a_chat_with_tool_calls() -> None:
    choice = chat([THINKS, CALLS])[1]["choices"][0]
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["sum"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
