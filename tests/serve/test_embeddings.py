"""POST /v1/embeddings by OpenAI's client: the features from which the model's own logits follow."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx2 as httpx  # that of the official clients
import numpy as np
import openai
import pytest
from tiny import Tiny

KEY = "secret"
HEADERS = {"authorization": f"Bearer {KEY}"}


def post(running: Any, **body: Any) -> httpx.Response:
    return httpx.post(f"{running.url}/v1/embeddings", json={"model": "tiny"} | body, headers=HEADERS)


def test_embeddings_are_the_features_behind_the_last_norm(model: Any):
    client = openai.OpenAI(base_url=f"{model.url}/v1", api_key=KEY, max_retries=0, timeout=60)
    inputs = ["the thin", "in the " * 40, "x" * 600]  # of one program and of several
    made = client.embeddings.create(model="tiny", input=inputs)  # base64, by the client's default
    reference, direct = Tiny(context=1024), model.built.model
    rows = [direct.encode(text) for text in inputs]
    assert made.usage.prompt_tokens == made.usage.total_tokens == sum(len(row) for row in rows)
    assert made.usage.model_extra["predicted_device_time"]["total_ms"] > 0
    for i, (row, tokens) in enumerate(zip(made.data, rows)):
        assert row.index == i and len(row.embedding) == reference.hidden
        assert np.linalg.norm(row.embedding) == pytest.approx(1, abs=1e-6)
        # The head is the table of embeddings: logits are its product with the features, but for their length.
        found = reference.weights["token_embd.weight"] @ np.array(row.embedding)
        wanted = reference.logits(tokens)[-1]
        assert found / np.linalg.norm(found) == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-4)
    again = client.embeddings.create(model="tiny", input=rows[0], encoding_format="float").data[0].embedding
    assert np.array(again, np.float32).tolist() == np.array(made.data[0].embedding, np.float32).tolist()


def test_the_bytes_of_base64(model: Any):
    plain = post(model, input="the").json()["data"][0]["embedding"]
    coded = post(model, input="the", encoding_format="base64").json()["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(coded), "<f4").tolist() == np.array(plain, np.float32).tolist()


def test_what_is_refused(model: Any, drawn: Any):
    for body, param in (
        ({"input": "the", "dimensions": 8}, "dimensions"),
        ({"input": []}, "input"),
        ({"input": [""]}, "input"),
        ({"input": "x " * 2000}, "input"),
        ({"input": [99999]}, None),
        ({"input": "the", "encoding_format": "int8"}, "encoding_format"),
    ):
        answer = post(model, **body)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == param, body
    assert post(model, input="the", model="other").status_code == 404
    assert "computes no values" in post(drawn, input="the").json()["error"]["message"]


def test_a_model_by_itself(tmp_path: Path):
    from opentrn.generate import LanguageModel

    model = LanguageModel(Tiny().write(tmp_path), dtype="f32", context=64)
    values, us = model.embed([1, 2, 3])
    assert values.shape == (64,) and us > 0
    logits = model.score([1, 2, 3])[2]
    table = Tiny().weights["token_embd.weight"]
    assert np.corrcoef(table @ values, logits)[0, 1] == pytest.approx(1, abs=1e-6)
    from opentrn.errors import InputError

    for tokens in ([], [1] * 65):
        with pytest.raises(InputError, match="are embedded"):
            model.embed(tokens)
