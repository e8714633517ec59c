"""What Hugging Face's transformers makes of the same file, and what the package gguf makes of ggml's formats.

    python reference.py MODEL.gguf FOLDER TOKENS

Runs in an environment of its own, without OpenTrn. Writes FOLDER/answers.json (per prompt: text, tokens, the greedy
answer, and for every position of both the likeliest token and how far its logit is above the next), and
FOLDER/formats.gguf with FOLDER/formats.npz: random blocks of every format, and their numbers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

PROMPTS = (
    "What is the capital of France?",
    "Why is the sky blue?",
    "Write a short poem about the sea.",
    "Explain what a prime number is.",
    "List three uses of a brick.",
    "Translate 'good morning' to Spanish.",
    "Who wrote Hamlet?",
    "Give me a recipe for pancakes with 250 g of flour, 2 eggs and milk.",
    "What's 12 * 13? Show your work.",
    'def fibonacci(n):\n    """The n-th number."""',
    "Größe und Übermut: 你好, world! 🙂 Tell me about naïve café culture.",
    "Tell me a long story about a lighthouse keeper and a whale.",
    "How does a refrigerator work?",
)
FORMATS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
           "MXFP4", "IQ4_NL", "IQ4_XS")  # fmt: skip
ROWS, COLUMNS = 64, 256


def answers(model: Path, wanted: int) -> list[dict[str, Any]]:
    """Prompts in turn until there are `wanted` tokens."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = {"pretrained_model_name_or_path": str(model.parent), "gguf_file": model.name}
    tokenizer = AutoTokenizer.from_pretrained(**place)
    network = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32).eval()
    rows: list[dict[str, Any]] = []
    for prompt in PROMPTS:
        if sum(len(row["tokens"]) for row in rows) >= wanted:
            break
        messages = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
        with torch.no_grad():
            greedy = {"do_sample": False, "temperature": None, "top_p": None}
            made = network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=200, **greedy)
            best = network(made).logits[0].topk(2, dim=-1)
        rows.append({
            "prompt": prompt, "text": text, "prompt_tokens": ids.shape[1], "tokens": made[0].tolist(),
            "answer": tokenizer.decode(made[0][ids.shape[1]:], skip_special_tokens=True),
            "likeliest": best.indices[:, 0].tolist(), "margin": (best.values[:, 0] - best.values[:, 1]).tolist(),
        })  # fmt: skip
        print(f"{prompt!r}: {made.shape[1]} tokens", file=sys.stderr, flush=True)
    return rows


def formats(folder: Path) -> None:
    """A file with a tensor of each format. Scales that are no numbers are left out, as no file has them."""
    import gguf

    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(folder / "formats.gguf"), "llama")
    expected = {}
    for name in FORMATS:
        kind = gguf.GGMLQuantizationType[name]
        block, size = gguf.GGML_QUANT_SIZES[kind]
        if name.startswith("F"):
            values = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32 if name == "F32" else np.float16)
            writer.add_tensor(name, values)
            expected[name] = values.astype(np.float32)
            continue
        while True:
            data = rng.integers(0, 256, (ROWS, COLUMNS // block * size), np.uint8)
            if name == "BF16":
                data[:, 1::2] &= 0xBF  # numbers below 2
            with np.errstate(all="ignore"):
                numbers = gguf.dequantize(data, kind)
            data[~np.isfinite(numbers).all(axis=1)] = 0
            numbers = gguf.dequantize(data, kind)
            if np.isfinite(numbers).all():
                break
        writer.add_tensor(name, data, raw_dtype=kind)
        expected[name] = numbers.astype(np.float32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    np.savez(folder / "formats.npz", **expected)


if __name__ == "__main__":
    out = Path(sys.argv[2])
    formats(out)
    (out / "answers.json").write_text(json.dumps(answers(Path(sys.argv[1]), int(sys.argv[3]))))
