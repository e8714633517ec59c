"""How the program explains itself: grouped options, a short answer to a wrong command line, and completion."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from opentrn.cli import style as cli_style

SHELLS = ("bash", "zsh", "tcsh")


class Parser(argparse.ArgumentParser):
    """A command line that does not parse gets a few lines, of which examples are most; --help has the rest."""

    examples: tuple[str, ...] = ()
    exit_status = 2

    def error(self, message: str) -> NoReturn:
        """Ends the program with what is wrong and how the command is used."""
        text = f"{self.prog}: {message}\n"
        if self.examples:
            text += "".join(f"    {example}\n" for example in self.examples)
        text += f"    try: {self.prog} --help\n"
        self.exit(self.exit_status, cli_style.message(text, sys.stderr))


@dataclass(frozen=True)
class Groups:
    """Where the options of a command go, in the order of --help."""

    inputs: Any
    target: Any
    kernel: Any
    model: Any
    output: Any

    @classmethod
    def of(cls, parser: argparse.ArgumentParser) -> Groups:
        """Empty groups, which --help does not show, are no harm."""
        return cls(
            inputs=parser.add_argument_group("inputs and what is computed"),
            target=parser.add_argument_group("machine"),
            kernel=parser.add_argument_group("kernels"),
            model=parser.add_argument_group("models"),
            output=parser.add_argument_group("output"),
        )


def add_completion(commands: Any) -> None:
    """`completion` on the parser of the program."""
    parser = commands.add_parser(
        "completion",
        description="Print a script that completes commands, options and names of machines. It needs the package "
        "shtab (pip install 'opentrn[completion]'); what it prints needs nothing.",
        epilog="opentrn completion bash > ~/.local/share/bash-completion/completions/opentrn",
    )  # fmt: skip
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(command=completion_command)


def completion_command(options: argparse.Namespace) -> int:
    """opentrn completion SHELL."""
    from opentrn.cli import dispatch as cli
    from opentrn.cli.kernel_file import UsageError

    try:
        import shtab
    except ImportError:
        raise UsageError(
            "completion scripts are made by shtab", label="package.absent", hint="pip install shtab"
        ) from None
    parser = cli.parser_of_the_program()
    _add_options_of_the_core(parser)
    for known in _all_parsers(parser):
        for action in known._actions:  # argparse has no other way to them
            _say_how_to_complete(action, shtab)
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _add_options_of_the_core(parser: argparse.ArgumentParser) -> None:
    """To the commands that the C++ core parses, of which this parser knows the names alone."""
    from opentrn import _core

    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    for command, names, is_flag, text in _core.cli_options():
        known = commands.choices.get(command)
        if known is None or not names[0].startswith("-") or set(names) & set(known._option_string_actions):
            continue
        known.add_argument(*names, action="store_true" if is_flag else "store", help=text.replace("%", "%%"))


def _all_parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [inner for each in action.choices.values() for inner in _all_parsers(each)]
    return found


# Options and arguments that name a file, by their dest.
_FILES = (
    "kernel", "model", "input", "html", "perfetto", "output", "save_program", "custom_ops", "settings", "report",
)  # fmt: skip


def _say_how_to_complete(action: argparse.Action, shtab: Any) -> None:
    """Names of machines for --target, files for what names one."""
    if action.dest in ("target", "machine") and not action.choices:
        action.choices = machine_names()
    elif action.dest in _FILES and not action.choices:
        action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab reads it
    elif action.dest == "save_outputs":
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]  # shtab reads it


def machine_names() -> list[str]:
    """What --target takes: families and instances."""
    import json

    from opentrn import _core

    machines = json.loads(_core.machines())
    return [*_core.families(), *(row["name"] for row in machines["instances"])]
