"""Conversations as a model's template writes them, tools included, and tool calls in what it answers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentrn.errors import InputError
from opentrn.generate.text import Text
from opentrn.generate.tokenizer import ChatTemplate
from opentrn.serve.errors import ApiError
from opentrn.serve.grammar import Spec

__all__ = ["NO_TOOLS", "Call", "Prompts", "Tools", "call_schema"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


@dataclass(frozen=True)
class Call:
    """A tool that the model calls; `arguments` is the text of a JSON object."""

    name: str
    arguments: str
    id: str = field(default_factory=lambda: "call_" + uuid.uuid4().hex[:24])


@dataclass(frozen=True)
class Tools:
    """Tools of a request: {"name", "description", "parameters"} each. choice: auto, none, required or a name."""

    list: Sequence[Mapping[str, Any]] = ()
    choice: str = "none"

    @property
    def forced(self) -> bool:
        """Whether the answer is a call whatever the model would like."""
        return self.choice not in ("auto", "none")

    @property
    def open(self) -> bool:
        """Whether the answer may hold calls."""
        return self.choice == "auto" and bool(self.list)

    def grammar(self) -> Spec | None:
        """Of an answer that is a call. Raises ApiError for a tool that is not there."""
        if not self.forced:
            return None
        chosen = [tool for tool in self.list if self.choice in ("required", tool["name"])]
        if not chosen:
            raise ApiError(400, f"tool_choice names no tool: {self.choice!r}", param="tool_choice")
        return ("json", call_schema(chosen))


def call_schema(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """JSON schema of one call of one of the tools."""
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool["name"]}, "arguments": tool.get("parameters") or {"type": "object"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def _functions(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As templates have them: OpenAI's form."""
    return [{"type": "function", "function": dict(tool)} for tool in tools]


NO_TOOLS = Tools()


class Prompts:
    """Prompts of one model."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._template = ChatTemplate(text.template, text.bos, text.eos) if text.template else None
        self._knows_tools = "tools" in text.template
        self._knows_calls = "tool_calls" in text.template

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, special ones included."""
        ids = self._text.tokenizer.encode(text, add_special_tokens=False).ids
        begin = self._text.begin
        return ids if begin is None or ids[:1] == [begin] else [begin, *ids]

    def chat(self, messages: Sequence[Mapping[str, Any]], tools: Tools) -> list[int]:
        """Tokens of a conversation. Raises ApiError where the model's template refuses it.

        messages: {"role", "content", and for calls "tool_calls": [Call]}. A template that has no place for tools gets
        them, and calls, as text in the form of Hermes' models.
        """
        if self._template is None:
            raise ApiError(400, "the model has no chat template; use /v1/completions", param="messages")
        rows = [self._message(message) for message in messages]
        shown = list(tools.list) if tools.choice != "none" else []
        if shown and not self._knows_tools:
            rows = _with_tools(rows, shown)
        try:
            return self.encode(self._template.prompt(rows, _functions(shown) if shown and self._knows_tools else None))
        except InputError as error:
            raise ApiError(400, error.message, param="messages") from error

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        row = {"role": message["role"], "content": message.get("content") or ""}
        if row["role"] == "developer":
            row["role"] = "system"
        calls: Sequence[Call] = message.get("tool_calls") or ()
        if calls and self._knows_calls:
            row["tool_calls"] = [
                {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": _object(call)}}
                for call in calls
            ]
        elif calls:
            texts = [json.dumps({"name": call.name, "arguments": _object(call)}) for call in calls]
            row["content"] += "".join(f"{_OPEN}\n{text}\n{_CLOSE}" for text in texts)
        return row


def _object(call: Call) -> Any:
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments


def _with_tools(rows: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    listed = "\n".join(json.dumps(row) for row in _functions(tools))
    text = (
        f"You can call these functions:\n<tools>\n{listed}\n</tools>\nTo call one, answer\n"
        f'{_OPEN}\n{{"name": <name>, "arguments": <object of arguments>}}\n{_CLOSE}'
    )
    if rows and rows[0]["role"] == "system":
        return [{**rows[0], "content": f"{rows[0]['content']}\n\n{text}"}, *rows[1:]]
    return [{"role": "system", "content": text}, *rows]
