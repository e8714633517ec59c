"""vLLM's --speculative-config for this server: prompt lookup ("ngram"), draft models and EAGLE heads, and which keys it
honours (src/server/speculation_config.cc). Names and defaults: vllm/config/speculative.py, 0.32.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentrn import _core

__all__ = ["Speculation", "explained", "speculation_of"]


@dataclass(frozen=True)
class Speculation:
    """tokens: guesses of a request in a step, at most; 0: none. longest, shortest: tokens that are looked for. model:
    that makes the guesses, in place of looking. eagle: the version of the EAGLE head that it is; 0: it is a model."""

    tokens: int = 0
    longest: int = 5
    shortest: int = 5
    model: str = ""
    eagle: int = 0

    def options(self) -> dict[str, int]:
        """As the C++ core takes them."""
        return {"guesses": self.tokens, "lookup_max": self.longest, "lookup_min": self.shortest}


def explained(config: Mapping[str, Any]) -> list[list[Any]]:
    """[key, value, verdict, why] of every key, as neuron_config.explained has them. Raises InputError for an unknown
    one."""
    return json.loads(_core.explain_speculation(json.dumps(dict(config))))


def speculation_of(config: Mapping[str, Any]) -> Speculation:
    """Of vLLM's configuration; empty: none. Raises InputError for keys and values that are not honoured."""
    return Speculation(*_core.speculation_of(json.dumps(dict(config))))
