"""What every request stands on: one model on one engine, with its tokenizer and grammars."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentrn import __version__, _core
from opentrn.generate.text import Text
from opentrn.serve.engine import Engine
from opentrn.serve.errors import ApiError, api_errors
from opentrn.serve.grammar import Grammars
from opentrn.serve.metrics import Metrics
from opentrn.serve.prompts import Prompts

if TYPE_CHECKING:
    from opentrn.generate import LanguageModel

__all__ = ["Service"]

_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens")
_RESPONSES = 1000  # that are remembered


class Service:
    """adapters: by the names that requests give, the number and the folder of each."""

    def __init__(
        self, name: str, text: Text, engine: Engine, *, context: int, defaults: Mapping[str, Any],
        structured: bool = True, max_logprobs: int = 20, adapters: Mapping[str, tuple[int, str]] | None = None,
        template_variables: Mapping[str, Any] | None = None, by_priority: bool = False,
        reasoning_parser: str = "auto", tool_call_parser: str = "auto",
    ) -> None:  # fmt: skip
        unknown = set(defaults) - set(_DEFAULTS)
        if unknown:
            raise ApiError(400, f"no default of sampling: {', '.join(sorted(unknown))}; there are {_DEFAULTS}")
        self.name = name
        self.text = text
        self.engine = engine
        self.prompts = Prompts(text)
        self.grammars = Grammars(text.tokenizer, list(text.stop_tokens))
        self.metrics: Metrics | None = None
        self.model: LanguageModel | None = None  # where values are computed
        self.adapters = dict(adapters or {})
        self.context = context
        added = text.tokenizer.get_added_tokens_decoder().values()
        self.served = _core.ServedModel(json.dumps({
            "name": name, "adapters": {each: number for each, (number, _) in self.adapters.items()},
            "context": context, "defaults": dict(defaults), "stop_tokens": list(text.stop_tokens),
            "structured": structured, "max_logprobs": max_logprobs, "template": text.template or "",
            "template_variables": dict(template_variables or {}), "by_priority": by_priority,
            "reasoning_parser": reasoning_parser, "tool_call_parser": tool_call_parser,
            "special_tokens": [token.content for token in added if token.special], "version": __version__,
        }))  # fmt: skip
        self.responses = _core.ResponseStore(_RESPONSES)
        self._shown: dict[int, tuple[str, bytes]] = {}
        # SentencePiece's vocabularies have tokens for bytes by name; others write every byte as a letter.
        self._has_pieces = text.tokenizer.token_to_id("<0x0A>") is not None

    def check_model(self, model: str) -> None:
        """Raises ApiError for another model than this one, and none of its adapters."""
        with api_errors():
            self.served.expect(model)

    def shown(self, token: int) -> tuple[str, bytes]:
        """A token's text, whole characters or none, and its bytes."""
        if token not in self._shown:
            bytes_of = _core.bytes_of_piece if self._has_pieces else _core.bytes_of_letters
            data = bytes_of(self.text.tokenizer.id_to_token(token) or "")
            self._shown[token] = data.decode(errors="replace"), data
        return self._shown[token]
