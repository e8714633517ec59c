"""A model as Hugging Face publishes models: for tools that read such folders and no GGUF files."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from opentrn import _core
from opentrn.base.files import shown
from opentrn.errors import InputError, NotModelled
from opentrn.generate.source import find
from opentrn.generate.text import Text, text_of_gguf

__all__ = ["write_checkpoint"]

# Architecture of the file: Hugging Face's class and model_type.
_CLASSES = {
    "llama": ("LlamaForCausalLM", "llama"),
    "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
    "granite": ("GraniteForCausalLM", "granite"),
}
# llama.cpp turns neighbouring features of these, and lays their rows so.
_INTERLEAVED = ("llama", "granite")
_DTYPES = {"f16": ("F16", np.float16, "float16"), "bf16": ("BF16", ml_dtypes.bfloat16, "bfloat16"),
           "f32": ("F32", np.float32, "float32")}  # fmt: skip
_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def write_checkpoint(source: str | Path, folder: Path, dtype: str = "f16") -> Path:
    """Writes config.json, model.safetensors, tokenizer.json and their settings into `folder`, and returns it.

    source: a GGUF file or the name of a model in a package. dtype: of the matrices, "f16", "bf16" or "f32"; vectors
    are f32. Raises InputError, NotModelled for an architecture that no class is known of here.
    """
    path = find(source)
    if path.is_dir():
        raise InputError(f"{shown(path)} is a folder already", label="generate.checkpoint")
    if dtype not in _DTYPES:
        raise InputError(f"no weights in {dtype!r}", label="generate.checkpoint", hint=", ".join(_DTYPES))
    file = _core.read_gguf(path)
    metadata = file.metadata
    architecture = str(metadata.get("general.architecture"))
    if architecture not in _CLASSES:
        raise NotModelled(f"'{architecture}' has no class of Hugging Face's here", label="generate.checkpoint")
    folder.mkdir(parents=True, exist_ok=True)
    text = text_of_gguf(metadata)
    text.tokenizer.save(str(folder / "tokenizer.json"))
    _write_text(folder, text)
    _write_json(folder / "config.json", _config(metadata, architecture, file, text, _DTYPES[dtype][2]))
    _write_tensors(folder / "model.safetensors", file, architecture, dtype)
    return folder


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _write_text(folder: Path, text: Text) -> None:
    _write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": text.bos or None, "eos_token": text.eos or None,
        "add_bos_token": text.begin is not None, "clean_up_tokenization_spaces": False,
        "chat_template": text.template or None,
    })  # fmt: skip
    _write_json(folder / "generation_config.json", {"eos_token_id": list(text.stop_tokens)})


def _config(metadata: Mapping[str, Any], architecture: str, file: Any, text: Text, dtype: str) -> dict[str, Any]:
    def stated(key: str, default: Any = None) -> Any:
        found = metadata.get(f"{architecture}.{key}", default)
        if found is None:
            raise InputError(f"the file does not state {architecture}.{key}", label="generate.checkpoint")
        return found

    if any(key.startswith(f"{architecture}.rope.scaling") for key in metadata):
        raise NotModelled("scaled rotary positions are not written", label="generate.checkpoint")
    heads, hidden = stated("attention.head_count"), stated("embedding_length")
    names = {name for name, _, _ in file.tensors}
    vocabulary = next(shape[0] for name, _, shape in file.tensors if name == "token_embd.weight")
    config = {
        "architectures": [_CLASSES[architecture][0]], "model_type": _CLASSES[architecture][1], "torch_dtype": dtype,
        "hidden_size": hidden, "intermediate_size": stated("feed_forward_length"),
        "num_hidden_layers": stated("block_count"), "num_attention_heads": heads,
        "num_key_value_heads": stated("attention.head_count_kv", heads),
        "head_dim": stated("attention.key_length", hidden // heads), "hidden_act": "silu",
        "rms_norm_eps": stated("attention.layer_norm_rms_epsilon"), "rope_theta": stated("rope.freq_base", 10000.0),
        "max_position_embeddings": stated("context_length"), "vocab_size": vocabulary,
        "tie_word_embeddings": "output.weight" not in names, "attention_bias": False,
        "eos_token_id": list(text.stop_tokens),
    }  # fmt: skip
    if architecture == "granite":
        config |= {
            "embedding_multiplier": stated("embedding_scale"), "residual_multiplier": stated("residual_scale"),
            "logits_scaling": stated("logit_scale"), "attention_multiplier": stated("attention.scale"),
        }  # fmt: skip
    return config


def _name_of(name: str) -> str:
    """Hugging Face's name of a tensor. Raises InputError."""
    part, _, kind = name.rpartition(".")
    if part in _NAMES:
        return f"{_NAMES[part]}.{kind}"
    words = part.split(".")
    if len(words) == 3 and words[0] == "blk" and words[2] in _LAYER_NAMES:
        return f"model.layers.{words[1]}.{_LAYER_NAMES[words[2]]}.{kind}"
    raise InputError(f"no name of Hugging Face's for the tensor {name}", label="generate.checkpoint")


def _tensors(file: Any, architecture: str) -> Iterator[tuple[str, str, list[int]]]:
    for name, _, shape in file.tensors:
        yield name, _name_of(name), list(shape)


def _rows_in_halves(values: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys, two halves of each head, of rows that have the halves in turns."""
    rows = values.shape[0] // heads
    turned = values.reshape(heads, rows // 2, 2, *values.shape[1:]).swapaxes(1, 2)
    return np.ascontiguousarray(turned).reshape(values.shape)


def _write_tensors(path: Path, file: Any, architecture: str, dtype: str) -> None:
    """safetensors: eight bytes with the length of a header in JSON, the header, the tensors behind each other."""
    metadata = file.metadata
    heads = metadata[f"{architecture}.attention.head_count"]
    groups = {"attn_q": heads, "attn_k": metadata.get(f"{architecture}.attention.head_count_kv", heads)}
    matrix, element, _ = _DTYPES[dtype]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end, arrays = 0, []
    for name, called, shape in _tensors(file, architecture):
        kind, of = ("F32", np.float32) if len(shape) < 2 else (matrix, element)
        size = int(np.prod(shape)) * np.dtype(of).itemsize
        header[called] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + size]}
        arrays.append((name, of))
        end += size
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(words)) + words)
        for name, of in arrays:
            values = file.decoded(name)
            part = name.split(".")[-2]
            if architecture in _INTERLEAVED and part in groups:
                values = _rows_in_halves(values, groups[part])
            out.write(values.astype(of).tobytes())
