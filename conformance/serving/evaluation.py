"""lm-evaluation-harness, unmodified, over a served SmolLM2: what it finds is what it finds of the same model by
transformers.

Its environment, out/conformance-serving/lm_eval, is made the first time. The tasks are local: questions with four
answers, and texts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from conformance import environments  # noqa: E402

PACKAGES = ["lm_eval[api,hf]==0.4.13", "torch==2.13.0", "transformers==5.24.0"]
FURTHEST = 1e-3  # between sums of log probabilities in fp32
QUESTIONS = [
    ("What is the capital of France?", ["Paris", "London", "Berlin", "Rome"], 0),
    ("Which planet is known as the Red Planet?", ["Venus", "Mars", "Jupiter", "Saturn"], 1),
    ("What do bees make?", ["Milk", "Silk", "Honey", "Wool"], 2),
    ("How many legs does a spider have?", ["Six", "Four", "Ten", "Eight"], 3),
    ("What is the largest ocean on Earth?", ["Pacific Ocean", "Atlantic Ocean", "Indian Ocean", "Arctic Ocean"], 0),
    ("What gas do plants absorb from the air?", ["Oxygen", "Carbon dioxide", "Helium", "Neon"], 1),
    ("Who wrote Romeo and Juliet?", ["Dickens", "Tolstoy", "Shakespeare", "Homer"], 2),
    ("What is 2+2?", ["3", "5", "22", "4"], 3),
]
TEXTS = [
    "The tide comes in twice a day because the Moon pulls on the oceans, and the Earth turns under the water.",
    "A compiler reads the source of a program, checks it, and writes instructions that a machine can run.",
]
_TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {rows}
test_split: train
output_type: {kind}
{fields}
metric_list:
  - metric: {metric}
"""
_CHOICES = 'doc_to_text: "Question: {{q}}\\nAnswer:"\ndoc_to_choice: "{{c}}"\ndoc_to_target: "{{a}}"'
_ROLLING = 'doc_to_text: ""\ndoc_to_target: "{{text}}"'


def _write_tasks(folder: Path) -> None:
    tasks = (
        ("questions", [{"q": q, "c": c, "a": a} for q, c, a in QUESTIONS], "multiple_choice", _CHOICES, "acc"),
        ("texts", [{"text": text} for text in TEXTS], "loglikelihood_rolling", _ROLLING, "bits_per_byte"),
    )
    for name, rows, kind, fields, metric in tasks:
        file = folder / f"{name}.json"
        file.write_text(json.dumps(rows))
        task = _TASK.format(name=name, rows=file, kind=kind, fields=fields, metric=metric)
        (folder / f"{name}.yaml").write_text(task)


def _run(python: Path, folder: Path, model: str, arguments: str) -> dict[str, list[float]]:
    """What it says of each request, by task."""
    out = folder / model
    words = [python, "-m", "lm_eval", "--model", model, "--model_args", arguments, "--tasks", "questions,texts",
             "--include_path", folder, "--log_samples", "--output_path", out, "--device", "cpu"]  # fmt: skip
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
    done = subprocess.run(list(map(str, words)), env=environ, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise SystemExit(f"lm_eval --model {model} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found: dict[str, list[float]] = {}
    for task in ("questions", "texts"):
        [samples] = out.rglob(f"samples_{task}_*.jsonl")
        for line in samples.read_text().splitlines():
            for answers in json.loads(line)["resps"]:
                said = answers[0]
                found.setdefault(task, []).append(float(said[0] if isinstance(said, list) else said))
    return found


def compared(url: str, model: Path) -> tuple[bool, dict[str, Any]]:
    """(whether both say the same, the largest difference of each task). model: the folder that is served in fp32."""
    python = environments.environment(ROOT / "out/conformance-serving/lm_eval", PACKAGES, beside="never")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_tasks(folder)
        served = f"model=smollm2,base_url={url}/v1/completions,tokenizer={model},num_concurrent=4,max_length=1024"
        ours = _run(python, folder, "local-completions", served)
        theirs = _run(python, folder, "hf", f"pretrained={model},dtype=float32,max_length=1024")
    rows = {
        task: {"requests": len(said), "furthest": max(abs(a - b) for a, b in zip(said, theirs[task], strict=True))}
        for task, said in ours.items()
    }
    good = all(row["requests"] > 0 and row["furthest"] <= FURTHEST for row in rows.values())
    return good and len(rows) == 2, rows
