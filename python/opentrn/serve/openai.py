"""OpenAI's chat completions and completions, with vLLM's additions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from opentrn import __version__
from opentrn.serve.errors import ApiError
from opentrn.serve.harmony import Thought
from opentrn.serve.prompts import Call, Tools
from opentrn.serve.requests import Assistant, ChatRequest, ChosenTool, CompletionRequest, ToolResult
from opentrn.serve.service import Answer, Service, new_id, predicted, schema_spec, structured_spec

__all__ = ["chat", "completion", "merged", "messages_of", "prompts_of", "usage"]

FINGERPRINT = f"opentrn-{__version__}"
_COMPLETION_TOKENS = 16  # OpenAI's default
Chunks = AsyncIterator[dict[str, Any]]


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(getattr(part, "text", None) or getattr(part, "refusal", None) or "" for part in content)


def messages_of(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """As Prompts.chat() takes them."""
    rows = []
    for message in messages:
        row: dict[str, Any] = {"role": message.__struct_config__.tag, "content": _text(message.content)}
        if isinstance(message, Assistant) and message.tool_calls:
            row["tool_calls"] = [Call(c.function.name, c.function.arguments, c.id) for c in message.tool_calls]
        if isinstance(message, ToolResult):
            row["tool_call_id"] = message.tool_call_id
        rows.append(row)
    return rows


def _tools(body: ChatRequest) -> Tools:
    listed = [{"name": tool.function.name, "description": tool.function.description or "",
               "parameters": tool.function.parameters or {"type": "object", "properties": {}}}
              for tool in body.tools or []]  # fmt: skip
    choice: Any = body.tool_choice if body.tool_choice is not None else ("auto" if listed else "none")
    if isinstance(choice, ChosenTool):
        return Tools(listed, choice.function.name)
    if choice not in ("auto", "none", "required"):
        raise ApiError(400, f"tool_choice is {choice!r}: auto, none, required or a function", param="tool_choice")
    if not listed and choice == "required":
        raise ApiError(400, "tool_choice is 'required', and there are no tools", param="tool_choice")
    return Tools(listed, choice)


def usage(prompt_tokens: int, answers: Sequence[Answer]) -> dict[str, Any]:
    """OpenAI's usage of answers so far, with the predicted times."""
    given = sum(len(answer.tokens) for answer in answers)
    cached = max((answer.end.get("cached_tokens", 0) for answer in answers), default=0)
    row: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": given,
        "total_tokens": prompt_tokens + given,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": sum(answer.reasoning_tokens for answer in answers),
                                      "audio_tokens": 0, "accepted_prediction_tokens": 0,
                                      "rejected_prediction_tokens": 0},
    }  # fmt: skip
    if times := predicted(answers):
        row["predicted_device_time"] = times
    return row


async def merged(answers: Sequence[Answer]) -> AsyncIterator[tuple[int, str | Call | None, list[Any]]]:
    """(which answer, a part or None at its end, tokens) of several answers, as they come."""
    if len(answers) == 1:
        async for part, tokens in answers[0].parts():
            yield 0, part, tokens
        yield 0, None, []
        return
    queue: asyncio.Queue[tuple[int, Any, list[Any]]] = asyncio.Queue()

    async def feed(i: int) -> None:
        try:
            async for part, tokens in answers[i].parts():
                queue.put_nowait((i, part, tokens))
            queue.put_nowait((i, None, []))
        except ApiError as error:
            queue.put_nowait((i, error, []))

    tasks = [asyncio.ensure_future(feed(i)) for i in range(len(answers))]
    try:
        open_answers = len(answers)
        while open_answers:
            i, part, tokens = await queue.get()
            if isinstance(part, ApiError):
                raise part
            open_answers -= part is None
            yield i, part, tokens
    finally:
        for task in tasks:
            task.cancel()


# -- chat ----------------------------------------------------------------------------------------------------


def _scored(service: Service, token: Any) -> dict[str, Any]:
    number, logprob, _, top = token

    def row(number: int, logprob: float) -> dict[str, Any]:
        data = service.bytes_of(number)
        return {"token": service.shown(number), "logprob": max(logprob, -9999.0), "bytes": list(data)}

    return {**row(number, logprob), "top_logprobs": [row(*each) for each in top]}


def _logprobs(service: Service, body: ChatRequest, tokens: Sequence[Any]) -> dict[str, Any] | None:
    if not body.logprobs:
        return None
    stop = set(service.text.stop_tokens)
    return {"content": [_scored(service, token) for token in tokens if token[0] not in stop], "refusal": None}


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _start_chat(service: Service, body: ChatRequest) -> tuple[list[int], list[Answer]]:
    service.check_model(body.model)
    if body.top_logprobs is not None and not body.logprobs:
        raise ApiError(400, "top_logprobs needs logprobs", param="top_logprobs")
    if body.stream_options is not None and not body.stream:
        raise ApiError(400, "stream_options needs stream", param="stream_options")
    tools = _tools(body)
    grammar = tools.grammar() or schema_spec(body.response_format) or structured_spec(body.structured_outputs)
    prompt = service.prompts.chat(messages_of(body.messages), tools)
    most = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    logprobs = (body.top_logprobs or 0) if body.logprobs else -1
    params = service.params(body, len(prompt), max_tokens=most, logprobs=logprobs)
    return prompt, service.start(prompt, params, n=body.n or 1, grammar=grammar, tools=tools, chat=True)


def _choice(service: Service, body: ChatRequest, i: int, answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None, "annotations": []}
    if answer.reasoning:
        message["reasoning"] = answer.reasoning
    if answer.calls:
        message["content"] = answer.text or None
        message["tool_calls"] = [_call(call) for call in answer.calls]
    row = {"index": i, "message": message, "logprobs": _logprobs(service, body, answer.tokens),
           "finish_reason": answer.finish}  # fmt: skip
    if answer.stop_reason is not None:
        row["stop_reason"] = answer.stop_reason
    if body.return_token_ids:
        row["token_ids"] = [token[0] for token in answer.tokens]
    return row


async def _chat_chunks(service: Service, body: ChatRequest, prompt: list[int], answers: list[Answer]) -> Chunks:
    head = {"id": new_id("chatcmpl-"), "object": "chat.completion.chunk", "created": int(time.time()),
            "model": body.model, "system_fingerprint": FINGERPRINT}  # fmt: skip
    with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    always = with_usage and bool(body.stream_options and body.stream_options.continuous_usage_stats)

    def chunk(i: int, delta: dict[str, Any], finish: str | None = None, tokens: Sequence[Any] = ()) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": i, "delta": delta, "finish_reason": finish,
                                  "logprobs": _logprobs(service, body, tokens) if tokens else None}  # fmt: skip
        if body.return_token_ids:
            choice["token_ids"] = [token[0] for token in tokens]
        row = {**head, "choices": [choice]}
        if with_usage:
            row["usage"] = usage(len(prompt), answers) if always else None
        return row

    try:
        for i in range(len(answers)):
            yield chunk(i, {"role": "assistant", "content": "", "refusal": None})
        async for i, part, tokens in merged(answers):
            if isinstance(part, Call):
                row = {"index": len(answers[i].calls) - 1, **_call(part)}
                yield chunk(i, {"tool_calls": [row]}, tokens=tokens)
            elif isinstance(part, Thought):
                yield chunk(i, {"reasoning": str(part)}, tokens=tokens)
            elif part is not None:
                yield chunk(i, {"content": part}, tokens=tokens)
            else:
                yield chunk(i, {}, answers[i].finish)
        if with_usage:
            yield {**head, "choices": [], "usage": usage(len(prompt), answers)}
    finally:
        service.abort(answers)


async def chat(service: Service, body: ChatRequest) -> dict[str, Any] | Chunks:
    """POST /v1/chat/completions: the answer, or its chunks."""
    prompt, answers = _start_chat(service, body)
    if body.stream:
        return _chat_chunks(service, body, prompt, answers)
    try:
        await asyncio.gather(*(answer.whole() for answer in answers))
    finally:
        service.abort(answers)
    return {
        "id": new_id("chatcmpl-"), "object": "chat.completion", "created": int(time.time()), "model": body.model,
        "choices": [_choice(service, body, i, answer) for i, answer in enumerate(answers)],
        "usage": usage(len(prompt), answers), "service_tier": "default", "system_fingerprint": FINGERPRINT,
    }  # fmt: skip


# -- completions ---------------------------------------------------------------------------------------------


def prompts_of(service: Service, prompt: Any, param: str = "prompt") -> list[list[int]]:
    """Of a text, tokens, or a list of either. Raises ApiError about the field `param`."""
    if isinstance(prompt, str):
        prompt = [prompt]
    if prompt and all(isinstance(item, int) and not isinstance(item, bool) for item in prompt):
        prompt = [prompt]
    if not 1 <= len(prompt) <= 128:
        raise ApiError(400, f"{len(prompt)} prompts; 1 to 128 are taken at once", param=param)
    rows = []
    for item in prompt:
        if isinstance(item, str):
            rows.append(service.prompts.encode(item))
        elif isinstance(item, list) and all(isinstance(t, int) and 0 <= t < 2**31 and t is not True and t is not False
                                            for t in item):  # fmt: skip
            rows.append(item)
        else:
            raise ApiError(400, "a prompt is a text or a list of tokens", param=param)
        if not rows[-1]:
            raise ApiError(400, "a prompt has no tokens", param=param)
    return rows


def _old_logprobs(service: Service, tokens: Sequence[Any], offset: int) -> dict[str, Any]:
    row: dict[str, Any] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for number, logprob, _, top in tokens:
        text = service.shown(number)
        row["tokens"].append(text)
        row["token_logprobs"].append(max(logprob, -9999.0))
        row["top_logprobs"].append({service.shown(t): max(p, -9999.0) for t, p in top} | {text: max(logprob, -9999.0)})
        row["text_offset"].append(offset)
        offset += len(text)
    return row


def _start_completion(service: Service, body: CompletionRequest) -> tuple[list[list[int]], list[Answer]]:
    service.check_model(body.model)
    if body.suffix is not None:
        raise ApiError(400, "suffix is not supported", param="suffix")
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise ApiError(400, "best_of other than n is not supported", param="best_of")
    if body.echo and body.logprobs is not None:
        raise ApiError(400, "echo together with logprobs is not supported", param="echo")
    if body.stream_options is not None and not body.stream:
        raise ApiError(400, "stream_options needs stream", param="stream_options")
    prompts = prompts_of(service, body.prompt)
    grammar = structured_spec(body.structured_outputs)
    logprobs = -1 if body.logprobs is None else body.logprobs
    every = []
    for prompt in prompts:
        usual = min(_COMPLETION_TOKENS, max(1, service.context - len(prompt)))
        most = body.max_tokens if body.max_tokens is not None else usual
        every.append(service.params(body, len(prompt), max_tokens=most, logprobs=logprobs))
    answers: list[Answer] = []
    try:
        for prompt, params in zip(prompts, every):
            answers += service.start(prompt, params, n=body.n or 1, grammar=grammar)
    except ApiError:
        service.abort(answers)
        raise
    return prompts, answers


def _old_choice(service: Service, body: CompletionRequest, i: int, text: str, tokens: Sequence[Any],
                offset: int, finish: str | None) -> dict[str, Any]:  # fmt: skip
    row = {"index": i, "text": text, "finish_reason": finish,
           "logprobs": None if body.logprobs is None else _old_logprobs(service, tokens, offset)}  # fmt: skip
    if body.return_token_ids:
        row["token_ids"] = [token[0] for token in tokens]
    return row


async def _completion_chunks(
    service: Service, body: CompletionRequest, prompts: list[list[int]], answers: list[Answer]
) -> Chunks:
    head = {"id": new_id("cmpl-"), "object": "text_completion", "created": int(time.time()), "model": body.model}
    with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
    tail = {"usage": None} if with_usage else {}
    offsets = [0] * len(answers)
    try:
        if body.echo:
            for i, answer in enumerate(answers):
                echoed = service.text.tokenizer.decode(list(answer.running.prompt), skip_special_tokens=True)
                offsets[i] = len(echoed)
                yield {**head, "choices": [_old_choice(service, body, i, echoed, [], 0, None)], **tail}
        async for i, part, tokens in merged(answers):
            text = part if isinstance(part, str) else ""
            finish = answers[i].finish if part is None else None
            choice = _old_choice(service, body, i, text, tokens, offsets[i], finish)
            offsets[i] += len(text)
            yield {**head, "choices": [choice], **tail}
        if with_usage:
            yield {**head, "choices": [], "usage": usage(sum(map(len, prompts)), answers)}
    finally:
        service.abort(answers)


async def completion(service: Service, body: CompletionRequest) -> dict[str, Any] | Chunks:
    """POST /v1/completions: the answers, or their chunks."""
    prompts, answers = _start_completion(service, body)
    if body.stream:
        return _completion_chunks(service, body, prompts, answers)
    try:
        await asyncio.gather(*(answer.whole() for answer in answers))
    finally:
        service.abort(answers)
    choices = []
    for i, answer in enumerate(answers):
        echoed = ""
        if body.echo:
            echoed = service.text.tokenizer.decode(list(answer.running.prompt), skip_special_tokens=True)
        choices.append(
            _old_choice(service, body, i, echoed + answer.text, answer.tokens, len(echoed), answer.finish)
        )
    return {
        "id": new_id("cmpl-"), "object": "text_completion", "created": int(time.time()), "model": body.model,
        "choices": choices, "usage": usage(sum(map(len, prompts)), answers), "system_fingerprint": FINGERPRINT,
    }  # fmt: skip
