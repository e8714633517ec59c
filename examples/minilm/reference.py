"""The same layer in PyTorch, from the same checkpoint: what the kernels are checked against.

Written with PyTorch's own operators and the checkpoint's own layouts; it shares nothing with kernels.py.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

HEADS = 12
EPSILON = 1e-12


class Encoder:
    """MiniLM's encoder, layer by layer, in one dtype."""

    def __init__(self, weights: dict[str, np.ndarray], dtype: torch.dtype) -> None:
        self.dtype = dtype
        floats = {name: value for name, value in weights.items() if value.dtype == np.float32}
        self.weights = {name: torch.from_numpy(value).to(dtype) for name, value in floats.items()}

    def _linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.layer_norm(x, x.shape[-1:], weight, bias, EPSILON)

    def embed(self, ids: np.ndarray) -> torch.Tensor:
        """Token ids [sentences, tokens] -> hidden states [sentences, tokens, features]."""
        words = self.weights["embeddings.word_embeddings.weight"][torch.from_numpy(ids)]
        positions = self.weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        types = self.weights["embeddings.token_type_embeddings.weight"][0]
        return self._norm(words + positions + types, "embeddings.LayerNorm")

    def attention(self, x: torch.Tensor, attention_mask: np.ndarray, layer: int) -> torch.Tensor:
        """LayerNorm(x + self-attention(x)); x: [sentences, tokens, features]."""
        prefix = f"encoder.layer.{layer}.attention."
        sentences, tokens, features = x.shape

        def heads(name: str) -> torch.Tensor:
            projected = self._linear(x, f"{prefix}self.{name}")
            return projected.view(sentences, tokens, HEADS, features // HEADS).transpose(1, 2)

        keep = torch.from_numpy(attention_mask.astype(bool))[:, None, None, :]
        mixed = F.scaled_dot_product_attention(heads("query"), heads("key"), heads("value"), attn_mask=keep)
        joined = mixed.transpose(1, 2).reshape(sentences, tokens, features)
        return self._norm(x + self._linear(joined, f"{prefix}output.dense"), f"{prefix}output.LayerNorm")

    def mlp(self, x: torch.Tensor, layer: int) -> torch.Tensor:
        """LayerNorm(x + W2 gelu(W1 x)); x: [sentences, tokens, features]."""
        prefix = f"encoder.layer.{layer}."
        inner = F.gelu(self._linear(x, f"{prefix}intermediate.dense"))
        return self._norm(x + self._linear(inner, f"{prefix}output.dense"), f"{prefix}output.LayerNorm")


def sentence_embedding(hidden: np.ndarray, attention_mask: np.ndarray) -> np.ndarray:
    """Mean over the tokens that are not padding, scaled to length 1: [sentences, features]."""
    mask = attention_mask[:, :, None].astype(np.float32)
    mean = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)
