"""BERT-large (transformers.BertModel): token ids, attention mask and types in; hidden states and pooled output out."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import nn
from transformers import BertConfig, BertModel

from conformance.models.case import Tolerance, TorchCase, seeded, tokens

FULL = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "length": 128,
}
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 500,
    "length": 16,
}


class Encoder(nn.Module):
    """Tensors in, tensors out."""

    def __init__(self, model: BertModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        out = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            return_dict=True,
        )
        return out.last_hidden_state, out.pooler_output


def build(sizes: dict[str, int]) -> TorchCase:
    sizes = dict(sizes)
    length = sizes.pop("length")
    config = BertConfig(**sizes, attn_implementation="eager")
    mask = np.ones((1, length), np.int64)
    mask[:, length - length // 4 :] = 0  # padded at the end, as sentences are
    return TorchCase(
        module=seeded(lambda: Encoder(BertModel(config))),
        inputs={
            "input_ids": tokens((1, length), config.vocab_size),
            "attention_mask": mask,
            "token_type_ids": np.zeros((1, length), np.int64),
        },
        tolerance=Tolerance(relative=1e-4, cosine=0.999999),
    )
