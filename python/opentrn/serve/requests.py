"""Bodies of OpenAI's chat and completions APIs and of vLLM's tokenizer routes, as msgspec reads them.

A field that is not here is refused. Fields that are taken and change nothing are named so.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

__all__ = ["Assistant", "ChatRequest", "CompletionRequest", "DetokenizeRequest", "StopText", "TokenizeRequest",
           "WITHOUT_EFFECT"]  # fmt: skip

# What clients send about themselves, and hints that do not apply to one engine.
WITHOUT_EFFECT = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
                  "prompt_cache_retention", "verbosity", "spaces_between_special_tokens")  # fmt: skip

_Text = Annotated[str, Meta(max_length=4_000_000)]
StopText = Annotated[str, Meta(min_length=1)]  # an empty one would stop nothing, or everything
_Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]
_Token = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Name = Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
_Bias = dict[Annotated[str, Meta(pattern="^[0-9]{1,9}$")], Annotated[float, Meta(ge=-100, le=100)]]


class TextPart(Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    text: _Text
    cache_control: dict[str, Any] | None = None


class RefusalPart(Struct, tag_field="type", tag="refusal", forbid_unknown_fields=True):
    refusal: _Text


_Content = _Text | list[TextPart]


class System(Struct, tag_field="role", tag="system", forbid_unknown_fields=True):
    content: _Content
    name: str | None = None


class Developer(Struct, tag_field="role", tag="developer", forbid_unknown_fields=True):
    content: _Content
    name: str | None = None


class User(Struct, tag_field="role", tag="user", forbid_unknown_fields=True):
    content: _Content
    name: str | None = None


class CalledFunction(Struct):
    name: str
    arguments: _Text


class ToolCall(Struct):
    id: str
    function: CalledFunction
    type: str = "function"
    index: int | None = None


class Assistant(Struct, tag_field="role", tag="assistant"):
    content: _Text | list[TextPart | RefusalPart] | None = None
    tool_calls: list[ToolCall] | None = None
    name: str | None = None
    reasoning: _Text | None = None  # what it thought before it said this, as vLLM and others name it
    reasoning_content: _Text | None = None


class ToolResult(Struct, tag_field="role", tag="tool", forbid_unknown_fields=True):
    content: _Content
    tool_call_id: str
    name: str | None = None


Message = System | Developer | User | Assistant | ToolResult


class Function(Struct, forbid_unknown_fields=True):
    name: _Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Struct, tag_field="type", tag="function", forbid_unknown_fields=True):
    function: Function


class ChosenFunction(Struct, forbid_unknown_fields=True):
    name: str


class ChosenTool(Struct, tag_field="type", tag="function", forbid_unknown_fields=True):
    function: ChosenFunction


class TextFormat(Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    pass


class ObjectFormat(Struct, tag_field="type", tag="json_object", forbid_unknown_fields=True):
    pass


class NamedSchema(Struct, forbid_unknown_fields=True):
    name: _Name
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class SchemaFormat(Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True):
    json_schema: NamedSchema


class StructuredOutputs(Struct, forbid_unknown_fields=True):
    """vLLM's: one of them."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: Annotated[list[str], Meta(min_length=1, max_length=1000)] | None = None
    grammar: str | None = None
    json_object: bool | None = None


class StreamOptions(Struct, forbid_unknown_fields=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


class Common(Struct, kw_only=True, forbid_unknown_fields=True):
    """What chat and completions share; names behind the dashes are vLLM's own."""

    model: str
    frequency_penalty: _Penalty | None = None
    presence_penalty: _Penalty | None = None
    logit_bias: _Bias | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    seed: Annotated[int, Meta(ge=-2 ** 63, le=2 ** 63 - 1)] | None = None
    stop: StopText | Annotated[list[StopText], Meta(max_length=16)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    max_tokens: _Count | None = None
    user: str | None = None
    # --
    top_k: Annotated[int, Meta(ge=-1, le=2 ** 31 - 1)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=1000000.0)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=2 ** 31 - 1)] | None = None
    ignore_eos: bool | None = None
    stop_token_ids: Annotated[list[_Token], Meta(max_length=1000)] | None = None
    include_stop_str_in_output: bool | None = None
    structured_outputs: StructuredOutputs | None = None
    response_format: TextFormat | ObjectFormat | SchemaFormat | None = None
    prompt_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    request_id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    priority: Annotated[int, Meta(ge=-2 ** 63, le=2 ** 63 - 1)] | None = None
    cache_salt: Annotated[str, Meta(min_length=1, max_length=1024)] | None = None
    bad_words: Annotated[list[StopText], Meta(max_length=1000)] | None = None
    allowed_token_ids: Annotated[list[_Token], Meta(max_length=1_000_000)] | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    add_special_tokens: bool | None = None
    truncate_prompt_tokens: Annotated[int, Meta(ge=-1, le=2 ** 31 - 1)] | None = None
    truncation_side: Literal["left", "right"] | None = None


class ChatRequest(Common, kw_only=True, forbid_unknown_fields=True):
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: _Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    tools: Annotated[list[Tool], Meta(max_length=128)] | None = None
    tool_choice: str | ChosenTool | None = None
    parallel_tool_calls: bool | None = None
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: Annotated[list[dict[str, str]], Meta(max_length=1000)] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


class CompletionRequest(Common, kw_only=True, forbid_unknown_fields=True):
    prompt: _Text | list[Any]
    max_tokens: Annotated[int, Meta(ge=0, le=2 ** 31 - 1)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    suffix: str | None = None
    best_of: int | None = None


class EmbeddingsRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    model: str
    input: _Text | list[Any]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Meta(ge=1)] | None = None
    user: str | None = None


class TokenizeRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    model: str | None = None
    prompt: _Text | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool = True
    return_token_strs: bool = False


class DetokenizeRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    tokens: Annotated[list[_Token], Meta(max_length=1_000_000)]
    model: str | None = None
