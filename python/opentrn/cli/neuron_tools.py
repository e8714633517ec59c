"""`opentrn neuron-tools`: programs under AWS's names, in a folder of the user's choice."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "neuron-tools", help="install neuron-ls, neuron-monitor and the others under AWS's names"
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, text, command in (
        ("install", "write the programs to DIR/bin", _install),
        ("uninstall", "remove what install wrote", _uninstall),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "--prefix", metavar="DIR", type=Path, required=True, help="the folder; AWS's own is /opt/aws/neuron"
        )
        action.set_defaults(command=command)


def _install(options: argparse.Namespace) -> int:
    from opentrn.tools.install import install

    for path in install(options.prefix):
        print(path)
    return 0


def _uninstall(options: argparse.Namespace) -> int:
    from opentrn.tools.install import uninstall

    removed, left = uninstall(options.prefix)
    for path in removed:
        print(f"removed {path}")
    for path in left:
        print(f"left {path}: changed since it was installed")
    return 0
