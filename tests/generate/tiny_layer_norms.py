"""Small models with layer norms, and what they compute, in NumPy in float64.

Written after transformers' modeling_gpt_neox.py, modeling_opt.py, modeling_stablelm.py, modeling_starcoder2.py and
modeling_phi.py (5.24).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tiny_folders import VOCABULARY, Folder, _attention, _gelu, _silu, _turned, _turns

HIDDEN, HEADS, FEATURES, BETWEEN, LAYERS, POSITIONS = 64, 4, 16, 96, 2, 128
SIZES = {"num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "vocab_size": VOCABULARY,
         "max_position_embeddings": POSITIONS, "intermediate_size": BETWEEN}  # fmt: skip
# Names of a layer's parts and of those outside: {} is a layer.
LLAMA = {"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head",
         "n1": "model.layers.{}.input_layernorm", "n2": "model.layers.{}.post_attention_layernorm",
         "q": "model.layers.{}.self_attn.q_proj", "k": "model.layers.{}.self_attn.k_proj",
         "v": "model.layers.{}.self_attn.v_proj", "o": "model.layers.{}.self_attn.o_proj"}  # fmt: skip
GATED = {part: f"model.layers.{{}}.mlp.{part}_proj" for part in ("gate", "up", "down")}
NEOX = {"embedding": "gpt_neox.embed_in", "norm": "gpt_neox.final_layer_norm", "head": "embed_out",
        "n1": "gpt_neox.layers.{}.input_layernorm", "n2": "gpt_neox.layers.{}.post_attention_layernorm",
        "o": "gpt_neox.layers.{}.attention.dense", "up": "gpt_neox.layers.{}.mlp.dense_h_to_4h",
        "down": "gpt_neox.layers.{}.mlp.dense_4h_to_h",
        "qkv": "gpt_neox.layers.{}.attention.query_key_value"}  # fmt: skip
OPT = {"embedding": "model.decoder.embed_tokens", "norm": "model.decoder.final_layer_norm", "head": "",
       "positions": "model.decoder.embed_positions", "n1": "model.decoder.layers.{}.self_attn_layer_norm",
       "n2": "model.decoder.layers.{}.final_layer_norm", "up": "model.decoder.layers.{}.fc1",
       "down": "model.decoder.layers.{}.fc2", "o": "model.decoder.layers.{}.self_attn.out_proj",
       **{p: f"model.decoder.layers.{{}}.self_attn.{p}_proj" for p in "qkv"}}  # fmt: skip
STARCODER = LLAMA | {"up": "model.layers.{}.mlp.c_fc", "down": "model.layers.{}.mlp.c_proj", "head": ""}
PHI = LLAMA | {"norm": "model.final_layernorm", "o": "model.layers.{}.self_attn.dense", "n2": "",
               "up": "model.layers.{}.mlp.fc1", "down": "model.layers.{}.mlp.fc2"}  # fmt: skip
EVERYWHERE = ("q", "k", "v", "o", "up", "down")
# A model: class, config.json beside SIZES, names, parts with biases, activation, the share of turned features.
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, str], tuple[str, ...], str, float]] = {
    "pythia": ("GPTNeoXForCausalLM", {"rotary_pct": 0.25, "rotary_emb_base": 500}, NEOX, EVERYWHERE, "gelu", 0.25),
    "pythia in turn": ("GPTNeoXForCausalLM", {"use_parallel_residual": False, "attention_bias": False,
                       "rotary_pct": 1.0, "hidden_act": "relu"}, NEOX, ("up", "down"), "relu", 1.0),
    "opt": ("OPTForCausalLM", {"ffn_dim": BETWEEN, "word_embed_proj_dim": HIDDEN}, OPT, EVERYWHERE, "relu", 0.0),
    "stablelm": ("StableLmForCausalLM", {"use_qkv_bias": True, "num_key_value_heads": 2}, LLAMA | GATED,
                 ("q", "k", "v"), "silu", 0.25),
    "starcoder2": ("Starcoder2ForCausalLM", {"num_key_value_heads": 2, "sliding_window": 9}, STARCODER, EVERYWHERE,
                   "gelu_pytorch_tanh", 1.0),
    "phi": ("PhiForCausalLM", {"hidden_act": "gelu_new"}, PHI, (*EVERYWHERE, "head"), "gelu_pytorch_tanh", 0.5),
}  # fmt: skip
ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))), "relu": lambda x: np.maximum(x, 0),
    "gelu_pytorch_tanh": _gelu, "silu": _silu,
}  # fmt: skip


class LayerNorms(Folder):
    """One of MODELS."""

    def __init__(self, kind: str, seed: int = 0, **change: Any) -> None:
        self.kind = kind
        self.architecture, config, self.names, self.biased, self.activation, self.share = MODELS[kind]
        self.config = {"architectures": [self.architecture]} | SIZES | config | change
        self.rng, self.weights = np.random.default_rng(seed), {}
        kv = self.config.get("num_key_value_heads", HEADS) * FEATURES
        shapes = {"q": (HIDDEN, HIDDEN), "k": (kv, HIDDEN), "v": (kv, HIDDEN), "o": (HIDDEN, HIDDEN),
                  "gate": (BETWEEN, HIDDEN), "up": (BETWEEN, HIDDEN), "down": (HIDDEN, BETWEEN),
                  "embedding": (VOCABULARY, HIDDEN), "head": (VOCABULARY, HIDDEN),
                  "positions": (POSITIONS + 2, HIDDEN)}  # fmt: skip
        for part in [*shapes, "n1", "n2", "norm"]:
            for layer in range(LAYERS if "{}" in self.names.get(part, "{}") else 1):
                name = self.names.get(part, f"{part}.{{}}" if part in "qkv" else "").format(layer)
                if not name:
                    continue
                if part not in shapes:
                    self._vector(f"{name}.weight", HIDDEN, 1.0)
                    self._vector(f"{name}.bias", HIDDEN, 0.0)
                    continue
                self._matrix(f"{name}.weight", *shapes[part], shapes[part][1])
                if part in self.biased:
                    self._vector(f"{name}.bias", shapes[part][0], 0.0)

    def _fused(self) -> dict[str, np.ndarray]:
        """GPT-NeoX's files have each head's q, k and v, one behind the other."""
        weights = dict(self.weights)
        for layer in range(LAYERS) if "qkv" in self.names else ():
            for end in ("weight", "bias"):
                parts = [weights.pop(f"{p}.{layer}.{end}", None) for p in "qkv"]
                if parts[0] is not None:
                    heads = np.stack([part.reshape(HEADS, FEATURES, -1) for part in parts], 1)
                    shape = (3 * HIDDEN, HIDDEN) if end == "weight" else (3 * HIDDEN,)
                    weights[f"{self.names['qkv'].format(layer)}.{end}"] = heads.reshape(shape)
        return weights

    def logits(self, tokens: list[int]) -> np.ndarray:
        w, c, count = {k: v.astype(np.float64) for k, v in self.weights.items()}, self.config, len(tokens)

        def of(part: str, layer: int, end: str = "weight") -> Any:
            return w.get(f"{self.names.get(part, part + '.{}').format(layer)}.{end}", 0.0)

        def norm(x: np.ndarray, part: str, layer: int = 0) -> np.ndarray:
            centred = x - x.mean(-1, keepdims=True)
            even = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
            return even * of(part, layer) + of(part, layer, "bias")

        def product(x: np.ndarray, part: str, layer: int) -> np.ndarray:
            return x @ of(part, layer).T + of(part, layer, "bias")

        def attended(h: np.ndarray, layer: int) -> np.ndarray:
            q, k, v = (product(h, part, layer).reshape(count, -1, FEATURES) for part in "qkv")
            turning = int(FEATURES * self.share)
            if turning:
                turns = _turns(count, turning, c.get("rotary_emb_base", 10000.0), {})
                q, k = (np.concatenate([_turned(a[..., :turning], turns), a[..., turning:]], -1) for a in (q, k))
            window = c.get("sliding_window") or 0
            return product(_attention(q, k, v, FEATURES**-0.5, 0.0, window), "o", layer)

        def fed_forward(h: np.ndarray, layer: int) -> np.ndarray:
            act = ACTIVATIONS[self.activation]
            if "gate" in self.names:
                return product(act(product(h, "gate", layer)) * product(h, "up", layer), "down", layer)
            return product(act(product(h, "up", layer)), "down", layer)

        x = of("embedding", 0)[tokens]
        if "positions" in self.names:
            x = x + of("positions", 0)[2 : 2 + count]
        for layer in range(LAYERS):
            term = attended(norm(x, "n1", layer), layer)
            if self.kind in ("pythia", "phi"):
                x = x + term + fed_forward(norm(x, "n2" if self.names["n2"] else "n1", layer), layer)
            else:
                x = x + term
                x = x + fed_forward(norm(x, "n2", layer), layer)
        return norm(x, "norm") @ of("head" if self.names["head"] else "embedding", 0).T + of("head", 0, "bias")
