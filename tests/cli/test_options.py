"""No option of the program is without effect: each has an entry in option_cases_*.py, and each entry is tried.

A command is run without and with the option, in this process and in a folder of the same name: the two differ in their
status, in what they print or in what they write.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from option_cases import Does, Form, Held, Passed, Refused, command_lines

from opentrn import _core
from opentrn.cli import dispatch as cli

ROOT = Path(__file__).parents[2]
SETS = [importlib.import_module(f"option_cases_{name}") for name in ("core", "kernels", "models", "tools")]
# Of this machine's clock, and of a process: no effect of an option.
VARYING = re.compile(
    rb"\b\d+(\.\d+)?(e-\d+)? ?m?s\b|\b[\d.]+ a second|\bpid\b.*"
    rb"|\"(compile_s|seconds|used|\w*host_s|ready_s|tokens_per_s)\": [\d.e+-]+"
)
INTERNAL = 70
SUBJECTS = {("kernel",), ("model",), ("file",), ("operation",), ("trace",)}  # arguments, which every form has


def declared() -> Iterator[tuple[str, tuple[str, ...]]]:
    """(command, names) of what a parser declares. What a command is about, its one argument, is in every form."""
    core = [(command, tuple(names)) for command, names, _, _ in _core.cli_options()]
    yield from (row for row in core if row[1] not in SUBJECTS)
    of_core = {command.partition(" ")[0] for command, _ in core}
    for command, parser in _parsers(cli.parser_of_the_program(), ""):
        for action in parser._actions:
            if action.dest != "help" and not isinstance(action, argparse._SubParsersAction):
                names = tuple(action.option_strings) or (action.dest,)
                if command.partition(" ")[0] not in of_core and names not in SUBJECTS:
                    yield command, names


def _parsers(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _parsers(inner, f"{path} {name}".strip())


def _entries(command: str, names: tuple[str, ...]) -> list[object]:
    forms = [form for each in SETS for form in each.FORMS if form.command == command]
    return [entry for form in forms for name, entry in form.options.items() if name in names]


def test_every_option_has_an_entry():
    options = list(declared())
    assert len(options) > 450
    without = sorted(f"{command} {names[-1]}" for command, names in options if not _entries(command, names))
    assert without == []


def test_every_entry_is_of_an_option():
    known = {(command, name) for command, names in declared() for name in names}
    strangers = [
        f"{form.command} {name}" for each in SETS for form in each.FORMS for name in form.options
        if (form.command, name) not in known
    ]  # fmt: skip
    assert strangers == []


@functools.cache
def _text_of(test: str) -> str:
    """A test function, or a file of tests of the core."""
    file, _, name = test.partition("::")
    text = (ROOT / file).read_text()
    if not name:
        return text
    last = name.rpartition("::")[2]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == last:
            lines = text.splitlines()
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return "\n".join(lines[first - 1 : node.end_lineno])
    raise AssertionError(f"there is no test {test}")


HELD = [
    (form.command, name, entry.test)
    for each in SETS for form in each.FORMS for name, entry in form.options.items() if isinstance(entry, Held)
]  # fmt: skip


@pytest.mark.parametrize(("command", "option", "test"), HELD, ids=lambda text: text)
def test_tests_that_show_an_effect_mention_the_option(command: str, option: str, test: str):
    names = next(names for each, names in declared() if each == command and option in names)
    text = _text_of(test)
    assert any(name in text or name.lstrip("-").replace("-", "_") in text for name in names), test


def _outcome(words: list[str], folder: Path, each: ModuleType, capfd: pytest.CaptureFixture[str]) -> tuple[object, ...]:
    """(status, stdout, stderr, files) of a command in a folder that is made for it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    each.write_files(folder)
    before = set(os.listdir(folder))
    os.chdir(folder)
    capfd.readouterr()
    try:
        status = cli.main(words)
    except SystemExit as end:
        status = int(end.code or 0)
    printed = [VARYING.sub(b"", text.encode()) for text in capfd.readouterr()]
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        # Python's compiled modules hold times, and marks that depend on how many hold a name: not of the command.
        if path.is_file() and name.parts[0] not in before and "__pycache__" not in name.parts:
            files[str(name)] = b"" if name.parts[0] == "cache" else VARYING.sub(b"", path.read_bytes())
    return status, *printed, files


FORMS = [(each, form) for each in SETS for form in each.FORMS]


@pytest.mark.parametrize(
    ("each", "form"), FORMS, ids=[f"{form.command}-{form.words.partition(' ')[0]}" for _, form in FORMS]
)
def test_options_change_what_is_seen_or_are_refused(
    each: ModuleType, form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "work" / "cache"))
    monkeypatch.setenv("OPENTRN_RUN_DIR", str(tmp_path / "run"))
    without: dict[tuple[str, ...], tuple[object, ...]] = {}
    wrong = []
    for name, entry in form.options.items():
        if isinstance(entry, Held | Passed):
            continue
        base, words = command_lines(form, entry)
        if tuple(base) not in without:
            without[tuple(base)] = first = _outcome(base, tmp_path / "work", each, capfd)
            assert first == _outcome(base, tmp_path / "work", each, capfd), f"twice the same is not the same: {base}"
        found = _outcome(words, tmp_path / "work", each, capfd)
        is_same = found == without[tuple(base)]
        status, said = found[0], bytes(found[2]).decode()  # type: ignore[arg-type]
        if isinstance(entry, Refused) and (status != cli.INPUT or is_same or not _names_one_of(said, name, entry)):
            wrong.append(f"{' '.join(words)}: status {status}, not refused by its name: {said[:200]}")
        elif isinstance(entry, Does) and (is_same or status in (INTERNAL, cli.INPUT)):
            wrong.append(f"{' '.join(words)}: status {status}, {'no effect' if is_same else said[:200]}")
    assert wrong == []


class _Ended(Exception):
    """In place of serving."""


def _calls(words: list[str], form: Form, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the functions of form.calls are called with; the last ends the command."""
    made: list[object] = []

    def replaced(name: str) -> object:
        def called(*arguments: object, **named: object) -> object:
            made.append((name, arguments, {key: value for key, value in named.items() if key != "app"}))
            if name == form.calls[-1]:
                raise _Ended
            return SimpleNamespace(app=None)

        return called

    for name in form.calls:
        module, _, function = name.rpartition(".")
        monkeypatch.setattr(importlib.import_module(module), function, replaced(name))
    cli.main(words)
    return made


@pytest.mark.parametrize("form", [form for _, form in FORMS if form.calls], ids=lambda form: form.command)
def test_options_reach_what_serves(form: Form, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    for name, entry in form.options.items():
        if isinstance(entry, Passed):
            base, words = command_lines(form, entry)
            without, found = _calls(base, form, monkeypatch), _calls(words, form, monkeypatch)
            assert without and found and without != found, name


def test_steps_of_serve_are_told(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    (form,) = (form for _, form in FORMS if form.command == "serve")
    for words in ([], ["--progress"]):
        _calls(["serve", "tiny.gguf", *words], form, monkeypatch)
        assert ("loading the weights" in capfd.readouterr().err) is bool(words)


def _names_one_of(said: str, name: str, entry: Refused) -> bool:
    return not entry.is_named or any(text.lstrip("-") in said for text in (name, entry.words.split()[0]))


def test_disasm_computes_no_values(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """--no-execute says of it what is so anyhow: a kernel that reads what nothing wrote is listed."""
    (each,) = (each for each in SETS if each.__name__.endswith("kernels"))
    each.write_files(tmp_path)
    listings = []
    for words in ([], ["--no-execute"]):
        assert cli.main(["disasm", f"{tmp_path}/k.py:hole", *words]) == 0
        listings.append(capsys.readouterr().out)
    assert listings[0] == listings[1] and "tensor_scalar" in listings[0]


def test_neff_of_view_is_said_not_to_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    cli.main(["neuron-explorer", "view", "-n", "m.neuron", "-s", f"{tmp_path}/no.ntff"])
    assert "--neff m.neuron is not read" in capsys.readouterr().err


def test_session_file_of_recommend_is_said_not_to_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    cli.main(["neuron-explorer", "recommend", "-n", f"{tmp_path}/no.neuron", "-s", "p.ntff"])
    assert "--session-file p.ntff is not read" in capsys.readouterr().err


def test_options_of_pods_need_enable_k8s_info(capsys: pytest.CaptureFixture[str]):
    for name, value in (("--period", "3"), ("--socket", "s"), ("--instance", "trn1.32xlarge")):
        assert cli.main(["neuron-monitor-prometheus", name, value]) == cli.INPUT
        assert name in capsys.readouterr().err
