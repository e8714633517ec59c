"""Text of an answer as its tokens come: characters in several tokens, stop strings, the bytes of one token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentrn.generate.language_model import TextStream

__all__ = ["AnswerText", "token_bytes"]


def _byte_of_letter() -> dict[str, int]:
    """GPT-2's letters for bytes, as byte-level vocabularies write them."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in plain}
    others = (byte for byte in range(256) if byte not in plain)
    return letters | {chr(256 + i): byte for i, byte in enumerate(others)}


_BYTES = _byte_of_letter()


def token_bytes(tokenizer: Any, token: int) -> bytes:
    """The bytes that a token of a byte-level vocabulary stands for; half a character is half its bytes."""
    letters = tokenizer.id_to_token(token) or ""
    if all(letter in _BYTES for letter in letters):
        return bytes(_BYTES[letter] for letter in letters)
    return letters.encode()


class AnswerText:
    """What may be shown of an answer so far. Text that may become a stop string is held back."""

    def __init__(self, tokenizer: Any, stop: Sequence[str], keep_stop: bool = False) -> None:
        self._stream = TextStream(tokenizer)
        self._stop = [text for text in stop if text]
        self._keep = keep_stop
        self._held = ""
        self.stopped: str | None = None  # the stop string that ended it

    def add(self, token: int) -> str:
        """The text to show after one more token."""
        return self._shown(self._stream.add(token))

    def rest(self) -> str:
        """What is still held back, at the end."""
        text = self._shown(self._stream.rest())
        if self.stopped is None:
            text, self._held = text + self._held, ""
        return text

    def _shown(self, new: str) -> str:
        if not self._stop or self.stopped is not None:
            return new
        text = self._held + new
        found = [(at, word) for word in self._stop if (at := text.find(word)) >= 0]
        if found:
            at, word = min(found)
            self.stopped, self._held = word, ""
            return text[: at + len(word)] if self._keep else text[:at]
        most = max(map(len, self._stop)) - 1
        keep = next((n for n in range(min(most, len(text)), 0, -1)
                     if any(word.startswith(text[-n:]) for word in self._stop)), 0)  # fmt: skip
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]
