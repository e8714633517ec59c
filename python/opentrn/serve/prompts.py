"""Prompts of a model as tokens: of texts, and of conversations as its template writes them."""

from __future__ import annotations

from typing import Any

from opentrn.errors import InputError
from opentrn.generate.text import Text
from opentrn.generate.tokenizer import ChatTemplate
from opentrn.serve.errors import ApiError

__all__ = ["Prompts"]


class Prompts:
    """Prompts of one model."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._template = ChatTemplate(text.template, text.bos, text.eos) if text.template else None

    def plain(self, text: str) -> list[int]:
        """Tokens of a text alone."""
        return self._text.tokenizer.encode(text, add_special_tokens=False).ids

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, special ones included."""
        ids = self.plain(text)
        begin = self._text.begin
        return ids if begin is None or ids[:1] == [begin] else [begin, *ids]

    def tokens(self, given: Any) -> list[int]:
        """Of an input of _core.ApiExchange: tokens, a text, or what the template takes.

        Raises ApiError where the model's template refuses a conversation.
        """
        if isinstance(given, list):
            return given
        if isinstance(given, str):
            return self.encode(given)
        assert self._template is not None  # the exchange refuses a conversation without one
        try:
            return self.encode(self._template.prompt(given["messages"], given["tools"]))
        except InputError as error:
            raise ApiError(400, error.message, param="messages") from error
