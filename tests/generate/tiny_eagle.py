"""EAGLE heads of small models with random weights, as folders, and what they guess, in NumPy.

Written after cnets.py of EAGLE's authors: in the first version one layer over fc([embedding, feature]), without norms
in front of it and behind it; in the third one whose attention reads both, over fc of the features of three layers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tiny import Tiny, hf_name, norm

GUESSES = 3


@dataclass
class Head:
    """Of the first version, for `model`: it leans to the token in front, so that some guesses are right.

    own: whether it has embeddings and a head of logits. bias: of fc.
    """

    model: Tiny
    own: bool = False
    bias: bool = True
    seed: int = 3
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        like, rng = Tiny(seed=self.seed, layers=1, context=self.model.context), np.random.default_rng(self.seed)
        h = like.hidden
        self.weights = {name: value for name, value in like.weights.items() if "attn_norm" not in name}
        for name in ("attn_output", "ffn_down"):
            self.weights[f"blk.0.{name}.weight"] *= 0.6
        del self.weights["output_norm.weight"], self.weights["token_embd.weight"]
        self.weights["fc.weight"] = np.concatenate(
            [0.2 * rng.standard_normal((h, h)) / np.sqrt(h), np.eye(h)], 1
        ).astype(np.float32)
        if self.bias:
            self.weights["fc.bias"] = (0.05 * rng.standard_normal(h)).astype(np.float32)

    def write(self, folder: Path, **changes: Any) -> Path:
        folder.mkdir()
        model = self.model
        config = {
            "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "hidden_size": model.hidden,
            "num_attention_heads": model.heads, "num_key_value_heads": model.kv_heads,
            "head_dim": model.head_features, "intermediate_size": model.feed_forward,
            "vocab_size": len(model.tokens), "max_position_embeddings": model.context, "rms_norm_eps": 1e-5,
            "rope_theta": 1000.0, "bias": self.bias,
        }  # fmt: skip
        (folder / "config.json").write_text(json.dumps(config | changes.pop("config", {})))
        tensors = {name if "fc." in name else hf_name(name).removeprefix("model."): value
                   for name, value in self.weights.items()}  # fmt: skip
        if self.own:
            tensors["embed_tokens.weight"] = tensors["lm_head.weight"] = model.weights["token_embd.weight"]
        save_file({name: np.ascontiguousarray(value) for name, value in (tensors | changes).items()},
                  folder / "model.safetensors")  # fmt: skip
        return folder

    def guesses(self, text: list[int], features: np.ndarray, most: int) -> list[int]:
        """The likeliest tokens behind `text`. features: the model's, of all of it but the last token."""
        words = self.model.weights["token_embd.weight"].astype(np.float64)
        w = {name: value.astype(np.float64) for name, value in self.weights.items()}
        part = {key.split(".", 2)[2]: value for key, value in w.items() if key.startswith("blk.0.")}
        made: list[int] = []
        for _ in range(most):
            pairs = np.concatenate([words[[*text, *made][1:]], features], 1)
            out = self.model.through(pairs @ w["fc.weight"].T + w.get("fc.bias", 0), part)[-1]
            made.append(int(np.argmax(self.model.logits_of(out))))
            features = np.concatenate([features, out[None]])
        return made

    def features_of(self, tokens: list[int]) -> np.ndarray:
        return self.model.features(tokens)

    def counts(self, prompt: list[int], answer: list[int]) -> tuple[int, int]:
        """(guessed, right) where the model gives this answer."""
        text, guessed, right = [*prompt, answer[0]], 0, 0
        features = self.features_of([*prompt, *answer])
        while len(text) < len(prompt) + len(answer):
            left = len(prompt) + len(answer) - len(text)
            found = self.guesses(text, features[: len(text) - 1], min(GUESSES, left - 1))
            guessed += len(found)
            for guess in found:
                text.append(answer[len(text) - len(prompt)])
                if guess != text[-1]:
                    break
                right += 1
            else:
                text.append(answer[len(text) - len(prompt)])
        return guessed, right


@dataclass
class Head3(Head):
    """Of the third version. words: tokens that it can guess; empty: all. before: the normed features are added behind
    attention. layers: those whose features it reads; empty: the default ones."""

    words: tuple[int, ...] = ()
    before: bool = False
    layers: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        model = self.model
        like, rng = Tiny(seed=self.seed, layers=1, context=model.context), np.random.default_rng(self.seed)
        h = like.hidden
        self.weights = {name.removeprefix("blk.0."): value for name, value in like.weights.items() if "blk" in name}
        for name in ("attn_output.weight", "ffn_down.weight"):
            self.weights[name] *= 0.3
        for part in "qkv":
            name = f"attn_{part}.weight"
            self.weights[name] = np.concatenate(
                [self.weights[name], rng.standard_normal(self.weights[name].shape, np.float32) / np.sqrt(h)], 1
            )
        self.weights["hidden_norm.weight"] = 1 + 0.3 * rng.standard_normal(h).astype(np.float32)
        kinds = len(self.layers) or 3
        self.weights["fc.weight"] = np.concatenate(
            [0.1 * rng.standard_normal((h, (kinds - 1) * h)) / np.sqrt(h), np.eye(h)], 1
        ).astype(np.float32)
        self.weights["norm.weight"] = model.weights["output_norm.weight"]
        rows = list(self.words) or list(range(len(model.tokens)))
        self.weights["lm_head.weight"] = model.weights["token_embd.weight"][rows]

    def write(self, folder: Path, **changes: Any) -> Path:
        folder.mkdir()
        model = self.model
        config = {
            "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "hidden_size": model.hidden,
            "num_attention_heads": model.heads, "num_key_value_heads": model.kv_heads,
            "head_dim": model.head_features, "intermediate_size": model.feed_forward,
            "vocab_size": len(model.tokens), "max_position_embeddings": model.context, "rms_norm_eps": 1e-5,
            "rope_theta": 1000.0, "norm_before_residual": self.before,
        }  # fmt: skip
        tensors: dict[str, Any] = {}
        for name, value in self.weights.items():
            inside = name not in ("fc.weight", "norm.weight", "lm_head.weight", "hidden_norm.weight")
            of_layer = hf_name(f"blk.0.{name}").removeprefix("model.layers.0.") if inside else name
            tensors[f"midlayer.{of_layer}" if inside or name == "hidden_norm.weight" else name] = value
        if self.words:
            config["draft_vocab_size"] = len(self.words)
            tensors["d2t"] = np.array(self.words, np.int64) - np.arange(len(self.words))
            tensors["t2d"] = np.isin(np.arange(len(model.tokens)), self.words)
        if self.layers:
            config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": list(self.layers)}
        if self.own:
            tensors["embed_tokens.weight"] = model.weights["token_embd.weight"]
        (folder / "config.json").write_text(json.dumps(config | changes.pop("config", {})))
        save_file({name: np.ascontiguousarray(value) for name, value in (tensors | changes).items()},
                  folder / "model.safetensors")  # fmt: skip
        return folder

    def features_of(self, tokens: list[int]) -> np.ndarray:
        states, count = self.model.states(tokens), self.model.layers
        layers = self.layers or (2, count // 2, count - 3)
        side_by_side = np.concatenate([states[i] for i in sorted(layers)], 1)
        return side_by_side @ self.weights["fc.weight"].astype(np.float64).T

    def guesses(self, text: list[int], features: np.ndarray, most: int) -> list[int]:
        words = self.model.weights["token_embd.weight"].astype(np.float64)
        w = {name: value.astype(np.float64) for name, value in self.weights.items()}
        made: list[int] = []
        for _ in range(most):
            embedded = norm(words[[*text, *made][1:]], w["attn_norm.weight"])
            normed = norm(features, w["hidden_norm.weight"])
            x = normed if self.before else features
            out = self.model.through(x, w, np.concatenate([embedded, normed], 1))[-1]
            best = int(np.argmax(norm(out, w["norm.weight"]) @ w["lm_head.weight"].T))
            made.append(self.words[best] if self.words else best)
            features = np.concatenate([features, out[None]])
        return made
