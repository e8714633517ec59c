"""Small models of Llama 4, GLM, OLMo 2 and 3 and Command R, and what they compute, in NumPy in float64.

Written after transformers' modeling_llama4.py, modeling_glm.py, modeling_glm4.py, modeling_olmo2.py, modeling_olmo3.py,
modeling_cohere.py and modeling_cohere2.py (5.24).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tiny_folders import VOCABULARY, Folder, _gated, _rotations, _silu, _turned

Weights = dict[str, np.ndarray]
LLAMA4 = {"num_hidden_layers": 4, "num_local_experts": 5, "num_experts_per_tok": 2, "intermediate_size_mlp": 80,
          "interleave_moe_layer_step": 2, "attention_chunk_size": 12, "no_rope_layers": [1, 0, 1, 0],
          "floor_scale": 8, "attn_scale": 0.3}  # fmt: skip
OLMO3 = {"num_hidden_layers": 4, "sliding_window": 10}
COHERE = {"logit_scale": 0.3, "layer_norm_eps": 1e-5}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama4": ("Llama4ForCausalLM", LLAMA4),
    "llama4 plain": ("Llama4ForCausalLM", LLAMA4 | {"moe_layers": [0, 1, 2, 3], "use_qk_norm": False,
                     "attn_temperature_tuning": False, "attention_chunk_size": None, "num_experts_per_tok": 1}),
    "llama4 dense": ("Llama4ForCausalLM", LLAMA4 | {"moe_layers": [], "attention_bias": True}),
    "glm": ("GlmForCausalLM", {"attention_bias": False, "partial_rotary_factor": 0.5}),
    "glm4": ("Glm4ForCausalLM", {"attention_bias": True, "partial_rotary_factor": 0.5}),
    "olmo2": ("Olmo2ForCausalLM", {}),
    "olmo3": ("Olmo3ForCausalLM", OLMO3),
    "command-r": ("CohereForCausalLM", COHERE | {"head_dim": 12}),
    "command-r7b": ("Cohere2ForCausalLM", COHERE | {"num_hidden_layers": 4, "sliding_window": 10}),
}  # fmt: skip


def in_turns(x: np.ndarray, turns: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Neighbouring features turned as pairs."""
    halves = np.concatenate([x[..., ::2], x[..., 1::2]], -1)
    made = _turned(halves, turns)
    half = x.shape[-1] // 2
    return np.stack([made[..., :half], made[..., half:]], -1).reshape(x.shape)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """[tokens, heads, features] of the three; seen: [tokens, tokens]."""
    count, heads, features = q.shape
    k, v = (np.repeat(a, heads // a.shape[1], axis=1) for a in (k, v))
    scores = np.where(seen, np.einsum("qhd,khd->hqk", q, k) * features**-0.5, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", shares / shares.sum(-1, keepdims=True), v).reshape(count, -1)


class Family(Folder):
    """One of FAMILIES."""

    def __init__(self, name: str, seed: int = 0, **change: Any) -> None:
        architecture, config = FAMILIES[name]
        super().__init__(architecture, seed, **(config | change))

    def is_a(self, *names: str) -> bool:
        return any(self.architecture == f"{name}ForCausalLM" for name in names)

    def tied(self) -> bool:
        return self.is_a("Cohere", "Cohere2")

    def has_experts(self, layer: int) -> bool:
        if not self.is_a("Llama4"):
            return False
        step = max(1, self.config["interleave_moe_layer_step"])
        return layer in self.config.get("moe_layers", range(step - 1, self.config["num_hidden_layers"], step))

    def _draw(self) -> None:
        c = self.config
        h, f, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
        q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
        self._matrix("model.embed_tokens.weight", VOCABULARY, h, h)
        self._vector("model.norm.weight", h, 1.0)
        if not self.tied():
            self._matrix("lm_head.weight", VOCABULARY, h, h)
        norms = ["input_layernorm", "post_attention_layernorm"]
        if self.is_a("Cohere", "Cohere2"):
            norms = norms[:1]
        elif self.is_a("Olmo2", "Olmo3"):
            norms = ["post_attention_layernorm", "post_feedforward_layernorm"]
        elif self.is_a("Glm4"):
            norms += ["post_self_attn_layernorm", "post_mlp_layernorm"]
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            for norm in norms:
                self._vector(f"{at}{norm}.weight", h, 1.0)
            for part, rows, columns in (("q", q, h), ("k", kv, h), ("v", kv, h), ("o", h, q)):
                self._matrix(f"{at}self_attn.{part}_proj.weight", rows, columns, columns)
                if c.get("attention_bias") and not (part == "o" and self.is_a("Glm", "Glm4")):
                    self._vector(f"{at}self_attn.{part}_proj.bias", rows, 0.0)
            if self.is_a("Olmo2", "Olmo3"):
                self._vector(f"{at}self_attn.q_norm.weight", q, 1.0)
                self._vector(f"{at}self_attn.k_norm.weight", kv, 1.0)
            prefix, size = f"{at}mlp.", f
            if self.is_a("Llama4"):
                prefix, size = f"{at}feed_forward.", c["intermediate_size_mlp"]
            if self.has_experts(i):
                self._draw_experts(prefix, h, f)
                prefix, size = f"{prefix}shared_expert.", f
            for part, rows, columns in (("gate", size, h), ("up", size, h), ("down", h, size)):
                self._matrix(f"{prefix}{part}_proj.weight", rows, columns, columns)

    def _draw_experts(self, prefix: str, h: int, f: int) -> None:
        count = self.config["num_local_experts"]
        self._matrix(f"{prefix}router.weight", count, h, h)
        for part, shape in (("gate_up_proj", (count, h, 2 * f)), ("down_proj", (count, f, h))):
            drawn = self.rng.standard_normal(shape, np.float32) * np.float32(1.5 / np.sqrt(shape[1]))
            self.weights[f"{prefix}experts.{part}"] = drawn

    def _fused(self) -> Weights:
        """GLM's files have gate and up below each other."""
        weights = dict(self.weights)
        if self.is_a("Glm", "Glm4"):
            for i in range(self.config["num_hidden_layers"]):
                at = f"model.layers.{i}.mlp."
                rows = [weights.pop(f"{at}{part}_proj.weight") for part in ("gate", "up")]
                weights[f"{at}gate_up_proj.weight"] = np.concatenate(rows)
        return weights

    def _seen(self, layer: int, count: int) -> np.ndarray:
        c, own, of = self.config, np.arange(count)[:, None], np.arange(count)[None, :]
        seen = of <= own
        if self.is_a("Llama4") and c["no_rope_layers"][layer] and (chunk := c["attention_chunk_size"]):
            return seen & (of // chunk == own // chunk)
        if self.is_a("Olmo3", "Cohere2") and (layer + 1) % 4:
            return seen & (own - of < c["sliding_window"])
        return seen

    def _normed(self, x: np.ndarray, weight: np.ndarray | float = 1.0) -> np.ndarray:
        if self.is_a("Cohere", "Cohere2"):
            x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight

    def _positions(self, layer: int, q: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        c, count = self.config, len(q)
        if self.is_a("Llama4") and not c["no_rope_layers"][layer]:
            if not c.get("attn_temperature_tuning", True):
                return q, k
            spans = np.floor((np.arange(count) + 1.0) / c["floor_scale"])
            return q * (np.log1p(spans) * c["attn_scale"] + 1)[:, None, None], k
        if self.is_a("Cohere2") and (layer + 1) % 4 == 0:
            return q, k
        turning = int(c["head_dim"] * c.get("partial_rotary_factor", 1))
        turns, turn = _rotations(count, turning, c["rope_theta"]), in_turns
        if self.is_a("Olmo2", "Olmo3"):
            turn = _turned
        q, k = (np.concatenate([turn(a[..., :turning], turns), a[..., turning:]], -1) for a in (q, k))
        if self.is_a("Llama4") and c.get("use_qk_norm", True):
            return self._normed(q), self._normed(k)
        return q, k

    def _attended(self, w: Weights, layer: int, h: np.ndarray) -> np.ndarray:
        at, d, count = f"model.layers.{layer}.self_attn.", self.config["head_dim"], len(h)

        def projected(part: str, x: np.ndarray) -> np.ndarray:
            return x @ w[f"{at}{part}_proj.weight"].T + w.get(f"{at}{part}_proj.bias", 0.0)

        q, k, v = (projected(part, h) for part in "qkv")
        if self.is_a("Olmo2", "Olmo3"):
            q, k = self._normed(q, w[f"{at}q_norm.weight"]), self._normed(k, w[f"{at}k_norm.weight"])
        q, k, v = (a.reshape(count, -1, d) for a in (q, k, v))
        q, k = self._positions(layer, q, k)
        return projected("o", attention(q, k, v, self._seen(layer, count)))

    def _fed_forward(self, w: Weights, layer: int, h: np.ndarray) -> np.ndarray:
        at = f"model.layers.{layer}.{'feed_forward' if self.is_a('Llama4') else 'mlp'}."
        if not self.has_experts(layer):
            return _gated(w, at, h, _silu)
        made = _gated(w, f"{at}shared_expert.", h, _silu)
        every = h @ w[f"{at}router.weight"].T
        for row, scores in enumerate(every):
            for e in np.argsort(-scores)[: self.config["num_experts_per_tok"]]:
                read = h[row] / (1 + np.exp(-scores[e]))
                gate, up = np.split(read @ w[f"{at}experts.gate_up_proj"][e], 2)
                made[row] += (_silu(gate) * up) @ w[f"{at}experts.down_proj"][e]
        return made

    def _llama(self, w: Weights, tokens: list[int]) -> np.ndarray:
        x = w["model.embed_tokens.weight"][tokens]
        for i in range(self.config["num_hidden_layers"]):

            def norm(x: np.ndarray, name: str, at: str = f"model.layers.{i}.") -> np.ndarray:
                return self._normed(x, w[f"{at}{name}.weight"])

            if self.is_a("Cohere", "Cohere2"):
                h = norm(x, "input_layernorm")
                x = x + self._attended(w, i, h) + self._fed_forward(w, i, h)
            elif self.is_a("Olmo2", "Olmo3"):
                x = x + norm(self._attended(w, i, x), "post_attention_layernorm")
                x = x + norm(self._fed_forward(w, i, x), "post_feedforward_layernorm")
            else:
                both = self.is_a("Glm4")
                made = self._attended(w, i, norm(x, "input_layernorm"))
                x = x + (norm(made, "post_self_attn_layernorm") if both else made)
                made = self._fed_forward(w, i, norm(x, "post_attention_layernorm"))
                x = x + (norm(made, "post_mlp_layernorm") if both else made)
        head = w["model.embed_tokens.weight"] if self.tied() else w["lm_head.weight"]
        return self._normed(x, w["model.norm.weight"]) @ head.T * self.config.get("logit_scale", 1)


def write_inside(model: Folder, folder: Path, wrapper: str, kind: str, names: tuple[str, str], **outer: Any) -> Path:
    """The model as files of one that reads images, too, have it. names: what stands for "model." and before a head."""
    from safetensors.numpy import save_file

    folder.mkdir()
    text = {key: value for key, value in model.config.items() if key != "architectures"}
    config = {"architectures": [wrapper], "text_config": text | {"model_type": kind}, "vision_config": {}} | outer
    (folder / "config.json").write_text(json.dumps(config))
    renamed = {
        name.replace("model.", names[0], 1) if name.startswith("model.") else names[1] + name: value
        for name, value in model._fused().items()
    }
    tower = {"vision_tower.layer.weight": np.ones((3, 3), np.float32),
             "multi_modal_projector.linear.weight": np.ones((3, 3), np.float32)}  # fmt: skip
    save_file(renamed | tower, folder / "model.safetensors")
    return folder
