"""AWS's tools and the services around a node, as commands; `opentrn neuron-tools` installs the tools."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def pass_on(words: list[str]) -> int:
    """`opentrn neuronx-cc ...`, `opentrn neuron_parallel_compile ...`: whose words are AWS's, not argparse's."""
    if words[0] == "neuronx-cc":
        from opentrn.tools.neuronx_cc import run
    else:
        from opentrn.tools.parallel_compile import run
    return run(words[1:])


def add_command(commands: Any) -> None:
    parser = commands.add_parser("neuron-tools")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, text, command in (
        (
            "install",
            "write the programs to DIR/bin, libnrt to DIR/lib and its headers to DIR/include",
            _install,
        ),
        ("uninstall", "remove what install wrote", _uninstall),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument(
            "--prefix",
            metavar="DIR",
            type=Path,
            required=True,
            help="the folder; AWS's own is /opt/aws/neuron",
        )
        action.set_defaults(command=command)
    _add_monitor(commands)
    _add_top(commands)
    _add_device_tree(commands)
    _add_explorer(commands)
    _add_kubernetes(commands)
    _add_slurm(commands)


def _add_instance(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--instance", metavar="NAME", default="", help="the simulated machine")


def _add_monitor(commands: Any) -> None:
    monitor = commands.add_parser("neuron-monitor")
    monitor.add_argument(
        "-c", "--config-file", metavar="FILE", type=Path, help="which metrics, and how often"
    )
    monitor.add_argument("--verbose", type=int, choices=range(5), default=0, help="more on standard error")
    _add_instance(monitor)
    monitor.set_defaults(command=_monitor)
    exporter = commands.add_parser("neuron-monitor-prometheus")
    exporter.add_argument("--port", type=int, default=8000, help="(default: %(default)s)")
    exporter.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="(default: %(default)s)")
    exporter.set_defaults(command=_prometheus)
    statsd = commands.add_parser("neuron-monitor-statsd")
    statsd.add_argument("--port", type=int, default=8125, help="(default: %(default)s)")
    statsd.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="(default: %(default)s)")
    statsd.add_argument(
        "--prefix", metavar="NAME", default="neuron", help="of the metrics' names (default: %(default)s)"
    )
    statsd.add_argument("--tags", choices=("none", "datadog"), default="none",
                        help="labels in the names (default), or as tags of DogStatsD")  # fmt: skip
    statsd.set_defaults(command=_statsd)


def _add_top(commands: Any) -> None:
    top = commands.add_parser("neuron-top")
    _add_instance(top)
    top.set_defaults(command=_top)


def _add_device_tree(commands: Any) -> None:
    tree = commands.add_parser("device-tree")
    tree.add_argument(
        "--root", metavar="DIR", type=Path, required=True, help="below which sys/ and dev/ are written"
    )
    tree.add_argument("--every", metavar="SECONDS", type=float, help="write again and again (default: once)")
    tree.add_argument("--remove", action="store_true", help="remove a tree that this wrote")
    _add_instance(tree)
    tree.set_defaults(command=_device_tree)


def _add_explorer(commands: Any) -> None:
    explorer = commands.add_parser("neuron-explorer")
    actions = explorer.add_subparsers(title="actions", metavar="ACTION", required=True)
    capture = actions.add_parser("capture", help="predict a model's timeline")
    capture.add_argument(
        "-n", "--neff", metavar="FILE", type=Path, required=True, help="a compiled model (.neuron)"
    )
    capture.add_argument("-s", "--session-file", metavar="FILE", type=Path, default=Path("profile.ntff"),
                         help="(default: %(default)s)")  # fmt: skip
    capture.add_argument(
        "--loop-iterations", type=int, metavar="N", help="of loops whose bounds depend on values"
    )
    capture.set_defaults(command=_explorer_capture)
    view = actions.add_parser("view", help="write a profile as tables")
    view.add_argument("-n", "--neff", metavar="FILE", type=Path, help="of the profile; it is not needed")
    view.add_argument("-s", "--session-file", metavar="FILE", type=Path, default=Path("profile.ntff"),
                      help="(default: %(default)s)")  # fmt: skip
    view.add_argument("--output-format", choices=("parquet", "perfetto", "json", "summary-text"), default="parquet",
                      help="(default: %(default)s)")  # fmt: skip
    view.add_argument("--output-file", "--data-path", metavar="PATH", type=Path, dest="output",
                      help="a file; of Parquet a folder (default: output)")  # fmt: skip
    view.set_defaults(command=_explorer_view)
    schema = actions.add_parser("schema", help="the tables and fields that view writes")
    schema.set_defaults(command=_explorer_schema)


def _add_kubernetes(commands: Any) -> None:
    parser = commands.add_parser("kubernetes")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    plugin = actions.add_parser("device-plugin", help="register the node's devices with a kubelet")
    plugin.add_argument("--kubelet", metavar="DIR", type=Path, default=Path("/var/lib/kubelet/device-plugins"),
                        help="(default: %(default)s)")  # fmt: skip
    plugin.add_argument("--dev", metavar="DIR", type=Path, default=Path("/dev"),
                        help="where neuron0 and so on are (default: %(default)s)")  # fmt: skip
    plugin.add_argument("--resource", choices=("neuron", "neuroncore", "both"), default="both",
                        help="(default: %(default)s)")  # fmt: skip
    _add_instance(plugin)
    plugin.set_defaults(command=_device_plugin)
    extender = actions.add_parser("scheduler-extender", help="filter and bind for kube-scheduler")
    extender.add_argument("--api", metavar="URL", default="http://127.0.0.1:8001",
                          help="the API server, as kubectl proxy gives it (default: %(default)s)")  # fmt: skip
    extender.add_argument("--port", type=int, default=32700, help="(default: %(default)s)")
    extender.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="(default: %(default)s)")
    extender.set_defaults(command=_extender)
    slices = actions.add_parser("resource-slices", help="ResourceSlice and DeviceClass objects as JSON")
    slices.add_argument("--node", metavar="NAME", required=True)
    slices.add_argument(
        "--driver-version", metavar="V", default="", help="as in 2.25.4.0; without it none is published"
    )
    slices.add_argument("--ultraserver", metavar="ID", default="", help="the node is one of an UltraServer")
    _add_instance(slices)
    slices.set_defaults(command=_resource_slices)


def _add_slurm(commands: Any) -> None:
    parser = commands.add_parser("slurm")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    config = actions.add_parser("config", help="gres.conf, and lines for slurm.conf")
    config.add_argument("--nodes", metavar="NAMES", required=True, help="as in trn[0-3]")
    config.add_argument(
        "--dev", metavar="DIR", default="/dev", help="where neuron0 and so on are (default: %(default)s)"
    )
    config.add_argument(
        "--prolog", metavar="FILE", default="", help="a script that runs `opentrn slurm task-prolog`"
    )
    _add_instance(config)
    config.set_defaults(command=_slurm_config)
    prolog = actions.add_parser("task-prolog", help="what a TaskProlog prints: the task's cores")
    _add_instance(prolog)
    prolog.set_defaults(command=_slurm_prolog)


def _monitor(options: argparse.Namespace) -> int:
    from opentrn.tools.monitor import run

    return run(options.config_file, options.instance, options.verbose)


def _prometheus(options: argparse.Namespace) -> int:
    from opentrn.tools.prometheus import run

    return run(options.port, options.host)


def _statsd(options: argparse.Namespace) -> int:
    from opentrn.tools.statsd import run

    return run(options.host, options.port, options.prefix, options.tags == "datadog")


def _top(options: argparse.Namespace) -> int:
    from opentrn.tools.top import run

    return run(options.instance)


def _device_tree(options: argparse.Namespace) -> int:
    from opentrn.tools import device_tree

    if options.remove:
        device_tree.remove(options.root)
        return 0
    return device_tree.run(options.root, options.instance, options.every)


def _explorer_capture(options: argparse.Namespace) -> int:
    from opentrn.tools import explorer

    print(explorer.capture(options.neff, options.session_file, options.loop_iterations))
    return 0


def _explorer_view(options: argparse.Namespace) -> int:
    from opentrn.tools import explorer

    for path in explorer.view(options.session_file, options.output_format, options.output):
        print(path)
    return 0


def _explorer_schema(options: argparse.Namespace) -> int:
    from opentrn.tools import explorer

    for row in explorer.schema_rows():
        print(
            f"{row['table_name']}.{row['field_name']:<36} {row['field_type']:<8} {row['field_description']}"
        )
    return 0


def _device_plugin(options: argparse.Namespace) -> int:
    from opentrn.tools.kubernetes.device_plugin import RESOURCES, run

    kinds = RESOURCES if options.resource == "both" else (options.resource,)
    return run(options.instance, options.kubelet, options.dev, kinds)


def _extender(options: argparse.Namespace) -> int:
    from opentrn.tools.kubernetes.extender import run

    return run(options.api, options.host, options.port)


def _resource_slices(options: argparse.Namespace) -> int:
    import json

    from opentrn.tools.kubernetes.resource_slices import device_class, slices

    items = [
        device_class(),
        *slices(options.instance, options.node, options.driver_version, options.ultraserver),
    ]
    print(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
    return 0


def _slurm_config(options: argparse.Namespace) -> int:
    from opentrn.tools.slurm import configuration

    for name, text in configuration(options.instance, options.nodes, options.dev, options.prolog).items():
        print(f"# {name}\n{text}", end="")
    return 0


def _slurm_prolog(options: argparse.Namespace) -> int:
    from opentrn.tools.slurm import task_prolog

    print(task_prolog(options.instance), end="")
    return 0


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
