"""Channels of an answer in OpenAI's Harmony format, as gpt-oss writes them: thoughts, calls, and what the user reads.

A message is `<|start|>assistant<|channel|>NAME<|message|>TEXT<|end|>`; the prompt ends behind `assistant`. Channel
analysis is the model's reasoning; commentary with `to=functions.NAME` is a call, whose arguments are the text; other
commentary and final are for the user (github.com/openai/harmony, docs/format.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from opentrn.serve.prompts import Call

__all__ = ["HarmonyReader", "Thought", "WithMarkers", "writes_channels"]

_HEADS = ("<|channel|>", "<|constrain|>", " to=")  # that an assistant's message can begin with
_ENDS = ("<|end|>", "<|call|>", "<|return|>", "<|start|>")
_MESSAGE = "<|message|>"
_LONGEST = max(map(len, (_MESSAGE, *_HEADS, *_ENDS)))


class Thought(str):
    """Text of the model's reasoning."""


def writes_channels(template: str) -> bool:
    """Whether a chat template is one of a model that answers in this format."""
    return "<|channel|>" in template and _MESSAGE in template


class WithMarkers:
    """A tokenizer whose texts have the special tokens in them."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, tokens: list[int], skip_special_tokens: bool = False) -> str:
        """Of all tokens, whatever is asked of the special ones."""
        return self._tokenizer.decode(tokens, skip_special_tokens=False)


class HarmonyReader:
    """Text, thoughts and calls of an answer as its text comes, special tokens included."""

    def __init__(self) -> None:
        self._held = ""
        self._header: str | None = ""  # of a message that has not begun; None: in the text of one
        self._channel = "final"
        self._call = ""  # the function that the message calls
        self._arguments = ""
        self.calls = 0

    @property
    def thinks(self) -> bool:
        """Whether what comes now is reasoning."""
        return self._header is None and self._channel == "analysis" and not self._call

    def add(self, text: str) -> Iterator[str | Call]:
        """What more text makes certain."""
        self._held += text
        while self._held:
            before = len(self._held), self._header
            yield from self._in_header() if self._header is not None else self._in_message()
            if (len(self._held), self._header) == before:
                return

    def rest(self) -> Iterator[str | Call]:
        """What is left at the end."""
        held, self._held = self._held, ""
        if self._header is None:
            yield from self._part(held)
        elif held and not _begins(self._header + held):
            yield held
        yield from self._close()

    def _in_header(self) -> Iterator[str | Call]:
        assert self._header is not None
        at = self._held.find(_MESSAGE)
        if at < 0:
            if not self._header and not _begins(self._held):  # an answer in no channel, as a grammar makes it
                self._open("final")
            return
        self._open(self._header + self._held[:at])
        self._held = self._held[at + len(_MESSAGE) :]
        yield from ()

    def _open(self, header: str) -> None:
        channel = re.search(r"<\|channel\|>\s*(\w+)", header)
        to = re.search(r"to=functions\.([^\s<]+)", header)
        self._channel = channel[1] if channel else "final"
        self._call, self._arguments = to[1] if to else "", ""
        self._header = None

    def _in_message(self) -> Iterator[str | Call]:
        found = [(at, end) for end in _ENDS if (at := self._held.find(end)) >= 0]
        if not found:
            keep = next((n for n in range(min(_LONGEST, len(self._held)), 0, -1)
                         if any(end.startswith(self._held[-n:]) for end in _ENDS)), 0)  # fmt: skip
            shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
            yield from self._part(shown)
            return
        at, end = min(found)
        shown, self._held = self._held[:at], self._held[at + len(end) :]
        yield from self._part(shown)
        yield from self._close()
        self._header = ""

    def _part(self, text: str) -> Iterator[str]:
        if self._call:
            self._arguments += text
        elif text:
            yield Thought(text) if self._channel == "analysis" else text

    def _close(self) -> Iterator[str | Call]:
        name, self._call = self._call, ""
        if not name:
            return
        try:
            arguments = json.dumps(json.loads(self._arguments))
        except (ValueError, RecursionError):  # clients get what the model wrote
            arguments = self._arguments
        self.calls += 1
        yield Call(name, arguments)


def _begins(text: str) -> bool:
    """Whether text can be the beginning of a message's header, or of `<|start|>assistant` before it."""
    words = (*_HEADS, "<|start|>", "assistant")
    return any(text.startswith(word) or word.startswith(text) for word in words)
