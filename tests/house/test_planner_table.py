"""planner.toml: every constant names where it is from, or the rows it was fitted on, or says that it is assumed."""

import re

import pytest
from house import ROOT

TEXT = (ROOT / "src/arch/tables/planner.toml").read_text()
OURS = "opentrn"
# `order statistic`: of residuals, which no prediction reads.
WORDS = ("assumed", "order statistic")
TEXTS = {"note", "inherits", "confidence", "source"}


def word(fact: str, name: str) -> str:
    found = re.search(rf'\b{name} = "([^"]*)"', fact)
    return found[1] if found else ""


def is_stated(fact: str) -> bool:
    if not fact.startswith("{"):
        return False
    if word(fact, "confidence") == "fitted":
        return re.search(r'calibrated_on = \["', fact) is not None
    return word(fact, "source") not in ("", OURS) or word(fact, "note").startswith(WORDS)


def unstated(text: str) -> list[str]:
    found, section = [], ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif (fact := re.match(r"(\w+) = (.*)", line)) and fact[1] not in TEXTS and not is_stated(fact[2]):
            found.append(f"{section}.{fact[1]}")
    return found


def test_every_constant_of_the_planner_says_where_it_is_from():
    assert unstated(TEXT) == []


@pytest.mark.parametrize(
    "fact",
    [
        "0.9",
        "{value = 0.9}",
        '{value = 0.9, note = "an estimate"}',
        '{value = 0.9, confidence = "fitted", note = "assumed"}',
        '{value = 0.9, confidence = "fitted", calibrated_on = []}',
        '{value = 0.9, source = "opentrn"}',
    ],
)
def test_a_constant_that_does_not_is_found(fact: str):
    assert unstated(f"{TEXT}\n[planner.stack.new]\nelementwise = {fact}\n") == [
        "planner.stack.new.elementwise"
    ]
