"""Overload, clients that leave, batches, metrics, shutdown, and predicted times that a client measures."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx  # that of the official clients
import pytest
from running import KEY, served

from opentrn.errors import InputError
from opentrn.generate import LanguageModel
from opentrn.serve import Settings, build

BODY = {"model": "tiny", "prompt": "the", "max_tokens": 100, "ignore_eos": True}


def post(running: Any, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}"}
    return httpx.post(f"{running.url}/v1/completions", json=BODY | body, headers=headers, timeout=60)


def value(page: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)}\{{[^}}]*\}} (\S+)$", page, re.MULTILINE)
    assert found, f"no {name}"
    return float(found[1])


def test_requests_run_together(model: Any):
    """Four at once take fewer steps than one after the other, and each gets its own answer."""
    tokens = 300  # so many that a request still runs when the client of the next one has been made
    alone = [post(model, prompt="the" * n, max_tokens=tokens).json()["choices"][0]["text"] for n in range(1, 5)]
    before = model.wait_idle()["steps"]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda n: post(model, prompt="the" * n, max_tokens=tokens).json(), range(1, 5)))
    assert [answer["choices"][0]["text"] for answer in together] == alone
    assert model.wait_idle()["steps"] - before < 4 * tokens


def test_a_prefix_is_found_again(model: Any):
    prompt = "thin " * 40
    first, second = (post(model, prompt=prompt, max_tokens=5).json() for _ in range(2))
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert first["choices"][0]["text"] == second["choices"][0]["text"]


def test_a_client_measures_the_predicted_time(drawn: Any):
    """Paced: 100 steps of 2 ms, and a stream's tokens come at that pace."""
    begin = time.perf_counter()
    answer = post(drawn)
    seconds = time.perf_counter() - begin
    assert answer.json()["usage"]["predicted_device_time"]["total_ms"] == pytest.approx(200.0)
    assert float(answer.headers["x-opentrn-predicted-total-ms"]) == pytest.approx(200.0)
    assert seconds >= 0.2


def test_too_many_that_wait_are_told_so(drawn: Any):
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: post(drawn), range(16)))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429} and statuses.count(200) >= 4
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["retry-after"] == "1" and refused.json()["error"]["code"] == "rate_limit_exceeded"
    drawn.wait_idle()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_blocks(unhurried: Any, stream: bool):
    unhurried.wait_idle()
    if stream:
        body = BODY | {"stream": True, "max_tokens": 240}
        with httpx.stream("POST", f"{unhurried.url}/v1/completions", json=body) as reply:
            next(reply.iter_lines())
            assert unhurried.stats()["used_blocks"] > 0
    else:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{unhurried.url}/v1/completions", json=BODY | {"max_tokens": 240}, timeout=0.1)
    begin = time.perf_counter()
    unhurried.wait_idle()
    assert time.perf_counter() - begin < 6  # 240 tokens would take 12 s
    page = httpx.get(f"{unhurried.url}/metrics").text
    assert re.search(r'request_success_total\{[^}]*finished_reason="abort"[^}]*\} [1-9]', page)


def test_metrics_count_what_clients_got(tiny_file: Path):
    settings = Settings(served_name="tiny", max_model_len=128, max_num_seqs=2, values=False, linear="step=100",
                        clock="virtual")  # fmt: skip
    with served(tiny_file, settings) as running:
        used = [post(running, max_tokens=n).json()["usage"] for n in (1, 7, 30)]
        running.wait_idle()
        page = httpx.get(f"{running.url}/metrics").text
    assert value(page, "vllm:generation_tokens_total") == sum(row["completion_tokens"] for row in used) == 38
    assert value(page, "vllm:prompt_tokens_total") == sum(row["prompt_tokens"] for row in used)
    assert value(page, "vllm:e2e_request_latency_seconds_count") == 3
    assert value(page, "vllm:inter_token_latency_seconds_count") == 38 - 3
    # Virtual time: a step of 0.1 ms per token, to the picosecond.
    assert value(page, "vllm:e2e_request_latency_seconds_sum") == pytest.approx(38e-4)
    assert value(page, "opentrn:predicted_e2e_seconds_sum") == pytest.approx(38e-4)
    assert value(page, "vllm_neuron:neff_execution_count_total") == 38


def test_malformed_bodies_are_refused(drawn: Any):
    for body in (b"", b"{", b"[]", b"null", b'{"model": 1}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5_000,
                 b'{"model": "tiny", "messages": [{"role": "user", "content": "\xff"}]}'):  # fmt: skip
        answer = httpx.post(f"{drawn.url}/v1/chat/completions", content=body)
        assert answer.status_code == 400 and answer.json()["error"]["type"] == "invalid_request_error"
    assert httpx.get(f"{drawn.url}/v1/nothing").status_code == 404
    assert httpx.get(f"{drawn.url}/v1/completions").status_code == 405
    assert httpx.post(f"{drawn.url}/v1/embeddings", json={}).status_code == 400
    assert post(drawn, logprobs=1).status_code == 400  # nothing is computed
    for stop in ("", ["x", ""]):
        assert post(drawn, stop=stop).status_code == 400
    message = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "a"}], "stop_sequences": [""]}
    assert httpx.post(f"{drawn.url}/v1/messages", json=message).status_code == 400
    assert httpx.get(f"{drawn.url}/health").status_code == 200


def test_a_soak_loses_no_block(drawn: Any):
    """Clients that come, leave, ask for too much and send nonsense, for two seconds; the pool is audited each step."""
    end = time.monotonic() + 2.0

    def client(seed: int) -> int:
        given = 0
        with httpx.Client(timeout=30) as http:
            while time.monotonic() < end:
                seed = (seed * 1103515245 + 12345) % 2**31
                body = BODY | {"max_tokens": seed % 60 + 1, "stream": True, "n": seed % 3 + 1}
                if seed % 5 == 0:
                    http.post(f"{drawn.url}/v1/completions", content=b'{"model":')
                    continue
                with http.stream("POST", f"{drawn.url}/v1/completions", json=body) as reply:
                    for i, line in enumerate(reply.iter_lines()):
                        given += line.startswith("data: {")
                        if seed % 3 == 0 and i > 4:
                            break
        return given

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(client, range(8))) > 100
    assert drawn.wait_idle()["blocks"] > 0 and drawn.core.audit() == ""
    assert drawn.built.service.engine.failure == ""


def test_the_openapi_document_names_every_route(drawn: Any):
    found = httpx.get(f"{drawn.url}/openapi.json").json()
    assert {"/v1/chat/completions", "/v1/messages", "/v1/responses", "/tokenize"} <= found["paths"].keys()
    text = json.dumps(found)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in found["components"]["schemas"]
    models = [row["properties"]["model"]["enum"] for row in found["components"]["schemas"].values()
              if "model" in row.get("properties", {})]  # fmt: skip
    assert len(models) == 8 and all(names in (["tiny"], ["tiny", None]) for names in models)


def test_settings_that_contradict_each_other(tiny_file: Path, tmp_path: Path):
    with pytest.raises(InputError, match="neuron-nxdi") as raised:
        build(tiny_file, Settings(policy="neuron-nxdi"))
    assert raised.value.label == "serve.settings"
    with pytest.raises(InputError) as raised:
        build(tiny_file, Settings(values=False))
    assert raised.value.label == "serving.times"
    with pytest.raises(InputError) as raised:
        build(tiny_file, Settings(values=False, linear="step=1", trace=str(tmp_path / "no" / "file")))
    assert raised.value.label == "serve.trace"
    with pytest.raises(InputError, match="no default"):
        build(tiny_file, Settings(values=False, linear="step=1", generation={"colour": 1}))


def test_sigterm_lets_answers_end(tiny_file: Path, tmp_path: Path):
    trace = tmp_path / "trace.jsonl"
    command = [sys.executable, "-m", "opentrn", "serve", str(tiny_file), "--served-model-name", "tiny", "--no-values",
               "--linear", "step=20000", "--time", "paced", "--max-model-len", "256", "--port", "0",
               "--trace", str(trace)]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+?:(\d+)", line)
        assert found, line
        url = f"http://127.0.0.1:{found[1]}/v1/completions"
        answers: list[httpx.Response] = []
        body = BODY | {"max_tokens": 40}
        asks = threading.Thread(target=lambda: answers.append(httpx.post(url, json=body, timeout=30)))
        asks.start()
        deadline = time.monotonic() + 30
        while httpx.get(url.replace("/v1/completions", "/load"), timeout=30).json()["server_load"] == 0:
            assert asks.is_alive() and time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        asks.join(30)
        assert process.wait(30) == 0
    assert answers[0].status_code == 200 and answers[0].json()["usage"]["completion_tokens"] == 40
    rows = [json.loads(row) for row in trace.read_text().splitlines()]
    assert sum("step" in row for row in rows) == 40 and rows[-1]["predicted_end_s"] == pytest.approx(0.8)


def test_the_paced_example_measures_what_is_predicted(tmp_path: Path):
    rows = [f"prefill_s{n},20000" for n in (16, 64, 128, 256)]
    rows += [f"decode_b{n}_c{context},{5000 + 1000 * n}" for context in (128, 256) for n in (1, 2, 4)]
    table = tmp_path / "times.csv"
    table.write_text("program,us\n" + "\n".join(rows) + "\n")
    example = Path(__file__).parents[2] / "examples" / "serve_paced.py"
    done = subprocess.run([sys.executable, example, table], capture_output=True, text=True, timeout=120, check=True)
    first, each = ([float(word) for word in line.split()[1:]] for line in done.stdout.splitlines()[2:])
    for measured_first, predicted_first, measured, predicted in (first, each):
        # Never sooner than predicted; how much later is the load of this machine.
        assert measured_first >= predicted_first >= 20.0 and measured >= predicted * 0.98
    assert first[3] == pytest.approx(6.0) and 7.0 < each[3] <= 9.0 + 20.0 * 3 / 59


@pytest.mark.parametrize("how", [{}, {"values": False, "linear": "step=1"}])
def test_more_positions_than_the_model_was_made_for_are_refused(tiny_file: Path, how: dict[str, Any]):
    """They were cut to the model's without a word."""
    with pytest.raises(InputError, match="max_model_len 4096; the model was made for"):
        build(tiny_file, Settings(max_model_len=4096, **how))


def test_ranks_serve_with_their_tokens_and_times(tiny_file: Path):
    """As opentrn generate has them: a prefill and two decode steps, with what the ranks exchange."""
    shared: Any = {"dtype": "f32", "ranks": 2, "instance": "trn2.48xlarge"}
    model = LanguageModel(tiny_file, context=64, **shared)
    list(model.generate([[5, 6, 7]], max_tokens=3))
    programs = list(model.programs.values())
    assert [program.runs for program in programs] == [1, 2]
    with served(tiny_file, Settings(served_name="tiny", max_model_len=64, max_num_seqs=1, **shared)) as running:
        body = {"model": "tiny", "prompt": [5, 6, 7], "max_tokens": 3, "temperature": 0, "return_token_ids": True,
                "ignore_eos": True}  # fmt: skip
        answer = httpx.post(f"{running.url}/v1/completions", json=body, timeout=60).json()
    assert answer["choices"][0]["token_ids"] == model.answers[0].tokens
    expected = sum(program.runs * program.predicted_us for program in programs) / 1000
    told = answer["usage"]["predicted_device_time"]["own_steps_ms"]  # in whole nanoseconds
    assert told == pytest.approx(expected, abs=1e-6)
    with pytest.raises(InputError, match="ranks without values"):
        build(tiny_file, Settings(values=False, linear="step=1", ranks=2, instance="trn2.48xlarge"))
