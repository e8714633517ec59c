"""A request under way: C++ reads its body and writes what is answered (src/server/api), whichever API it is of; the
template, the tokenizer, grammars and the event loop are here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from opentrn import _core
from opentrn.serve.engine import Delta, Params, Running
from opentrn.serve.errors import ApiError, api_errors
from opentrn.serve.service import Service

__all__ = ["Exchange"]


class Exchange:
    """kind: chat, completions, messages or responses. Raises ApiError for a body that is refused."""

    def __init__(self, service: Service, kind: str, body: Any) -> None:
        self._service = service
        text = msgspec.json.encode(body).decode()
        with api_errors():
            self._core = _core.open_exchange(kind, service.served, text, service.shown, service.responses)
        special = getattr(body, "add_special_tokens", None)
        made = [service.prompts.tokens(json.loads(given), special) for given in self._core.inputs]
        self.prompts = [self._kept(tokens) for tokens, _ in made]
        self._texts = [text for _, text in made]
        self._queue: asyncio.Queue[tuple[Running, Delta]] = asyncio.Queue()
        self._running: dict[Running, int] = {}  # which answer it is

    def _kept(self, tokens: list[int]) -> list[int]:
        first, last = self._core.kept_tokens(len(tokens))
        return tokens[first:last]

    @property
    def streams(self) -> bool:
        """Whether the client asked for events."""
        return self._core.streams

    @property
    def predicted(self) -> dict[str, float]:
        """Milliseconds of device time by what they are of; of answers that have ended."""
        return self._core.predicted

    def start(self) -> None:
        """Begins all answers. Raises ApiError; then none has begun."""
        with api_errors():
            plan = self._core.plan(list(map(len, self.prompts)), self._texts)
        grammar = self._core.grammar
        try:
            for prompt, params in plan:
                made = self._service.grammars.make(*grammar) if grammar is not None else None
                given = Params(**json.loads(params))
                given.bad_words = self._service.prompts.bad_words(given.bad_words)
                running = self._service.engine.submit(self.prompts[prompt], given, made, self._queue)
                self._running[running] = len(self._running)
        except ApiError:
            self._abort()
            raise

    async def whole(self) -> bytes:
        """The answer as JSON. Raises ApiError where one failed."""
        self._core.begin(self._echoed())
        async for _ in self._taken():
            pass
        return self._core.whole()

    async def events(self) -> AsyncIterator[bytes]:
        """The answer as a stream's events; one that fails ends with an event."""
        try:
            if begun := self._core.begin(self._echoed()):
                yield begun
            async for events in self._taken():
                if events:
                    yield events
            yield self._core.close()
        except ApiError as error:  # the status has been sent
            yield self._core.failed(json.dumps(error.fields()))
        finally:
            self._abort()

    def _echoed(self) -> list[str]:
        if not self._core.echoes:
            return []
        decode = self._service.text.tokenizer.decode
        return [decode(prompt, skip_special_tokens=True) for prompt in self.prompts]

    async def _taken(self) -> AsyncIterator[bytes]:
        open_answers = set(self._running)
        try:
            while open_answers:
                running, delta = await self._queue.get()
                running.expect(delta)
                if running.ended:
                    open_answers.discard(running)
                yield self._core.take(
                    self._running[running], delta.text, delta.tokens, delta.finish, delta.stop_reason, delta.end,
                    delta.prompt,
                )
        finally:
            self._abort()

    def _abort(self) -> None:
        """Ends answers that have not ended."""
        for running in self._running:
            if running.abort() and self._service.metrics is not None:
                self._service.metrics.aborted()
