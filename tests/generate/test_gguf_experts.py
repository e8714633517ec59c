"""GGUF files of models with a mixture of experts, as llama.cpp's converter lays them out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import gguf_bytes, interleaved, q8_0
from tiny_folders import FOLDERS, Folder

from opentrn import _core
from opentrn.errors import InputError, NotModelled

PROMPT = [int(t) for t in np.random.default_rng(7).integers(0, 100, 37)]
ARCHITECTURES = {"mixtral": "llama", "qwen2 moe": "qwen2moe", "qwen3 moe": "qwen3moe"}
_PARTS = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.gate": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
}  # fmt: skip
_OTHERS = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}  # fmt: skip
_EXPERTS = {"gate_proj": "gate", "w1": "gate", "up_proj": "up", "w3": "up", "down_proj": "down", "w2": "down"}


def tensors_of(model: Folder) -> dict[str, np.ndarray]:
    """The weights by GGUF's names; experts of a layer one upon the other."""
    made: dict[str, np.ndarray] = {}
    experts: dict[str, list[np.ndarray]] = {}
    turned = model.architecture == "MixtralForCausalLM"
    for name, values in model.weights.items():
        if name in _OTHERS:
            made[_OTHERS[name]] = values
            continue
        _, _, layer, rest = name.split(".", 3)
        part, kind = rest.rsplit(".", 1)
        if ".experts." in part:
            what = _EXPERTS[part.rsplit(".", 1)[1]]
            experts.setdefault(f"blk.{layer}.ffn_{what}_exps.weight", []).append(values)
        elif part == "mlp.shared_expert_gate":
            made[f"blk.{layer}.{_PARTS[part]}.{kind}"] = values[0]
        else:
            is_turned = turned and part in ("self_attn.q_proj", "self_attn.k_proj")
            made[f"blk.{layer}.{_PARTS[part]}.{kind}"] = (
                interleaved(values, model.config["head_dim"]) if is_turned else values
            )
    return made | {name: np.stack(rows) for name, rows in experts.items()}


def write(name: str, folder: Path, quantised: bool = False, **metadata: Any) -> tuple[Path, Folder]:
    """`quantised`: experts are Q8_0, and the model's weights become what that says."""
    architecture, config = FOLDERS[name]
    model, a = Folder(architecture, **config), ARCHITECTURES[name]
    c = model.config
    if quantised:
        for key, values in model.weights.items():
            if ".experts." in key and values.shape[1] % 32 == 0:
                model.weights[key] = q8_0(values)[1]
    keys: dict[str, Any] = {
        "general.architecture": a, f"{a}.block_count": c["num_hidden_layers"], f"{a}.context_length": 128,
        f"{a}.embedding_length": c["hidden_size"], f"{a}.feed_forward_length": c["intermediate_size"],
        f"{a}.attention.head_count": c["num_attention_heads"], f"{a}.rope.freq_base": 1000.0,
        f"{a}.attention.head_count_kv": c["num_key_value_heads"], f"{a}.attention.key_length": c["head_dim"],
        f"{a}.attention.layer_norm_rms_epsilon": 1e-5, f"{a}.expert_used_count": c["num_experts_per_tok"],
        f"{a}.expert_count": c.get("num_experts", c.get("num_local_experts")),
    }  # fmt: skip
    if "moe_intermediate_size" in c:
        keys[f"{a}.expert_feed_forward_length"] = c["moe_intermediate_size"]
    if "shared_expert_intermediate_size" in c:
        keys[f"{a}.expert_shared_feed_forward_length"] = c["shared_expert_intermediate_size"]
    tensors = {}
    for key, values in tensors_of(model).items():
        if quantised and "_exps" in key and values.shape[-1] % 32 == 0:
            tensors[key] = (8, values.shape, q8_0(values)[0])
        else:
            tensors[key] = (0, values.shape, np.ascontiguousarray(values, np.float32).tobytes())
    path = folder / f"{a}.gguf"
    path.write_bytes(gguf_bytes(keys | metadata, tensors))
    return path, model


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_experts_of_a_gguf_file_give_the_logits_of_the_architecture(name: str, tmp_path: Path) -> None:
    path, model = write(name, tmp_path, quantised=name == "mixtral")
    expected = model.logits(PROMPT)
    engine = _core.decoder_engine(_core.read_gguf(path), "trn2", "f32", 16, 9, [1], [48], [64])
    every = engine.step([(PROMPT, 0, [3, 1, 2])], True)[0][: len(PROMPT)]
    assert np.abs(every - expected).max() < 3e-4 * np.abs(expected).max()


def test_the_row_of_a_shared_gate_may_be_a_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As llama.cpp's converter writes it now."""
    module, as_vectors = sys.modules[__name__], tensors_of

    def as_matrices(model: Folder) -> dict[str, np.ndarray]:
        return {key: value.reshape(1, -1) if "inp_shexp" in key else value for key, value in as_vectors(model).items()}

    monkeypatch.setattr(module, "tensors_of", as_matrices)
    path, model = write("qwen2 moe", tmp_path)
    engine = _core.decoder_engine(_core.read_gguf(path), "trn2", "f32", 16, 9, [1], [48], [64])
    expected = model.logits(PROMPT)
    every = engine.step([(PROMPT, 0, [3, 1, 2])], True)[0][: len(PROMPT)]
    assert np.abs(every - expected).max() < 3e-4 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"qwen3moe.expert_used_count": 10}, "10 of 9 experts"),
        ({"qwen3moe.expert_feed_forward_length": 0}, "features of an expert is 0"),
        ({"qwen3moe.expert_count": 2000}, "2000 experts"),
        ({"general.architecture": "qwen3", **{f"qwen3.{key}": 4 for key in (
            "block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
            "expert_count")}}, "'qwen3' with a mixture of experts"),
    ],
)  # fmt: skip
def test_experts_that_are_none(metadata: dict[str, Any], reason: str, tmp_path: Path) -> None:
    file = _core.read_gguf(write("qwen3 moe", tmp_path, **metadata)[0])
    with pytest.raises((InputError, NotModelled), match=reason):
        _core.decoder_context(file)


def test_experts_of_other_sizes(tmp_path: Path) -> None:
    file = _core.read_gguf(write("qwen3 moe", tmp_path, **{"qwen3moe.expert_feed_forward_length": 40})[0])
    with pytest.raises(InputError, match=r"ffn_gate_exps.weight is \[9, 48, 64\]"):
        _core.decoder_engine(file, "trn2", "f32", 16, 9, [1], [48], [64])
