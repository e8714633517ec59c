"""The layer order of cmake/layers.cmake holds for every #include line."""

from pathlib import Path

import pytest
from house import ROOT, load_tool

check_layers = load_tool("check_layers")
LAYERS = check_layers.read_layers(ROOT / "cmake" / "layers.cmake")


def test_table_is_understood_and_has_no_cycle():
    assert LAYERS["base"] == []
    assert list(check_layers.table_errors(LAYERS)) == []


def test_include_lines_obey_the_table():
    assert list(check_layers.include_errors(ROOT / "src", LAYERS)) == []


@pytest.mark.parametrize(
    ("path", "include", "finding"),
    [
        ("base/a.h", "isa/program.h", "layer 'base' may not include from 'isa'"),
        ("isa/a.cc", "sim/timing/cost.h", "layer 'isa' may not include from 'sim/timing'"),
        ("stray/a.h", "base/fault.h", "in no layer"),
        ("base/a.h", "fault.h", "is not a path below src/"),
    ],
)
def test_a_broken_rule_is_found(tmp_path: Path, path: str, include: str, finding: str):
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(f'#include "{include}"\n')
    findings = list(check_layers.include_errors(tmp_path, LAYERS))
    assert len(findings) == 1
    assert finding in findings[0]


def test_a_layer_may_not_name_one_below_it():
    assert len(list(check_layers.table_errors({"base": ["isa"], "isa": ["base"]}))) == 1
