"""planner.toml: every constant names where it is from, or the rows it was fitted on, or says that it is assumed."""

import copy

import pytest
import tomllib
from house import ROOT

TABLE = tomllib.loads((ROOT / "src/arch/tables/planner.toml").read_text())["planner"]
OURS = "opentrn"
# `order statistic`: of residuals, which no prediction reads.
WORDS = ("assumed", "order statistic")
TEXTS = {"note", "inherits", "confidence", "source"}


def is_stated(fact: object) -> bool:
    if not isinstance(fact, dict):
        return False
    if fact.get("confidence") == "fitted":
        return bool(fact.get("calibrated_on"))
    return fact.get("source", OURS) != OURS or fact.get("note", "").startswith(WORDS)


def unstated(table: dict) -> list[str]:
    found = []
    for kind, items in table.items():
        groups = items.items() if kind != "uncertainty" else [("", items)]
        for name, members in groups:
            if name in TEXTS:
                continue
            for key, fact in members.items():
                if key not in TEXTS and not is_stated(fact):
                    found.append(f"{kind}.{name}.{key}")
    return found


def test_every_constant_of_the_planner_says_where_it_is_from():
    assert unstated(TABLE) == []


@pytest.mark.parametrize(
    "fact",
    [
        0.9,
        {"value": 0.9},
        {"value": 0.9, "note": "an estimate"},
        {"value": 0.9, "confidence": "fitted", "note": "assumed"},
        {"value": 0.9, "confidence": "fitted", "calibrated_on": []},
        {"value": 0.9, "source": "opentrn"},
    ],
)
def test_a_constant_that_does_not_is_found(fact: object):
    table = copy.deepcopy(TABLE)
    table["stack"]["fsdp"]["elementwise"] = fact
    assert unstated(table) == ["stack.fsdp.elementwise"]
