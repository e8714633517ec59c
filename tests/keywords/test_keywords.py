"""No keyword of a public Python function is without effect: each has an entry in keyword_cases.py, which is tried."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opentrn
from opentrn import _core, custom_op, generate, nki, serve
from opentrn.base import notices
from opentrn.errors import ArgumentError, InputError
from opentrn.nki import _kernel
from opentrn.nki_legacy import kernel as legacy
from tests.keywords.keyword_cases import JIT, KEYWORDS, RECORDS, Does, Held, Refused, Told, doubled
from tests.keywords.observed import optional, text_of_test

ROOT = Path(__file__).parents[2]
MODULES = (opentrn, nki, custom_op, generate)
# Their keywords are the options of the commands of these names, which tests/cli/test_options.py tries.
COMMANDS = ("plan", "goodput", "claims")


def public() -> dict[str, Callable[..., Any]]:
    """Functions and classes with keywords, by their name."""
    found = {f"{module.__name__}.{name}": getattr(module, name) for module in MODULES for name in module.__all__}
    found["opentrn.generate.LanguageModel.generate"] = generate.LanguageModel.generate
    callables = {name: each for name, each in found.items() if callable(each) and name not in RECORDS}
    return {name: each for name, each in callables.items() if name.rpartition(".")[2] not in COMMANDS}


def entries() -> list[tuple[str, str, Any]]:
    return [(function, name, entry) for function, names in KEYWORDS.items() for name, entry in names.items()]


def test_every_keyword_has_an_entry():
    of_jit = {"opentrn.nki.jit": set(JIT)}  # it takes them as **options
    wanted = {(function, name) for function, each in public().items() for name in optional(each)} - {
        ("opentrn.nki.jit", "fn")  # the kernel itself
    }
    wanted |= {(function, name) for function, names in of_jit.items() for name in names}
    assert len(wanted) > 60
    assert sorted(wanted ^ {(function, name) for function, name, _ in entries()}) == []


@pytest.mark.parametrize(
    ("function", "name", "entry"), entries(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_keyword_acts_or_is_refused_or_told(
    function: str, name: str, entry: Any, capsys: pytest.CaptureFixture[str]
):
    if isinstance(entry, Does):
        assert not np.array_equal(entry.without(), entry.with_it()), f"{function}({name}=) changes nothing"
    elif isinstance(entry, Refused):
        with pytest.raises(Exception, match=entry.words):
            entry.call()
    elif isinstance(entry, Told):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            entry.call()
        assert entry.words in capsys.readouterr().err + "".join(str(each.message) for each in caught)
    else:
        assert isinstance(entry, Held)
        assert name in text_of_test(entry.test)


@pytest.mark.parametrize("dialect", [_kernel, legacy], ids=["nki", "neuronxcc"])
def test_what_kernels_are_decorated_with_acts_or_is_told(
    dialect: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(notices, "_told", set())
    known = dialect._KNOWN_OPTIONS if dialect is _kernel else dialect._OPTIONS
    assert known >= dialect._ACTING_OPTIONS - {"mode"} and len(known) > 15
    silent = []
    for name in sorted(known - dialect._ACTING_OPTIONS):
        dialect.jit(doubled, **{name: 1})
        if f"nki.jit({name}=) has no effect" not in capsys.readouterr().err:
            silent.append(name)
        dialect.jit(doubled, **{name: 1})  # told once
        dialect.jit(doubled, **{name: None})
        assert capsys.readouterr().err == ""
    assert silent == []
    assert dialect.jit(doubled, grid=2).grid == (2,)
    with pytest.raises(ArgumentError, match="grdi"):
        dialect.jit(doubled, grdi=2)


def test_every_setting_of_a_server_is_read_and_passed_by_an_option():
    """What each does is seen in tests/serve; that `serve` passes its options, in tests/cli/test_options.py."""
    source = (ROOT / "python" / "opentrn" / "serve" / "build.py").read_text()
    fields = [each.name for each in dataclasses.fields(serve.Settings)]
    assert len(fields) > 20
    assert [name for name in fields if not re.search(rf"\bsettings\.{name}\b", source)] == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("value", [True, False, None, 3])
def test_an_option_that_a_command_does_not_have_is_refused(command: str, value: Any):
    words = ("Llama-3.1-8B",) if command == "plan" else ()
    with pytest.raises(InputError, match="sevre"):
        getattr(opentrn, command)(*words, sevre=value)
    assert len(_core.cli_options()) > 50
