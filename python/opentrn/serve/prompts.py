"""Prompts of a model as tokens: of texts, and of conversations as its template writes them."""

from __future__ import annotations

from typing import Any

from opentrn import _core
from opentrn.errors import InputError
from opentrn.generate.text import Text
from opentrn.generate.tokenizer import ChatTemplate
from opentrn.serve.errors import ApiError, api_errors

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

    def tokens(self, given: Any, special: bool | None = None) -> tuple[list[int], str]:
        """Of an input of _core.ApiExchange: tokens, a text, or what the template takes; without the token that begins
        texts where `special` is False. And what the template wrote, else "".

        Raises ApiError where the model's template refuses a conversation.
        """
        encode = self.plain if special is False else self.encode
        if isinstance(given, list):
            return given, ""
        if isinstance(given, str):
            return encode(given), ""
        assert self._template is not None  # the exchange refuses a conversation without one
        messages = given["messages"]
        try:
            text = self._template.prompt(
                messages, given["tools"], begins_answer=given["begins_answer"],
                variables=given["variables"],
            )
        except InputError as error:
            raise ApiError(400, error.message, param="messages") from error
        if given["continues_last"]:
            with api_errors():
                text = _core.without_end(text, messages[-1]["content"])
        return encode(text), text

    def bad_words(self, words: list[str]) -> list[list[int]]:
        """Tokens of words that must not come, as vLLM has them: alone, and behind a space where that is one token more
        of the same kind."""
        found = []
        for word in words:
            alone, spaced = self.plain(word.lstrip()), self.plain(" " + word.lstrip())
            found.append(alone)
            if spaced and alone and spaced[0] != alone[0] and len(spaced) == len(alone):
                found.append(spaced)
        return found
