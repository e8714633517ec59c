"""Bodies of Anthropic's messages, as msgspec reads them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from opentrn.serve.requests import StopText

__all__ = ["CountRequest", "MessagesRequest"]

_Text = Annotated[str, Meta(max_length=4_000_000)]


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


class ThinkingConfig(Struct):
    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: Annotated[int, Meta(ge=0, le=2 ** 31 - 1)] | None = None  # without effect
    display: str | None = None  # without effect: all of it is shown


class CountRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    model: str
    messages: Annotated[list[User | Assistant], Meta(min_length=1)]
    system: _Text | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: Choice | None = None
    thinking: ThinkingConfig | None = None


class MessagesRequest(CountRequest, kw_only=True, forbid_unknown_fields=True):
    max_tokens: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    metadata: dict[str, Any] | None = None
    stop_sequences: Annotated[list[StopText], Meta(max_length=64)] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0, le=2 ** 31 - 1)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    service_tier: str | None = None
