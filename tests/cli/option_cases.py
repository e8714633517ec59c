"""What each option of the `opentrn` program does: read by test_options.py, which fails for an option without an entry.

A form is a command with one kind of thing that it works on. An option has an entry in one of its command's forms:

- `does(words)`: the command ends otherwise, or says or writes something else, with these words than without;
- `refused(words)`: it ends as a wrong command line whose message names the option; `fails(words)`: or its value;
- `held(test)`: that test shows what it does, for what cannot be seen in one short command;
- `passed(words)`: the function that serves until it is ended is called otherwise.

`beside`: words that the command has both times.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Does:
    """words: those of the option; beside: what both commands have; variables: what both see in the environment."""

    words: str
    beside: str = ""
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    words: str
    beside: str = ""
    is_named: bool = True  # the message names the option


@dataclass(frozen=True)
class Held:
    test: str  # "tests/...py::name" or "src/..._test.cc Suite.Name"


@dataclass(frozen=True)
class Passed:
    """What does the work is called with other arguments. words: those of the option; beside: as in Does."""

    words: str
    beside: str = ""


Entry = Does | Refused | Held | Passed


@dataclass(frozen=True)
class Form:
    """command: a command of the program, words: what it works on, options: their entries."""

    command: str
    words: str
    options: dict[str, Entry]
    calls: tuple[str, ...] = ()  # "module.function": what does the work of a command that runs until it is ended


def does(words: str, beside: str = "", **variables: str) -> Does:
    return Does(words, beside, variables)


def refused(words: str, beside: str = "") -> Refused:
    return Refused(words, beside)


def passed(words: str, beside: str = "") -> Passed:
    return Passed(words, beside)


def held(test: str) -> Held:
    return Held(test)


def fails(words: str, beside: str = "") -> Refused:
    """As refused(), where the message is about the value and need not name the option."""
    return Refused(words, beside, is_named=False)


def command_lines(form: Form, entry: Does | Refused | Passed) -> tuple[list[str], list[str]]:
    """The command without the option and with it.

    An option that is there already is replaced, not given twice; words that begin with "=" replace the first argument.
    """
    command = form.command.split()
    without = _merged(shlex.split(form.words), shlex.split(entry.beside))
    added = shlex.split(entry.words)
    if added[0].startswith("="):
        return [*command, *without], [*command, added[0][1:], *without[1:], *added[1:]]
    return [*command, *without], [*command, *_merged(without, added)]


def _merged(words: list[str], added: list[str]) -> list[str]:
    given = {word for word in added if word.startswith("-")}
    kept: list[str] = []
    dropping = False
    for word in words:
        dropping = word in given or (dropping and not word.startswith("-"))
        kept += [] if dropping else [word]
    return [*kept, *added]
