"""/openapi.json: what the routes take and answer, from the types that read the bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from opentrn.serve.messages import CountRequest, MessagesRequest
from opentrn.serve.requests import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    EmbeddingsRequest,
    TokenizeRequest,
)
from opentrn.serve.responses import ResponsesRequest

__all__ = ["document"]

_BODIES = {
    "/v1/chat/completions": (ChatRequest, "Answer a conversation."),
    "/v1/completions": (CompletionRequest, "Continue a text."),
    "/v1/responses": (ResponsesRequest, "Answer a conversation, in the form of Open Responses."),
    "/v1/messages": (MessagesRequest, "Answer a conversation, in Anthropic's form."),
    "/v1/messages/count_tokens": (CountRequest, "Count the tokens of a conversation."),
    "/v1/embeddings": (EmbeddingsRequest, "What the model makes of a text, as numbers."),
    "/tokenize": (TokenizeRequest, "Tokens of a text or a conversation."),
    "/detokenize": (DetokenizeRequest, "The text of tokens."),
}
_PLAIN = {
    "/health": "Whether the engine runs.", "/ping": "The same.", "/version": "The version of OpenTrn.",
    "/load": "Requests that run or wait.", "/v1/models": "The model.",
}  # fmt: skip
_STATUSES = {"400": "A malformed request.", "401": "No valid key.", "404": "Something that is not there.",
             "408": "A body that comes too slowly.", "413": "A body that is too large.",
             "429": "Too many requests wait.", "503": "The server shuts down."}  # fmt: skip


def document(version: str, models: Sequence[str]) -> dict[str, Any]:
    """OpenAPI 3.1. models: the names that requests may have in `model`; those with another are answered with 404."""
    kinds = [kind for kind, _ in _BODIES.values()]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    for component in components.values():
        if (model := component.get("properties", {}).get("model")) is not None:
            component["properties"]["model"] = model | {"enum": [*models, *([None] if "anyOf" in model else [])]}
    error = {"type": "object", "additionalProperties": True}
    refusals = {
        status: {"description": text, "content": {"application/json": {"schema": error}}}
        for status, text in _STATUSES.items()
    }
    kinds_of_answer = {"application/json": {"schema": error}, "text/event-stream": {"schema": {"type": "string"}}}
    fine = {"200": {"description": "The answer.", "content": kinds_of_answer}}
    paths: dict[str, Any] = {}
    for (path, (_, text)), schema in zip(_BODIES.items(), schemas):
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths[path] = {"post": {"summary": text, "requestBody": body, "responses": fine | refusals}}
    for path, text in _PLAIN.items():
        answers = {"200": {"description": "The answer."}, "401": refusals["401"], "503": refusals["503"]}
        paths[path] = {"get": {"summary": text, "responses": answers}}
    return {
        "openapi": "3.1.0", "info": {"title": "OpenTrn", "version": version}, "paths": paths,
        "components": {"schemas": components},
    }  # fmt: skip
