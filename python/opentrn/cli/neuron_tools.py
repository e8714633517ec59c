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
    _add_monitor(commands)


def _add_monitor(commands: Any) -> None:
    monitor = commands.add_parser("neuron-monitor", help="reports of the simulated device, in AWS's schema")
    monitor.add_argument("-c", "--config-file", metavar="FILE", type=Path, help="which metrics, and how often")
    monitor.add_argument("--verbose", type=int, choices=range(5), default=0, help="more on standard error")
    monitor.add_argument("--instance", metavar="NAME", default="", help="the simulated machine")
    monitor.set_defaults(command=_monitor)
    exporter = commands.add_parser(
        "neuron-monitor-prometheus", help="serve the reports on standard input to Prometheus"
    )
    exporter.add_argument("--port", type=int, default=8000, help="(default: %(default)s)")
    exporter.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="(default: %(default)s)")
    exporter.set_defaults(command=_prometheus)


def _monitor(options: argparse.Namespace) -> int:
    from opentrn.tools.monitor import run

    return run(options.config_file, options.instance, options.verbose)


def _prometheus(options: argparse.Namespace) -> int:
    from opentrn.tools.prometheus import run

    return run(options.port, options.host)


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
