"""OpenAI's responses, as the Open Responses specification has them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from opentrn.serve.errors import ApiError
from opentrn.serve.harmony import Thought
from opentrn.serve.prompts import Call, Tools
from opentrn.serve.service import Answer, Service, new_id, predicted

__all__ = ["ResponsesRequest", "Store", "create"]


class ResponsesRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    model: str
    input: Annotated[str, Meta(max_length=4000000)] | list[dict[str, Any]]
    instructions: str | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=2 ** 31 - 1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    truncation: str | None = None
    background: bool | None = None
    metadata: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    include: list[str] | None = None
    max_tool_calls: int | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    user: str | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


class Store:
    """The last responses, with the conversation that led to them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: OrderedDict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = OrderedDict()

    def put(self, response: dict[str, Any], messages: list[dict[str, Any]]) -> None:
        """Keeps one; the oldest goes."""
        self._rows[response["id"]] = (response, messages)
        while len(self._rows) > self._most:
            self._rows.popitem(last=False)

    def _row(self, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        if name not in self._rows:
            raise ApiError(404, f"Response with id '{name}' not found.", param="id")
        return self._rows[name]

    def get(self, name: str) -> dict[str, Any]:
        """A response. Raises ApiError."""
        return self._row(name)[0]

    def messages(self, name: str) -> list[dict[str, Any]]:
        """The conversation with the answer at its end. Raises ApiError."""
        return self._row(name)[1]

    def delete(self, name: str) -> None:
        """Forgets one."""
        self._row(name)
        del self._rows[name]


def _bad(message: str, param: str) -> ApiError:
    return ApiError(400, message, param=param)


def _content(value: Any, where: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if not isinstance(value, list):
        raise _bad(f"{where} is neither text nor a list of parts", where)
    texts = []
    for part in value:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, dict) else None
        if kind not in ("input_text", "output_text", "text", "summary_text", "refusal") or not isinstance(text, str):
            raise _bad(f"{where} has a part of type {kind!r}; the model reads text", where)
        texts.append(text)
    return "".join(texts)


def _messages(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for i, item in enumerate(items):
        where, kind = f"input[{i}]", item.get("type", "message")
        if kind == "message":
            role = item.get("role")
            if role not in ("user", "assistant", "system", "developer"):
                raise _bad(f"{where}.role is {role!r}", f"{where}.role")
            rows.append({"role": role, "content": _content(item.get("content"), f"{where}.content")})
        elif kind == "function_call":
            name, arguments = item.get("name"), item.get("arguments")
            if not isinstance(name, str) or not isinstance(arguments, str):
                raise _bad(f"{where} has no name and arguments", where)
            rows.append({"role": "assistant", "content": "", "tool_calls": [Call(name, arguments)]})
        elif kind == "function_call_output":
            rows.append({"role": "tool", "content": _content(item.get("output"), f"{where}.output")})
        elif kind != "reasoning":
            raise _bad(f"{where}.type is {kind!r}; there are message, function_call, function_call_output", where)
    return rows


def _tools(body: ResponsesRequest) -> tuple[Tools, list[dict[str, Any]]]:
    """Tools for the prompt, and as the response repeats them."""
    listed, shown = [], []
    for i, tool in enumerate(body.tools or []):
        name, parameters = tool.get("name"), tool.get("parameters")
        if tool.get("type") != "function" or not isinstance(name, str) or not name:
            raise _bad(f"tools[{i}] is of type {tool.get('type')!r}; there are functions with a name", f"tools[{i}]")
        if not isinstance(parameters, (dict, type(None))):
            raise _bad(f"tools[{i}].parameters is not an object", f"tools[{i}].parameters")
        described = tool.get("description")
        listed.append({"name": name, "description": described or "", "parameters": parameters or {"type": "object"}})
        shown.append({"type": "function", "name": name, "description": described, "parameters": parameters,
                      "strict": bool(tool.get("strict", True))})  # fmt: skip
    choice = body.tool_choice if body.tool_choice is not None else "auto"
    if isinstance(choice, dict):
        if choice.get("type") != "function" or not isinstance(choice.get("name"), str):
            raise _bad("tool_choice names no function", "tool_choice")
        return Tools(listed, choice["name"]), shown
    if choice not in ("auto", "none", "required"):
        raise _bad(f"tool_choice is {choice!r}: auto, none, required or a function", "tool_choice")
    if choice == "required" and not listed:
        raise _bad("tool_choice is 'required', and there are no tools", "tool_choice")
    return Tools(listed, choice if listed else "none"), shown


def _format(body: ResponsesRequest) -> tuple[dict[str, Any], Any]:
    """text.format as the response repeats it, and its grammar."""
    format = (body.text or {}).get("format") or {"type": "text"}
    kind = format.get("type") if isinstance(format, dict) else None
    if kind == "text":
        return {"type": "text"}, None
    if kind == "json_object":
        return {"type": "json_object"}, ("json", {"type": "object"})
    schema = format.get("schema") if kind == "json_schema" else None
    if not isinstance(schema, dict):
        raise _bad("text.format is text, json_object, or json_schema with a schema", "text.format")
    shown = {"type": "json_schema", "name": str(format.get("name", "schema")), "schema": schema,
             "description": format.get("description"), "strict": bool(format.get("strict", False))}  # fmt: skip
    return shown, ("json", schema)


def _check(body: ResponsesRequest) -> None:
    if body.background:
        raise _bad("background is not supported", "background")
    if body.truncation not in (None, "disabled"):
        raise _bad("truncation other than 'disabled' is not supported", "truncation")
    if body.top_logprobs:
        raise _bad("top_logprobs is not supported here; /v1/chat/completions has it", "top_logprobs")
    if body.include:
        raise _bad(f"include of {', '.join(body.include)} is not supported", "include")


class _Response:
    """One response as it grows."""

    def __init__(self, body: ResponsesRequest, prompt: list[int], answer: Answer, tools: Any, format: Any) -> None:
        self.prompt, self.answer = prompt, answer
        self.items: list[dict[str, Any]] = []
        self.base: dict[str, Any] = {
            "id": new_id("resp_"), "object": "response", "created_at": int(time.time()), "completed_at": None,
            "status": "in_progress", "incomplete_details": None, "model": body.model,
            "previous_response_id": body.previous_response_id, "instructions": body.instructions, "output": [],
            "error": None, "tools": tools,
            "tool_choice": body.tool_choice if body.tool_choice is not None else "auto", "truncation": "disabled",
            "parallel_tool_calls": body.parallel_tool_calls is not False, "text": {"format": format},
            "top_p": answer.running.params.top_p, "presence_penalty": answer.running.params.presence_penalty,
            "frequency_penalty": answer.running.params.frequency_penalty, "top_logprobs": 0,
            "temperature": answer.running.params.temperature, "reasoning": {"effort": None, "summary": None},
            "usage": None, "max_output_tokens": body.max_output_tokens, "max_tool_calls": body.max_tool_calls,
            "store": body.store is not False, "background": False, "service_tier": "default",
            "metadata": body.metadata or {}, "safety_identifier": body.safety_identifier,
            "prompt_cache_key": body.prompt_cache_key,
        }  # fmt: skip

    def usage(self) -> dict[str, Any]:
        given, cached = len(self.answer.tokens), self.answer.end.get("cached_tokens", 0)
        row = {"input_tokens": len(self.prompt), "output_tokens": given, "total_tokens": len(self.prompt) + given,
               "input_tokens_details": {"cached_tokens": cached},
               "output_tokens_details": {"reasoning_tokens": self.answer.reasoning_tokens}}  # fmt: skip
        return row | {"predicted_device_time": predicted([self.answer])}

    def done(self) -> dict[str, Any]:
        cut = self.answer.finish == "length"
        return self.base | {
            "status": "incomplete" if cut else "completed", "output": self.items, "usage": self.usage(),
            "completed_at": None if cut else int(time.time()),
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        }  # fmt: skip

    def message(self, text: str, status: str) -> dict[str, Any]:
        return {"type": "message", "status": status, "role": "assistant", "content": [_part(text)]}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: Call, status: str) -> dict[str, Any]:
    return {"type": "function_call", "id": new_id("fc_"), "call_id": call.id, "name": call.name,
            "arguments": call.arguments, "status": status}  # fmt: skip


async def _grow(made: _Response) -> AsyncIterator[dict[str, Any]]:
    """The events between creation and end; items are whole when they are over."""
    text, name = "", ""

    def place(at: int) -> dict[str, Any]:
        return {"item_id": name, "output_index": at, "content_index": 0}

    def closed() -> list[dict[str, Any]]:
        status = "incomplete" if made.answer.finish == "length" else "completed"
        at, item = len(made.items), {"id": name, **made.message(text, status)}
        made.items.append(item)
        return [
            {"type": "response.output_text.done", **place(at), "text": text, "logprobs": []},
            {"type": "response.content_part.done", **place(at), "part": _part(text)},
            {"type": "response.output_item.done", "output_index": at, "item": item},
        ]

    async for part, _ in made.answer.parts():
        at = len(made.items)
        if isinstance(part, Thought):
            continue
        if isinstance(part, str):
            if not name:
                name = new_id("msg_")
                item = {"id": name, **made.message("", "in_progress"), "content": []}
                yield {"type": "response.output_item.added", "output_index": at, "item": item}
                yield {"type": "response.content_part.added", **place(at), "part": _part("")}
            text += part
            yield {"type": "response.output_text.delta", **place(at), "delta": part, "logprobs": []}
            continue
        if name:
            for event in closed():
                yield event
            text, name, at = "", "", at + 1
        item = _call_item(part, "completed")
        made.items.append(item)
        row = {"item_id": item["id"], "output_index": at}
        yield {"type": "response.output_item.added", "output_index": at,
               "item": item | {"arguments": "", "status": "in_progress"}}  # fmt: skip
        yield {"type": "response.function_call_arguments.delta", **row, "delta": part.arguments}
        yield {"type": "response.function_call_arguments.done", **row, "arguments": part.arguments, "name": part.name}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    if not name and not made.items:  # an answer without text is one, too
        name = new_id("msg_")
        item = {"id": name, **made.message("", "in_progress"), "content": []}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield {"type": "response.content_part.added", **place(0), "part": _part("")}
    if name:
        for event in closed():
            yield event


async def create(
    service: Service, store: Store, body: ResponsesRequest
) -> dict[str, Any] | AsyncIterator[dict[str, Any]]:
    """POST /v1/responses: the response, or its events."""
    service.check_model(body.model)
    _check(body)
    items = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    said = list(store.messages(body.previous_response_id)) if body.previous_response_id is not None else []
    said += _messages(items)
    if not said:
        raise _bad("input is empty", "input")
    tools, shown = _tools(body)
    format, grammar = _format(body)
    system = [{"role": "system", "content": body.instructions}] if body.instructions else []
    prompt = service.prompts.chat([*system, *said], tools)
    most = body.max_output_tokens
    params = service.params(body, len(prompt), max_tokens=most)
    answer = service.start(prompt, params, grammar=tools.grammar() or grammar, tools=tools, chat=True)[0]
    made = _Response(body, prompt, answer, shown, format)

    def kept(response: dict[str, Any]) -> dict[str, Any]:
        if body.store is not False:
            own = {"role": "assistant", "content": answer.text, "tool_calls": answer.calls}
            store.put(response, [*said, own])
        return response

    async def events() -> AsyncIterator[dict[str, Any]]:
        number = 0
        try:
            for kind in ("response.created", "response.in_progress"):
                yield {"type": kind, "sequence_number": number, "response": made.base}
                number += 1
            async for event in _grow(made):
                yield {**event, "sequence_number": number}
                number += 1
            response = kept(made.done())
            yield {"type": f"response.{response['status']}", "sequence_number": number, "response": response}
        except ApiError as error:
            failed = made.base | {"status": "failed", "output": made.items,
                                  "error": {"code": "server_error", "message": error.message}}  # fmt: skip
            yield {"type": "response.failed", "sequence_number": number, "response": failed}
        finally:
            service.abort([answer])

    if body.stream:
        return events()
    try:
        async for _ in _grow(made):
            pass
    finally:
        service.abort([answer])
    return kept(made.done())
