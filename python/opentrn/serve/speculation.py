"""vLLM's --speculative-config for this server: prompt lookup ("ngram"), draft models and EAGLE heads, and which keys it
honours.

A request's newest tokens are looked for in its own text, and what followed there is guessed to follow again; or a
smaller model says the likeliest tokens. A step computes the guesses behind the newest token, and keeps as many as the
request's sampling would have chosen itself, so answers do not change but for the rounding of another program. Names and
defaults: vllm/config/speculative.py, 0.32.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentrn.errors import InputError
from opentrn.serve.neuron_config import HONOURED as IN_BOTH
from opentrn.serve.neuron_config import REFUSED

__all__ = ["DRAFTS", "HONOURED", "Speculation", "explained", "speculation_of"]

HONOURED: Mapping[str, str] = {
    "method": (
        "ngram: guesses are looked up in a request's own text; draft_model: a smaller model makes them; eagle, "
        "eagle3: an EAGLE head of the model (of the first or the third version, without a tree) does"
    ),
    "model": "that makes the guesses: a file, a folder or a name, as the server's own",
    "num_speculative_tokens": "guesses of a request in a step, at most",
    "prompt_lookup_max": "the most tokens that are looked for (prompt_lookup_min, else 5)",
    "prompt_lookup_min": "the fewest (prompt_lookup_max, else 5)",
}
# Keys of methods with a model that makes the guesses, and of how vLLM runs them.
DRAFTS = frozenset((
    "draft_tensor_parallel_size", "draft_sample_method", "quantization", "max_model_len", "revision",
    "code_revision", "attention_backend", "moe_backend", "draft_load_config", "draft_model_config",
    "draft_parallel_config", "tensor_parallel_size", "enforce_eager", "disable_padded_drafter_batch",
    "speculative_token_tree", "parallel_drafting", "use_local_argmax_reduction", "suffix_decoding_max_tree_depth",
    "suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob",
    "rejection_sample_method", "synthetic_acceptance_rate", "disable_by_batch_size",
))  # fmt: skip
_OTHERS = (
    "guesses come from prompt lookup (ngram), a draft model (draft_model) or an EAGLE head (eagle, eagle3), which "
    "run as the server's model does"
)
_EAGLE = {"eagle": 1, "eagle3": 3}  # the version of the head
_METHODS = ("ngram", "draft_model", *_EAGLE)
_LOOKED_UP = ("prompt_lookup_max", "prompt_lookup_min")
_LENGTH = 5  # vLLM's, of what is looked for


@dataclass(frozen=True)
class Speculation:
    """tokens: guesses of a request in a step, at most; 0: none. longest, shortest: tokens that are looked for. model:
    that makes the guesses, in place of looking. eagle: the version of the EAGLE head that it is; 0: it is a model."""

    tokens: int = 0
    longest: int = _LENGTH
    shortest: int = _LENGTH
    model: str = ""
    eagle: int = 0

    def options(self) -> dict[str, int]:
        """As the C++ core takes them."""
        return {"guesses": self.tokens, "lookup_max": self.longest, "lookup_min": self.shortest}


def explained(config: Mapping[str, Any]) -> list[tuple[str, Any, str, str]]:
    """(key, value, verdict, why) of every key, as neuron_config.explained has them. Raises InputError for an unknown
    one."""
    rows = []
    for key, value in config.items():
        other_method = key == "method" and value not in _METHODS
        if key in HONOURED and not other_method:
            rows.append((key, value, IN_BOTH, HONOURED[key]))
        elif key in DRAFTS or other_method:
            rows.append((key, value, REFUSED, _OTHERS))
        else:
            raise _unknown(key)
    return rows


def _refused(message: str, hint: str = "") -> InputError:
    return InputError(message, label="serve.settings", hint=hint)


def _unknown(key: str) -> InputError:
    return _refused(f"speculative-config: there is no key {key}", f"one of {', '.join(HONOURED)}")


def speculation_of(config: Mapping[str, Any]) -> Speculation:
    """Of vLLM's configuration; empty: none. Raises InputError for keys and values that are not honoured."""
    if not config:
        return Speculation()
    for key in config:
        if key in DRAFTS:
            raise _refused(f"speculative-config: {key} is refused; {_OTHERS}",
                           '{"method": "ngram", "num_speculative_tokens": 4}')  # fmt: skip
        if key not in HONOURED:
            raise _unknown(key)
    method = config.get("method", "draft_model" if "model" in config else "ngram")
    if method not in _METHODS:
        raise _refused(f"speculative-config: method is {json.dumps(method)}; {_OTHERS}")
    model = _draft_of(config, method)
    sizes = {}
    for key in ("num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min"):
        value = config.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 511):
            raise _refused(f"speculative-config: {key} is {json.dumps(value)}; 1 to 511 are read")
        sizes[key] = value
    tokens, longest, shortest = sizes.values()
    if tokens is None:
        raise _refused("speculative-config: num_speculative_tokens is missing", "1 to 511")
    longest, shortest = longest or shortest or _LENGTH, shortest or longest or _LENGTH
    if shortest > longest:
        raise _refused(f"speculative-config: prompt_lookup_min is {shortest}, and prompt_lookup_max {longest}")
    return Speculation(tokens, longest, shortest, model, _EAGLE.get(method, 0))


def _draft_of(config: Mapping[str, Any], method: str) -> str:
    """The draft model; "" for prompt lookup."""
    model = config.get("model")
    if method == "ngram":
        if model is not None:
            raise _refused("speculative-config: method is ngram, which has no model", "leave one of the two out")
        return ""
    if not isinstance(model, str) or not model:
        raise _refused(f"speculative-config: model is {json.dumps(model)}", "the draft model, as serve takes a model")
    for key in _LOOKED_UP:
        if key in config:
            raise _refused(f"speculative-config: {key} is of prompt lookup, and a model makes the guesses",
                           "leave it out")  # fmt: skip
    return model
