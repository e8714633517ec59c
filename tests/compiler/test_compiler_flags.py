"""NEURON_CC_FLAGS: words as the shell and Python's shlex split them; and the options that they and others give."""

from __future__ import annotations

import inspect
import shlex

import pytest

import opentrn
from opentrn import _core
from opentrn.errors import InputError
from opentrn.model import compiled as model
from opentrn.model import diff
from opentrn.settings.compiler_options import OPTIONS, PROGRAM_OPTIONS, option_texts, option_values

# Options that change nothing here come back as they were given: --internal-*.
TEXTS = [
    r"--internal-a=1 --internal-b=2",
    r"--internal-a=one\ word",
    r"--internal-a=\\ --internal-b",
    r'--internal-a="a \"quoted\" word"',
    r'--internal-a="kept \n \d backslashes"',
    r"--internal-a='kept \n \" \\ backslashes'",
    "--internal-a=1\r\n\t--internal-b",
    r"--internal-a=\"not\ a\ quote",
    r'--internal-a=x"y z"w',
]


@pytest.mark.parametrize("text", TEXTS)
def test_words_are_those_of_shlex(text: str):
    assert _core.compiler_flags(text)[2] == shlex.split(text)


@pytest.mark.parametrize(
    ("text", "why"), [("--internal-a=\\", "ends with a backslash"), ("--internal-a='", "ends inside '")]
)
def test_what_shlex_refuses_is_refused(text: str, why: str):
    with pytest.raises(ValueError):
        shlex.split(text)
    with pytest.raises(ValueError, match=why):
        _core.compiler_flags(text)


# -- the one table of options (src/compiler/options.cc)


def test_a_text_of_every_value_is_read_as_the_value() -> None:
    for name, row in OPTIONS.items():
        for value in row.values:
            assert option_values(option_texts({name: value})) == {name: value}


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="optlevel is 'two'") as refused:
        option_values({"optlevel": "two"})
    assert refused.value.label == "compiler.option" and "1, 2, 3" in refused.value.hint


@pytest.mark.parametrize("function", [opentrn.compile, model.prepare, diff.diff])
def test_options_stand_in_the_signature(function) -> None:
    parameters = inspect.signature(function).parameters
    expected = {name: OPTIONS[name].default for name in PROGRAM_OPTIONS}
    assert {name: parameters[name].default for name in PROGRAM_OPTIONS} == expected
    assert all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected keyword argument 'optlvel'"):
        function("x.mlir", optlvel=3)


def test_options_of_neuron_cc_flags_are_the_tables() -> None:
    for row in OPTIONS.values():
        switch = isinstance(row.default, bool)
        given, _, _ = _core.compiler_flags(f"--{row.name}" if switch else f"--{row.name}={row.values[-1]}")
        assert given == {row.name: "true" if switch else str(row.values[-1])}
