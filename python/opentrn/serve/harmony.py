"""What of an answer is a thought, a call, or text for the user, and channels of OpenAI's Harmony format (gpt-oss)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from opentrn.serve.prompts import Call

__all__ = ["Thought", "WithMarkers", "parts_of", "writes_channels"]


class Thought(str):
    """Text of the model's reasoning."""


def writes_channels(template: str) -> bool:
    """Whether a chat template is one of a model that answers in this format."""
    return "<|channel|>" in template and "<|message|>" in template


class WithMarkers:
    """A tokenizer whose texts have the special tokens in them."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, tokens: list[int], skip_special_tokens: bool = False) -> str:
        """Of all tokens, whatever is asked of the special ones."""
        return self._tokenizer.decode(tokens, skip_special_tokens=False)


def parts_of(rows: Iterable[tuple[str, str, str]]) -> list[str | Call]:
    """What a reader found (src/serving/answer_reader.h): text, thoughts, and calls with their arguments as JSON."""
    return [_call(text, name) if kind == "call" else Thought(text) if kind == "thought" else text
            for kind, text, name in rows]  # fmt: skip


def _call(text: str, name: str) -> Call:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # clients get what the model wrote
        return Call(name, text)
    return Call(name, json.dumps(found)) if name else Call(found["name"], json.dumps(found.get("arguments", {})))
