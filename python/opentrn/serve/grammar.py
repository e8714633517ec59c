"""Which tokens may come next: a grammar over the vocabulary, by the library llguidance."""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from opentrn.serve.errors import ApiError

__all__ = ["Grammar", "Grammars"]

# JSON without free whitespace: a small model otherwise answers with spaces for ever.
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class Grammar:
    """Where one answer stands in its grammar."""

    def __init__(self, matcher: Any, words: int) -> None:
        self._matcher = matcher
        self._mask: np.ndarray = np.zeros(words, np.uint32)

    def mask(self) -> np.ndarray:
        """uint32 [vocabulary / 32], a bit for each token that may come next; valid until the next call."""
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        return self._mask

    def accept(self, token: int) -> bool:
        """Takes the next token; True where nothing may follow it."""
        self._matcher.consume_token(token)
        return bool(self._matcher.is_stopped())


class Grammars:
    """Grammars over one tokenizer. The library's tables of it are made when a grammar is first asked for."""

    def __init__(self, tokenizer: Any, stop_tokens: list[int]) -> None:
        self._tokenizer = tokenizer
        self._stop = stop_tokens
        self._made: Any = None
        self._lock = threading.Lock()

    def _tables(self) -> Any:
        import llguidance

        with self._lock:
            if self._made is None:
                with tempfile.TemporaryDirectory() as folder:
                    file = Path(folder) / "tokenizer.json"
                    file.write_text(self._tokenizer.to_str())
                    self._made = llguidance.LLTokenizer(
                        str(file), n_vocab=self._tokenizer.get_vocab_size(), eos_token=self._stop or None
                    )
            return self._made

    def make(self, kind: str, text: str) -> Grammar:
        """A grammar at its beginning: a json schema, a regex, a lark text or a choice of texts, as JSON.

        Raises ApiError for one that is none.
        """
        import llguidance

        what = json.loads(text)
        matcher = llguidance.LLMatcher
        try:
            if kind == "json":
                text = matcher.grammar_from_json_schema(text, overrides=_COMPACT)
            elif kind == "regex":
                text = matcher.grammar_from_regex(what)
            elif kind == "lark":
                text = matcher.grammar_from_lark(what)
            else:
                text = matcher.grammar_from_lark("start: " + " | ".join(json.dumps(choice) for choice in what))
        except ValueError as error:
            raise ApiError(400, f"no grammar: {error}", param="response_format") from error
        made = matcher(self._tables(), text, log_level=0)
        if made.is_error():
            raise ApiError(400, f"no grammar: {made.get_error()}", param="response_format")
        return Grammar(made, -(-self._tokenizer.get_vocab_size() // 32))
