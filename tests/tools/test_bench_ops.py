"""`./dev bench --ops`: exceptions from its goal are the ops that ops.py and the README name, with a cause."""

from __future__ import annotations

import math
import re
from pathlib import Path

from benchmarks import ops

ROOT = Path(__file__).resolve().parents[2]


def row(name: str, ratio: float, failure: str = "") -> ops.Row:
    times = {"predicted_us": ratio, "roofline_us": 1.0, "host_ms": 1.0, "xla_ms": 1.0}
    return ops.Row("family", name, "f[1]", **times, failure=failure)


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
        if len(cells) == 2:
            listed |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), cells[1])
    assert listed == ops.EXCEPTIONS
