"""Small models of architectures that are read from folders alone, and what they compute, in NumPy in float64.

Written after transformers' modeling_gemma.py, modeling_gemma2.py, modeling_gemma3.py, modeling_mistral.py,
modeling_mixtral.py, modeling_qwen2_moe.py, modeling_qwen3_moe.py, modeling_gpt_oss.py, modeling_rope_utils.py and
modeling_gpt2.py (5.23).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY = 104


def _rotations(count: int, features: int, base: float) -> tuple[np.ndarray, np.ndarray]:
    angles = np.arange(count)[:, None] * base ** (-np.arange(0, features, 2) / features)[None, :]
    return np.cos(np.concatenate([angles] * 2, 1)), np.sin(np.concatenate([angles] * 2, 1))


def _yarn(count: int, features: int, base: float, scaling: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The turns of `_rotations` with slow frequencies stretched, all of them times the attention factor."""
    factor, trained = scaling["factor"], scaling["original_max_position_embeddings"]

    def pair(turns: float) -> float:
        return features * np.log(trained / (turns * 2 * np.pi)) / (2 * np.log(base))

    low, high = pair(scaling.get("beta_fast", 32)), pair(scaling.get("beta_slow", 1))
    if scaling.get("truncate", True):
        low, high = np.floor(low), np.ceil(high)
    low, high = max(low, 0), min(high, features - 1)
    ramp = np.clip((np.arange(features // 2) - low) / (high - low), 0, 1)
    frequencies = base ** (-np.arange(0, features, 2) / features)
    frequencies = frequencies / factor * ramp + frequencies * (1 - ramp)
    angles = np.arange(count)[:, None] * frequencies[None, :]
    scale = scaling.get("attention_factor", 0.1 * np.log(factor) + 1)
    return scale * np.cos(np.concatenate([angles] * 2, 1)), scale * np.sin(np.concatenate([angles] * 2, 1))


def _turns(count: int, features: int, base: float, rope: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """What config.json says of one kind of layers. base: where it says none."""
    base = rope.get("rope_theta", base)
    if rope.get("rope_type") == "yarn":
        return _yarn(count, features, base, rope)
    if rope.get("rope_type") == "longrope":
        trained = rope["original_max_position_embeddings"]  # programs of tests reach 64 positions or more
        factors = np.array(rope["long_factor" if trained < 64 else "short_factor"])
        scale = np.sqrt(1 + np.log(rope["factor"]) / np.log(trained))
        angles = np.arange(count)[:, None] * (base ** (-np.arange(0, features, 2) / features) / factors)[None, :]
        return scale * np.cos(np.concatenate([angles] * 2, 1)), scale * np.sin(np.concatenate([angles] * 2, 1))
    if rope.get("rope_type") != "linear":
        return _rotations(count, features, base)
    angles = np.arange(count)[:, None] / rope["factor"] * base ** (-np.arange(0, features, 2) / features)[None, :]
    return np.cos(np.concatenate([angles] * 2, 1)), np.sin(np.concatenate([angles] * 2, 1))


def _turned(x: np.ndarray, turns: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    half = x.shape[-1] // 2
    swapped = np.concatenate([-x[..., half:], x[..., :half]], -1)
    return x * turns[0][:, None] + swapped * turns[1][:, None]


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _cap(x: np.ndarray, cap: float) -> np.ndarray:
    return cap * np.tanh(x / cap) if cap else x


def _attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, cap: float, window: int,
    sinks: np.ndarray | None = None,
) -> np.ndarray:
    """[tokens, heads, features] of the three, the last two with as many heads as they have. sinks: [heads]."""
    count, heads = q.shape[:2]
    k, v = (np.repeat(a, heads // a.shape[1], axis=1) for a in (k, v))
    scores = _cap(np.einsum("qhd,khd->hqk", q, k) * scale, cap)
    behind = np.arange(count)[:, None] - np.arange(count)[None, :]
    seen = (behind >= 0) & (behind < window) if window else behind >= 0
    scores = np.where(seen, scores, -np.inf)
    if sinks is not None:
        scores = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (heads, count, 1))], -1)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares = (shares / shares.sum(-1, keepdims=True))[..., :count]
    return np.einsum("hqk,khd->qhd", shares, v).reshape(count, -1)


_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


def _gated(
    w: dict[str, np.ndarray], prefix: str, h: np.ndarray, act: Any, names: tuple[str, ...] = _PROJECTIONS
) -> np.ndarray:
    gate, up, down = (w[f"{prefix}{name}.weight"].T for name in names)
    return (act(h @ gate) * (h @ up)) @ down


class Folder:
    """One model: config.json, weights, and the logits that follow from them."""

    def __init__(self, architecture: str, seed: int = 0, **config: Any) -> None:
        self.architecture = architecture
        self.rng = np.random.default_rng(seed)
        self.weights: dict[str, np.ndarray] = {}
        self.config: dict[str, Any] = {
            "architectures": [architecture], "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "vocab_size": VOCABULARY,
            "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 1000.0,
        } | config  # fmt: skip
        if architecture == "GPT2LMHeadModel":
            self.config = {
                "architectures": [architecture], "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 128,
                "vocab_size": VOCABULARY, "layer_norm_epsilon": 1e-5,
            } | config  # fmt: skip
            self._draw_gpt2()
        else:
            self._draw()

    def _matrix(self, name: str, rows: int, columns: int, depth: int) -> None:
        self.weights[name] = self.rng.standard_normal((rows, columns), np.float32) * np.float32(
            1.5 / np.sqrt(depth)
        )

    def _vector(self, name: str, size: int, centre: float) -> None:
        self.weights[name] = self.rng.standard_normal(size, np.float32) * np.float32(0.3) + np.float32(centre)

    def _draw(self) -> None:
        c = self.config
        h, f, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
        q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
        centre = 0.0 if self.architecture.startswith("Gemma") else 1.0
        self._matrix("model.embed_tokens.weight", VOCABULARY, h, h)
        self._vector("model.norm.weight", h, centre)
        if not self.tied():
            self._matrix("lm_head.weight", VOCABULARY, h, h)
        norms = ["input_layernorm", "post_attention_layernorm"]
        if self.architecture in ("Gemma2ForCausalLM", "Gemma3ForCausalLM"):
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            for norm in norms:
                self._vector(f"{at}{norm}.weight", h, centre)
            for part, rows, columns in (("self_attn.q_proj", q, h), ("self_attn.k_proj", kv, h),
                                        ("self_attn.v_proj", kv, h), ("self_attn.o_proj", h, q)):  # fmt: skip
                self._matrix(f"{at}{part}.weight", rows, columns, columns)
                outputs_too = c.get("attention_bias", False)
                biased = self.architecture.startswith("Qwen2") and c.get("qkv_bias", True)
                if outputs_too or (biased and part != "self_attn.o_proj"):
                    self._vector(f"{at}{part}.bias", rows, 0.0)
            for part, rows, columns in self._feed_forward(f, h):
                self._matrix(f"{at}{part}.weight", rows, columns, columns)
            if self.architecture == "GptOssForCausalLM":
                self._draw_gpt_oss(at)
            if self.architecture in ("Gemma3ForCausalLM", "Qwen3MoeForCausalLM"):
                for norm in ("q_norm", "k_norm"):
                    self._vector(f"{at}self_attn.{norm}.weight", d, centre)

    def _draw_gpt_oss(self, at: str) -> None:
        """What a layer has beyond others: sinks, and experts in one tensor, gate and up in turns."""
        c = self.config
        h, f, n = c["hidden_size"], c["intermediate_size"], c["num_local_experts"]
        self._vector(f"{at}self_attn.sinks", c["num_attention_heads"], 0.5)
        self._vector(f"{at}mlp.router.bias", n, 0.0)
        # Large enough that some features pass the limit.
        for part, shape, scale in (("gate_up_proj", (n, h, 2 * f), 4 / np.sqrt(h)), ("down_proj", (n, f, h), 1 / f),
                                   ("gate_up_proj_bias", (n, 2 * f), 2), ("down_proj_bias", (n, h), 0.3)):  # fmt: skip
            drawn = self.rng.standard_normal(shape, np.float32) * np.float32(scale)
            self.weights[f"{at}mlp.experts.{part}"] = drawn

    def _feed_forward(self, f: int, h: int) -> list[tuple[str, int, int]]:
        """Names and shapes of a layer's matrices behind attention."""

        def three(prefix: str, size: int, names: tuple[str, ...]) -> list[tuple[str, int, int]]:
            gate, up, down = names
            return [(f"{prefix}{gate}", size, h), (f"{prefix}{up}", size, h), (f"{prefix}{down}", h, size)]

        c, plain = self.config, ("gate_proj", "up_proj", "down_proj")
        if self.architecture == "MixtralForCausalLM":
            parts = [("block_sparse_moe.gate", c["num_local_experts"], h)]
            for e in range(c["num_local_experts"]):
                parts += three(f"block_sparse_moe.experts.{e}.", f, ("w1", "w3", "w2"))
            return parts
        if self.architecture == "GptOssForCausalLM":
            return [("mlp.router", c["num_local_experts"], h)]
        if not self.architecture.endswith("MoeForCausalLM"):
            return three("mlp.", f, plain)
        parts = [("mlp.gate", c["num_experts"], h)]
        for e in range(c["num_experts"]):
            parts += three(f"mlp.experts.{e}.", c["moe_intermediate_size"], plain)
        if self.architecture == "Qwen2MoeForCausalLM":
            parts += [("mlp.shared_expert_gate", 1, h)]
            parts += three("mlp.shared_expert.", c["shared_expert_intermediate_size"], plain)
        return parts

    def _draw_gpt2(self) -> None:
        c = self.config
        h, f = c["n_embd"], c.get("n_inner") or 4 * c["n_embd"]
        self._matrix("wte.weight", VOCABULARY, h, h)
        self._matrix("wpe.weight", c["n_positions"], h, h)
        sizes = {"ln_f": h}
        for i in range(c["n_layer"]):
            sizes |= {f"h.{i}.ln_1": h, f"h.{i}.ln_2": h}
            for part, rows, columns in (("attn.c_attn", h, 3 * h), ("attn.c_proj", h, h), ("mlp.c_fc", h, f),
                                        ("mlp.c_proj", f, h)):  # fmt: skip
                self._matrix(f"h.{i}.{part}.weight", rows, columns, rows)
                self._vector(f"h.{i}.{part}.bias", columns, 0.0)
        for name, size in sizes.items():
            self._vector(f"{name}.weight", size, 1.0)
            self._vector(f"{name}.bias", size, 0.0)

    def tied(self) -> bool:
        default = self.architecture.startswith("Gemma") or self.architecture.startswith("GPT2")
        return bool(self.config.get("tie_word_embeddings", default))

    def write(self, folder: Path, prefix: str = "") -> Path:
        from safetensors.numpy import save_file

        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        save_file(
            {prefix + name: value for name, value in self._fused().items()}, folder / "model.safetensors"
        )
        return folder

    def _fused(self) -> dict[str, np.ndarray]:
        """Phi-3's files have matrices below each other."""
        weights = dict(self.weights)
        if self.architecture == "Phi3ForCausalLM":
            for i in range(self.config["num_hidden_layers"]):
                for whole, parts in (("self_attn.qkv", "qkv"), ("mlp.gate_up", ("gate", "up"))):
                    at = f"model.layers.{i}.{whole.split('.')[0]}."
                    rows = [weights.pop(f"{at}{part}_proj.weight") for part in parts]
                    weights[f"model.layers.{i}.{whole}_proj.weight"] = np.concatenate(rows)
        return weights

    def kept(self, x: np.ndarray) -> np.ndarray:
        """Keys and values as later tokens read them."""
        return x

    def logits(self, tokens: list[int]) -> np.ndarray:
        """[tokens, vocabulary]."""
        w = {name: value.astype(np.float64) for name, value in self.weights.items()}
        return self._gpt2(w, tokens) if self.architecture.startswith("GPT2") else self._llama(w, tokens)

    def _gpt2(self, w: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
        c, count = self.config, len(tokens)

        def norm(x: np.ndarray, name: str) -> np.ndarray:
            centred = x - x.mean(-1, keepdims=True)
            even = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
            return even * w[f"{name}.weight"] + w[f"{name}.bias"]

        def product(x: np.ndarray, name: str) -> np.ndarray:
            return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

        x = w["wte.weight"][tokens] + w["wpe.weight"][:count]
        for i in range(c["n_layer"]):
            q, k, v = np.split(product(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, axis=1)
            d = c["n_embd"] // c["n_head"]
            q, k, v = (a.reshape(count, -1, d) for a in (q, k, v))
            x = x + product(_attention(q, k, v, d**-0.5, 0.0, 0), f"h.{i}.attn.c_proj")
            x = x + product(_gelu(product(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
        return norm(x, "ln_f") @ w["wte.weight"].T

    def _window(self, layer: int) -> int:
        c = self.config
        if not c.get("sliding_window"):
            return 0
        if self.architecture == "Qwen2ForCausalLM":
            return c["sliding_window"] if layer >= c["max_window_layers"] else 0
        if "layer_types" in c:
            return c["sliding_window"] if c["layer_types"][layer] == "sliding_attention" else 0
        patterns = {"Gemma2ForCausalLM": 2, "GptOssForCausalLM": 2, "Gemma3ForCausalLM": 6}
        pattern = patterns.get(self.architecture, 0)
        pattern = c.get("sliding_window_pattern", pattern)
        return c["sliding_window"] if not pattern or (layer + 1) % pattern else 0

    def _llama(self, w: dict[str, np.ndarray], tokens: list[int]) -> np.ndarray:
        c, count, d = self.config, len(tokens), self.config["head_dim"]
        gemma = self.architecture.startswith("Gemma")
        after = self.architecture in ("Gemma2ForCausalLM", "Gemma3ForCausalLM")
        kinds = c.get("rope_parameters", {})
        turning = int(d * c.get("partial_rotary_factor", 1))
        whole = _turns(count, turning, c["rope_theta"], kinds.get("full_attention", c.get("rope_scaling") or {}))
        local = _turns(count, d, c.get("rope_local_base_freq", 10000.0), kinds.get("sliding_attention", {}))
        scale = c["query_pre_attn_scalar"] ** -0.5 if after else d**-0.5

        def norm(x: np.ndarray, name: str) -> np.ndarray:
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * (w[f"{name}.weight"] + gemma)

        x = w["model.embed_tokens.weight"][tokens] * (np.sqrt(c["hidden_size"]) if gemma else 1.0)
        for i in range(c["num_hidden_layers"]):
            at, window = f"model.layers.{i}.", self._window(i)
            h = norm(x, f"{at}input_layernorm")
            q, k, v = (
                (
                    h @ w[f"{at}self_attn.{p}_proj.weight"].T + w.get(f"{at}self_attn.{p}_proj.bias", 0.0)
                ).reshape(count, -1, d)
                for p in "qkv"
            )
            if f"{at}self_attn.q_norm.weight" in w:
                q, k = norm(q, f"{at}self_attn.q_norm"), norm(k, f"{at}self_attn.k_norm")
            turns = local if window and self.architecture == "Gemma3ForCausalLM" else whole
            if c.get("no_rope_layers", [1] * (i + 1))[i]:
                q, k = (np.concatenate([_turned(a[..., :turning], turns), a[..., turning:]], -1) for a in (q, k))
            made = _attention(
                q, self.kept(k), self.kept(v), scale, c.get("attn_logit_softcapping") or 0.0, window,
                w.get(f"{at}self_attn.sinks"),
            )
            made = made @ w[f"{at}self_attn.o_proj.weight"].T + w.get(f"{at}self_attn.o_proj.bias", 0.0)
            x = x + (norm(made, f"{at}post_attention_layernorm") if after else made)
            h = norm(x, f"{at}pre_feedforward_layernorm" if after else f"{at}post_attention_layernorm")
            if f"{at}mlp.gate_proj.weight" in w:
                gelu = gemma or c.get("hidden_act") == "gelu_pytorch_tanh"
                made = _gated(w, f"{at}mlp.", h, _gelu if gelu else _silu)
            elif self.architecture == "GptOssForCausalLM":
                made = self._gpt_oss_mixture(w, f"{at}mlp.", h)
            else:
                made = self._mixture(w, at, h)
            x = x + (norm(made, f"{at}post_feedforward_layernorm") if after else made)
        head = w["model.embed_tokens.weight"] if self.tied() else w["lm_head.weight"]
        return _cap(norm(x, "model.norm") @ head.T, c.get("final_logit_softcapping") or 0.0)

    def _gpt_oss_mixture(self, w: dict[str, np.ndarray], at: str, h: np.ndarray) -> np.ndarray:
        limit, taken_ones = self.config["swiglu_limit"], self.config["num_experts_per_tok"]
        every = h @ w[f"{at}router.weight"].T + w[f"{at}router.bias"]
        made = np.zeros_like(h)
        for row, scores in enumerate(every):
            taken = np.argsort(-scores)[:taken_ones]
            shares = np.exp(scores[taken] - scores[taken].max())
            for e, share in zip(taken, shares / shares.sum()):
                both = h[row] @ w[f"{at}experts.gate_up_proj"][e] + w[f"{at}experts.gate_up_proj_bias"][e]
                gate, up = np.minimum(both[::2], limit), np.clip(both[1::2], -limit, limit)
                inner = (up + 1) * gate / (1 + np.exp(-1.702 * gate))
                made[row] += share * (inner @ w[f"{at}experts.down_proj"][e] + w[f"{at}experts.down_proj_bias"][e])
        return made

    def _mixture(self, w: dict[str, np.ndarray], at: str, h: np.ndarray) -> np.ndarray:
        c, mixtral = self.config, self.architecture == "MixtralForCausalLM"
        prefix = f"{at}block_sparse_moe." if mixtral else f"{at}mlp."
        names = ("w1", "w3", "w2") if mixtral else _PROJECTIONS
        scores = np.exp(h @ w[f"{prefix}gate.weight"].T)
        scores /= scores.sum(-1, keepdims=True)
        made = np.zeros_like(h)
        for row, shares in enumerate(scores):
            taken = np.argsort(-shares)[: c["num_experts_per_tok"]]
            total = shares[taken].sum() if mixtral or c.get("norm_topk_prob") else 1.0
            for e in taken:
                part = _gated(w, f"{prefix}experts.{e}.", h[row : row + 1], _silu, names)
                made[row] += shares[e] / total * part[0]
        if f"{prefix}shared_expert_gate.weight" in w:
            share = 1 / (1 + np.exp(-h @ w[f"{prefix}shared_expert_gate.weight"].T))
            made += share * _gated(w, f"{prefix}shared_expert.", h, _silu)
        return made


GEMMA2 = {"sliding_window": 12, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 3.0,
          "final_logit_softcapping": 2.0, "hidden_activation": "gelu_pytorch_tanh"}  # fmt: skip
GEMMA3 = {"sliding_window": 8, "query_pre_attn_scalar": 20, "num_hidden_layers": 7, "rope_theta": 100000.0,
          "rope_local_base_freq": 500.0}  # fmt: skip
EXPERTS = {"num_experts": 9, "num_experts_per_tok": 3, "moe_intermediate_size": 48}
GPT_OSS = {"num_local_experts": 8, "num_experts_per_tok": 2, "attention_bias": True, "swiglu_limit": 7.0,
           "sliding_window": 12, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8.0,
           "beta_slow": 0.5, "truncate": False, "original_max_position_embeddings": 32}}  # fmt: skip
LONG = {"rope_type": "longrope", "original_max_position_embeddings": 32, "factor": 4.0,
        "short_factor": [1.0, 1.1, 1.3, 1.7, 2.0, 2.5], "long_factor": [1.0, 1.9, 3.1, 5.0, 7.0, 11.0]}  # fmt: skip
FOLDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma": ("GemmaForCausalLM", {"hidden_act": "gelu"}),
    "gemma2": ("Gemma2ForCausalLM", GEMMA2),
    "gemma3": ("Gemma3ForCausalLM", GEMMA3),
    "gemma3 positions by kind": ("Gemma3ForCausalLM", GEMMA3 | {"num_hidden_layers": 3, "rope_parameters": {
        "full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 5000.0,
                           "original_max_position_embeddings": 32},
        "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0}},
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
    "gemma3 layer_types": ("Gemma3ForCausalLM", GEMMA3 | {"num_hidden_layers": 2,
                           "layer_types": ["full_attention", "sliding_attention"]}),
    "qwen2 with a window": ("Qwen2ForCausalLM", {"use_sliding_window": True, "sliding_window": 7,
                            "max_window_layers": 1}),
    "llama gelu": ("LlamaForCausalLM", {"hidden_act": "gelu_pytorch_tanh"}),
    "qwen2 moe without biases": ("Qwen2MoeForCausalLM", EXPERTS | {"shared_expert_intermediate_size": 80,
                                 "qkv_bias": False}),
    "mistral with a window": ("MistralForCausalLM", {"sliding_window": 10}),
    "mixtral": ("MixtralForCausalLM", {"num_local_experts": 6, "num_experts_per_tok": 2}),
    "qwen2 moe": ("Qwen2MoeForCausalLM", EXPERTS | {"shared_expert_intermediate_size": 80}),
    "qwen3 moe": ("Qwen3MoeForCausalLM", EXPERTS | {"norm_topk_prob": True}),
    "llama with biases": ("LlamaForCausalLM", {"attention_bias": True}),
    "llama yarn": ("LlamaForCausalLM", {"rope_scaling": {"rope_type": "yarn", "factor": 8.0,
                   "attention_factor": 1.25, "original_max_position_embeddings": 16}}),
    "gpt-oss": ("GptOssForCausalLM", GPT_OSS),
    "smollm3": ("SmolLM3ForCausalLM", {"no_rope_layers": [1, 0, 1]}),
    "phi3": ("Phi3ForCausalLM", {"sliding_window": 10, "partial_rotary_factor": 0.5}),
    "phi3 long": ("Phi3ForCausalLM", {"partial_rotary_factor": 0.75, "rope_scaling": LONG}),
    "phi3 short": ("Phi3ForCausalLM", {"partial_rotary_factor": 0.75, "tie_word_embeddings": True,
                   "rope_scaling": LONG | {"original_max_position_embeddings": 128}}),
    "gpt2": ("GPT2LMHeadModel", {}),
    "gpt2 of odd heads": ("GPT2LMHeadModel", {"n_embd": 33, "n_head": 3}),
    "gpt2 n_inner": ("GPT2LMHeadModel", {"n_inner": 80}),
}  # fmt: skip
