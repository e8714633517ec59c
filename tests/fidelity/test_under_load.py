"""Rows of servers under load: which they are, and what the replay gives where it can be said without one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "fidelity"))

import under_load  # noqa: E402
from adapters._common import NotReproducible  # noqa: E402

MODEL = "model=Tiny (dec 2L h256 a8 kv2 ffn512 vocab1024 1M); instance=inf2.48xlarge; TP=2; max batch=4; max seq=4096"
NO_HOST = under_load.Host(0, 0)
LENGTHS = "guidellm; prompts 1500+-150 tokens, 250+-20 generated"


def row(
    load: str, stack: str = "vLLM 0.16", *, metric: str = "TTFT mean", value: float = 1.0
) -> dict[str, str]:
    fields = {
        "id": f"x.{load}",
        "category": "llm_prefill",
        "metric": metric,
        "unit": "ms",
        "value": str(value),
    }
    return fields | {"workload": f"{MODEL}; BF16; {stack}; load={load}; {LENGTHS}", "note": ""}


def test_a_lone_request_takes_its_own_steps() -> None:
    """So few requests that none meets another: a prefill, then decode steps, each behind the host's time."""
    server = under_load.Server(prefill_us=300_000, decode_us=20_000, longest=4096, batch=4, replicas=1)
    found = under_load.replayed(server, under_load.Host(1_900, 100), 0.1, 250, 512)
    assert found["ttft_ms"]["mean"] == pytest.approx(302)
    assert found["itl_ms"]["mean"] == pytest.approx(22)


def test_prompts_of_others_stand_between_tokens() -> None:
    """Always four under way: of 250 tokens of each, a step each and three prompts of others."""
    server = under_load.Server(prefill_us=300_000, decode_us=20_000, longest=4096, batch=4, replicas=1)
    found = under_load.replayed(server, NO_HOST, None, 250, 5)
    assert found["itl_ms"]["mean"] == pytest.approx(20 + 3 * 300 / 250, rel=0.08)
    two = under_load.replayed(under_load.Server(300_000, 20_000, 4096, 4, 2), NO_HOST, None, 250, 9)
    assert two["output_tokens_per_s"] == pytest.approx(2 * found["output_tokens_per_s"], rel=0.05)


def test_each_request_that_runs_takes_its_part_of_the_host() -> None:
    """Always four under way: 4 x 0.5 ms more between two tokens."""
    server = under_load.Server(prefill_us=30_000, decode_us=20_000, longest=4096, batch=4, replicas=1)
    without, host = (under_load.replayed(server, under_load.Host(0, us), None, 250, 5) for us in (0, 500))
    assert host["itl_ms"]["mean"] - without["itl_ms"]["mean"] == pytest.approx(2, rel=0.05)


def test_the_part_of_one_request_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of a single request has the step's part and that of one request."""
    monkeypatch.setattr(under_load, "server_of", lambda row: under_load.Server(0, 20_000, 4096, 4, 1))
    first = ("vLLM docker", "trn1.32xlarge")
    rows = {name: {"value": "23"} for name in under_load.CALIBRATION.values()}
    assert under_load.host_of(first, rows).alone_us == pytest.approx(3_000)
    assert under_load.host_of(first, rows).request_us > 0
    assert under_load.host_of(("vLLM CLI", "inf2.48xlarge"), rows) == under_load.Host(3_000, 0)
    with pytest.raises(
        NotReproducible, match="the row that calibrates vLLM docker on trn1.32xlarge is not in the"
    ):
        under_load.host_of(first, {})


def test_a_sweep_sends_five_times_the_requests_of_a_run_of_single_ones() -> None:
    """300 + 249 * 20 ms each: 22 in 120 s. The first prompts wait for each other where all may be under way."""
    server = under_load.Server(prefill_us=300_000, decode_us=20_000, longest=4096, batch=32, replicas=1)
    assert under_load.requests_of_a_sweep(server, NO_HOST, 250) == 5 * 22
    burst, few = (under_load.replayed(server, NO_HOST, None, 250, users) for users in (512, 9))
    assert burst["requests"]["completed"] == few["requests"]["completed"] == 110
    assert burst["ttft_ms"]["mean"] > 10 * few["ttft_ms"]["mean"]


def test_users_are_those_of_the_rows_script() -> None:
    assert under_load.users_of(row("throughput", "128 users; vLLM CLI")) == 128
    assert under_load.users_of(row("throughput")) == 4  # the batch
    assert under_load.users_of(row("throughput", "TGI")) == 512
    with pytest.raises(NotReproducible, match="how long the answers were"):
        under_load.answer_of(row("throughput"))


def test_stacks_have_one_calibration_row_each() -> None:
    assert under_load.stack_of(row("throughput")) == ("vLLM", "inf2.48xlarge")
    assert under_load.stack_of(row("throughput", "vLLM CLI"))[0] == "vLLM CLI"
    with pytest.raises(NotReproducible, match="no row of a single request calibrates vLLM on trn1.32xlarge"):
        under_load.stack_of(row("throughput") | {"workload": "instance=trn1.32xlarge; vLLM"})


def test_a_row_is_predicted_with_the_host_of_its_calibration_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calibration row's token takes 5 ms longer than its device: so does every step of the others."""
    lone = row("synchronous (1 request in flight)", metric="inter-token latency mean")
    alone = under_load.server_of(lone)
    lone = lone | {"value": str((alone.decode_us + 5_000) / 1e3)}
    monkeypatch.setattr(under_load, "ANSWERS", {"tiny": 250})
    monkeypatch.setattr(under_load, "CALIBRATION", {("vLLM", "inf2.48xlarge"): "lone"})
    rows, runs = {"lone": lone}, dict[Any, Any]()
    found = under_load.predicted(row("asynchronous@0.10 req/sec"), rows, runs)
    assert found.predicted == pytest.approx(alone.prefill_us / 1e3 + 5) and not found.saturated
    assert under_load.predicted(row("throughput"), rows, runs).saturated
    late = row("asynchronous@0.10 req/sec", value=4 * alone.prefill_us / 1e3)
    assert under_load.predicted(late, rows, runs).saturated
