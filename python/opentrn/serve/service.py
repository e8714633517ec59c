"""What every API does with a request: its prompt, its parameters, and what comes of its answers."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opentrn import _core
from opentrn.generate.text import Text
from opentrn.serve.engine import Delta, Engine, Params, Running
from opentrn.serve.errors import ApiError
from opentrn.serve.grammar import Grammars, Spec
from opentrn.serve.harmony import Thought, parts_of, writes_channels
from opentrn.serve.metrics import Metrics
from opentrn.serve.prompts import NO_TOOLS, Call, Prompts, Tools
from opentrn.serve.text import token_bytes

if TYPE_CHECKING:
    from opentrn.generate import LanguageModel

__all__ = ["Answer", "Service", "predicted"]

# SmolLM2's and every other answer is drawn at this temperature where neither request nor server says one: vLLM's.
_TEMPERATURE = 1.0
_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_tokens")


@dataclass
class Answer:
    """One answer as far as it is given; parts() fills it."""

    running: Running
    tools: Tools
    text: str = ""
    reasoning: str = ""
    reasoning_tokens: int = 0  # of channel analysis, as far as tokens tell
    calls: list[Call] = field(default_factory=list)
    tokens: list[Any] = field(default_factory=list)  # engine.Scored, the one that ended it included
    finish: str = ""
    stop_reason: str | int | None = None
    end: dict[str, Any] = field(default_factory=dict)

    async def parts(self) -> AsyncIterator[tuple[str | Call, list[Any]]]:
        """(text, a thought or a call, the tokens since the last part)."""
        channels = _core.HarmonyReader() if self.running.params.markers else None
        reader = channels or _core.ToolReader(self.tools.forced, self.tools.open)
        tokens: list[Any] = []
        while not self.end:
            delta = await self.running.next()
            self.tokens += delta.tokens
            tokens += delta.tokens
            parts = parts_of(reader.add(delta.text))
            if channels and channels.thinks:
                self.reasoning_tokens += len(delta.tokens)
            if delta.end is not None:
                parts += parts_of(reader.rest())
                self._close(delta, reader.calls)
            for part in parts:
                if isinstance(part, Call):
                    self.calls.append(part)
                elif isinstance(part, Thought):
                    self.reasoning += part
                else:
                    self.text += part
                yield part, tokens
                tokens = []

    def _close(self, delta: Delta, calls: int) -> None:
        assert delta.end is not None
        self.end, self.stop_reason = delta.end, delta.stop_reason
        self.finish = "tool_calls" if calls and delta.finish == "stop" else delta.finish

    async def whole(self) -> Answer:
        """Waits for the end."""
        async for _ in self.parts():
            pass
        return self


class Service:
    """One model on one engine."""

    def __init__(
        self, name: str, text: Text, engine: Engine, *, context: int, defaults: Mapping[str, Any],
        structured: bool = True, max_logprobs: int = 20,
    ) -> None:  # fmt: skip
        unknown = set(defaults) - set(_DEFAULTS)
        if unknown:
            raise ApiError(400, f"no default of sampling: {', '.join(sorted(unknown))}; there are {_DEFAULTS}")
        self.name = name
        self.text = text
        self.engine = engine
        self.prompts = Prompts(text)
        self.channels = writes_channels(text.template)
        self.grammars = Grammars(text.tokenizer, list(text.stop_tokens))
        self.metrics: Metrics | None = None
        self.model: LanguageModel | None = None  # where values are computed
        self.adapters: dict[str, tuple[int, str]] = {}  # by the name that requests give: number and folder
        self.context = context
        self.defaults = dict(defaults)
        self.structured = structured
        self.max_logprobs = max_logprobs
        self._bytes: dict[int, bytes] = {}

    # -- requests
    def check_model(self, model: str) -> None:
        """Raises ApiError for another model than this one, and none of its adapters."""
        if model != self.name and model not in self.adapters:
            raise ApiError(404, f"The model `{model}` does not exist.", param="model", code="model_not_found")

    def params(self, body: Any, prompt_tokens: int, *, max_tokens: int | None, logprobs: int = -1) -> Params:
        """Parameters of sampling of a body that has OpenAI's and vLLM's fields. Raises ApiError."""
        left = self.context - prompt_tokens
        if left < 1:
            raise ApiError(
                400, f"This model's maximum context length is {self.context} tokens, and the prompt has "
                f"{prompt_tokens}.", param="messages", code="context_length_exceeded")  # fmt: skip
        asked = max_tokens if max_tokens is not None else self.defaults.get("max_tokens")
        if max_tokens is not None and max_tokens > left:
            raise ApiError(
                400, f"max_tokens is {max_tokens}; the model has {self.context} positions, and the prompt takes "
                f"{prompt_tokens} of them.", param="max_tokens", code="context_length_exceeded")  # fmt: skip

        def value(name: str, usual: Any) -> Any:
            given = getattr(body, name, None)
            return self.defaults.get(name, usual) if given is None else given

        stop = getattr(body, "stop", None) or []
        seed = getattr(body, "seed", None)
        ignores = bool(getattr(body, "ignore_eos", None))
        own = list(getattr(body, "stop_token_ids", None) or [])
        return Params(
            max_tokens=min(left, asked) if asked is not None else left,
            min_tokens=getattr(body, "min_tokens", None) or 0,
            stop=[stop] if isinstance(stop, str) else list(stop),
            stop_tokens=own + ([] if ignores else list(self.text.stop_tokens)),
            include_stop=bool(getattr(body, "include_stop_str_in_output", None)),
            seed=(secrets.randbits(64) if seed is None else seed) & (2**64 - 1),
            temperature=float(value("temperature", _TEMPERATURE)),
            top_k=max(0, int(value("top_k", 0))),
            top_p=float(value("top_p", 1.0)),
            min_p=float(value("min_p", 0.0)),
            repetition_penalty=float(value("repetition_penalty", 1.0)),
            frequency_penalty=getattr(body, "frequency_penalty", None) or 0.0,
            presence_penalty=getattr(body, "presence_penalty", None) or 0.0,
            logprobs=logprobs,
            adapter=self.adapters[body.model][0] if body.model in self.adapters else 0,
            bias=[(int(token), float(bias)) for token, bias in (getattr(body, "logit_bias", None) or {}).items()],
        )

    def start(
        self, prompt: Sequence[int], params: Params, *, n: int = 1, grammar: Spec | None = None,
        tools: Tools = NO_TOOLS, chat: bool = False,
    ) -> list[Answer]:  # fmt: skip
        """n answers to one prompt, with seeds that follow each other. Raises ApiError; then none has begun.

        chat: the prompt is a conversation, to which a model with channels answers in them. A grammar has none.
        """
        params.markers = chat and self.channels and grammar is None
        if grammar is not None and not self.structured:
            raise ApiError(400, "this server takes no structured output (enable_structured_outputs is false)")
        if params.logprobs > self.max_logprobs:
            raise ApiError(400, f"{params.logprobs} logprobs; {self.max_logprobs} are the most", param="logprobs")
        answers: list[Answer] = []
        try:
            for i in range(n):
                own = params if i == 0 else _with_seed(params, (params.seed + i) & (2**64 - 1))
                made = self.grammars.make(grammar) if grammar is not None else None
                answers.append(Answer(self.engine.submit(prompt, own, made), tools))
        except ApiError:
            self.abort(answers)
            raise
        return answers

    def abort(self, answers: Sequence[Answer]) -> None:
        """Ends those that have not ended."""
        for answer in answers:
            if not answer.running.ended:
                answer.running.abort()
                if self.metrics is not None:
                    self.metrics.aborted()

    # -- tokens
    def bytes_of(self, token: int) -> bytes:
        """Of a token."""
        if token not in self._bytes:
            self._bytes[token] = token_bytes(self.text.tokenizer, token)
        return self._bytes[token]

    def shown(self, token: int) -> str:
        """A token's text, whole characters or none."""
        return self.bytes_of(token).decode(errors="replace")


def _with_seed(params: Params, seed: int) -> Params:
    from dataclasses import replace

    return replace(params, seed=seed)


def predicted(answers: Sequence[Answer]) -> dict[str, float]:
    """Predicted device time of a request, in milliseconds: of the last of its answers, and of the steps it was in."""
    ends = [answer.end for answer in answers if answer.end]
    if not ends:
        return {}
    return {
        "first_token_ms": round(min(end["predicted_first_token_s"] for end in ends) * 1e3, 6),
        "total_ms": round(max(end["predicted_end_s"] for end in ends) * 1e3, 6),
        "own_steps_ms": round(max(end["predicted_own_s"] for end in ends) * 1e3, 6),
    }


_numbers = itertools.count()


def new_id(prefix: str) -> str:
    """A name of something that a client may ask for again."""
    return f"{prefix}{secrets.token_hex(12)}{next(_numbers):x}"


def schema_spec(format: Any) -> Spec | None:
    """The grammar of OpenAI's response_format."""
    kind = type(format).__name__
    if kind == "ObjectFormat":
        return ("json", {"type": "object"})
    if kind == "SchemaFormat":
        return ("json", format.json_schema.schema or {"type": "object"})
    return None


def structured_spec(outputs: Any) -> Spec | None:
    """The grammar of vLLM's structured_outputs. Raises ApiError where it is not one of them."""
    if outputs is None:
        return None
    given = [(kind, value) for kind in ("json", "regex", "choice", "grammar", "json_object")
             if (value := getattr(outputs, kind)) not in (None, False)]  # fmt: skip
    if len(given) != 1:
        raise ApiError(400, f"structured_outputs has {len(given)} kinds; give one", param="structured_outputs")
    kind, value = given[0]
    if kind == "json_object":
        return ("json", {"type": "object"})
    if kind == "json" and isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            text = f"structured_outputs.json is not JSON: {error}"
            raise ApiError(400, text, param="structured_outputs") from error
    return ({"grammar": "lark"}.get(kind, kind), value)
