"""`./dev bench --ops`: exceptions from its goal are the ops that ops.py and the README name, with a cause."""

from __future__ import annotations

import math
import re
from pathlib import Path

from benchmarks import ops

ROOT = Path(__file__).resolve().parents[2]


def row(name: str, ratio: float, failure: str = "", where: ops.Where | None = None) -> ops.Row:
    times = {"predicted_us": ratio, "roofline_us": 1.0, "host_ms": 1.0, "xla_ms": 1.0}
    return ops.Row("family", name, "f[1]", **times, failure=failure, where=where)


def costs(latency: float, transfers: float, vector: float, instructions: int, descriptor_bytes: float) -> dict:
    """As cost_analysis() has them, of microseconds."""
    return {
        "critical path seconds: DMA latency": latency / 1e6,
        "critical path seconds: DMA engines": transfers / 1e6,
        "critical path seconds: Vector engine": vector / 1e6,
        "busy seconds: vector": vector / 1e6,
        "instructions: vector": instructions,
        "DMA bytes": 64 * descriptor_bytes,
        "DMA descriptors": 64,
        "flops": 1.0,
    }


SHORTEST = {"Vector engine": 0.1}


def test_time_goes_to_a_chain_to_elements_or_to_work() -> None:
    waits = ops.where_of(costs(8, 1, 1, 5, 1024), SHORTEST)
    assert waits and waits.kind == ops.CHAIN and waits.chain_us == 8 + 5 * 0.1
    # Twenty instructions that take little more than those of one element.
    short = ops.where_of(costs(1, 1, 4, 20, 1024), SHORTEST)
    assert short and short.kind == ops.CHAIN and abs(short.chain_us - 3) < 1e-9
    single = ops.where_of(costs(1, 8, 1, 1, 4), SHORTEST)
    assert single and single.kind == ops.ELEMENTS and "descriptors of 4 B" in single.text
    work = ops.where_of(costs(1, 1, 8, 2, 4), SHORTEST)
    assert work and work.kind == ops.WORK and "Vector engine 8.0 us, 4.00 an instruction" in work.text
    assert ops.where_of({"flops": 1.0}, SHORTEST) is None


def test_a_cause_is_one_of_what_was_measured() -> None:
    named = next(name for name, (kinds, _) in ops.EXCEPTIONS.items() if kinds == "work")
    work, chain = (ops.where_of(costs(wait, 1, 8, 2, 1024), SHORTEST) for wait in (1, 90))
    assert ops.unexplained([row(named, 11.0, where=work)]) == []
    assert ops.unexplained([row(named, 11.0, where=chain)]) == [named]
    assert {kind for kinds, _ in ops.EXCEPTIONS.values() for kind in kinds.split(" or ")} <= {
        ops.CHAIN, ops.ELEMENTS, ops.WORK}  # fmt: skip


def test_a_row_beyond_the_goal_needs_a_cause() -> None:
    named = next(iter(ops.EXCEPTIONS))
    assert ops.unexplained([row("add", 9.9), row(named, 1e4), row("add", math.nan)]) == []
    assert ops.unexplained([row("add", 10.1), row("add", 11.0)]) == ["add"]
    assert ops.unexplained([row("add", math.nan, failure="longer than 60 s")]) == ["add"]


def test_an_exception_that_no_row_needs_is_found() -> None:
    rows = [row(name, 11.0) for name in ops.EXCEPTIONS]
    assert ops.needless(rows) == []
    rows[0].predicted_us = 9.0
    assert ops.needless(rows) == [rows[0].name]


def test_the_readme_lists_every_exception_with_its_cause() -> None:
    text = (ROOT / "benchmarks/README.md").read_text()
    table = text.partition("### Exceptions")[2].partition("\n## ")[0]
    listed = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3:
            listed |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), (cells[1], cells[2]))
    assert listed == ops.EXCEPTIONS
