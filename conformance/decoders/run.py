#!/usr/bin/env python3
"""Compare the decoders' graphs with Hugging Face's transformers on random models of every architecture.

    ./dev conformance decoders [--python PATH] [--only TEXT] [--json FILE] [--random N [--seed N]]
                                  [--llama-cpp DIR]

The reference runs in an environment of its own: that of --python, else out/conformance-decoders/environment, which is
made the first time. Per model, with the LoRA adapter that lies beside it if there is one: the logits of all tokens in
one step, also by 2 and 4 ranks where they can share the heads, and those of a prefill and of single steps behind it,
in fp32. With --random models of families and sizes that are drawn; with --llama-cpp, a checkout of llama.cpp, GGUF
files that its converter wrote. Ends with `N passed, N failed, N
skipped`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIMIT = 1e-5  # of the largest logit: rounding of fp32 in another order
# Drawn models may carry rounding far: so many times what the reference's own logits in fp32 are off.
ROUNDINGS = 8
FIRST = 20  # tokens of the prefill


def environment(given: Path | None) -> Path:
    """An interpreter with transformers and peft."""
    if given is not None:
        return given
    sys.path.insert(0, str(ROOT))
    from conformance.smollm2.run import reference_python

    return reference_python(None, HERE)


def shares_of(folder: Path) -> list[int]:
    """The numbers of ranks, 2 and 4, that can share the model's heads."""
    config = json.loads((folder / "config.json").read_text())
    kind = config["architectures"][0]
    config = config.get("text_config", config)
    if kind.startswith(("Olmo", "MiniMax")):
        return []  # norms over all heads
    heads = config.get("num_attention_heads", config.get("n_head"))
    keys = config.get("num_key_value_heads", heads)
    return [n for n in (2, 4) if heads % n == 0 and (keys % n == 0 or n % keys == 0)]


def compare(folder: Path, tokens: list[int], ranks: list[int]) -> dict[str, Any]:
    """How far the logits are from the reference's, as parts of its largest one. `ranks`: those that share the model."""
    from opentrn import _core

    lora = folder / "adapter" if (folder / "adapter").is_dir() else None
    gguf = folder / "model.gguf"
    file = _core.read_gguf(gguf) if gguf.is_file() else _core.read_checkpoint(folder)
    engine = _core.decoder_engine(file, "trn2", "f32", 16, 9, [1], [16, 48], [64], lora=lora)
    wanted = np.load(folder / "logits.npy").astype(np.float64)
    together = engine.step([(tokens, 0, [3, 1, 2])], every_token=True)[0][: len(tokens)]
    blocks = [6, 4, 7]
    single = [engine.step([(tokens[:FIRST], 0, blocks)])[0][0].copy()]
    for i in range(FIRST, len(tokens)):
        single.append(engine.step([([tokens[i]], i, blocks)])[0][0].copy())
    scale = np.abs(wanted).max()
    together_errors = [float(np.abs(together - wanted).max() / scale)]
    for count in ranks:
        engine = _core.decoder_engine(file, "trn2", "f32", 16, 9, [1], [48], [64], lora=lora,
                                      ranks=count, instance="trn2.48xlarge")  # fmt: skip
        found = engine.step([(tokens, 0, [3, 1, 2])], every_token=True)[0][: len(tokens)]
        together_errors.append(float(np.abs(found - wanted).max() / scale))
    return {
        "model": folder.name,
        "ranks": ranks,
        "together": max(together_errors),
        "single": float(np.abs(np.array(single) - wanted[FIRST - 1 :]).max() / scale),
        "likeliest": int((together.argmax(1) == wanted.argmax(1)).sum()),
        "tokens": len(tokens),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", type=Path, metavar="PATH", help="an interpreter with transformers and peft"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose names contain it")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--random", type=int, metavar="N", help="so many models that are drawn, not the listed ones")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of --random (0)")
    parser.add_argument("--llama-cpp", type=Path, metavar="DIR", help="a checkout, whose converter writes GGUF files")
    options = parser.parse_args()
    python = environment(options.python)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        arguments = [] if options.random is None else [str(options.random), str(options.seed)]
        if options.llama_cpp is not None:
            arguments = ["--llama-cpp", str(options.llama_cpp)]
        made = subprocess.run(
            [str(python), str(HERE / "reference.py"), place, *arguments], check=False, stderr=subprocess.PIPE, text=True
        )
        if made.returncode != 0:
            print(made.stderr, file=sys.stderr)
            print("the reference ended with an error, which stands above", file=sys.stderr)
            return 1
        tokens = json.loads((Path(place) / "tokens.json").read_text())
        for folder in sorted(p for p in Path(place).iterdir() if p.is_dir() and options.only in p.name):
            row = compare(folder, tokens, shares_of(folder))
            limit = max(LIMIT, ROUNDINGS * json.loads((folder / "rounding.json").read_text()))
            row["passed"] = max(row["together"], row["single"]) <= limit and row["likeliest"] == row["tokens"]
            rows.append(row)
            print(
                f"{'passed' if row['passed'] else 'FAILED'}  {row['model']:<20} {row['together']:.1e} together, "
                f"{row['single']:.1e} one by one; {row['likeliest']} of {row['tokens']} likeliest tokens",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    failed = sum(not row["passed"] for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
