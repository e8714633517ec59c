"""DeepSeek V2 and V3, whose pools have latent features in place of keys and values, and GLM-4.5, with like experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_layer_norms import engine_of, expect_logits
from tiny_latent import LATENT_MODELS, Latent

from opentrn import _core
from opentrn.errors import InputError, NotModelled

PROMPT = [int(t) for t in np.random.default_rng(3).integers(0, 90, 28)]


@pytest.mark.parametrize("name", LATENT_MODELS)
def test_logits_are_those_of_the_architecture(name: str, tmp_path: Path) -> None:
    model = Latent(name)
    expect_logits(model.write(tmp_path / "model"), model.logits(PROMPT))


@pytest.mark.parametrize("name", ["deepseek v3", "deepseek v2 lite", "glm-4.5"])
def test_ranks_share_heads_and_experts(name: str, tmp_path: Path) -> None:
    model = Latent(name)
    folder, expected = model.write(tmp_path / "model"), model.logits(PROMPT)
    for ranks in (2, 4):
        expect_logits(folder, expected, ranks)


def test_pools_have_what_all_heads_share(tmp_path: Path) -> None:
    model = Latent("deepseek v3")
    folder = model.write(tmp_path / "model")
    slots, layers, latent, turned = 16 * 9, 3, 24, 8
    assert engine_of(folder).pool_bytes == 4 * slots * layers * (latent + turned)
    # Each rank has all of it.
    assert engine_of(folder, ranks=2).pool_bytes == 2 * 4 * slots * layers * (latent + turned)


def test_pools_in_fp8_have_what_rounding_leaves(tmp_path: Path) -> None:
    class Rounded(Latent):
        def kept(self, x: np.ndarray) -> np.ndarray:
            return x.astype(np.float32).astype(ml_dtypes.float8_e4m3).astype(np.float64)

    model = Rounded("deepseek v3")
    file = _core.read_checkpoint(model.write(tmp_path / "model"))
    engine = _core.decoder_engine(file, "trn2", "f32", 16, 9, [1], [16, 48], [64], kv_cache_dtype="fp8")
    made = engine.step([(PROMPT, 0, [3, 1, 2])], every_token=True)[0][: len(PROMPT)]
    expected = model.logits(PROMPT)
    assert np.abs(made - expected).max() < 3e-4 * np.abs(expected).max()


def test_matrices_of_latent_attention_may_be_narrow(tmp_path: Path) -> None:
    model = Latent("deepseek v3 plain")
    file, expected = _core.read_checkpoint(model.write(tmp_path / "model")), model.logits(PROMPT)
    off = []
    for kept in ("", ",except=self_attn"):
        engine = _core.decoder_engine(file, "trn2", "f32", 16, 9, [1], [16, 48], [64], quantization="int8" + kept)
        made = engine.step([(PROMPT, 0, [3, 1, 2])], every_token=True)[0][: len(PROMPT)]
        off.append(np.sqrt(((made - expected) ** 2).mean() / (expected**2).mean()))
    assert 1e-4 < off[1] < off[0] < 0.3


@pytest.mark.parametrize(("name", "change", "reason"), [
    ("deepseek v3", {"attention_bias": True}, "biases of latent attention"),
    ("deepseek v3", {"rope_interleave": False}, "halves of latent attention"),
    ("deepseek v3", {"kv_lora_rank": 0}, "kv_lora_rank is 0"),
    ("deepseek v3", {"qk_nope_head_dim": 2**63 - 1}, "qk_nope_head_dim is 9223372036854775807"),
    ("deepseek v3", {"v_head_dim": 4096}, "values of a head have 4096 features"),
    ("deepseek v3", {"q_lora_rank": -3}, "q_lora_rank is -3"),
    ("deepseek v3", {"topk_group": 5}, "3 experts in 5 of 4 groups of 8"),
    ("deepseek v3", {"n_group": 3}, "in 2 of 3 groups of 8"),
    ("deepseek v3", {"moe_layer_freq": 2}, "every so many layers"),
    ("deepseek v3", {"qk_rope_head_dim": 7}, "7 features of a head are turned"),
    ("deepseek v3", {"n_shared_experts": -1}, "n_shared_experts is -1"),
    ("deepseek v2", {"topk_method": "random"}, 'taken by "random"'),
])  # fmt: skip
def test_what_is_refused(name: str, change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    model = Latent(name)
    model.config |= change
    with pytest.raises((InputError, NotModelled), match=reason):
        engine_of(model.write(tmp_path / "model"))
