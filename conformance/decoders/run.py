#!/usr/bin/env python3
"""Compare the decoders' graphs with Hugging Face's transformers on random models of every architecture.

    ./dev conformance decoders [--python PATH] [--only TEXT] [--json FILE]

The reference runs in an environment of its own: that of --python, else out/conformance-decoders/environment, which is
made the first time. Per model, with the LoRA adapter that lies beside it if there is one: the logits of all tokens in
one step, and those of a prefill and of single steps behind it, in fp32. Ends with `N passed, N failed, N skipped`.
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
FIRST = 20  # tokens of the prefill


def environment(given: Path | None) -> Path:
    """An interpreter with transformers and peft."""
    if given is not None:
        return given
    sys.path.insert(0, str(ROOT))
    from conformance.smollm2.run import reference_python

    return reference_python(None, HERE)


def compare(folder: Path, tokens: list[int]) -> dict[str, Any]:
    """How far the logits are from the reference's, as parts of its largest one."""
    from opentrn import _core

    lora = folder / "adapter" if (folder / "adapter").is_dir() else None
    file = _core.read_checkpoint(folder)
    engine = _core.decoder_engine(file, "trn2", "f32", 16, 9, [1], [16, 48], [64], lora=lora)
    wanted = np.load(folder / "logits.npy").astype(np.float64)
    together = engine.step([(tokens, 0, [3, 1, 2])], every_token=True)[0][: len(tokens)]
    blocks = [6, 4, 7]
    single = [engine.step([(tokens[:FIRST], 0, blocks)])[0][0].copy()]
    for i in range(FIRST, len(tokens)):
        single.append(engine.step([([tokens[i]], i, blocks)])[0][0].copy())
    scale = np.abs(wanted).max()
    return {
        "model": folder.name,
        "together": float(np.abs(together - wanted).max() / scale),
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
    options = parser.parse_args()
    python = environment(options.python)
    rows = []
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            [str(python), str(HERE / "reference.py"), place], check=True, stderr=subprocess.DEVNULL
        )
        tokens = json.loads((Path(place) / "tokens.json").read_text())
        for folder in sorted(p for p in Path(place).iterdir() if p.is_dir() and options.only in p.name):
            row = compare(folder, tokens)
            row["passed"] = max(row["together"], row["single"]) <= LIMIT and row["likeliest"] == row["tokens"]
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
