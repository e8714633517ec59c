"""OpenAI's embeddings: what the model makes of a text's last token, as vLLM has it for decoders."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from opentrn import _core
from opentrn.serve.errors import ApiError, api_errors
from opentrn.serve.requests import EmbeddingsRequest
from opentrn.serve.service import Service

__all__ = ["create"]


async def create(service: Service, body: EmbeddingsRequest) -> dict[str, Any]:
    """The answer to POST /v1/embeddings. Raises ApiError for what the model cannot do."""
    service.check_model(body.model)
    if body.model in service.adapters:
        raise ApiError(400, f"embeddings are those of {service.name}, without an adapter", param="model")
    if service.model is None:
        raise ApiError(400, "the server computes no values, so it gives no embeddings", param="model")
    width = service.model.config["hidden"]
    if body.dimensions not in (None, width):
        raise ApiError(400, f"the model's embeddings have {width} dimensions", param="dimensions")
    with api_errors():
        inputs = _core.prompts_of(json.dumps(body.input), "input")
    prompts = [service.prompts.tokens(json.loads(given))[0] for given in inputs]
    for prompt in prompts:
        if not prompt:
            raise ApiError(400, "a prompt has no tokens", param="input")
        if len(prompt) > service.context:
            raise ApiError(400, f"This model's maximum context length is {service.context} tokens, and an input has "
                           f"{len(prompt)}.", param="input", code="context_length_exceeded")  # fmt: skip
    rows, predicted = [], 0.0
    for i, prompt in enumerate(prompts):
        values, us = await asyncio.to_thread(service.model.embed, prompt)
        predicted += us
        coded = base64.b64encode(values.astype("<f4").tobytes()).decode()
        embedding: Any = coded if body.encoding_format == "base64" else values.tolist()
        rows.append({"object": "embedding", "index": i, "embedding": embedding})
    count = sum(len(prompt) for prompt in prompts)
    usage = {"prompt_tokens": count, "total_tokens": count,
             "predicted_device_time": {"total_ms": round(predicted / 1000, 6)}}  # fmt: skip
    return {"object": "list", "data": rows, "model": service.name, "usage": usage}
