"""A Llama-style stack (transformers.LlamaModel): RMS norm, rotary positions, grouped-query attention, SwiGLU."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from conformance.models.case import Tolerance, TorchCase, seeded, tokens

FULL = {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "length": 128,
}
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "length": 16,
}


class Decoder(nn.Module):
    """Token ids in, logits out."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any) -> Any:
        return self.model(input_ids=input_ids, use_cache=False, return_dict=True).logits


def build(sizes: dict[str, int]) -> TorchCase:
    sizes = dict(sizes)
    length = sizes.pop("length")
    config = LlamaConfig(**sizes, attn_implementation="eager")
    return TorchCase(
        module=seeded(lambda: Decoder(LlamaForCausalLM(config))),
        inputs={"input_ids": tokens((1, length), config.vocab_size)},
        tolerance=Tolerance(relative=1e-4, cosine=0.999999),
    )
