"""Random language models as onnxruntime-genai's builder writes them, and ONNX Runtime's logits of them.

    python reference.py FOLDER [TEXT]

writes, for each model whose name contains TEXT, FOLDER/NAME/model.onnx and FOLDER/NAME/runs.npz: per run `I/in/NAME`
and `I/logits`. Runs follow each other: a prompt, single tokens and chunks, whose keys and values go from each to the
next. Runs in an environment with builder-requirements.txt, and needs no file from the network.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from tokenizers import Tokenizer, models

COMMON = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
GPT_OSS = {"head_dim": 16, "sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2}
# name, transformers' stem, what its configuration has beside, precision
MODELS: list[tuple[str, str, dict[str, Any], str]] = [
    ("llama", "Llama", {}, "fp32"),
    ("llama-int4", "Llama", {}, "int4"),
    ("qwen3", "Qwen3", {"head_dim": 16}, "fp32"),
    ("qwen3-int4", "Qwen3", {"head_dim": 16}, "int4"),
    ("gemma2", "Gemma2", {"head_dim": 16, "sliding_window": 8}, "fp32"),
    ("granite", "Granite", {}, "fp32"),
    ("olmo", "Olmo", {}, "fp32"),
    ("smollm3-int4", "SmolLM3", {}, "int4"),
    ("gpt-oss", "GptOss", GPT_OSS, "fp32"),
]  # fmt: skip
HEAD = 16
STEPS = (5, 1, 1, 6, 1, 2)
CACHE_ROWS = 16  # of models whose caches have a window's size


def checkpoint(folder: Path, stem: str, own: dict[str, Any]) -> None:
    torch.manual_seed(0)
    configuration = getattr(transformers, f"{stem}Config")(**COMMON, **own)
    getattr(transformers, f"{stem}ForCausalLM")(configuration).eval().float().save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(256)}, unk_token="w0"))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="w0", eos_token="w1", bos_token="w2"
    ).save_pretrained(folder)


def export(source: Path, folder: Path, precision: str) -> None:
    options = ["-i", source, "-o", folder, "-p", precision, "-e", "cpu", "-c", folder.parent / "cache"]
    sys.argv = ["builder", *map(str, options)]
    runpy.run_module("onnxruntime_genai.models.builder", run_name="__main__")


def dims_of(port: onnx.ValueInfoProto) -> list[str | int]:
    return [dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim]


def record(folder: Path) -> None:
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    ports = {port.name: dims_of(port) for port in model.graph.input}
    results = [port.name for port in model.graph.output]
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    has_window = any("past_sliding_length" in dims for dims in ports.values())
    caches = {
        name: np.zeros((1, dims[1], CACHE_ROWS if has_window else 0, HEAD), np.float32)
        for name, dims in ports.items()
        if "past" in name
    }
    kept: dict[str, np.ndarray] = {}
    total = 0
    for run, length in enumerate(STEPS):
        total += length
        given = {
            "input_ids": rng.integers(0, 256, (1, length)),
            "attention_mask": np.ones((1, total), np.int64),
            "position_ids": np.arange(total - length, total)[None],
            **caches,
        }
        given = {name: given[name] for name in ports}
        found = dict(zip(results, session.run(None, given)))
        kept |= {f"{run}/in/{name}": array for name, array in given.items()}
        kept[f"{run}/logits"] = found["logits"]
        caches = {name: found[name.replace("past_key_values", "present")] for name in caches}
    np.savez(folder / "runs.npz", **kept)
    (folder / "dims.json").write_text(json.dumps(ports))


def main() -> None:
    place, text = Path(sys.argv[1]), "".join(sys.argv[2:])
    for name, stem, own, precision in MODELS:
        if text not in name:
            continue
        checkpoint(place / "checkpoints" / name, stem, own)
        export(place / "checkpoints" / name, place / "models" / name, precision)
        record(place / "models" / name)


main()
