"""Imports of AWS's packages for PyTorch, after opentrn.activate()."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import opentrn
from opentrn.compat import absent as _absent
from opentrn.compat import alias as _alias


@pytest.fixture(autouse=True)
def _hooks() -> Iterator[None]:
    finders, modules = list(sys.meta_path), set(sys.modules)
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def absent(name: str) -> bool:
    return importlib.util.find_spec(name.partition(".")[0]) is None


@pytest.mark.parametrize("name", [name for name in _absent.ADVICE if "." not in name])
def test_an_import_says_what_to_use(name: str) -> None:
    if not absent(name):
        pytest.skip(f"{name} is installed")
    if name == "torch_neuronx" and importlib.util.find_spec("opentrn._torch") is not None:
        pytest.skip("the device was built: there is a stand-in (test_torch_neuronx.py)")
    opentrn.activate()
    for module in (name, f"{name}.core"):
        with pytest.raises(
            ModuleNotFoundError, match=r'try: torch.compile\(model, backend="neuron"\)'
        ) as error:
            importlib.import_module(module)
        assert error.value.name == name
    with pytest.raises(ImportError, match="OpenTrn has no stand-in"):
        exec(f"import {name}")


def test_optimum_without_its_part_for_neuron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not absent("optimum"):
        pytest.skip("optimum is installed")
    (tmp_path / "optimum").mkdir()
    (tmp_path / "optimum/__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    opentrn.activate()
    with pytest.raises(ModuleNotFoundError, match="the models of transformers need nothing else"):
        importlib.import_module("optimum.neuron")


def test_libraries_that_ask_for_a_package_are_told_that_it_is_not_there() -> None:
    if not absent("torch_xla"):
        pytest.skip("torch_xla is installed")
    opentrn.activate()
    assert importlib.util.find_spec("torch_xla") is None


def test_an_installed_package_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch_neuronx.py").write_text("own = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(_alias._finder, "adopted", set())  # as in a process of its own
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch_neuronx"]:
        monkeypatch.delitem(sys.modules, name)
    opentrn.activate()
    assert importlib.import_module("torch_neuronx").own == 1


def test_other_names_are_not_touched() -> None:
    opentrn.activate()
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_package_here'$"):
        importlib.import_module("no_such_package_here")
