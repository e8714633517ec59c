"""Small models of later families that differ from Llama in few places, and what they compute, in NumPy in float64.

Written after transformers' modeling_seed_oss.py, _ernie4_5.py, _ministral.py, _ministral3.py, _olmoe.py, _exaone4.py,
_arcee.py, _nemotron.py and _minimax_m2.py (5.24).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tiny_families import attention, in_turns
from tiny_folders import VOCABULARY, Folder, _gated, _silu, _turned, _turns

Weights = dict[str, np.ndarray]
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0, "beta_slow": 0.5, "rope_theta": 1000.0,
        "original_max_position_embeddings": 9, "attention_factor": 1.1}  # fmt: skip
EXPERTS = {"num_experts": 7, "num_experts_per_tok": 3}
EXAONE = {"num_hidden_layers": 4, "sliding_window": 9}
# A model: class, config.json, and what it has: biases of q, k, v ("v"), of o ("o") and of the feed-forward layer
# ("f"); norms behind what a layer gives ("after"); norms of queries and keys of each head or of all ("head", "all").
LATER: dict[str, tuple[str, dict[str, Any], frozenset[str]]] = {
    "seed-oss": ("SeedOssForCausalLM", {}, frozenset("v")),
    "seed-oss with a bias": ("SeedOssForCausalLM", {"attention_out_bias": True}, frozenset("vo")),
    "ernie 4.5": ("Ernie4_5ForCausalLM", {"tie_word_embeddings": False}, frozenset()),
    "ministral": ("MinistralForCausalLM", {"sliding_window": 9, "layer_types": [
        "sliding_attention", "full_attention", "sliding_attention"]}, frozenset()),
    "ministral 3": ("Ministral3ForCausalLM", {"rope_parameters": YARN | {"llama_4_scaling_beta": 0.4}}, frozenset()),
    "olmoe": ("OlmoeForCausalLM", EXPERTS | {"norm_topk_prob": True}, frozenset(["all"])),
    "olmoe plain": ("OlmoeForCausalLM", EXPERTS, frozenset(["all"])),
    "exaone 4": ("Exaone4ForCausalLM", EXAONE | {"sliding_window_pattern": "LLLG"}, frozenset(["after", "head"])),
    "exaone 4 by number": ("Exaone4ForCausalLM", EXAONE | {"sliding_window_pattern": 4}, frozenset(["after", "head"])),
    "exaone 4 whole": ("Exaone4ForCausalLM", {"sliding_window": None}, frozenset(["after", "head"])),
    "arcee": ("ArceeForCausalLM", {"hidden_act": "relu2", "mlp_bias": True}, frozenset("f")),
    "nemotron": ("NemotronForCausalLM", {"hidden_act": "relu2", "norm_eps": 1e-5, "partial_rotary_factor": 0.5},
                 frozenset()),
    "nemotron with biases": ("NemotronForCausalLM", {"hidden_act": "relu2", "norm_eps": 1e-5, "mlp_bias": True,
                             "attention_bias": True, "partial_rotary_factor": 0.5}, frozenset("vof")),
    "minimax m2": ("MiniMaxM2ForCausalLM", {"num_local_experts": 6, "num_experts_per_tok": 2, "rotary_dim": 8},
                   frozenset(["all"])),
}  # fmt: skip


class Later(Folder):
    """One of LATER."""

    def __init__(self, name: str, seed: int = 0, **change: Any) -> None:
        architecture, config, self.has = LATER[name]
        self.kind = architecture.removesuffix("ForCausalLM")
        super().__init__(architecture, seed, **(config | change))

    def _draw(self) -> None:
        c = self.config
        h, f, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
        q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
        self._matrix("model.embed_tokens.weight", VOCABULARY, h, h)
        self._matrix("lm_head.weight", VOCABULARY, h, h)
        self._norm("model.norm", h)
        norms = ["post_attention_layernorm", "post_feedforward_layernorm"] if "after" in self.has else [
            "input_layernorm", "post_attention_layernorm"]  # fmt: skip
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            for norm in norms:
                self._norm(f"{at}{norm}", h)
            for part, rows, columns in (("q", q, h), ("k", kv, h), ("v", kv, h), ("o", h, q)):
                self._matrix(f"{at}self_attn.{part}_proj.weight", rows, columns, columns)
                if ("o" if part == "o" else "v") in self.has:
                    self._vector(f"{at}self_attn.{part}_proj.bias", rows, 0.0)
            for part, size in (("q", q), ("k", kv)):
                if self.has & {"all", "head"}:
                    self._vector(f"{at}self_attn.{part}_norm.weight", size if "all" in self.has else d, 1.0)
            if "num_experts_per_tok" in c:
                self._draw_experts(at, h, f)
            else:
                gate = () if c.get("hidden_act") == "relu2" else (("gate", f, h),)
                for part, rows, columns in (*gate, ("up", f, h), ("down", h, f)):
                    self._matrix(f"{at}mlp.{part}_proj.weight", rows, columns, columns)
                    if "f" in self.has:
                        self._vector(f"{at}mlp.{part}_proj.bias", rows, 0.0)

    def _norm(self, name: str, size: int) -> None:
        self._vector(f"{name}.weight", size, 0.0 if self.kind == "Nemotron" else 1.0)
        if self.kind == "Nemotron":
            self._vector(f"{name}.bias", size, 0.0)

    def _places(self) -> tuple[str, tuple[str, str, str]]:
        return ("block_sparse_moe.", ("w1", "w3", "w2")) if self.kind == "MiniMaxM2" else (
            "mlp.", ("gate_proj", "up_proj", "down_proj"))  # fmt: skip

    def _draw_experts(self, at: str, h: int, f: int) -> None:
        prefix, (gate, up, down) = self._places()
        count = self.config.get("num_experts", self.config.get("num_local_experts"))
        self._matrix(f"{at}{prefix}gate.weight", count, h, h)
        if self.kind == "MiniMaxM2":
            self._vector(f"{at}{prefix}e_score_correction_bias", count, 0.0)
        for e in range(count):
            for part, rows, columns in ((gate, f, h), (up, f, h), (down, h, f)):
                self._matrix(f"{at}{prefix}experts.{e}.{part}.weight", rows, columns, columns)

    def _normed(self, w: Weights, x: np.ndarray, name: str) -> np.ndarray:
        if self.kind == "Nemotron":
            x = x - x.mean(-1, keepdims=True)
        even = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return even * (w[f"{name}.weight"] + (self.kind == "Nemotron")) + w.get(f"{name}.bias", 0.0)

    def _sees_all(self, layer: int) -> bool:
        c = self.config
        if not c.get("sliding_window"):
            return True
        if "layer_types" in c:
            return c["layer_types"][layer] == "full_attention"
        return (layer + 1) % 4 == 0

    def _attended(self, w: Weights, layer: int, h: np.ndarray) -> np.ndarray:
        c, at, count = self.config, f"model.layers.{layer}.self_attn.", len(h)
        d = c["head_dim"]
        q, k, v = (h @ w[f"{at}{p}_proj.weight"].T + w.get(f"{at}{p}_proj.bias", 0.0) for p in "qkv")
        if "all" in self.has:
            q, k = self._normed(w, q, f"{at}q_norm"), self._normed(w, k, f"{at}k_norm")
        q, k, v = (a.reshape(count, -1, d) for a in (q, k, v))
        if "head" in self.has:
            q, k = self._normed(w, q, f"{at}q_norm"), self._normed(w, k, f"{at}k_norm")
        if not (self.kind == "Exaone4" and c["sliding_window"] and self._sees_all(layer)):
            turning = c.get("rotary_dim", int(d * c.get("partial_rotary_factor", 1)))
            turns = _turns(count, turning, c["rope_theta"], c.get("rope_parameters", {}))
            turn = in_turns if self.kind == "Ernie4_5" else _turned
            q, k = (np.concatenate([turn(a[..., :turning], turns), a[..., turning:]], -1) for a in (q, k))
        if growth := c.get("rope_parameters", {}).get("llama_4_scaling_beta"):
            spans = np.floor(np.arange(count) / c["rope_parameters"]["original_max_position_embeddings"])
            q = q * (1 + growth * np.log1p(spans))[:, None, None]
        behind = np.arange(count)[:, None] - np.arange(count)[None, :]
        seen = behind >= 0 if self._sees_all(layer) else (behind >= 0) & (behind < c["sliding_window"])
        return attention(q, k, v, seen) @ w[f"{at}o_proj.weight"].T + w.get(f"{at}o_proj.bias", 0.0)

    def _fed_forward(self, w: Weights, layer: int, h: np.ndarray) -> np.ndarray:
        at = f"model.layers.{layer}."
        if "num_experts_per_tok" in self.config:
            return self._mixed(w, at, h)
        if f"{at}mlp.gate_proj.weight" in w:
            return _gated(w, f"{at}mlp.", h, _silu)
        inner = np.maximum(h @ w[f"{at}mlp.up_proj.weight"].T + w.get(f"{at}mlp.up_proj.bias", 0.0), 0) ** 2
        return inner @ w[f"{at}mlp.down_proj.weight"].T + w.get(f"{at}mlp.down_proj.bias", 0.0)

    def _mixed(self, w: Weights, at: str, h: np.ndarray) -> np.ndarray:
        prefix, names = self._places()
        logits = h @ w[f"{at}{prefix}gate.weight"].T
        logistic = self.kind == "MiniMaxM2"
        scores = 1 / (1 + np.exp(-logits)) if logistic else np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        ranked = scores + (w[f"{at}{prefix}e_score_correction_bias"] if logistic else 0.0)
        made = np.zeros_like(h)
        for row in range(len(h)):
            taken = np.argsort(-ranked[row])[: self.config["num_experts_per_tok"]]
            shares = scores[row, taken]
            if logistic or self.config.get("norm_topk_prob"):
                shares = shares / shares.sum()
            for e, share in zip(taken, shares):
                made[row] += share * _gated(w, f"{at}{prefix}experts.{e}.", h[row : row + 1], _silu, names)[0]
        return made

    def _llama(self, w: Weights, tokens: list[int]) -> np.ndarray:
        x, after = w["model.embed_tokens.weight"][tokens], "after" in self.has
        for i in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{i}."
            made = self._attended(w, i, x if after else self._normed(w, x, f"{at}input_layernorm"))
            x = x + (self._normed(w, made, f"{at}post_attention_layernorm") if after else made)
            made = self._fed_forward(w, i, x if after else self._normed(w, x, f"{at}post_attention_layernorm"))
            x = x + (self._normed(w, made, f"{at}post_feedforward_layernorm") if after else made)
        return self._normed(w, x, "model.norm") @ w["lm_head.weight"].T
