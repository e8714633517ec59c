"""No setting of the server is without effect: each field of Settings has a change here, and what that changes.

The same requests are run over a server of the one and of the other settings; `seen` has what comes of them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2 as httpx
import pytest
from running import served
from test_adapter import write_adapter
from tiny import Tiny, hf_name

from opentrn import _core
from opentrn.errors import CapacityExceeded
from opentrn.serve import Settings, build
from opentrn.serve.engine import Params

PROMPTS = [[1, 2, 3, 4] * 6, [7] * 40, [9] * 90]
MODEL = Settings(dtype="f32", max_model_len=128, max_num_seqs=2, clock="virtual", generation={"temperature": 0})
DRAWN = dataclasses.replace(MODEL, values=False, linear="step=1000,prefill_token=1", max_model_len=128)
RANKS = dataclasses.replace(MODEL, ranks=2, instance="trn2.48xlarge")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("settings")
    model = Tiny(seed=7, context=256)
    downs = {key: value for key, value in model.weights.items() if "ffn_down" in key}
    matrices = {hf_name(key).removesuffix(".weight"): value for key, value in downs.items()}
    write_adapter(folder / "adapter", matrices, lora_alpha=40)
    times = [f"prefill_s{size},900" for size in (64, 128)] + [f"decode_b{b}_c{c},70" for b in (1, 2) for c in (64, 128)]
    (folder / "template.jinja").write_text("{% for m in messages %}{{ m.content }}{{ more }}{% endfor %}")
    (folder / "times.csv").write_text("program,us\n" + "\n".join(times) + "\n")
    return {"model": model.write(folder), "adapter": str(folder / "adapter"), "times": str(folder / "times.csv"),
            "trace": str(folder / "trace.jsonl"), "template": str(folder / "template.jinja")}  # fmt: skip


@contextmanager
def told() -> Iterator[list[dict[str, Any]]]:
    """The options that C++ is given."""
    rows: list[dict[str, Any]] = []
    made = _core.model_server

    def noted(engine: Any, options: dict[str, Any], *more: Any) -> Any:
        rows.append(dict(options))
        return made(engine, options, *more)

    with patch.object(_core, "model_server", noted):
        yield rows


def of_engine(path: Path, settings: Settings) -> dict[str, Any]:
    """Three requests at once, a prompt that was there before, and as many as may wait."""
    with told() as options:
        core = build(path, settings).service.engine.core
    seen: dict[str, Any] = {"programs at the start": core.stats()["programs"], "blocks": core.stats()["blocks"],
                            "audit": [row["audit"] for row in options],
                            "adapters": [row["max_loras"] for row in options]}  # fmt: skip
    ask = Params(max_tokens=6, temperature=0).core()
    steps, tokens, cached = [], {}, 0
    for prompts in (PROMPTS, PROMPTS[2:]):
        for prompt in prompts:
            core.add(prompt, ask)
        while (step := core.step(0.0, False)) is not None:
            steps.append(step)
            for number, token, *_, end in step["events"]:
                tokens.setdefault(number, []).append(token)
                cached += end["cached_tokens"] if end else 0
    seen |= {"tokens": tokens, "cached": cached, "programs": [step["program"] for step in steps],
             "requests": [len(step["requests"]) for step in steps],
             "predicted": [step["predicted_s"] for step in steps]}  # fmt: skip
    seen["lasts as predicted"] = all(abs(s["end_s"] - s["start_s"] - s["predicted_s"]) < 1e-9 for s in steps)
    accepted = 0
    with pytest.raises(CapacityExceeded):
        while accepted < 300:
            core.add(PROMPTS[0], ask)
            accepted += 1
    return seen | {"waiting": accepted, "guesses": core.stats()["draft_tokens"]}


def of_clients(path: Path, settings: Settings) -> dict[str, Any]:
    """What HTTP shows."""
    with served(path, settings) as running:
        listed = httpx.get(f"{running.url}/v1/models").json()
        rows = listed.get("data", [])
        name = rows[0]["id"] if rows else "none"
        body = {"model": name, "prompt": PROMPTS[0], "max_tokens": 6, "seed": 1, "ignore_eos": True,
                "return_token_ids": True}  # fmt: skip

        def status(**more: Any) -> int:
            return httpx.post(f"{running.url}/v1/completions", json=body | more, timeout=60).status_code

        answer = httpx.post(f"{running.url}/v1/completions", json=body, timeout=60).json()
        chat = {"model": name, "messages": [{"role": "user", "content": "the"}], "max_tokens": 1}
        said = httpx.post(f"{running.url}/v1/chat/completions", json=chat, timeout=60).json()
        return {
            "a priority": status(priority=1), "a chat's prompt": said.get("usage", {}).get("prompt_tokens"),
            "answers are read": running.built.service.served.answer_format,
            "models": [(row["id"], row["parent"]) for row in rows], "positions": [row["max_model_len"] for row in rows],
            "answer": answer.get("choices", [{}])[0].get("token_ids"), "without a key": status(),
            "a large body": status(stop=["x" * 3000]), "logprobs": status(logprobs=2),
            "a grammar": status(structured_outputs={"choice": ["a", "b"]}),
            "trace": [line.partition(":")[0] for line in Path(settings.trace).read_text().splitlines()]
            if settings.trace else [],
        }  # fmt: skip


# By the field: of which settings, the change, where it shows and what.
ENGINE, CLIENTS = of_engine, of_clients
ACTS: dict[str, tuple[Settings, dict[str, Any], Any, str]] = {
    "target": (MODEL, {"target": "trn1"}, ENGINE, "predicted"),
    "dtype": (MODEL, {"dtype": "bf16"}, ENGINE, "predicted"),
    "served_name": (DRAWN, {"served_name": "another"}, CLIENTS, "models"),
    "max_model_len": (DRAWN, {"max_model_len": 64}, CLIENTS, "positions"),
    "max_num_seqs": (MODEL, {"max_num_seqs": 3}, ENGINE, "requests"),
    "policy": (MODEL, {"policy": "vllm"}, ENGINE, "programs"),
    "scheduling_policy": (
        dataclasses.replace(MODEL, policy="vllm"), {"scheduling_policy": "priority"}, CLIENTS, "a priority"
    ),
    "max_loras": (dataclasses.replace(MODEL, adapters={"named": "{adapter}"}), {"max_loras": 1}, ENGINE, "adapters"),
    "num_blocks": (MODEL, {"num_blocks": 12}, ENGINE, "blocks"),
    "prefix_caching": (MODEL, {"prefix_caching": False}, ENGINE, "cached"),
    "clock": (MODEL, {"clock": "wall"}, ENGINE, "lasts as predicted"),
    "values": (dataclasses.replace(MODEL, linear="step=1000"), {"values": False}, ENGINE, "tokens"),
    "linear": (MODEL, {"linear": "step=1000"}, ENGINE, "predicted"),
    "step_times": (MODEL, {"step_times": "{times}"}, ENGINE, "predicted"),
    "host_us": (MODEL, {"host_us": 50.0}, ENGINE, "predicted"),
    "host_request_us": (MODEL, {"host_request_us": 50.0}, ENGINE, "predicted"),
    "max_waiting": (MODEL, {"max_waiting": 5}, ENGINE, "waiting"),
    "max_body_bytes": (DRAWN, {"max_body_bytes": 2000}, CLIENTS, "a large body"),
    "api_keys": (DRAWN, {"api_keys": ("secret",)}, CLIENTS, "without a key"),
    "generation": (MODEL, {"generation": {"temperature": 1.5}}, CLIENTS, "answer"),
    "trace": (DRAWN, {"trace": "{trace}"}, CLIENTS, "trace"),
    "audit": (MODEL, {"audit": True}, ENGINE, "audit"),
    "chat_template": (DRAWN, {"chat_template": "{template}"}, CLIENTS, "a chat's prompt"),
    "template_variables": (
        dataclasses.replace(DRAWN, chat_template="{template}"), {"template_variables": {"more": "the thin"}}, CLIENTS,
        "a chat's prompt",
    ),
    "reasoning_parser": (DRAWN, {"reasoning_parser": "qwen3"}, CLIENTS, "answers are read"),
    "tool_call_parser": (DRAWN, {"tool_call_parser": "mistral"}, CLIENTS, "answers are read"),
    "structured": (MODEL, {"structured": False}, CLIENTS, "a grammar"),
    "max_logprobs": (MODEL, {"max_logprobs": 1}, CLIENTS, "logprobs"),
    "token_buckets": (MODEL, {"token_buckets": (32, 128)}, ENGINE, "programs"),
    "sequence_buckets": (MODEL, {"sequence_buckets": (2,)}, ENGINE, "programs"),
    "context_buckets": (MODEL, {"context_buckets": (96,)}, ENGINE, "programs"),
    "quantization": (MODEL, {"quantization": "int8"}, ENGINE, "predicted"),
    "kv_cache_dtype": (MODEL, {"kv_cache_dtype": "fp8_e4m3"}, ENGINE, "predicted"),
    "lora": (MODEL, {"lora": "{adapter}"}, ENGINE, "tokens"),
    "adapters": (MODEL, {"adapters": {"named": "{adapter}"}}, CLIENTS, "models"),
    "ranks": (RANKS, {"ranks": 4}, ENGINE, "predicted"),
    "instance": (RANKS, {"instance": "trn1.32xlarge"}, ENGINE, "predicted"),
    "speculative": (MODEL, {"speculative": {"num_speculative_tokens": 3, "prompt_lookup_min": 2}}, ENGINE, "guesses"),
    "on_device_sampling": (MODEL, {"on_device_sampling": "likeliest"}, ENGINE, "predicted"),
    "warm": (MODEL, {"warm": False}, ENGINE, "programs at the start"),
}


def test_every_setting_has_an_entry() -> None:
    assert [field.name for field in dataclasses.fields(Settings)] == list(ACTS)


def _filled(value: Any, files: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(inner, files) for key, inner in value.items()}
    return value.format(**files) if isinstance(value, str) and "{" in value else value


def _texts(settings: Settings) -> dict[str, Any]:
    """Fields of settings that name files."""
    return {"adapters": settings.adapters, "chat_template": settings.chat_template}


@pytest.fixture(scope="module")
def without(files: dict[str, Any]) -> Any:
    """What is seen of settings without the change, once for each."""
    known: dict[str, dict[str, Any]] = {}

    def of(settings: Settings, seen: Any) -> dict[str, Any]:
        key = f"{seen.__name__} {settings}"
        if key not in known:
            known[key] = seen(files["model"], settings)
        return known[key]

    return of


@pytest.mark.parametrize("field", ACTS)
def test_a_setting_acts(field: str, files: dict[str, Any], without: Any) -> None:
    settings, change, seen, where = ACTS[field]
    settings = dataclasses.replace(settings, **_filled(_texts(settings), files))
    changed = dataclasses.replace(settings, **_filled(change, files))
    found, before = seen(files["model"], changed), without(settings, seen)
    assert json.dumps(found[where], default=str) != json.dumps(before[where], default=str)
    # And nothing changes without a change: what is seen hangs on no clock.
    if field == "target":
        assert seen(files["model"], settings)[where] == before[where]
