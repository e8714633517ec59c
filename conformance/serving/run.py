#!/usr/bin/env python3
"""Hold `opentrn serve` against judges that others wrote: llm-comply, schemathesis, promtool, and a soak.

    ./dev conformance serving [--cases N] [--soak SECONDS] [--gentle] [--only NAME]... [--json FILE]

comply: the cases of llm-comply for OpenAI's chat, Open Responses and Anthropic's messages, answered by SmolLM2; all
but those with images pass. schemathesis: at least N requests (10,000) made of /openapi.json, broken ones among them,
with one seed after the other; none is answered with 5xx. promtool: /metrics is well formed (Debian's package
prometheus). rate: streamed tokens a second without a model, 2,000 at least.
start: ready within 3 s, and the first token of 64
within 0.5 s. guidellm, aiperf: these programs, unmodified, against a served SmolLM2; what they count is what /metrics
counts. lm_eval: lm-evaluation-harness, unmodified, finds of a served SmolLM2 what it finds of it by transformers.
soak: overload, clients that leave or read slowly, malformed bodies, for SECONDS (30); at half time the server is killed
and another started on its port: no 5xx but 503, no block lost, no memory that grows. --gentle: steps of 40 ms and
clients that wait for a second between requests, for an hour beside other work.
The judges have an environment of their own, out/conformance-serving/environment, made the first time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))
from conformance import environments  # noqa: E402
from conformance.serving import evaluation, load_tools  # noqa: E402
from conformance.vllm.run import model_folder  # noqa: E402

ENVIRONMENT = ROOT / "out" / "conformance-serving" / "environment"
DRAWN = ("--no-values", "--linear", "step=100", "--time", "virtual", "--audit")
CASES_OF_A_ROUND = 300  # of each route, with one seed
# What a text model on one engine does not do: the reason is in docs/serve.md.
EXPECTED = {
    "Image Input": "the model reads text",
}


def environment() -> Path:
    """The Python that has the judges."""
    return environments.environment(ENVIRONMENT, ["-r", HERE / "reference-requirements.txt"], beside="never")


class Started(NamedTuple):
    """seconds: until it said that it is ready."""

    url: str
    seconds: float
    process: subprocess.Popen[str]


@contextmanager
def server(*options: str, port: int = 0, model: Path | str = "smollm2") -> Iterator[Started]:
    begin = time.perf_counter()
    command = [sys.executable, "-m", "opentrn", "serve", str(model), "--served-model-name", "smollm2",
               "--port", str(port), *options]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=_environment())
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r"http://\S+?:\d+", line)
    if not found:
        process.kill()
        raise SystemExit(f"the server did not start: {line}{process.stderr.read()}")
    try:
        yield Started(found[0], time.perf_counter() - begin, process)
    finally:
        process.terminate()
        process.wait(90)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "python")}


def client(python: Path, url: str, what: str, *amounts: float) -> Any:
    command = [python, HERE / "load.py", url, what, *map(str, amounts)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


# -- judges: (whether it passed, what to print) --------------------------------------------------------------


def comply(python: Path, options: argparse.Namespace) -> tuple[bool, Any]:
    rows: dict[str, Any] = {}
    good = True
    with server("--override-generation-config", '{"temperature": 0.2, "top_p": 0.9}', "--audit") as (url, *_):
        for form in ("openai-chat", "open-responses", "anthropic"):
            command = [python.parent / "llm-comply", "-u", f"{url}/v1", "-m", "smollm2", "-k", "none",
                       "--format", form, "--timeout", "300", "--json"]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True)
            results = json.loads(done.stdout[done.stdout.index("{") :])["results"]
            failed = {row["name"]: row["errors"] for row in results if row["status"] == "failed"}
            unexpected = {name: errors for name, errors in failed.items() if name not in EXPECTED}
            states = [row["status"] for row in results]
            counts = {state: states.count(state) for state in ("passed", "failed", "skipped")}
            rows[form] = counts | {"unexpected": unexpected}
            good = good and not unexpected and counts["passed"] > 0
    return good, rows


def schemathesis(python: Path, options: argparse.Namespace) -> tuple[bool, Any]:
    generated, seed, findings = 0, 0, ""
    with server(*DRAWN, "--max-model-len", "512") as (url, *_):
        while generated < options.cases and not findings:
            seed += 1
            made, findings = _schemathesis_round(python, url, seed, options.cases - generated)
            if made == 0:
                break
            generated += made
        health = client(python, url, "soak", 0.5)
    good = not findings and generated > 0 and health["health"] == 200 and health["blocks_used_after"] == 0
    return good, {"generated": generated, "seeds": seed, "server errors": findings or 0}


def _schemathesis_round(python: Path, url: str, seed: int, wanted: int) -> tuple[int, str]:
    """(requests that it made, what it found). Of more cases of a route, the generator compares each with all others."""
    each = max(1, min(CASES_OF_A_ROUND, wanted // 7))  # routes with a body
    command = [python.parent / "schemathesis", "run", f"{url}/openapi.json",
               "--phases", "examples,coverage,fuzzing" if seed == 1 else "fuzzing",
               "-c", "not_a_server_error", "-n", str(each), "--seed", str(seed), "--no-color",
               "--request-timeout", "120", "--wait-for-schema", "120",
               "--suppress-health-check", "too_slow"]  # fmt: skip - of the generator, on a busy machine
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"([\d,]+) generated", done.stdout)
    return int(found[1].replace(",", "")) if found else 0, "" if done.returncode == 0 else done.stdout[-1500:]


def promtool(python: Path, options: argparse.Namespace) -> tuple[bool, Any]:
    tool = shutil.which("promtool")
    if tool is None:
        folder = ROOT / ".deps" / "conformance" / "prometheus"
        if not (folder / "usr/bin/promtool").exists():
            environments.unpack_debian(folder, "prometheus")
        tool = str(folder / "usr/bin/promtool")
    with server(*DRAWN) as (url, *_):
        client(python, url, "rate", 20)
        page = subprocess.run(["curl", "-s", f"{url}/metrics"], capture_output=True, check=True).stdout
    done = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True)
    lines = (done.stdout + done.stderr).decode().splitlines()
    # vLLM's names have colons, and one of its counts of tokens is a histogram whose name ends as a counter's.
    theirs = ("should not contain ':'", 'non-counter metrics should not have "_total" suffix')
    others = [line for line in lines if not any(text in line for text in theirs)]
    return not others and b"vllm:" in page, {"families": page.count(b"# TYPE"), "findings": others}


def rate(python: Path, options: argparse.Namespace) -> tuple[bool, Any]:
    with server(*DRAWN, "--max-num-seqs", "32") as (url, *_):
        rows = client(python, url, "rate", 1000)
    return min(row["tokens_per_s"] for row in rows) >= 2000, rows


def start(python: Path, options: argparse.Namespace) -> tuple[bool, Any]:
    with server() as (url, seconds, _):
        times = client(python, url, "first", 5)
    good = seconds <= 3 and times["later_s"][2] <= 0.5
    return good, {"ready_s": seconds, "first token of 64": times}


def _resident_mib(process: subprocess.Popen[str]) -> float:
    """Memory of a server and of what it started."""
    pids, total = [process.pid], 0.0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, children.read_text().split())
        except OSError:  # it has ended meanwhile
            continue
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        total += int(found[1]) / 1024 if found else 0.0
    return total


def _memory_of(process: subprocess.Popen[str], until: float, every: float) -> list[float]:
    """MiB in equal steps, until then."""
    rows = []
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(every, left))
        rows.append(round(_resident_mib(process), 1))
    return rows


MEMORY_SAMPLES = 40  # of each of the two servers
MEMORY_MAY_GROW = 1.1  # from the end of the first third on


def _grows(memory: list[float]) -> bool:
    return max(memory[len(memory) // 3 :]) > MEMORY_MAY_GROW * memory[len(memory) // 3]


def soak(python: Path, options: argparse.Namespace) -> tuple[bool, Any]:
    step, pause = ("40000", 1.0) if options.gentle else ("2000", 0.0)
    paced = ("--no-values", "--linear", f"step={step}", "--time", "paced", "--audit", "--max-waiting", "8")
    half, every = options.soak / 2, options.soak / 2 / MEMORY_SAMPLES
    with server(*paced) as (url, _, process):
        begin = time.monotonic()
        command = [python, HERE / "load.py", url, "soak", str(options.soak), str(pause)]
        clients = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        first = _memory_of(process, begin + half, every)
        process.kill()
        process.wait()
    with server(*paced, port=int(url.rsplit(":", 1)[1])) as (_, seconds, process):
        second = _memory_of(process, begin + options.soak, every)
        answer, _ = clients.communicate()
    found = json.loads(answer) | {"ready_again_s": seconds, "memory_mib": [first, second]}
    bad = [status for status in found["statuses"] if status.startswith("5") and status != "503"]
    good = not bad and found["load_after"] == 0 and found["blocks_used_after"] == 0 and found["health"] == 200
    good = good and not _grows(first) and not _grows(second)
    return good and {"200", "400", "429"} <= found["statuses"].keys(), found


def guidellm(python: Path, options: argparse.Namespace) -> tuple[bool, Any]:
    with server("--max-model-len", "512", "--audit") as (url, *_):
        return load_tools.compared("guidellm", url, model_folder())


def aiperf(python: Path, options: argparse.Namespace) -> tuple[bool, Any]:
    with server("--max-model-len", "512", "--audit") as (url, *_):
        return load_tools.compared("aiperf", url, model_folder())


def lm_eval(python: Path, options: argparse.Namespace) -> tuple[bool, Any]:
    options = ("--dtype", "f32", "--max-model-len", "1024", "--audit")
    with server(*options, model=model_folder()) as (url, *_):  # whose numbers transformers reads, too
        return evaluation.compared(url, model_folder())


_ALL = (comply, schemathesis, promtool, rate, start, guidellm, aiperf, lm_eval, soak)
JUDGES = {judge.__name__: judge for judge in _ALL}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, metavar="N", help="of schemathesis (10,000)")
    parser.add_argument("--soak", type=float, default=30, metavar="SECONDS", help="of the soak (30)")
    parser.add_argument("--gentle", action="store_true", help="a soak beside other work")
    parser.add_argument("--only", action="append", choices=list(JUDGES), help="this judge alone; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write what they found there")
    options = parser.parse_args()
    python, found, good = environment(), {}, True
    for name in options.only or JUDGES:
        passed, what = JUDGES[name](python, options)
        found[name] = {"passed": passed, "found": what}
        good = good and passed
        print(f"{name}: {'passed' if passed else 'FAILED'}: {json.dumps(what)}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
