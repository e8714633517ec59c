"""EAGLE heads of small models with random weights, as folders, and what they guess, in NumPy.

Written after cnets.py of EAGLE's authors: one layer over fc([embedding, feature]), without norms in front of it and
behind it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tiny import Tiny, hf_name

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

    def counts(self, prompt: list[int], answer: list[int]) -> tuple[int, int]:
        """(guessed, right) where the model gives this answer."""
        text, guessed, right = [*prompt, answer[0]], 0, 0
        features = self.model.features([*prompt, *answer])
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
