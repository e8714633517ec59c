"""Families that differ from Llama in few places: their logits, ranks, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_layer_norms import expect_logits
from tiny_later import LATER, Later

from opentrn import _core
from opentrn.errors import InputError, NotModelled

PROMPT = [int(t) for t in np.random.default_rng(3).integers(0, 90, 28)]


@pytest.mark.parametrize("name", LATER)
def test_logits_are_those_of_the_architecture(name: str, tmp_path: Path) -> None:
    model = Later(name)
    expect_logits(model.write(tmp_path / "model"), model.logits(PROMPT))


@pytest.mark.parametrize("name", ["seed-oss with a bias", "ministral 3", "exaone 4", "nemotron with biases"])
def test_two_ranks_share_it(name: str, tmp_path: Path) -> None:
    model = Later(name)
    expect_logits(model.write(tmp_path / "model"), model.logits(PROMPT), ranks=2)


@pytest.mark.parametrize(("name", "change", "reason"), [
    ("seed-oss", {"mlp_bias": True}, "biases of feed-forward layers"),
    ("ernie 4.5", {"use_bias": True}, "biases of feed-forward layers"),
    ("olmoe", {"clip_qkv": 8.0}, "kept within a limit"),
    ("arcee", {"hidden_act": "silu"}, "'silu'"),
    ("nemotron", {"hidden_act": "gelu"}, "'gelu'"),
    ("exaone 4", {"layer_types": ["linear_attention"]}, "'linear_attention'"),
    ("minimax m2", {"num_experts_per_tok": 9}, "9 of 6 experts"),
    ("ministral 3", {"rope_parameters": {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": 0}},
     "original_max_position_embeddings is 0"),
    ("ministral 3", {"rope_parameters": {"llama_4_scaling_beta": "much", "original_max_position_embeddings": 4}},
     "llama_4_scaling_beta of config.json is not a number"),
])  # fmt: skip
def test_what_is_refused(name: str, change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    model = Later(name)
    model.config |= change
    with pytest.raises((InputError, NotModelled), match=reason):
        _core.decoder_context(_core.read_checkpoint(model.write(tmp_path / "model")))
