"""Tiny models of folders as GGUF files, as llama.cpp's converter writes them (its folder conversion/)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tiny import gguf_bytes, interleaved
from tiny_families import Family
from tiny_folders import FOLDERS, Folder
from tiny_later import Later
from tiny_layer_norms import LAYERS, LayerNorms

Weights = dict[str, np.ndarray]
# Parts of names that are replaced, one after the other.
_LLAMA = (
    ("model.embed_tokens", "token_embd"), ("lm_head", "output"), ("model.norm", "output_norm"),
    ("model.final_layernorm", "output_norm"), ("model.layers.", "blk."), ("self_attn.o_proj", "attn_output"),
    ("self_attn.dense", "attn_output"), ("self_attn.qkv_proj", "attn_qkv"), ("mlp.gate_up_proj", "ffn_up"),
    ("input_layernorm", "attn_norm"), ("mlp.c_fc", "ffn_up"), ("mlp.c_proj", "ffn_down"), ("mlp.fc1", "ffn_up"),
    ("mlp.fc2", "ffn_down"),
    *((f"self_attn.{p}_proj", f"attn_{p}") for p in "qkv"), *((f"self_attn.{p}_norm", f"attn_{p}_norm") for p in "qk"),
    *((f"mlp.{p}_proj", f"ffn_{p}") for p in ("gate", "up", "down")),
)  # fmt: skip
_ONE_NORM = (*_LLAMA, ("post_attention_layernorm", "ffn_norm"))
_NORMS_AFTER = (*_LLAMA, ("post_attention_layernorm", "post_attention_norm"), ("pre_feedforward_layernorm", "ffn_norm"),
                ("post_feedforward_layernorm", "post_ffw_norm"))  # fmt: skip
_SEED_OSS = (*_LLAMA, ("post_attention_layernorm", "post_attention_norm"))
_GLM4 = (*_LLAMA, ("post_self_attn_layernorm", "post_attention_norm"), ("post_attention_layernorm", "ffn_norm"),
         ("post_mlp_layernorm", "post_ffw_norm"))  # fmt: skip
_GPT2 = (("wte", "token_embd"), ("wpe", "position_embd"), ("ln_f", "output_norm"), ("h.", "blk."),
         ("ln_1", "attn_norm"), ("ln_2", "ffn_norm"), ("attn.c_attn", "attn_qkv"), ("attn.c_proj", "attn_output"),
         ("mlp.c_fc", "ffn_up"), ("mlp.c_proj", "ffn_down"))  # fmt: skip
_NEOX = (("gpt_neox.embed_in", "token_embd"), ("gpt_neox.final_layer_norm", "output_norm"), ("embed_out", "output"),
         ("gpt_neox.layers.", "blk."), ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"),
         ("attention.dense", "attn_output"), ("attention.query_key_value", "attn_qkv"),
         ("mlp.dense_h_to_4h", "ffn_up"), ("mlp.dense_4h_to_h", "ffn_down"))  # fmt: skip
# A head's features, by which llama.cpp scales scores of all but the largest models of Gemma.
_WIDTH = {"query_pre_attn_scalar": 16}
_TURNED = ("smollm3", "arcee")  # rows of queries and keys that the converter lays in turns


def _folder(name: str, **change: Any) -> Folder:
    architecture, config = FOLDERS[name]
    return Folder(architecture, **config | change)


# A model: llama.cpp's name, a model of a folder, names, keys of its own.
Row = tuple[str, Callable[[], Folder], tuple[tuple[str, str], ...], dict[str, Any]]
ROWS: dict[str, Row] = {
    "gemma": ("gemma", lambda: _folder("gemma"), _ONE_NORM, {}),
    "gemma2": ("gemma2", lambda: _folder("gemma2", **_WIDTH), _NORMS_AFTER,
               {"attention.sliding_window": 12, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 2.0}),
    "gemma3": ("gemma3", lambda: _folder("gemma3", **_WIDTH), _NORMS_AFTER,
               {"attention.sliding_window": 8, "rope.freq_base_swa": 500.0}),
    "phi3": ("phi3", lambda: _folder("phi3"), _ONE_NORM,
             {"attention.sliding_window": 10, "rope.dimension_count": 8}),
    "phi3 long": ("phi3", lambda: _folder("phi3 long"), _ONE_NORM,
                  {"rope.dimension_count": 12, "rope.scaling.original_context_length": 32,
                   "rope.scaling.attn_factor": float(np.sqrt(1 + np.log(4) / np.log(32)))}),
    "smollm3": ("smollm3", lambda: _folder("smollm3", num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0]), _ONE_NORM, {}),
    "glm": ("chatglm", lambda: Family("glm"), _ONE_NORM, {"rope.dimension_count": 8}),
    "glm4": ("glm4", lambda: Family("glm4"), _GLM4, {"rope.dimension_count": 8}),
    "olmo2": ("olmo2", lambda: Family("olmo2"), _NORMS_AFTER, {}),
    "olmo3": ("olmo2", lambda: Family("olmo3"), _NORMS_AFTER,
              {"attention.sliding_window": 10, "attention.sliding_window_pattern": [True, True, True, False]}),
    "command-r": ("command-r", lambda: Family("command-r"), _ONE_NORM, {"logit_scale": 0.3}),
    "command-r7b": ("cohere2", lambda: Family("command-r7b"), _ONE_NORM,
                    {"logit_scale": 0.3, "attention.sliding_window": 10}),
    "seed-oss": ("seed_oss", lambda: Later("seed-oss"), _SEED_OSS, {}),
    "ernie 4.5": ("ernie4_5", lambda: Later("ernie 4.5"), _ONE_NORM, {}),
    "exaone 4": ("exaone4", lambda: Later("exaone 4"), _NORMS_AFTER, {"attention.sliding_window": 9}),
    "arcee": ("arcee", lambda: Later("arcee"), _ONE_NORM, {}),
    "nemotron": ("nemotron", lambda: Later("nemotron with biases"), _ONE_NORM, {"rope.dimension_count": 8}),
    "gpt2": ("gpt2", lambda: _folder("gpt2"), _GPT2, {}),
    "pythia": ("gptneox", lambda: LayerNorms("pythia"), _NEOX, {"rope.dimension_count": 4, "rope.freq_base": 500.0}),
    "stablelm": ("stablelm", lambda: LayerNorms("stablelm"), _ONE_NORM, {"rope.dimension_count": 4}),
    "starcoder2": ("starcoder2", lambda: LayerNorms("starcoder2"), _ONE_NORM, {"attention.sliding_window": 9}),
    "phi": ("phi2", lambda: LayerNorms("phi"), _ONE_NORM, {"rope.dimension_count": 8}),
}  # fmt: skip


def keys(model: Folder, architecture: str, own: dict[str, Any]) -> dict[str, Any]:
    c = model.config
    stated = {
        "block_count": c.get("num_hidden_layers", c.get("n_layer")),
        "embedding_length": c.get("hidden_size", c.get("n_embd")),
        "attention.head_count": c.get("num_attention_heads", c.get("n_head")),
        "feed_forward_length": c.get("intermediate_size", 4 * c.get("n_embd", 0)),
        "context_length": c.get("max_position_embeddings", c.get("n_positions")),
        "attention.layer_norm_rms_epsilon": 1e-5, "attention.layer_norm_epsilon": 1e-5,
    }  # fmt: skip
    for mine, theirs in (("num_key_value_heads", "attention.head_count_kv"), ("head_dim", "attention.key_length"),
                         ("rope_theta", "rope.freq_base")):  # fmt: skip
        if mine in c:
            stated[theirs] = c[mine]
    made = {f"{architecture}.{key}": value for key, value in (stated | own).items()}
    return {"general.architecture": architecture, "tokenizer.ggml.model": "gpt2"} | made


def tensors(model: Folder, architecture: str, names: tuple[tuple[str, str], ...]) -> Weights:
    scaling = model.config.get("rope_scaling") or {}
    made = {f"rope_factors_{kind}.weight": np.array(scaling[f"{kind}_factor"], np.float32)
            for kind in ("short", "long") if f"{kind}_factor" in scaling}  # fmt: skip
    for name, value in weights_of(model).items():
        if name.endswith("norm.weight") and architecture.startswith(("gemma", "nemotron")):
            value = value + np.float32(1)
        if architecture == "gpt2" and value.ndim == 2 and name.startswith("h."):
            value = np.ascontiguousarray(value.T)
        if architecture in _TURNED and re.search(r"self_attn\.[qk]_proj", name):
            value = interleaved(value, model.config["head_dim"])
        for mine, theirs in names:
            name = name.replace(mine, theirs)
        made[name] = value
    return made


def weights_of(model: Folder) -> Weights:
    """Of the folder's file, but queries, keys and values of all heads one behind the other."""
    if not isinstance(model, LayerNorms) or "qkv" not in model.names:
        return model._fused()
    weights = dict(model.weights)
    for layer in range(LAYERS):
        for end in ("weight", "bias"):
            parts = [weights.pop(f"{p}.{layer}.{end}") for p in "qkv"]
            weights[f"{model.names['qkv'].format(layer)}.{end}"] = np.concatenate(parts)
    return weights


def write(name: str, path: Path, **change: Any) -> Folder:
    """Writes the file, with other keys where they are given. The model."""
    architecture, make, names, own = ROWS[name]
    model = make()
    stated = keys(model, architecture, own) | {f"{architecture}.{key}": value for key, value in change.items()}
    found = tensors(model, architecture, names)
    path.write_bytes(gguf_bytes(stated, {name: (0, value.shape, value.tobytes()) for name, value in found.items()}))
    return model
