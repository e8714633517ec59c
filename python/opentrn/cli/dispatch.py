"""From the words of a command line to the command that they name, and from its end to an exit status.

Which commands there are says one table of C++ (src/cli/commands.def); a command of C++ is run without NumPy, argparse
or `typing` being imported, a command of Python imports the one module that its row names.
"""

from __future__ import annotations

import sys

from opentrn.cli import core as cli_core
from opentrn.cli import interrupts as cli_interrupts
from opentrn.cli import streams as cli_streams

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from typing import Any

INPUT = 2  # as errors.INPUT, which a command that succeeds need not import


class Row:
    """A command of the table; `entry` is module:function, and empty where C++ has the command."""

    def __init__(self, name: str, entry: str, line: str, passed_on: bool):
        self.name, self.entry, self.line, self.passed_on = name, entry, line, passed_on

    def function(self) -> Any:
        """What `entry` names."""
        from importlib import import_module

        module, _, name = self.entry.partition(":")
        return getattr(import_module(module), name)


def table() -> dict[str, Row]:
    """Every command by its name, in the order of the help."""
    return {row[0]: Row(*row) for row in cli_core.module().cli_commands()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    if sys.stdout is None:
        print("opentrn: standard output is closed\n    try: >/dev/null", file=sys.stderr)
        return INPUT
    cli_streams.take_every_text()
    try:
        with cli_interrupts.terminable():
            status = _main(list(sys.argv[1:] if arguments is None else arguments))
    except cli_interrupts.ENDED as ended:
        status = cli_interrupts.report(ended)
    return cli_streams.flushed(status, INPUT)


def _main(words: list[str]) -> int:
    try:
        commands = table()
    except ValueError as refused:  # a build without commands
        print(f"opentrn: {refused}", file=sys.stderr)
        return INPUT
    row = commands.get(words[0]) if words else None
    if row is not None and not row.entry:
        return _cpp_command(words)
    if row is not None and row.passed_on:
        return row.function()(words)
    if words[:1] == ["profile"] and "--" in words:
        from opentrn.cli import program as cli_program

        return cli_program.main(words[1:])
    parser = parser_of_the_program(None if row is None else row.entry)
    options = parser.parse_args(words)
    if options.command is None:
        parser.print_help()
        return INPUT
    try:
        with _warnings_as_messages(), cli_interrupts.deadline(cli_interrupts.deadline_of(options)):
            return options.command(options)
    except cli_interrupts.ENDED as ended:
        return cli_interrupts.report(ended, options)
    except BrokenPipeError:
        cli_streams.discard_stdout()
        return 0
    except Exception as error:  # the API edge: every failure becomes a message and a status
        return _report(error, options)


def _cpp_command(words: list[str]) -> int:
    """A compiled model is described here, everything else by the C++ core."""
    core = cli_core.module()
    files = [word for word in words[1:] if not word.startswith("-")]
    try:
        is_model = words[0] == "describe" and len(files) == 1
        if not is_model or not (core.is_model_file(files[0]) or files[0].endswith(".neuron")):
            return core.run_cli(words)
        from opentrn.cli.model_file import describe_command

        return describe_command(files[0], "--json" in words)
    except BrokenPipeError:
        cli_streams.discard_stdout()
        return 0
    except Exception as error:  # the API edge
        return _report(error, None)


def _report(error: Exception, options: argparse.Namespace | None) -> int:
    import argparse

    from opentrn.cli.errors import report

    return report(error, argparse.Namespace() if options is None else options)


def _warnings_as_messages() -> AbstractContextManager[object]:
    """What is said of a kernel's results is about the kernel's line, not about ours."""
    import warnings

    from opentrn.cli import style as cli_style
    from opentrn.errors import RESULT_WARNINGS, TargetWarning

    class AsMessages(warnings.catch_warnings):
        def __enter__(self) -> Any:
            log = super().__enter__()
            shown = warnings.showwarning

            def show(message: Warning | str, category: type[Warning], *rest: Any, **options: Any) -> None:
                if issubclass(category, (*RESULT_WARNINGS, TargetWarning)):
                    print(cli_style.message(f"opentrn: warning: {message}", sys.stderr), file=sys.stderr)
                else:
                    shown(message, category, *rest, **options)

            warnings.showwarning = show
            return log

    return AsMessages()


class Commands:
    """What a command's module adds its parser to: argparse's subparsers, with the lines of the table."""

    def __init__(self, subparsers: Any) -> None:
        self._subparsers = subparsers
        self._rows = table()

    def add_parser(self, name: str, **options: Any) -> Any:
        """A parser for the command `name`, which is a row of src/cli/commands.def: KeyError for another."""
        return self._subparsers.add_parser(name, help=self._rows[name].line, **options)


def parser_of_the_program(entry: str | None = None) -> argparse.ArgumentParser:
    """The commands that `entry` adds with their options; without it all of them, those of C++ by name alone."""
    import argparse

    from opentrn import __version__
    from opentrn.cli import help as cli_help

    parser = cli_help.Parser(
        prog="opentrn",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=26),
        description="AWS Trainium in software: run NKI kernels and models, and predict their time.",
        epilog="Exit status: 1 the kernel's fault, 2 the command line's or an input's,\n"
        "3 does not fit, 4 not modelled, 5 unspecified by the public documents, 70 a bug\n"
        "of OpenTrn's, 124 over the deadline, 130 interrupted, 143 terminated.",
    )
    parser.examples = (
        "opentrn run kernel.py              a kernel's or a model's outputs and predicted time",
        "opentrn profile kernel.py          where the time goes",
        "opentrn compare model.onnx         time and price on every chip",
    )
    parser.add_argument("--version", action="version", version=f"opentrn {__version__}")
    parser.set_defaults(command=None)
    commands = Commands(parser.add_subparsers(title="commands", metavar="COMMAND"))
    added = set()
    for row in table().values():
        if entry is not None and row.entry != entry or row.entry in added:
            continue
        if row.entry and not row.passed_on:
            row.function()(commands)
            added.add(row.entry)
            continue
        command = commands.add_parser(row.name, add_help=False)  # for the list of commands and for completion
        if not row.entry:
            command.add_argument("--json", action="store_true")
            if row.name == "describe":
                command.add_argument("machine", nargs="?")
    return parser
