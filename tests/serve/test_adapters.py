"""Adapters that requests name in place of the model, as vLLM's --lora-modules has them."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx  # that of the official clients
import pytest
from running import served
from test_adapter import write_adapter
from tiny import Tiny, hf_name

from opentrn.errors import InputError
from opentrn.generate import LanguageModel
from opentrn.serve import Settings, build
from opentrn.serve.engine import Params

PROMPT = [int(t) for t in range(5, 75)]  # two whole blocks, which the prefix cache keeps
TOKENS = 6


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A model, and two adapters of different matrices of it."""
    folder = tmp_path_factory.mktemp("adapters")
    model, adapters = Tiny(context=256), {}
    for name, part in (("first", "attn_v"), ("second", "ffn_down")):
        matrices = {hf_name(key).removesuffix(".weight"): value for key, value in model.weights.items() if part in key}
        write_adapter(folder / name, matrices, lora_alpha=40)
        adapters[name] = str(folder / name)
    return model.write(folder), adapters


def settings_of(adapters: dict[str, str], **more: Any) -> Settings:
    return Settings(served_name="tiny", dtype="f32", max_model_len=256, max_num_seqs=4, audit=True, adapters=adapters,
                    **more)  # fmt: skip


@pytest.mark.parametrize("ranks", [{}, {"ranks": 2, "instance": "trn2.48xlarge"}], ids=["one", "ranks"])
def test_each_request_is_answered_by_the_adapter_that_it_names(
    ranks: dict[str, Any], folders: tuple[Path, dict[str, str]]
) -> None:
    """Alone and all at once; blocks of a prompt are not shared between adapters, and are with the same."""
    path, adapters = folders
    expected = {}
    for name, folder in {"tiny": None, **adapters}.items():
        model = LanguageModel(path, dtype="f32", context=256, lora=folder, **ranks)
        list(model.generate([PROMPT], max_tokens=TOKENS))
        expected[name] = model.answers[0].tokens
    assert len({tuple(tokens) for tokens in expected.values()}) == 3

    with served(path, settings_of(adapters, **ranks)) as running:

        def ask(name: str) -> Any:
            body = {"model": name, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True,
                    "return_token_ids": True}  # fmt: skip
            return httpx.post(f"{running.url}/v1/completions", json=body, timeout=60).json()

        def cached(answer: Any) -> int:
            return (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)

        names = [*expected, *expected]
        first = [ask(name) for name in expected]
        assert [cached(answer) for answer in first] == [0, 0, 0]
        assert all(cached(ask(name)) == 64 for name in expected)
        with ThreadPoolExecutor(6) as pool:
            together = list(pool.map(ask, names))
        for name, answer in zip([*expected, *names], [*first, *together]):
            assert answer["choices"][0]["token_ids"] == expected[name] and answer["model"] == name

        listed = {row["id"]: row["parent"] for row in httpx.get(f"{running.url}/v1/models").json()["data"]}
        assert listed == {"tiny": None, "first": "tiny", "second": "tiny"}
        assert httpx.get(f"{running.url}/v1/models/second").json()["root"] == adapters["second"]
        body = {"model": "first", "messages": [{"role": "user", "content": "the"}], "max_tokens": 2}
        assert httpx.post(f"{running.url}/v1/messages", json=body, timeout=60).json()["model"] == "first"
        chat = httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=60).json()
        assert chat["model"] == "first"
        assert ask("third")["error"]["code"] == "model_not_found"
        embedded = httpx.post(f"{running.url}/v1/embeddings", json={"model": "first", "input": "the"})
        assert embedded.status_code == 400 and "without an adapter" in embedded.text
        with pytest.raises(InputError, match="adapter 3; there are 2"):
            running.core.add([1], Params(max_tokens=1, adapter=3).core(), None)
        with pytest.raises(InputError, match="adapter 3; there are 2"):
            running.built.model.engine.step([([1], 0, [1])], False, 3)
        running.wait_idle()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"values": False, "linear": "step=1"}, "without values"),
        ({"served_name": "first"}, "both named first"),
    ],
)
def test_adapters_that_no_request_could_name(
    more: dict[str, Any], reason: str, folders: tuple[Path, dict[str, str]]
) -> None:
    path, adapters = folders
    options: dict[str, Any] = {"served_name": "tiny", "max_model_len": 64, "max_num_seqs": 1, "adapters": adapters}
    with pytest.raises(InputError, match=reason):
        build(path, Settings(**options | more))


def test_the_option_takes_names_and_folders() -> None:
    done = subprocess.run([sys.executable, "-m", "opentrn", "serve", "smollm2", "--lora-modules", "first"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 2 and "is not NAME=FOLDER" in done.stderr
