#!/usr/bin/env python3
"""Hold the serving scheduler against vLLM runs that LLMServingSim's authors recorded on GPUs.

    ./dev conformance llmservingsim PATH [--host-us X] [--sync] [--json FILE]

PATH is a checkout of casys-kaist/LLMServingSim. Each of its recorded runs (300 ShareGPT requests through vLLM 0.19)
is replayed: arrivals, prompts and answers' lengths as recorded, times of steps put together from the project's
measured layers, the scheduler, the KV blocks and the virtual clock OpenTrn's. What is compared is the mean TTFT and
TPOT over the requests. A run passes when TTFT is off by at most 5 % and TPOT by at most 2 %.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from conformance.drivers import built, fail  # noqa: E402
from conformance.llmservingsim.layer_times import LayerTimes, Link, Step  # noqa: E402

# folder of the run, architecture, model's configuration and profile. The fourth recorded run (Qwen3-30B-A3B, two data
# and expert parallel engines that step together) needs engines in lockstep, which OpenTrn does not have.
RUNS = {
    "RTX4090/Llama-3.1-8B": ("llama", "meta-llama/Llama-3.1-8B"),
    "RTXPRO6000/Llama-3.1-8B": ("llama", "meta-llama/Llama-3.1-8B"),
    "RTXPRO6000/Qwen3-32B": ("qwen3", "Qwen/Qwen3-32B"),
}
TTFT_LIMIT, TPOT_LIMIT = 0.05, 0.02
BLOCK_SIZE = 16  # tokens: vLLM's default on GPUs


@dataclass(frozen=True)
class Recorded:
    """One request. Times in seconds on one clock."""

    arrival: float
    first: float
    last: float
    output: int
    prompt: list[int]


def recorded(folder: Path, workload: Path) -> list[Recorded]:
    prompts = [json.loads(line)["input_tok_ids"] for line in workload.read_text().splitlines()]
    out = []
    for line in (folder / "vllm" / "requests.jsonl").read_text().splitlines():
        row = json.loads(line)
        prompt = prompts[int(row["request_id"].removeprefix("bench-"))]
        if len(prompt) != row["input_toks"]:
            fail(
                f"{folder}: {row['request_id']} has {row['input_toks']} tokens, its prompt {len(prompt)}",
                "another commit",
            )
        # `arrival_time` is of another clock; this is when the engine had the request.
        out.append(
            Recorded(
                row["queued_ts"], row["first_token_ts"], row["last_token_ts"], row["output_toks"], prompt
            )
        )
    return sorted(out, key=lambda request: request.arrival)


def blocks_of(folder: Path, meta: dict) -> int:
    """Of KV cache: as vLLM recorded it, else as the project computed it for the same GPU and model."""
    if "kv_cache" in meta:
        return int(meta["kv_cache"]["num_gpu_blocks"])
    return int(re.search(r"/ (\d+) blocks", (folder / "outputs" / "sim.log").read_text()).group(1))


def replay(
    program: Path, requests: list[Recorded], head: str, us_of: Callable[[Step], float]
) -> list[tuple[float, float]]:
    """Seconds from each request's arrival to its first and its last token."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    lines = [f"{head} {len(requests)}"]
    start = requests[0].arrival
    for request in requests:
        at = (request.arrival - start) * 1e6
        lines.append(f"{at:.3f} {request.output} {len(request.prompt)} {' '.join(map(str, request.prompt))}")
    process.stdin.write("\n".join(lines) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.strip() == "done":
            break
        step = [tuple(map(int, word.split("+"))) for word in line.split()]
        process.stdin.write(f"{us_of(step)}\n")
        process.stdin.flush()
    times = [tuple(float(word) / 1e6 for word in line.split()) for line in process.stdout]
    if process.wait() != 0 or len(times) != len(requests):
        fail("the driver ended early", "its message above")
    return [
        (first - (r.arrival - start), last - (r.arrival - start)) for (first, last), r in zip(times, requests)
    ]


def means(first_last: list[tuple[float, float]], requests: list[Recorded]) -> tuple[float, float]:
    """Mean TTFT and TPOT in ms."""
    ttft = statistics.fmean(first for first, _ in first_last)
    tpot = statistics.fmean(
        (last - first) / (r.output - 1) for (first, last), r in zip(first_last, requests) if r.output > 1
    )
    return 1e3 * ttft, 1e3 * tpot


def compare(checkout: Path, name: str, program: Path, arguments: argparse.Namespace) -> dict:
    architecture, model_name = RUNS[name]
    folder = checkout / "bench" / "examples" / name
    meta = json.loads((folder / "vllm" / "meta.json").read_text())
    config = json.loads((folder / "config.json").read_text())
    model = json.loads((checkout / "configs" / "model" / f"{model_name}.json").read_text())
    flags = meta["engine_kwargs"]
    times = LayerTimes(
        checkout / "profiler" / "perf" / name.split("/")[0] / model_name / "bf16",
        checkout / "profiler" / "models" / f"{architecture}.yaml",
        model, flags["tensor_parallel_size"], Link(config["link_bw"], config["link_latency"] / 1e3),
    )  # fmt: skip
    requests = recorded(folder, checkout / meta["dataset_path"])
    longest = flags["max_model_len"] or model["max_position_embeddings"]
    sizes = (flags["max_num_seqs"], flags["max_num_batched_tokens"], longest, BLOCK_SIZE, blocks_of(folder, meta))
    head = " ".join(map(str, (*sizes, int(not arguments.sync), arguments.host_us)))
    ours = means(replay(program, requests, head, times.us), requests)
    truth = means([(r.first - r.arrival, r.last - r.arrival) for r in requests], requests)
    off = [mine / real - 1 for mine, real in zip(ours, truth)]
    return {
        "run": name, "ttft_ms": truth[0], "tpot_ms": truth[1], "our_ttft_ms": ours[0], "our_tpot_ms": ours[1],
        "ttft_off": off[0], "tpot_off": off[1], "passed": abs(off[0]) <= TTFT_LIMIT and abs(off[1]) <= TPOT_LIMIT,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument(
        "--host-us", type=float, default=0.0, help="host time before each step (default: 0, nothing fitted)"
    )
    parser.add_argument(
        "--sync", action="store_true", help="plan a step after the one before (vLLM 0.19's default is async)"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not (arguments.checkout / "bench" / "examples").is_dir():
        fail(f"{arguments.checkout} is not a checkout of LLMServingSim", "git clone casys-kaist/LLMServingSim")
    program = built("opentrn_llmservingsim", "serving")
    rows = []
    for name in RUNS:
        row = compare(arguments.checkout, name, program, arguments)
        rows.append(row)
        print(
            f"{name}: TTFT {row['ttft_ms']:.1f} ms, here {row['our_ttft_ms']:.1f} ({100 * row['ttft_off']:+.1f} %); "
            f"TPOT {row['tpot_ms']:.2f} ms, here {row['our_tpot_ms']:.2f} ({100 * row['tpot_off']:+.1f} %)",
            flush=True,
        )
    passed = sum(row["passed"] for row in rows)
    print(f"{passed} passed, {len(rows) - passed} failed")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    return passed != len(rows)


if __name__ == "__main__":
    sys.exit(main())
