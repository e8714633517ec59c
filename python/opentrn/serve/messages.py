"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from opentrn.serve.errors import ApiError
from opentrn.serve.harmony import Thought
from opentrn.serve.prompts import Call, Tools
from opentrn.serve.requests import StopText
from opentrn.serve.service import Answer, Service, new_id, predicted

__all__ = ["CountRequest", "MessagesRequest", "create", "prompt_of"]

_Text = Annotated[str, Meta(max_length=4_000_000)]
_STOP = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class TextBlock(Struct, tag_field="type", tag="text"):
    text: _Text


class ToolUse(Struct, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any]


class ToolResult(Struct, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: _Text | list[TextBlock] | None = None
    is_error: bool | None = None


class Thinking(Struct, tag_field="type", tag="thinking"):
    thinking: str
    signature: str | None = None


class User(Struct, tag_field="role", tag="user"):
    content: _Text | list[TextBlock | ToolResult]


class Assistant(Struct, tag_field="role", tag="assistant"):
    content: _Text | list[TextBlock | ToolUse | Thinking]


class Tool(Struct):
    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,128}$")]
    input_schema: dict[str, Any]
    description: str | None = None
    type: str | None = None
    cache_control: dict[str, Any] | None = None


class Choice(Struct):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class CountRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    model: str
    messages: Annotated[list[User | Assistant], Meta(min_length=1)]
    system: _Text | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: Choice | None = None


class MessagesRequest(CountRequest, kw_only=True, forbid_unknown_fields=True):
    max_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    metadata: dict[str, Any] | None = None
    stop_sequences: Annotated[list[StopText], Meta(max_length=64)] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=2 ** 31 - 1)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    service_tier: str | None = None


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.text for block in content or ())


def _rows(message: User | Assistant) -> list[dict[str, Any]]:
    """A user's results of tools are messages of their own."""
    role = message.__struct_config__.tag
    if isinstance(message.content, str):
        return [{"role": role, "content": message.content}]
    rows: list[dict[str, Any]] = []
    text = "".join(block.text for block in message.content if isinstance(block, TextBlock))
    uses = [block for block in message.content if isinstance(block, ToolUse)]
    calls = [Call(block.name, json.dumps(block.input), block.id) for block in uses]
    for block in message.content:
        if isinstance(block, ToolResult):
            rows.append({"role": "tool", "content": _text(block.content), "tool_call_id": block.tool_use_id})
    if text or calls or not rows:
        rows.append({"role": role, "content": text, "tool_calls": calls})
    return rows


def _tools(body: CountRequest) -> Tools:
    listed = [
        {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
        for tool in body.tools or []
    ]
    choice = body.tool_choice
    if choice is None:
        return Tools(listed, "auto" if listed else "none")
    if choice.type not in ("auto", "any", "tool", "none"):
        raise ApiError(400, f"tool_choice.type is {choice.type!r}: auto, any, tool or none", param="tool_choice")
    if choice.type in ("any", "tool") and not listed:
        raise ApiError(400, "tool_choice asks for a tool, and there are none", param="tool_choice")
    if choice.type == "tool":
        return Tools(listed, choice.name or "")
    return Tools(listed, {"any": "required"}.get(choice.type, choice.type))


def prompt_of(service: Service, body: CountRequest) -> tuple[list[int], Tools]:
    """Tokens of the prompt. Raises ApiError."""
    service.check_model(body.model)
    tools = _tools(body)
    rows = [{"role": "system", "content": _text(body.system)}] if body.system else []
    for message in body.messages:
        rows += _rows(message)
    return service.prompts.chat(rows, tools), tools


def _usage(prompt: Sequence[int], answer: Answer) -> dict[str, Any]:
    cached = answer.end.get("cached_tokens", 0)
    row: dict[str, Any] = {
        "input_tokens": len(prompt) - cached, "output_tokens": len(answer.tokens),
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached, "cache_creation": None,
        "output_tokens_details": {"thinking_tokens": answer.reasoning_tokens},
        "server_tool_use": None, "service_tier": "standard", "inference_geo": None,
    }  # fmt: skip
    if times := predicted([answer]):
        row["predicted_device_time"] = times
    return row


def _block(part: Any) -> dict[str, Any]:
    if isinstance(part, Call):
        return {"type": "tool_use", "id": _tool_id(part), "name": part.name, "input": _object(part),
                "caller": {"type": "direct"}}  # fmt: skip
    return {"type": "text", "text": part, "citations": None}


def _object(call: Call) -> Any:
    found = json.loads(call.arguments)
    return found if isinstance(found, dict) else {"value": found}


def _tool_id(call: Call) -> str:
    return "toolu_" + call.id.removeprefix("call_")


def _message(model: str, prompt: Sequence[int], answer: Answer) -> dict[str, Any]:
    content = [_block(answer.text)] if answer.text or not answer.calls else []
    content += [_block(call) for call in answer.calls]
    by_string = isinstance(answer.stop_reason, str)
    return {
        "id": new_id("msg_"), "type": "message", "role": "assistant", "model": model,
        "content": content, "stop_reason": "stop_sequence" if by_string else _STOP.get(answer.finish),
        "stop_sequence": answer.stop_reason if by_string else None, "usage": _usage(prompt, answer),
        "container": None, "stop_details": None,
    }  # fmt: skip


async def _events(
    service: Service, body: MessagesRequest, prompt: list[int], answer: Answer
) -> AsyncIterator[dict[str, Any]]:
    at, is_open = -1, False
    try:
        yield {"type": "message_start", "message": {**_message(body.model, prompt, answer), "content": [],
                                                    "stop_reason": None}}  # fmt: skip
        yield {"type": "ping"}
        async for part, _ in answer.parts():
            if isinstance(part, Thought):
                continue
            if isinstance(part, Call):
                if is_open:
                    yield {"type": "content_block_stop", "index": at}
                at, is_open = at + 1, False
                yield {"type": "content_block_start", "index": at, "content_block": {**_block(part), "input": {}}}
                yield {"type": "content_block_delta", "index": at,
                       "delta": {"type": "input_json_delta", "partial_json": json.dumps(_object(part))}}  # fmt: skip
                yield {"type": "content_block_stop", "index": at}
                continue
            if not is_open:
                at, is_open = at + 1, True
                yield {"type": "content_block_start", "index": at, "content_block": _block("")}
            yield {"type": "content_block_delta", "index": at, "delta": {"type": "text_delta", "text": part}}
        if is_open:
            yield {"type": "content_block_stop", "index": at}
        end = _message(body.model, prompt, answer)
        yield {"type": "message_delta", "usage": end["usage"],
               "delta": {"stop_reason": end["stop_reason"], "stop_sequence": end["stop_sequence"], "container": None,
                         "stop_details": None}}  # fmt: skip
        yield {"type": "message_stop"}
    finally:
        service.abort([answer])


async def create(service: Service, body: MessagesRequest) -> dict[str, Any] | AsyncIterator[dict[str, Any]]:
    """POST /v1/messages: the message, or its events."""
    prompt, tools = prompt_of(service, body)
    params = service.params(body, len(prompt), max_tokens=min(body.max_tokens, max(1, service.context - len(prompt))))
    params.stop = list(body.stop_sequences or [])
    answers = service.start(prompt, params, grammar=tools.grammar(), tools=tools, chat=True)
    if body.stream:
        return _events(service, body, prompt, answers[0])
    try:
        await answers[0].whole()
    finally:
        service.abort(answers)
    return _message(body.model, prompt, answers[0])
