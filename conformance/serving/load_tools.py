"""guidellm and aiperf, unmodified, against a served SmolLM2: what they count is what /metrics counts.

Each has an environment of its own, out/conformance-serving/guidellm and aiperf, made the first time. Both draw prompts
with the model's tokenizer, ask for answers of one length, and write a report.
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
from conformance.server_metrics import counters  # noqa: E402

PLACE = ROOT / "out" / "conformance-serving"
TOOLS = {"guidellm": "guidellm==0.8.1", "aiperf": "aiperf==0.13.0"}
REQUESTS, AT_ONCE, PROMPT, ANSWER = 12, 4, 64, 16
_COUNTERS = {"requests": "vllm:request_success_total", "prompt tokens": "vllm:prompt_tokens_total",
             "answer tokens": "vllm:generation_tokens_total"}  # fmt: skip


def tool(name: str) -> Path:
    """The program in its environment."""
    python = environments.environment(PLACE / name, [TOOLS[name]], beside="never")
    return python.parent / name


def _run(words: list[Any], folder: Path, **variables: str) -> None:
    words, environ = list(map(str, words)), {**os.environ, **variables}
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise SystemExit(f"{Path(words[0]).name} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")


def guidellm(url: str, tokenizer: Path, folder: Path) -> dict[str, float]:
    """Its numbers by the names of `_COUNTERS`, and times in ms."""
    report = folder / "report.json"
    _run([tool("guidellm"), "run", "--backend", f"kind=openai_http,target={url},model=smollm2", "--tokenizer",
          f"kind=huggingface_auto,model={tokenizer}", "--profile", f"kind=concurrent,streams={AT_ONCE}", "--constraint",
          f"kind=max_requests,count={REQUESTS}", "--data",
          f"kind=synthetic_text,prompt_tokens={PROMPT},output_tokens={ANSWER}", "--output",
          f"kind=json,path={report}", "--disable-console"], folder, HF_HUB_OFFLINE="1",
         TRANSFORMERS_OFFLINE="1", HF_DATASETS_OFFLINE="1")  # fmt: skip
    metrics = json.loads(report.read_text())["benchmarks"][0]["metrics"]

    def of(name: str, what: str) -> float:
        return float(metrics[name]["successful"][what])

    return {"requests": metrics["request_totals"]["successful"],
            "prompt tokens": of("prompt_token_count", "total_sum"),
            "answer tokens": of("output_token_count", "total_sum"),
            "first token, ms": of("time_to_first_token_ms", "mean")}  # fmt: skip


def aiperf(url: str, tokenizer: Path, folder: Path) -> dict[str, float]:
    """As guidellm()."""
    _run([tool("aiperf"), "profile", "--model", "smollm2", "--url", url, "--endpoint-type", "chat", "--streaming",
          "--tokenizer", tokenizer, "--request-count", REQUESTS, "--concurrency", AT_ONCE,
          "--prompt-input-tokens-mean", PROMPT, "--output-tokens-mean", ANSWER, "--extra-inputs",
          "ignore_eos:true", "--use-server-token-count", "--ui-type", "none", "--artifact-dir",
          folder], folder)  # fmt: skip
    [report] = folder.rglob("profile_export_aiperf.json")
    rows = json.loads(report.read_text())
    requests = rows["request_count"]["avg"]
    return {"requests": requests, "prompt tokens": rows["input_sequence_length"]["avg"] * requests,
            "answer tokens": rows["output_sequence_length"]["avg"] * requests,
            "first token, ms": rows["time_to_first_token"]["avg"]}  # fmt: skip


def compared(name: str, url: str, tokenizer: Path) -> tuple[bool, dict[str, Any]]:
    """(whether its counts are those of /metrics, both)."""
    before = counters(url)
    with tempfile.TemporaryDirectory() as folder:
        told = {"guidellm": guidellm, "aiperf": aiperf}[name](url, tokenizer, Path(folder))
    after = counters(url)
    grown = {key: value - before.get(key, 0.0) for key, value in after.items()}
    ours = {key: grown[counter] for key, counter in _COUNTERS.items()}
    first = "vllm:time_to_first_token_seconds"
    ours["first token, ms"] = 1e3 * grown[f"{first}_sum"] / max(1.0, grown[f"{first}_count"])
    equal = all(abs(told[key] - ours[key]) < 1e-6 * max(1.0, ours[key]) for key in _COUNTERS)
    # A client sees a token after the server gave it.
    good = equal and told["requests"] == REQUESTS and told["first token, ms"] >= ours["first token, ms"]
    rows = {"tool": told, "metrics": ours}
    return good, {key: {name: round(value, 3) for name, value in row.items()} for key, row in rows.items()}
