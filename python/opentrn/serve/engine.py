"""One engine for many clients: a thread takes steps in C++, without the interpreter lock, and hands out what they gave.

Between two steps the thread does what depends on text: it decodes tokens, looks for stop strings, and moves grammars.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentrn import _core
from opentrn.errors import InternalError, Refusal
from opentrn.serve.errors import ApiError, api_error_of
from opentrn.serve.grammar import Grammar
from opentrn.serve.harmony import WithMarkers

__all__ = ["Delta", "Engine", "Params", "Running"]

_PATIENCE_S = 0.05  # an idle engine looks up so often
_BEFORE = 6  # last tokens of a prompt, which an answer's text goes on from


@dataclass
class Params:
    """How one answer is made; names and defaults are vLLM's."""

    max_tokens: int
    min_tokens: int = 0
    stop: list[str] = field(default_factory=list)
    stop_tokens: list[int] = field(default_factory=list)
    include_stop: bool = False
    seed: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logprobs: int = -1  # -1: none
    bias: list[tuple[int, float]] = field(default_factory=list)
    adapter: int = 0  # 0: the model's own weights
    priority: int = 0
    cache_salt: str = ""
    bad_words: list[list[int]] = field(default_factory=list)
    prompt_logprobs: int = -1  # -1: none
    allowed_tokens: list[int] = field(default_factory=list)  # none: all
    markers: bool = False  # whether the text has special tokens in it

    def core(self) -> dict[str, Any]:
        """As the C++ core takes it."""
        names = ("max_tokens", "min_tokens", "stop_tokens", "seed", "temperature", "top_k", "top_p", "min_p",
                 "repetition_penalty", "frequency_penalty", "presence_penalty", "logprobs", "bias",
                 "adapter", "priority", "cache_salt", "bad_words", "prompt_logprobs",
                 "allowed_tokens")  # fmt: skip
        return {name: getattr(self, name) for name in names}


# A token with its log probability and the likeliest ones: (token, logprob, rank, [(token, logprob)]).
Scored = tuple[int, float, int, list[tuple[int, float]]]


@dataclass
class Delta:
    """What a step gave to an answer. `end` is there with the last one: times and counts, and why it ended."""

    text: str
    tokens: list[Scored]
    finish: str = ""  # "stop", "length" or "error"
    stop_reason: str | int | None = None  # the string or token that ended it, where it was not the model's own
    end: dict[str, Any] | None = None
    failure: str = ""
    prompt: list[Scored] = field(default_factory=list)  # with the first token, where they are asked for


class Running:
    """An answer under way. What comes of it goes to `queue`."""

    def __init__(
        self, engine: Engine, params: Params, grammar: Grammar | None, before: Sequence[int],
        queue: asyncio.Queue[tuple[Running, Delta]] | None = None,
    ) -> None:  # fmt: skip
        self.id = 0
        self.params = params
        self.grammar = grammar
        tokenizer = WithMarkers(engine.tokenizer) if params.markers else engine.tokenizer
        decode = functools.partial(tokenizer.decode, skip_special_tokens=True)
        self.text = _core.AnswerText(decode, params.stop, params.include_stop, list(before))
        self._engine = engine
        self.queue: asyncio.Queue[tuple[Running, Delta]] = queue or asyncio.Queue()
        self.ended = False

    def expect(self, delta: Delta) -> None:
        """Raises ApiError where the answer failed; notes its end."""
        self.ended = delta.end is not None
        if delta.failure:
            self.ended = True
            raise ApiError(500 if delta.finish == "error" else 400, delta.failure)

    def abort(self) -> bool:
        """Ends the request, where it has not ended; whether it had not."""
        if self.ended:
            return False
        self.ended = True
        self._engine.abort(self)
        return True


class Engine:
    """`core`: of _core.model_server or drawing_server. on_step(report) is called on the engine's thread."""

    def __init__(
        self, core: Any, tokenizer: Any, model_stop: Sequence[int], on_step: Callable[[dict[str, Any]], None]
    ) -> None:
        self.core = core
        self.tokenizer = tokenizer
        self._model_stop = set(model_stop)
        self._on_step = on_step
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: dict[int, Running] = {}
        self._lock = threading.Lock()  # of _running, and of the moment between add() and the entry in it
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="opentrn-engine", daemon=True)
        self.failure: str = ""  # a bug of ours ended the engine
        self.prepares = True

    # -- the event loop
    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins to take steps; answers go to `loop`."""
        self._loop = loop
        self._thread.start()
        # Python ends threads that ask for its lock while it shuts down, in the middle of C++.
        atexit.register(self.stop)

    def stop(self) -> None:
        """Ends after the step under way."""
        self._stopping = True
        self._thread.join()
        atexit.unregister(self.stop)

    def submit(
        self, prompt: Sequence[int], params: Params, grammar: Grammar | None = None,
        queue: asyncio.Queue[tuple[Running, Delta]] | None = None,
    ) -> Running:  # fmt: skip
        """A new request, whose deltas go to `queue`. Raises ApiError for one that is refused."""
        if self.failure:
            raise ApiError(503, f"the engine has stopped: {self.failure}")
        running = Running(self, params, grammar, prompt[-_BEFORE:], queue)
        mask = grammar.mask() if grammar is not None else None
        try:
            with self._lock:
                running.id = self.core.add(list(prompt), params.core(), mask)
                self._running[running.id] = running
        except Refusal as error:
            raise api_error_of(error) from error
        return running

    def abort(self, running: Running) -> None:
        """Ends it before the next step."""
        with self._lock:
            self._running.pop(running.id, None)
        self.core.abort(running.id)

    # -- the engine's thread
    def _run(self) -> None:
        while not self._stopping:
            try:
                report = self.core.step(_PATIENCE_S, self.prepares)
                if report is not None:
                    self._give(report)
                    self._on_step(report)
            except Refusal as error:
                self._fail_all(error)
            except Exception as error:  # the thread must say why it ends
                self._fail_all(InternalError(f"{type(error).__name__}: {error}", label="serve.engine"))

    def _fail_all(self, error: Refusal) -> None:
        if isinstance(error, InternalError):
            self.failure = error.message
            self._stopping = True
        with self._lock:
            gone, self._running = self._running, {}
        for running in gone.values():
            self.core.abort(running.id)
        self._send([(r, Delta("", [], "error", failure=error.message)) for r in gone.values()])

    def _send(self, batch: list[tuple[Running, Delta]]) -> None:
        if batch and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_deliver, batch)

    def _give(self, report: dict[str, Any]) -> None:
        batch, given = [], []
        report["ended"] = []
        # With speculation a step may give several tokens of a request: those behind a stop string are dropped.
        ends = {number: (at, end) for at, (number, *_, end) in enumerate(report["events"])}
        for at, event in enumerate(report["events"]):
            number, scored, prompt, end = event
            with self._lock:
                running = self._running.get(number)
            if running is None:
                continue
            given.append(event)
            last, end_of_all = ends[number]
            delta = self._delta(running, scored, end, end_of_all)
            delta.prompt = prompt
            if delta.end is not None:
                delta.end["output_tokens"] -= last - at
                with self._lock:
                    self._running.pop(number, None)
                report["ended"].append((running, delta))
            batch.append((running, delta))
        report["events"] = given
        self._send(batch)

    def _delta(
        self, running: Running, scored: Any, end: dict[str, Any] | None, end_of_all: dict[str, Any] | None
    ) -> Delta:
        """end_of_all: of the last token that the step gave to the request."""
        token, params = scored[0], running.params
        if end is not None and end["failure"]:
            return Delta("", [], "refused", end=end, failure=end["failure"])
        stopped = end is not None and end["finish"] == "stop"
        delta = Delta("" if stopped else running.text.add(token), [scored], end=end)
        if running.grammar is not None and end is None:
            if running.grammar.accept(token):
                delta.end, stopped = self.core.finish(running.id), True
            else:
                self.core.set_mask(running.id, running.grammar.mask())
        if running.text.stopped is not None:
            if delta.end is None:
                delta.end = end_of_all or self.core.finish(running.id)
            delta.finish, delta.stop_reason = "stop", running.text.stopped
            return delta
        if delta.end is not None:
            delta.text += running.text.rest()
            if running.text.stopped is not None:
                stopped, delta.stop_reason = True, running.text.stopped
            elif stopped and token in params.stop_tokens and token not in self._model_stop:
                delta.stop_reason = token
            delta.finish = "stop" if stopped else "length"
        return delta



def _deliver(batch: list[tuple[Running, Delta]]) -> None:
    for running, delta in batch:
        running.queue.put_nowait((running, delta))
