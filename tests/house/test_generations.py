"""What differs between generations is a fact of the tables (arch/core_features.h), not a comparison in code."""

import re

import pytest
from house import relative, tracked

COMPARISON = re.compile(
    r"(?:==|!=|<=|>=|(?<![<-])<|(?<![->])>)\s*(?:\w+::)*Generation::kV\d"
    r"|Generation::kV\d\s*[<>=!]="
)
# Comparisons that are left in a file, and why. A number may only fall.
ALLOWED = {
    "src/arch/stated.cc": (1, "the costs that stand in for Inferentia's, of which none are public"),
    "src/backend/engine_choice.cc": (1, "a habit of neuronx-cc that published profiles show of NeuronCore-v2"),
    "src/planner/serve/serve.cc": (2, "what the programs that AWS published times of do on NeuronCore-v2"),
    "src/monitor/machine.cc": (1, "whether neuron-ls prints logical cores"),
}


CASE = re.compile(r"\bcase\s+(?:\w+::)*Generation::kV\d")


def test_no_switch_goes_through_generations():
    """But for the one that gives each its name."""
    found = [relative(path) for path in tracked("src/*.cc", "src/*.h") if CASE.search(path.read_text())]
    assert [name for name in found if not name.endswith("_test.cc")] == ["src/base/generation.cc"]


def comparisons(text: str) -> int:
    return len(COMPARISON.findall(re.sub(r"//.*", "", text)))


def test_code_asks_what_a_core_can_do():
    found = {
        relative(path): count
        for path in tracked("src/*.cc", "src/*.h")
        if "_test." not in path.name and (count := comparisons(path.read_text()))
    }
    more = {name: count for name, count in found.items() if count > ALLOWED.get(name, (0, ""))[0]}
    assert more == {}, "add a fact to src/arch/tables/neuron_core.toml and to src/arch/core_features.h"
    assert {name: count for name, (count, _) in ALLOWED.items() if found.get(name, 0) != count} == {}, "lower these"


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("if (generation() >= Generation::kV3) return;", 1),
        ("return g == arch::Generation::kV2 ? 1 : 2;", 1),
        ("Generation generation = Generation::kV3;", 0),
        ("{.first_generation = Generation::kV4}", 0),
        ("if (Generation::kV3 <= g) {}", 1),
        ("// generation >= Generation::kV3", 0),
    ],
)
def test_a_comparison_is_found(line: str, count: int):
    assert comparisons(line) == count
