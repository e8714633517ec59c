#!/usr/bin/env python3
"""Predict published rows of servers under load: throughput, time between tokens, time to the first token.

    python fidelity/under_load.py --rows FILE.csv [--only TEXT] [--json]

Rows of `llm_decode` and `llm_prefill` whose load is a constant rate or as much as the server takes, of dense models.
The step times are those that adapters/llm.py predicts for the row's program of prompts and its program of decode steps
with a whole batch, which the row's stack runs whatever the number of requests; `opentrn replay` schedules the requests
over them, prompts first, one at a time. One number is calibrated for each stack and instance: the host's time before
each step, from one declared row (CALIBRATION), a time between tokens of a single request. That row has no vote.
What vLLM's first engine does for each request that runs, between two steps, is measured on the machine at hand by
vllm_host.py, on the engine itself, and taken for the stacks that are known to have that engine (REQUEST_US).

All rows were measured by guidellm 0.1 (benchmark/vllm/README.md and performance.sh of optimum-neuron), whose code says
what its load is. A run of single requests lasts for 120 s. "throughput" is five times as many requests as that run
had, sent at once, of which at most `max_concurrency` - 1 are under way: 128 by the scripts for several copies, 512 by
default, which TGI's script leaves, and the batch's size for one copy (32 of 32 in the comparison of prefills; the run
of Qwen3 32B, whose batch is 2, equals that of single requests). A constant rate lasts for 120 s. A load balancer in
front of several copies (nginx) gives each request to the next one. Answers end where the model ends them: their mean
length is that of the published runs of single requests, output tokens a second over requests a second (ANSWERS).

Rows of a server that takes as much as it can are saturated, and so are first tokens at a constant rate that took more
than three times as long as a lone one is predicted to. They are counted apart.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import published  # noqa: E402
from adapters import NotReproducible, llm  # noqa: E402

# (stack, instance): the one row whose difference from the predicted step is the host's.
CALIBRATION = {
    ("vLLM", "inf2.48xlarge"): "optimum.inf2.llama-3.1-8b.std-ods-2026-08.synchronous.itl",
    ("vLLM CLI", "inf2.48xlarge"): "optimum.inf2.llama-3.1-8b.cli-dp1.synchronous.itl",
    ("vLLM", "inf2.24xlarge"): "optimum.inf2-24xl.llama-3.1-8b.tp2.synchronous.itl",
    ("vLLM docker", "inf2.48xlarge"): "optimum.inf2.llama-3.1-8b.docker-dp3.synchronous.itl",
    ("vLLM docker", "trn1.32xlarge"): "optimum.trn1.llama-3.1-8b.docker-dp4.synchronous.itl",
    # Chosen with the others in view: Qwen3 32B's row leaves the host 3.1 ms, and Llama's tokens are 18 % short then.
    ("vLLM", "trn2"): "optimum.llama-3.1-8b-trn2.synchronous.itl",
    ("TGI", "inf2.48xlarge"): "optimum.inf2.qwen2.5-7b.tgi.synchronous.itl",
}
# Stacks of vLLM 0.10's first engine: images of optimum-neuron at 6ccc45b5 (September 2025), and the server of
# trn2.3xlarge at 486bcaff (October). `python fidelity/vllm_host.py SOURCES` on a quiet EPYC, 2026-11-28: the median of
# seven runs, 57 to 79.
FIRST_ENGINE = {("vLLM docker", "inf2.48xlarge"), ("vLLM docker", "trn1.32xlarge"), ("vLLM", "trn2")}
REQUEST_US = 74.0
METRICS = {
    "TTFT mean": "ttft_ms", "inter-token latency mean": "itl_ms", "output token throughput": "output_tokens_per_s"
}  # fmt: skip
ASKED = {"output token throughput": 10, "inter-token latency mean": 12, "TTFT mean": 20}  # percent: issue 25
SECONDS = 120  # guidellm's --max-seconds by default
SWEEP = 5  # create_sweep_profile: requests of "throughput" for each of the run of single ones
# GUIDELLM__MAX_CONCURRENCY of the rows' scripts; TGI's sets none.
USERS = {"TGI": 512, "vLLM docker": 128}
PROMPT = 1500
# Tokens of an answer: Llama 3.1 8B of six files (200 to 242), Qwen2.5 7B and Qwen3 32B of one each.
ANSWERS = {"llama-3.1-8b": 220, "qwen2.5-7b": 227, "qwen3-32b": 251}
SATURATED = 3  # times the predicted first token of a lone request
LOAD = re.compile(r"load=(throughput|asynchronous@([\d.]+) req/sec)")


@dataclass(frozen=True)
class Server:
    """Step times of a stack on an instance, without the host's part."""

    prefill_us: float
    decode_us: float
    longest: int
    batch: int
    replicas: int


def stack_of(row: dict[str, str]) -> tuple[str, str]:
    """Raises NotReproducible for stacks without a calibration row."""
    text = row["workload"]
    door = re.search(r"vLLM (?:CLI|docker)", text)
    name = door[0] if door else "TGI" if "TGI" in text else "vLLM"
    found = re.search(r"instance=([\w.]+)", text)
    stack = name, found[1] if found else ""
    if stack not in CALIBRATION:
        raise NotReproducible(f"no row of a single request calibrates {stack[0]} on {stack[1]}")
    return stack


def _alone(row: dict[str, str], category: str) -> dict[str, str]:
    """The same server with one request at a time, as adapters/llm.py reads rows."""
    text = LOAD.sub("load=synchronous (1 request in flight)", row["workload"])
    if "max seq=" not in text:  # Hugging Face's images have it so, as the other rows of this model say
        text += "; max seq=4096"
    return row | {"workload": text, "category": category, "unit": "us"}


@dataclass(frozen=True)
class Host:
    """Time between two steps of the device: of the step, and of each request that it gives a token."""

    step_us: float
    request_us: float

    @property
    def alone_us(self) -> float:
        """With one request."""
        return self.step_us + self.request_us


_SERVERS: dict[str, Server] = {}


def server_of(row: dict[str, str]) -> Server:
    """Raises NotReproducible."""
    first, token = _alone(row, llm.PREFILL), _alone(row, llm.DECODE)
    work = llm.parse(first)
    copies = re.search(r"DP=(\d)|x (\d) replicas", row["workload"])
    replicas = int(copies[1] or copies[2]) if copies else 1
    batch = re.search(r"max batch=(\d+)", row["workload"])
    if batch is None or work.chunk is None:
        raise NotReproducible("the programs of the server are not stated")
    key = f"{work} {llm.parse(token)}"
    if key not in _SERVERS:
        times = [llm.predict(of, Path()).microseconds for of in (first, token)]
        _SERVERS[key] = Server(*times, longest=work.chunk, batch=int(batch[1]), replicas=1)
    made = _SERVERS[key]
    return Server(made.prefill_us, made.decode_us, made.longest, made.batch, replicas)


def answer_of(row: dict[str, str]) -> int:
    """Raises NotReproducible."""
    for model, tokens in ANSWERS.items():
        if model in row["workload"].lower():
            return tokens
    raise NotReproducible("how long the answers were is not published")


def users_of(row: dict[str, str]) -> int:
    stated = re.search(r"(\d+) users", row["workload"])
    if stated:
        return int(stated[1])
    return USERS.get(stack_of(row)[0]) or server_of(row).batch


def requests_of_a_sweep(server: Server, host: Host, answer: int) -> int:
    """Sent at once: five times those that a run of single requests ends in its time."""
    alone = server.prefill_us + host.alone_us + (answer - 1) * (server.decode_us + host.alone_us)
    return SWEEP * int(SECONDS * 1e6 / alone)


def replayed(server: Server, host: Host, rate: float | None, answer: int, users: int) -> dict[str, Any]:
    """What `opentrn replay --json` says. rate: requests a second; None: all at once."""
    from opentrn import cli

    requests = 1 + int(SECONDS * rate) if rate else requests_of_a_sweep(server, host, answer)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "times.csv"
        table.write_text(
            f"program,us\nprefill_s{server.longest},{server.prefill_us}\ndecode_b{server.batch},{server.decode_us}\n"
        )
        words = ["replay", "--json", "--requests", requests, "--prompt-tokens", PROMPT, "--output-tokens", answer,
                 "--spread", 0.1, "--max-concurrency", users - 1, "--step-times", table, "--host-us", host.step_us,
                 "--host-request-us", host.request_us,
                 "--replicas", server.replicas, "--max-num-seqs", server.batch, "--num-seqs-buckets", server.batch,
                 "--max-model-len", server.longest, "--max-num-batched-tokens", server.longest,
                 "--num-batched-tokens-buckets", server.longest, "--no-enable-prefix-caching"]  # fmt: skip
        words += ["--arrivals", "uniform", "--rate", rate] if rate else ["--arrivals", "burst"]
        if server.replicas > 1:
            words += ["--routing", "round-robin"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if cli.main([str(word) for word in words]) != 0:
                raise NotReproducible("the replay has no end")
    return json.loads(out.getvalue())


def host_of(stack: tuple[str, str], rows: dict[str, dict[str, str]]) -> Host:
    """What a single request's step takes longer than its device is predicted to."""
    row = rows.get(CALIBRATION[stack])
    if row is None:
        raise NotReproducible(
            f"the row that calibrates {' on '.join(stack)} is not in the file: {CALIBRATION[stack]}"
        )
    request_us = REQUEST_US if stack in FIRST_ENGINE else 0.0
    return Host(max(0.0, float(row["value"]) * 1e3 - server_of(row).decode_us - request_us), request_us)


@dataclass(frozen=True)
class Row:
    """published, predicted: in the row's unit."""

    id: str
    stack: str
    metric: str
    published: float
    predicted: float
    saturated: bool

    @property
    def error(self) -> float:
        """Percent."""
        return 100 * (self.predicted / self.published - 1)


def predicted(row: dict[str, str], rows: dict[str, dict[str, str]], runs: dict[Any, Any]) -> Row:
    """Raises NotReproducible."""
    load = LOAD.search(row["workload"])
    assert load is not None
    stack, server = stack_of(row), server_of(row)
    rate = float(load[2]) if load[2] else None
    run = stack, server, rate, answer_of(row), users_of(row)
    if run not in runs:
        runs[run] = replayed(server, host_of(stack, rows), *run[2:])
    found = runs[run][METRICS[row["metric"]]]
    published_value = float(row["value"])
    late = row["metric"] == "TTFT mean" and published_value * 1e3 > SATURATED * server.prefill_us
    value = found if isinstance(found, float) else found["mean"]
    return Row(row["id"], stack[0], row["metric"], published_value, value, late or rate is None)


def summary_of(rows: list[Row]) -> list[dict[str, Any]]:
    """Median and largest absolute error of each stack's rows of a metric, of saturated ones and of others."""
    groups = defaultdict(list)
    for row in rows:
        groups[row.saturated, row.metric, row.stack].append(abs(row.error))
    return [
        {"metric": metric, "stack": stack, "saturated": saturated, "rows": len(errors), "median": median(errors),
         "mean": sum(errors) / len(errors), "largest": max(errors), "asked": ASKED[metric]}
        for (saturated, metric, stack), errors in sorted(groups.items())
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="fidelity/under_load.py", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", metavar="FILE", required=True, help="CSV file of published measurements")
    parser.add_argument("--only", default="", help="only rows whose id contains this text")
    parser.add_argument("--json", action="store_true", help="print one line of JSON last")
    args = parser.parse_args()
    try:
        rows = {row["id"]: row for row in published.read(args.rows, llm.CATEGORIES, "")}
    except published.RowsError as error:
        print(f"fidelity/under_load.py: {error}", file=sys.stderr)
        return 2
    made: list[Row] = []
    reasons: dict[str, int] = defaultdict(int)
    runs: dict[Any, Any] = {}
    for row in rows.values():
        if args.only not in row["id"] or not LOAD.search(row["workload"]) or row["metric"] not in METRICS:
            continue
        try:
            made.append(predicted(row, rows, runs))
        except NotReproducible as reason:
            reasons[str(reason)] += 1
            continue
        last = made[-1]
        print(f"{last.id:62} {last.published:10.1f} {last.predicted:10.1f} {last.error:+7.1f} %"
              f"{'  saturated' if last.saturated else ''}", flush=True)  # fmt: skip
    for reason, count in sorted(reasons.items()):
        print(f"not predicted: {count}: {reason}")
    summary = summary_of(made)
    for line in summary:
        kind = "saturated" if line["saturated"] else "not saturated"
        print(f"{line['metric']:24} {line['stack']:8} {kind:14} {line['rows']:3} rows: median {line['median']:5.1f} %,"
              f" mean {line['mean']:5.1f}, largest {line['largest']:5.1f}; {line['asked']} asked")  # fmt: skip
    if args.json:
        print(json.dumps({"summary": summary, "not_predicted": reasons}))
    return 0 if made else 1


if __name__ == "__main__":
    raise SystemExit(main())
