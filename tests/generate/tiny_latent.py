"""Small models of DeepSeek V2 and V3, GLM-4.5 and 4.7 Flash and Dots 1, and what they compute, in float64: keys and
values of every head are made of the latent features, as the papers have it.

Written after transformers' modeling_deepseek_v2.py, modeling_deepseek_v3.py, modeling_glm4_moe.py,
modeling_glm4_moe_lite.py and modeling_dots1.py (5.24).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tiny_families import in_turns
from tiny_folders import VOCABULARY, Folder, _gated, _rotations, _silu, _turned, _yarn

Weights = dict[str, np.ndarray]
EXPERTS = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "n_shared_experts": 2,
           "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.7}  # fmt: skip
LATENT = EXPERTS | {"kv_lora_rank": 24, "q_lora_rank": 20, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
                    "v_head_dim": 10, "num_key_value_heads": 4}  # fmt: skip
YARN = {"type": "yarn", "factor": 4.0, "beta_fast": 8.0, "beta_slow": 0.5, "mscale": 1.0, "mscale_all_dim": 0.7,
        "original_max_position_embeddings": 32}  # fmt: skip
LATENT_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "deepseek v3": ("DeepseekV3ForCausalLM", LATENT | {"norm_topk_prob": True, "rope_scaling": YARN}),
    "deepseek v3 plain": ("DeepseekV3ForCausalLM", LATENT | {"q_lora_rank": None, "n_group": 1, "topk_group": 1,
                          "n_shared_experts": 1}),
    "deepseek v2": ("DeepseekV2ForCausalLM", LATENT | {"topk_method": "group_limited_greedy"}),
    "deepseek v2 lite": ("DeepseekV2ForCausalLM", LATENT | {"q_lora_rank": None, "topk_method": "greedy"}),
    "glm-4.5": ("Glm4MoeForCausalLM", EXPERTS | {"norm_topk_prob": True, "use_qk_norm": True, "attention_bias": True,
                "partial_rotary_factor": 0.5}),
    "glm-4.7": ("Glm4MoeLiteForCausalLM", {k: v for k, v in LATENT.items() if k != "first_k_dense_replace"} | {
                "norm_topk_prob": True, "mlp_layer_types": ["dense", "sparse", "sparse"]}),
    "dots 1": ("Dots1ForCausalLM", EXPERTS | {"norm_topk_prob": True, "attention_bias": True, "sliding_window": 7,
               "max_window_layers": 1}),
}  # fmt: skip


def _softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


class Latent(Folder):
    """One of LATENT_MODELS."""

    def __init__(self, name: str, seed: int = 0, **change: Any) -> None:
        architecture, config = LATENT_MODELS[name]
        self.dots = architecture.startswith("Dots1")
        self.latent = architecture.startswith(("Deepseek", "Glm4MoeLite"))
        super().__init__(architecture, seed, **({"rms_norm_eps": 1e-2} | config | change))

    def _draw(self) -> None:
        c = self.config
        h, heads = c["hidden_size"], c["num_attention_heads"]
        self._matrix("model.embed_tokens.weight", VOCABULARY, h, h)
        self._matrix("lm_head.weight", VOCABULARY, h, h)
        self._vector("model.norm.weight", h, 1.0)
        # What guesses the next token but one, which nothing reads.
        self._vector(f"model.layers.{c['num_hidden_layers']}.enorm.weight", h, 1.0)
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            for norm in ("input_layernorm", "post_attention_layernorm"):
                self._vector(f"{at}{norm}.weight", h, 1.0)
            (self._draw_latent if self.latent else self._draw_heads)(f"{at}self_attn.", h, heads)
            if i < c.get("first_k_dense_replace", 1):
                self._draw_gated(f"{at}mlp.", c["intermediate_size"])
                continue
            self._matrix(f"{at}mlp.gate.weight", c["n_routed_experts"], h, h)
            if not self.architecture.startswith("DeepseekV2"):
                self._vector(f"{at}mlp.gate.e_score_correction_bias", c["n_routed_experts"], 0.0)
            for e in range(c["n_routed_experts"]):
                self._draw_gated(f"{at}mlp.experts.{e}.", c["moe_intermediate_size"])
            self._draw_gated(f"{at}mlp.shared_experts.", c["n_shared_experts"] * c["moe_intermediate_size"])

    def _draw_gated(self, at: str, size: int) -> None:
        h = self.config["hidden_size"]
        for part, rows, columns in (("gate", size, h), ("up", size, h), ("down", h, size)):
            self._matrix(f"{at}{part}_proj.weight", rows, columns, columns)

    def _draw_latent(self, at: str, h: int, heads: int) -> None:
        c = self.config
        latent, turned, plain, value = (c[k] for k in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim",
                                                       "v_head_dim"))  # fmt: skip
        queries = heads * (plain + turned)
        if rank := c["q_lora_rank"]:
            self._matrix(f"{at}q_a_proj.weight", rank, h, h)
            self._vector(f"{at}q_a_layernorm.weight", rank, 1.0)
            self._matrix(f"{at}q_b_proj.weight", queries, rank, rank)
        else:
            self._matrix(f"{at}q_proj.weight", queries, h, h)
        self._matrix(f"{at}kv_a_proj_with_mqa.weight", latent + turned, h, h)
        self._vector(f"{at}kv_a_layernorm.weight", latent, 1.0)
        self._matrix(f"{at}kv_b_proj.weight", heads * (plain + value), latent, latent)
        self._matrix(f"{at}o_proj.weight", h, heads * value, heads * value)

    def _draw_heads(self, at: str, h: int, heads: int) -> None:
        d = self.config["head_dim"]
        for part, rows in (("q", heads * d), ("k", 2 * d), ("v", 2 * d)):
            self._matrix(f"{at}{part}_proj.weight", rows, h, h)
            self._vector(f"{at}{part}_proj.bias", rows, 0.0)
        self._matrix(f"{at}o_proj.weight", h, heads * d, heads * d)
        if self.dots:
            self._vector(f"{at}o_proj.bias", h, 0.0)
        for norm in "qk":
            self._vector(f"{at}{norm}_norm.weight", d, 1.0)

    @staticmethod
    def _normed(x: np.ndarray, weight: np.ndarray, epsilon: float = 1e-2) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight

    def _heads(self, w: Weights, at: str, h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Queries, keys and values [tokens, heads, features], and what scores are multiplied by."""
        c, count = self.config, len(h)
        if not self.latent:
            d, heads = c["head_dim"], {}
            for part in "qkv":
                made = h @ w[f"{at}{part}_proj.weight"].T + w[f"{at}{part}_proj.bias"]
                heads[part] = made.reshape(count, -1, d)
            turning = d if self.dots else d // 2
            turns = _rotations(count, turning, c["rope_theta"])
            for part in "qk":
                even = self._normed(heads[part], w[f"{at}{part}_norm.weight"])
                heads[part] = np.concatenate([_turned(even[..., :turning], turns), even[..., turning:]], -1)
            shared = c["num_attention_heads"] // 2
            return heads["q"], np.repeat(heads["k"], shared, 1), np.repeat(heads["v"], shared, 1), d**-0.5
        latent, turned, plain = (c[k] for k in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim"))
        if c["q_lora_rank"]:
            few = self._normed(h @ w[f"{at}q_a_proj.weight"].T, w[f"{at}q_a_layernorm.weight"], 1e-6)
            q = few @ w[f"{at}q_b_proj.weight"].T
        else:
            q = h @ w[f"{at}q_proj.weight"].T
        q = q.reshape(count, -1, plain + turned)
        both = h @ w[f"{at}kv_a_proj_with_mqa.weight"].T
        shared = self.kept(self._normed(both[:, :latent], w[f"{at}kv_a_layernorm.weight"], 1e-6))
        made = shared @ w[f"{at}kv_b_proj.weight"].T
        made = made.reshape(count, q.shape[1], -1)
        scale = (plain + turned) ** -0.5
        turns = _rotations(count, turned, c["rope_theta"])
        if yarn := c.get("rope_scaling"):
            ratio = (0.1 * yarn["mscale"] * np.log(yarn["factor"]) + 1) / (
                0.1 * yarn["mscale_all_dim"] * np.log(yarn["factor"]) + 1
            )
            turns = _yarn(count, turned, c["rope_theta"], yarn | {"attention_factor": ratio})
            scale *= (0.1 * yarn["mscale_all_dim"] * np.log(yarn["factor"]) + 1) ** 2
        q = np.concatenate([q[..., :plain], in_turns(q[..., plain:], turns)], -1)
        key = np.repeat(self.kept(in_turns(both[:, None, latent:], turns)), q.shape[1], 1)
        return q, np.concatenate([made[..., :plain], key], -1), made[..., plain:], scale

    def _mixture_of(self, w: Weights, at: str, h: np.ndarray) -> np.ndarray:
        c, second = self.config, self.architecture.startswith("DeepseekV2")
        logits = h @ w[f"{at}gate.weight"].T
        scores = _softmax(logits) if second else 1 / (1 + np.exp(-logits))
        ranked = scores if second else scores + w[f"{at}gate.e_score_correction_bias"]
        made = _gated(w, f"{at}shared_experts.", h, _silu)
        for row in range(len(h)):
            order = ranked[row].copy()
            if not (second and c["topk_method"] == "greedy"):
                groups = np.sort(order.reshape(c["n_group"], -1), -1)
                best = groups[:, -1] if second else groups[:, -2:].sum(-1)
                for group in np.argsort(-best)[c["topk_group"] :]:
                    order.reshape(c["n_group"], -1)[group] = -np.inf
            taken = np.argsort(-order)[: c["num_experts_per_tok"]]
            shares = scores[row, taken]
            shares = shares / shares.sum() if c.get("norm_topk_prob") else shares
            for e, share in zip(taken, shares * c["routed_scaling_factor"]):
                made[row] += share * _gated(w, f"{at}experts.{e}.", h[row : row + 1], _silu)[0]
        return made

    def _llama(self, w: Weights, tokens: list[int]) -> np.ndarray:
        x, count = w["model.embed_tokens.weight"][tokens], len(tokens)
        seen = np.tril(np.ones((count, count), bool))
        near = np.arange(count)[:, None] - np.arange(count)[None, :] < self.config.get("sliding_window", count)
        for i in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{i}."
            q, k, v, scale = self._heads(w, f"{at}self_attn.", self._normed(x, w[f"{at}input_layernorm.weight"]))
            whole = not self.dots or i < self.config["max_window_layers"]
            scores = np.einsum("qhd,khd->hqk", q, k) * scale
            shares = _softmax(np.where(seen if whole else seen & near, scores, -np.inf))
            made = np.einsum("hqk,khd->qhd", shares, v).reshape(count, -1)
            x = x + made @ w[f"{at}self_attn.o_proj.weight"].T + w.get(f"{at}self_attn.o_proj.bias", 0.0)
            h = self._normed(x, w[f"{at}post_attention_layernorm.weight"])
            dense = i < self.config.get("first_k_dense_replace", 1)
            x = x + (_gated(w, f"{at}mlp.", h, _silu) if dense else self._mixture_of(w, f"{at}mlp.", h))
        return self._normed(x, w["model.norm.weight"]) @ w["lm_head.weight"].T
