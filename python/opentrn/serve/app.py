"""The HTTP side: routes, keys, limits, streams; a Starlette application over one Service."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from opentrn import __version__
from opentrn.errors import Refusal
from opentrn.serve import embeddings
from opentrn.serve.errors import ApiError, api_error_of, api_errors
from opentrn.serve.exchange import Exchange
from opentrn.serve.messages import CountRequest, MessagesRequest
from opentrn.serve.openapi import document
from opentrn.serve.requests import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    EmbeddingsRequest,
    TokenizeRequest,
)
from opentrn.serve.responses import ResponsesRequest
from opentrn.serve.service import Service

__all__ = ["Limits", "application"]

_OPEN_PATHS = ("/health", "/ping", "/version")  # without a key
_READ_S = 30.0  # a body that comes more slowly is given up


@dataclass(frozen=True)
class Limits:
    """body_bytes: of a request. api_keys: one of them is asked for; none: no key is."""

    body_bytes: int = 8 << 20
    api_keys: Sequence[str] = ()


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def _refusal(request: Request, error: ApiError) -> Response:
    speaks_anthropic = request.url.path.startswith("/v1/messages")
    headers = {"retry-after": "1"} if error.status in (429, 503) else {}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return _json(error.anthropic() if speaks_anthropic else error.openai(), error.status, headers)


def _reason(error: msgspec.ValidationError) -> ApiError:
    """`$.messages[0].content` in msgspec's text is the parameter."""
    text = str(error)
    place = text.rpartition(" - at `$.")[2].rstrip("`") if " - at `$." in text else None
    return ApiError(400, text.replace("`$.", "`"), param=place)


class _App:
    def __init__(self, service: Service, limits: Limits) -> None:
        self.service = service
        self.limits = limits
        self.created = int(time.time())
        self.stopping = False

    # -- bodies and answers
    async def body(self, request: Request, kind: Any) -> Any:
        """The body as `kind`. Raises ApiError."""
        stated = request.headers.get("content-length", "")
        if stated.isdigit() and int(stated) > self.limits.body_bytes:
            raise self._too_large()
        try:
            data = await asyncio.wait_for(self._read(request), _READ_S)
        except asyncio.TimeoutError as error:
            raise ApiError(408, f"the body did not come within {_READ_S:.0f} s") from error
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError as error:
            raise _reason(error) from error
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise ApiError(400, f"the body is not JSON: {error}") from error

    async def _read(self, request: Request) -> bytes:
        data = bytearray()
        async for part in request.stream():
            data += part
            if len(data) > self.limits.body_bytes:
                raise self._too_large()
        return bytes(data)

    def _too_large(self) -> ApiError:
        return ApiError(413, f"the body is larger than {self.limits.body_bytes} bytes")

    async def answered(self, request: Request, work: Awaitable[Response]) -> Response:
        """The answer of `work`. A client that leaves ends the work."""
        if self.stopping:
            raise ApiError(503, "the server shuts down")
        task = asyncio.ensure_future(work)
        watch = asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
                return Response(status_code=499)
            return task.result()
        finally:
            watch.cancel()

    async def exchange(self, request: Request, kind: str, of: Any) -> Response:
        """The answer to a body of the type `of`, or its stream."""
        body = await self.body(request, of)
        return await self.answered(request, self._answer(kind, body))

    async def _answer(self, kind: str, body: Any) -> Response:
        made = Exchange(self.service, kind, body)
        made.start()
        if made.streams:
            return StreamingResponse(
                made.events(), media_type="text/event-stream",
                headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
            )  # fmt: skip
        whole = await made.whole()
        return Response(whole, 200, _times(made.predicted), "application/json")

    # -- routes
    async def chat(self, request: Request) -> Response:
        return await self.exchange(request, "chat", ChatRequest)

    async def completions(self, request: Request) -> Response:
        return await self.exchange(request, "completions", CompletionRequest)

    async def responses(self, request: Request) -> Response:
        return await self.exchange(request, "responses", ResponsesRequest)

    async def response(self, request: Request) -> Response:
        name = request.path_params["id"]
        with api_errors():
            found = self.service.responses.get(name)
        if request.method == "DELETE":
            self.service.responses.remove(name)
            return _json({"id": name, "object": "response", "deleted": True})
        return Response(found, media_type="application/json")

    async def cancel_response(self, request: Request) -> Response:
        with api_errors():
            self.service.responses.get(request.path_params["id"])
        raise ApiError(400, "only a response in the background can be cancelled, and there are none", param="id")

    async def no_compaction(self, request: Request) -> Response:
        raise ApiError(404, "responses are not compacted here")

    async def messages(self, request: Request) -> Response:
        return await self.exchange(request, "messages", MessagesRequest)

    async def count_tokens(self, request: Request) -> Response:
        body = await self.body(request, CountRequest)
        return _json({"input_tokens": len(Exchange(self.service, "messages", body).prompts[0])})

    async def models(self, request: Request) -> Response:
        own = self.service.name

        def row(name: str, root: str, parent: str | None) -> dict[str, Any]:
            return {"id": name, "object": "model", "created": self.created, "owned_by": "opentrn", "root": root,
                    "parent": parent, "max_model_len": self.service.context}  # fmt: skip

        rows = {own: row(own, own, None)}
        rows |= {name: row(name, folder, own) for name, (_, folder) in self.service.adapters.items()}
        name = request.path_params.get("name")
        if name is None:
            return _json({"object": "list", "data": list(rows.values())})
        self.service.check_model(name)
        return _json(rows[name])

    async def tokenize(self, request: Request) -> Response:
        body = await self.body(request, TokenizeRequest)
        if body.model is not None:
            self.service.check_model(body.model)
        if (body.prompt is None) == (body.messages is None):
            raise ApiError(400, "give prompt or messages", param="prompt")
        if body.prompt is not None:
            prompts = self.service.prompts
            tokens = prompts.encode(body.prompt) if body.add_special_tokens else prompts.plain(body.prompt)
        else:
            conversation = {"model": self.service.name, "messages": body.messages}
            tokens = Exchange(self.service, "chat", conversation).prompts[0]
        texts = [self.service.shown(token)[0] for token in tokens] if body.return_token_strs else None
        return _json({"count": len(tokens), "max_model_len": self.service.context, "tokens": tokens,
                      "token_strs": texts})  # fmt: skip

    async def detokenize(self, request: Request) -> Response:
        body = await self.body(request, DetokenizeRequest)
        if body.model is not None:
            self.service.check_model(body.model)
        size = self.service.text.tokenizer.get_vocab_size()
        for token in body.tokens:
            if token >= size:
                raise ApiError(400, f"token {token}; the vocabulary has {size}", param="tokens")
        return _json({"prompt": self.service.text.tokenizer.decode(body.tokens, skip_special_tokens=False)})

    async def embeddings(self, request: Request) -> Response:
        body = await self.body(request, EmbeddingsRequest)
        return await self.answered(request, self._embedded(body))

    async def _embedded(self, body: EmbeddingsRequest) -> Response:
        row = await embeddings.create(self.service, body)
        return _json(row, headers=_times(row["usage"]["predicted_device_time"]))

    async def health(self, request: Request) -> Response:
        if self.service.engine.failure:
            raise ApiError(503, f"the engine has stopped: {self.service.engine.failure}")
        return Response(status_code=503 if self.stopping else 200)

    async def load(self, request: Request) -> Response:
        stats = self.service.engine.core.stats()
        return _json({"server_load": stats["running"] + stats["waiting"]})

    async def version(self, request: Request) -> Response:
        return _json({"version": __version__})

    async def metrics(self, request: Request) -> Response:
        assert self.service.metrics is not None
        return Response(self.service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        return _json(document(__version__, [self.service.name, *self.service.adapters]))

    def routes(self) -> list[Route]:
        get = {
            "/health": self.health, "/ping": self.health, "/version": self.version, "/load": self.load,
            "/metrics": self.metrics, "/openapi.json": self.openapi, "/v1/models": self.models,
            "/v1/models/{name:path}": self.models,
        }  # fmt: skip
        post = {
            "/v1/chat/completions": self.chat, "/v1/completions": self.completions, "/v1/responses": self.responses,
            "/v1/responses/compact": self.no_compaction, "/v1/responses/{id}/cancel": self.cancel_response,
            "/v1/messages": self.messages,
            "/v1/messages/count_tokens": self.count_tokens, "/tokenize": self.tokenize,
            "/detokenize": self.detokenize, "/v1/embeddings": self.embeddings,
        }  # fmt: skip
        return [
            *(Route(path, run, methods=["GET"]) for path, run in get.items()),
            *(Route(path, run, methods=["POST"]) for path, run in post.items()),
            Route("/v1/responses/{id}", self.response, methods=["GET", "DELETE"]),
        ]


async def _gone(request: Request) -> None:
    """Returns when the client has left."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


def _times(times: dict[str, float]) -> dict[str, str]:
    """Headers of predicted times, as `usage` has them."""
    return {f"x-opentrn-predicted-{name.replace('_', '-')}": f"{value}" for name, value in times.items()}


class _Keys:
    """Asks for a key, in the header of OpenAI's clients or that of Anthropic's."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self.app = app
        self.keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self.keys or scope["path"] in _OPEN_PATHS:
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-api-key") or headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        if sum(hmac.compare_digest(given, key) for key in self.keys):  # all of them, in the same time
            await self.app(scope, receive, send)
            return
        error = ApiError(401, "Incorrect API key provided.", code="invalid_api_key")
        await _refusal(Request(scope), error)(scope, receive, send)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = _refusal(request, ApiError(error.status_code, f"{error.detail}: {request.method} {request.url.path}"))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def application(
    service: Service, limits: Limits = Limits(), on_stop: Callable[[], None] | None = None
) -> Starlette:
    """The server's application; its lifespan starts and stops the engine."""
    app = _App(service, limits)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.engine.start(asyncio.get_running_loop())
        try:
            yield
        finally:
            app.stopping = True
            await asyncio.to_thread(service.engine.stop)
            if on_stop is not None:
                on_stop()

    handlers: Any = {HTTPException: _http_error, Refusal: _route_refusal}
    made = Starlette(routes=app.routes(), lifespan=lifespan, exception_handlers=handlers)
    made.add_middleware(_Keys, keys=tuple(limits.api_keys))
    return made


async def _route_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _refusal(request, api_error_of(error))
