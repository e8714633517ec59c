"""A model as Hugging Face publishes models: for tools that read such folders and no GGUF files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.base.files import shown
from opentrn.errors import InputError
from opentrn.generate.source import find
from opentrn.generate.text import Text, text_of_gguf

__all__ = ["write_checkpoint"]


def write_checkpoint(source: str | Path, folder: Path, dtype: str = "f16") -> Path:
    """Writes config.json, model.safetensors, tokenizer.json and their settings into `folder`, and returns it.

    source: a GGUF file or the name of a model in a package. dtype: of the matrices, "f16", "bf16" or "f32"; vectors
    are f32. Raises InputError, NotModelled for an architecture that no class is known of here.
    """
    path = find(source)
    if path.is_dir():
        raise InputError(f"{shown(path)} is a folder already", label="generate.checkpoint")
    file = _core.read_gguf(path)
    text = text_of_gguf(file.metadata)
    _core.write_checkpoint(file, folder, dtype, list(text.stop_tokens))
    text.tokenizer.save(str(folder / "tokenizer.json"))
    _write_text(folder, text)
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
