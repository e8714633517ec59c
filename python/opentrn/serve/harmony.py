"""Answers in channels of OpenAI's Harmony format (gpt-oss), whose marks are special tokens."""

from __future__ import annotations

from typing import Any

__all__ = ["WithMarkers"]


class WithMarkers:
    """A tokenizer whose texts have the special tokens in them."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, tokens: list[int], skip_special_tokens: bool = False) -> str:
        """Of all tokens, whatever is asked of the special ones."""
        return self._tokenizer.decode(tokens, skip_special_tokens=False)
