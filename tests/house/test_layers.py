"""The layers of cmake/layers.cmake hold for every #include line, those of cmake/layers_python.txt for every import."""

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


def test_every_edge_of_the_table_is_used():
    assert list(check_layers.unused_edges(ROOT / "src", LAYERS)) == []


def test_an_edge_that_nothing_uses_is_found(tmp_path: Path):
    (tmp_path / "isa").mkdir()
    (tmp_path / "isa" / "a.cc").write_text('#include "base/fault.h"\n')
    found = list(check_layers.unused_edges(tmp_path, {"base": [], "arch": [], "isa": ["base", "arch"]}))
    assert found == ["cmake/layers.cmake: 'isa' may use 'arch', but nothing in it does"]


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


PYTHON_LAYERS = check_layers.read_layers(ROOT / "cmake" / "layers_python.txt")


def test_imports_of_python_obey_the_table():
    assert PYTHON_LAYERS["_core"] == [] and list(check_layers.table_errors(PYTHON_LAYERS)) == []
    assert list(check_layers.import_errors(ROOT / "python" / "opentrn", PYTHON_LAYERS)) == []


def test_nobody_imports_the_reference():
    assert [layer for layer, allowed in PYTHON_LAYERS.items() if "oracle" in allowed] == []
    doors = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "python" / "opentrn").rglob("*.py")
        if "opentrn.oracle." in path.read_text() and "oracle" not in path.parts
    ]
    assert sorted(doors) == ["python/opentrn/nki/_machine.py", "python/opentrn/nki_legacy/base.py"]


@pytest.mark.parametrize(
    ("path", "line", "finding"),
    [
        ("base/a.py", "import opentrn.model.cache", "layer 'base' may not import from 'model'"),
        ("base/a.py", "def late():\n    from opentrn.model import cache", "layer 'base' may not import from 'model'"),
        ("base/a.py", "from ..model import cache", "layer 'base' may not import from 'model'"),
        ("base/a.py", "from opentrn import model", "layer 'base' may not import from 'model'"),
        ("base/a.py", "from opentrn import compile", "layer 'base' may not import from 'opentrn'"),
        ("base/a.py", "import opentrn", "layer 'base' may not import from 'opentrn'"),
        ("stray/a.py", "", "in no layer"),
        ("base/a.py", "from opentrn.stray import name", "is not a module of python/opentrn"),
    ],
)
def test_a_broken_rule_of_imports_is_found(tmp_path: Path, path: str, line: str, finding: str):
    for name, text in {"model/cache.py": "", "model/__init__.py": "", path: line}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    layers = {"base": [], "model": [], "opentrn": []}
    findings = list(check_layers.import_errors(tmp_path, layers))
    assert len(findings) == 1
    assert finding in findings[0]


def test_what_no_import_needs_is_found(tmp_path: Path):
    (tmp_path / "b.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from opentrn import a\n")
    (tmp_path / "a.py").write_text("")
    findings = list(check_layers.import_errors(tmp_path, {"a": [], "b": ["a"]}))
    assert [finding.partition(": ")[2] for finding in findings] == ["'b' may use 'a', but nothing in it does"]
