"""What a client is told when a request is refused: HTTP status and the fields of OpenAI's error object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentrn import _core, errors

__all__ = ["ApiError", "api_error_of", "api_errors"]

_TYPES = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error",
          405: "invalid_request_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error",
          503: "overloaded_error"}  # fmt: skip


class ApiError(errors.InputError):
    """A refusal with its HTTP status; `param` is the field of the body that it is about, `code` OpenAI's name."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message, label="serve.request")
        self.status = status
        self.param = param
        self.code = code

    @property
    def type(self) -> str:
        """By the status, as OpenAI and Anthropic name it."""
        return _TYPES.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")

    def openai(self) -> dict[str, object]:
        """The body of OpenAI's APIs."""
        return {"error": self.fields()}

    def fields(self) -> dict[str, object]:
        """OpenAI's error object."""
        return {"message": self.message, "type": self.type, "param": self.param, "code": self.code}

    def anthropic(self) -> dict[str, object]:
        """The body of Anthropic's API."""
        return {"type": "error", "error": {"type": self.type, "message": self.message}}


@contextmanager
def api_errors() -> Iterator[None]:
    """What C++ refuses of a request is raised as ApiError."""
    try:
        yield
    except _core.ApiRefusal as refusal:
        status, message, param, code = refusal.args
        raise ApiError(status, message, param=param, code=code) from None


def api_error_of(error: errors.Refusal) -> ApiError:
    """What a refusal of the engine is to a client."""
    if isinstance(error, ApiError):
        return error
    text = error.message + (f" (try: {error.hint})" if error.hint else "")
    if error.label == "server.full":
        return ApiError(429, text, code="rate_limit_exceeded")
    if isinstance(error, errors.InternalError):
        return ApiError(500, "internal error")
    long = "leaves no place" in error.message
    return ApiError(400, text, code="context_length_exceeded" if long else None)
