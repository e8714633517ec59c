"""NEURON_CC_FLAGS: words as the shell and Python's shlex split them; and the options that they and others give."""

from __future__ import annotations

import inspect
import shlex

import pytest

import opentrn
from opentrn import _core
from opentrn.model import compiled as model
from opentrn.model import diff
from opentrn.settings.compiler_options import PROGRAM_OPTIONS, CompilerOptions, option_texts

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


# -- the one record of options


def test_the_record_is_the_compilers_table() -> None:
    record = [
        (name.replace("_", "-"), option_texts({name: row.default})[name.replace("_", "-")], row)
        for name, row in CompilerOptions.__dataclass_fields__.items()
    ]
    table = _core.compiler_options()
    assert [(name, default) for name, default, _ in record] == [(name, default) for name, default, _ in table]
    for (name, _, row), (_, _, values) in zip(record, table, strict=True):
        if row.metadata["values"]:
            assert [str(value) for value in row.metadata["values"]] == values, name
        else:  # a switch, or a pattern, which the compiler lists in its error
            assert values == ["true", "false"] or name == "weight-sparsity"


@pytest.mark.parametrize("function", [opentrn.compile, model.prepare, diff.diff])
def test_options_stand_in_the_signature(function) -> None:
    parameters = inspect.signature(function).parameters
    expected = {name: CompilerOptions.__dataclass_fields__[name].default for name in PROGRAM_OPTIONS}
    assert {name: parameters[name].default for name in PROGRAM_OPTIONS} == expected
    assert all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected keyword argument 'optlvel'"):
        function("x.mlir", optlvel=3)


def test_options_of_neuron_cc_flags_are_the_tables() -> None:
    for name, _, values in _core.compiler_options():
        given, _, _ = _core.compiler_flags(f"--{name}" if values == ["true", "false"] else f"--{name}={values[-1]}")
        assert given == {name: "true" if values == ["true", "false"] else values[-1]}
