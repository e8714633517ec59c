"""GPT-2 small (transformers.GPT2LMHeadModel): prefill of a prompt, and one step of decoding with a KV cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

from conformance.models.case import Tolerance, TorchCase, normal, seeded, tokens

FULL = {"length": 128}
SMALL = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 500, "n_positions": 64, "length": 16}
TOLERANCE = Tolerance(relative=1e-4, cosine=0.999999)


class Model(nn.Module):
    """The cache is tensors: keys and values of every layer, stacked [layers, batch, heads, tokens, width]."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        super().__init__()
        self.model = model

    def run(self, input_ids: Any, cache: DynamicCache) -> Any:
        out = self.model(input_ids=input_ids, past_key_values=cache, use_cache=True, return_dict=True)
        layers = out.past_key_values.layers
        keys = torch.stack([layer.keys for layer in layers])
        return out.logits, keys, torch.stack([layer.values for layer in layers])


class Prefill(Model):
    def forward(self, input_ids: Any) -> Any:
        return self.run(input_ids, DynamicCache())


class Decode(Model):
    def forward(self, input_ids: Any, keys: Any, values: Any) -> Any:
        cache = DynamicCache()
        for layer in range(self.model.config.n_layer):
            cache.update(keys[layer], values[layer], layer)
        return self.run(input_ids, cache)


def _model(sizes: dict[str, int]) -> tuple[GPT2LMHeadModel, GPT2Config, int]:
    sizes = dict(sizes)
    length = sizes.pop("length")
    config = GPT2Config(**sizes, attn_implementation="eager")
    return seeded(lambda: GPT2LMHeadModel(config)), config, length


def build_prefill(sizes: dict[str, int]) -> TorchCase:
    model, config, length = _model(sizes)
    return TorchCase(Prefill(model).eval(), {"input_ids": tokens((1, length), config.vocab_size)}, TOLERANCE)


def build_decode(sizes: dict[str, int]) -> TorchCase:
    model, config, length = _model(sizes)
    cache = (config.n_layer, 1, config.n_head, length, config.n_embd // config.n_head)
    inputs: dict[str, np.ndarray] = {
        "input_ids": tokens((1, 1), config.vocab_size),
        "keys": normal(cache, seed=1),
        "values": normal(cache, seed=2),
    }
    return TorchCase(Decode(model).eval(), inputs, TOLERANCE)
