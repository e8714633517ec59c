"""Small language models with random weights as GGUF files, and what they compute, in NumPy."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

_TYPES = {bool: 7, int: 4, float: 6, str: 8}
_PLAIN = {"F32": (0, np.float32), "F16": (1, np.float16), "F64": (28, np.float64)}


_HF_SCALES = {"embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier",
              "logit_scale": "logits_scaling", "attention.scale": "attention_multiplier"}  # fmt: skip
_HF_PARTS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}  # fmt: skip
_HF_OTHERS = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
              "output.weight": "lm_head.weight"}  # fmt: skip


def hf_name(name: str) -> str:
    if name in _HF_OTHERS:
        return _HF_OTHERS[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{_HF_PARTS[part]}.{kind}"


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, list):
        parts = b"".join(_value(item)[4:] for item in value)
        return struct.pack("<IIQ", 9, _TYPES[type(value[0])], len(value)) + parts
    kind = struct.pack("<I", _TYPES[type(value)])
    if isinstance(value, str):
        return kind + _string(value)
    return kind + struct.pack({bool: "<?", int: "<I", float: "<f"}[type(value)], value)


def gguf_bytes(metadata: dict[str, Any], tensors: dict[str, tuple[int, tuple[int, ...], bytes]]) -> bytes:
    """A file with these keys and these tensors: (ggml's type, shape with the outermost dimension first, data)."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    head += [_string(key) + _value(value) for key, value in metadata.items()]
    data, offset = [], 0
    for name, (kind, shape, content) in tensors.items():
        head.append(_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, offset))
        content += bytes(-len(content) % 32)
        data.append(content)
        offset += len(content)
    start = b"".join(head)
    return start + bytes(-len(start) % 32) + b"".join(data)


def q8_0(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """The file's blocks, and the numbers that they stand for."""
    blocks = values.reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1) / 127).astype(np.float16)
    whole = np.round(blocks / np.maximum(scales.astype(np.float32), 1e-12)[:, None]).clip(-127, 127).astype(np.int8)
    data = b"".join(scale.tobytes() + row.tobytes() for scale, row in zip(scales, whole))
    return data, (whole * scales.astype(np.float32)[:, None]).reshape(values.shape)


def interleaved(rows: np.ndarray, head_features: int) -> np.ndarray:
    """As llama.cpp's converter lays rows of queries and keys."""
    heads = len(rows) // head_features
    return rows.reshape(heads, 2, head_features // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


@dataclass
class Tiny:
    """A model: sizes, weights as a reference computes with them, and the file."""

    architecture: str = "llama"
    layers: int = 2
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_features: int = 16
    feed_forward: int = 96
    context: int = 128
    seed: int = 0
    tied: bool = True
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tokens = [chr(c) for c in range(33, 127)] + ["Ġ", "Ċ", "Ġt", "he", "Ġthe", "in", "Ġin", "<|end|>"]
        self.merges = ["Ġ t", "h e", "Ġt he", "i n", "Ġ in"]
        rng = np.random.default_rng(self.seed)
        q, kv, h = self.heads * self.head_features, self.kv_heads * self.head_features, self.hidden
        f = self.feed_forward
        sizes: dict[str, tuple[int, ...]] = {"token_embd.weight": (len(self.tokens), h), "output_norm.weight": (h,)}
        if not self.tied:
            sizes["output.weight"] = (len(self.tokens), h)
        for i in range(self.layers):
            parts = {"attn_norm": (h,), "attn_q": (q, h), "attn_k": (kv, h), "attn_v": (kv, h), "attn_output": (h, q),
                     "ffn_norm": (h,), "ffn_gate": (f, h), "ffn_up": (f, h), "ffn_down": (h, f)}  # fmt: skip
            if self.architecture == "qwen3":
                parts |= {"attn_q_norm": (self.head_features,), "attn_k_norm": (self.head_features,)}
            sizes |= {f"blk.{i}.{part}.weight": size for part, size in parts.items()}
            if self.architecture == "qwen2":
                sizes |= {f"blk.{i}.attn_{part}.bias": (size,) for part, size in (("q", q), ("k", kv), ("v", kv))}
        for name, size in sizes.items():
            drawn = rng.standard_normal(size, np.float32) * (0.5 if len(size) == 1 else 1.5 / np.sqrt(size[-1]))
            self.weights[name] = drawn + 1 if "norm" in name else drawn
        if self.architecture == "granite":
            self.scales = {"embedding_scale": 6.0, "residual_scale": 0.5, "logit_scale": 3.0, "attention.scale": 0.3}

    def metadata(self) -> dict[str, Any]:
        a = self.architecture
        return {
            "general.architecture": a, "general.name": "tiny",
            f"{a}.block_count": self.layers, f"{a}.context_length": self.context, f"{a}.embedding_length": self.hidden,
            f"{a}.feed_forward_length": self.feed_forward, f"{a}.attention.head_count": self.heads,
            f"{a}.attention.head_count_kv": self.kv_heads, f"{a}.attention.key_length": self.head_features,
            f"{a}.attention.layer_norm_rms_epsilon": 1e-5, f"{a}.rope.freq_base": 1000.0,
            **{f"{a}.{key}": value for key, value in self.scales.items()},
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": self.tokens,
            "tokenizer.ggml.merges": self.merges, "tokenizer.ggml.eos_token_id": len(self.tokens) - 1,
            "tokenizer.ggml.token_type": [1] * (len(self.tokens) - 1) + [3],
            "tokenizer.chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}",
        }  # fmt: skip

    def bytes(self, quantised: bool = False) -> bytes:
        """The file. `quantised`: matrices of a multiple of 32 columns as Q8_0, and `weights` become what that says."""
        tensors = {}
        for name, held in self.weights.items():
            values = held
            if self.architecture in ("llama", "granite") and (".attn_q." in name or ".attn_k." in name):
                values = interleaved(values, self.head_features)
            if quantised and values.ndim == 2 and values.shape[1] % 32 == 0:
                data, _ = q8_0(values)
                self.weights[name] = q8_0(held)[1]
                tensors[name] = (8, values.shape, data)
            else:
                tensors[name] = (0, values.shape, np.ascontiguousarray(values, np.float32).tobytes())
        return gguf_bytes(self.metadata(), tensors)

    def write(self, folder: Path, **options: bool) -> Path:
        path = folder / f"tiny-{self.architecture}.gguf"
        path.write_bytes(self.bytes(**options))
        return path

    def write_folder(self, folder: Path, parts: int = 1) -> Path:
        """As Hugging Face publishes models, but for the tokenizer."""
        from safetensors.numpy import save_file

        path = folder / f"tiny-{self.architecture}"
        path.mkdir()
        names = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "granite": "Granite"}
        config = {
            "architectures": [f"{names[self.architecture]}ForCausalLM"], "num_hidden_layers": self.layers,
            "hidden_size": self.hidden, "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_features, "intermediate_size": self.feed_forward, "vocab_size": len(self.tokens),
            "max_position_embeddings": self.context, "rms_norm_eps": 1e-5, "rope_theta": 1000.0,
            "tie_word_embeddings": self.tied, "eos_token_id": len(self.tokens) - 1,
            **{_HF_SCALES[key]: value for key, value in self.scales.items()},
        }  # fmt: skip
        (path / "config.json").write_text(json.dumps(config))
        tensors = {hf_name(name): value for name, value in self.weights.items()}
        if parts == 1:
            save_file(tensors, path / "model.safetensors")
            return path
        places = {name: f"model-{i % parts}.safetensors" for i, name in enumerate(tensors)}
        for file in set(places.values()):
            save_file({name: value for name, value in tensors.items() if places[name] == file}, path / file)
        (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        return path

    def logits(self, tokens: list[int]) -> np.ndarray:
        """[tokens, vocabulary] in float64: the architecture as Hugging Face's modeling files write it."""
        return self.logits_of(self.features(tokens))

    def logits_of(self, features: np.ndarray) -> np.ndarray:
        head = self.weights.get("output.weight", self.weights["token_embd.weight"]).astype(np.float64)
        return features @ head.T / self.scales.get("logit_scale", 1)

    def states(self, tokens: list[int]) -> list[np.ndarray]:
        """[tokens, hidden] in front of the first layer, and behind each."""
        w = {name: value.astype(np.float64) for name, value in self.weights.items()}
        made = [w["token_embd.weight"][tokens] * self.scales.get("embedding_scale", 1)]
        for i in range(self.layers):
            part = {key.split(".", 2)[2]: w[key] for key in w if key.startswith(f"blk.{i}.")}
            made.append(self.through(made[-1], part))
        return made

    def features(self, tokens: list[int]) -> np.ndarray:
        """[tokens, hidden], behind the last norm."""
        return norm(self.states(tokens)[-1], self.weights["output_norm.weight"].astype(np.float64))

    def through(self, x: np.ndarray, part: dict[str, np.ndarray], read: np.ndarray | None = None) -> np.ndarray:
        """x [tokens, hidden] behind a layer of these weights. Without attn_norm.weight it has no such norm. read: what
        attention reads in place of x."""
        d, count = self.head_features, len(x)
        angles = np.arange(count)[:, None] * 1000.0 ** (-np.arange(0, d, 2) / d)[None, :]
        cosine, sine = np.cos(np.concatenate([angles] * 2, 1)), np.sin(np.concatenate([angles] * 2, 1))

        def turned(x: np.ndarray) -> np.ndarray:
            swapped = np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], -1)
            return x * cosine[:, None] + swapped * sine[:, None]

        residual = self.scales.get("residual_scale", 1)
        h = norm(x, part["attn_norm.weight"]) if "attn_norm.weight" in part else x
        h = h if read is None else read
        q, k, v = (h @ part[f"attn_{p}.weight"].T + part.get(f"attn_{p}.bias", 0) for p in "qkv")
        q, k, v = (a.reshape(count, -1, d) for a in (q, k, v))
        if self.architecture == "qwen3":
            q, k = norm(q, part["attn_q_norm.weight"]), norm(k, part["attn_k_norm.weight"])
        q, k = turned(q), turned(k)
        k, v = (np.repeat(a, self.heads // self.kv_heads, axis=1) for a in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) * self.scales.get("attention.scale", d**-0.5)
        scores = np.where(np.tril(np.ones((count, count), bool)), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        out = np.einsum("hqk,khd->qhd", shares, v).reshape(count, -1)
        x = x + residual * (out @ part["attn_output.weight"].T)
        h = norm(x, part["ffn_norm.weight"])
        gate, up = h @ part["ffn_gate.weight"].T, h @ part["ffn_up.weight"].T
        return x + residual * ((gate / (1 + np.exp(-gate)) * up) @ part["ffn_down.weight"].T)


def norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale
