"""GPT-NeoX, OPT, StableLM, StarCoder 2 and Phi: their logits, whatever reads the tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_layer_norms import MODELS, LayerNorms

from opentrn import _core
from opentrn.errors import InputError, NotModelled

PROMPT = [int(t) for t in np.random.default_rng(3).integers(0, 90, 28)]


def engine_of(folder: Path, ranks: int = 1) -> Any:
    return _core.decoder_engine(_core.read_checkpoint(folder), "trn2", "f32", 16, 9, [1], [16, 48], [64], ranks=ranks,
                                instance="trn2.48xlarge" if ranks > 1 else "")  # fmt: skip


def expect_logits(folder: Path, expected: np.ndarray, ranks: int = 1) -> None:
    engine = engine_of(folder, ranks)
    every = engine.step([(PROMPT, 0, [3, 1, 2])], every_token=True)[0][: len(PROMPT)]
    assert np.abs(every - expected).max() < 3e-4 * np.abs(expected).max()
    first = engine.step([(PROMPT[:20], 0, [6, 4])])[0][0].copy()
    then = [engine.step([(PROMPT[i : i + 1], i, [6, 4])])[0][0].copy() for i in range(20, len(PROMPT))]
    assert np.abs(np.array([first, *then]) - expected[19:]).max() < 3e-4 * np.abs(expected).max()


@pytest.mark.parametrize("kind", MODELS)
def test_logits_are_those_of_the_architecture(kind: str, tmp_path: Path) -> None:
    model = LayerNorms(kind)
    expect_logits(model.write(tmp_path / "model"), model.logits(PROMPT))


@pytest.mark.parametrize("kind", ["pythia", "pythia in turn", "opt", "stablelm", "starcoder2", "phi"])
def test_two_ranks_share_it(kind: str, tmp_path: Path) -> None:
    model = LayerNorms(kind)
    expect_logits(model.write(tmp_path / "model"), model.logits(PROMPT), ranks=2)


@pytest.mark.parametrize(("kind", "change", "reason"), [
    ("opt", {"do_layer_norm_before": False}, "norms behind"),
    ("opt", {"word_embed_proj_dim": 32}, "embeddings of another size"),
    ("opt", {"layer_norm_elementwise_affine": False}, "layer norms without weights"),
    ("opt", {"activation_function": "tanh"}, "'tanh'"),
    ("stablelm", {"qk_layernorm": True}, "layer norms of queries"),
    ("phi", {"partial_rotary_factor": -1}, "partial_rotary_factor is -1"),
    ("pythia", {"rotary_pct": 0.2}, "3 features of a head are turned"),
    ("pythia", {"hidden_size": 0}, "hidden size is 0"),
])  # fmt: skip
def test_what_is_refused(kind: str, change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises((InputError, NotModelled), match=reason):
        _core.decoder_context(_core.read_checkpoint(LayerNorms(kind, **change).write(tmp_path / "model")))
