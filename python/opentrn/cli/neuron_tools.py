"""AWS's tools and the services around a node, as commands; `opentrn neuron-tools` installs the tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from opentrn.errors import InputError


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
    exporter.add_argument("--enable-k8s-info", action="store_true",
                          help="ask the kubelet which pods hold the cores, and pass the reports on")  # fmt: skip
    _add_pod_resources(exporter)
    exporter.set_defaults(command=_prometheus)
    cloudwatch = commands.add_parser("neuron-monitor-cloudwatch")
    cloudwatch.add_argument("--namespace", metavar="NAME", required=True, help="of the metrics")
    cloudwatch.add_argument("--region", metavar="NAME", required=True, help="as in us-west-2")
    cloudwatch.set_defaults(command=_cloudwatch)
    k8s_info = commands.add_parser("neuron-monitor-k8s-info")
    _add_pod_resources(k8s_info)
    k8s_info.set_defaults(command=_k8s_info)
    statsd = commands.add_parser("neuron-monitor-statsd")
    statsd.add_argument("--port", type=int, default=8125, help="(default: %(default)s)")
    statsd.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="(default: %(default)s)")
    statsd.add_argument(
        "--prefix", metavar="NAME", default="neuron", help="of the metrics' names (default: %(default)s)"
    )
    statsd.add_argument("--tags", choices=("none", "datadog"), default="none",
                        help="labels in the names (default), or as tags of DogStatsD")  # fmt: skip
    statsd.set_defaults(command=_statsd)


# Options without effect unless another is given, by their attributes, and what they are by default.
_OF_PODS = {"period": 15.0, "socket": Path("/var/lib/kubelet/pod-resources/kubelet.sock"), "instance": ""}
_OF_A_SESSION = {
    "ignore_device_profile": False, "ignore_system_profile": False, "system_trace_filter_neuron_core": "",
    "system_trace_filter_event_type": "", "system_trace_filter_instance_id": "",
    "system_trace_primary_group": "instance_id,process_id", "system_trace_secondary_group": "lnc_idx",
}  # fmt: skip


def _refuse_given(options: argparse.Namespace, defaults: dict[str, Any], why: str) -> None:
    from opentrn.cli.models import refuse_given

    refuse_given(options, defaults, why)


def _add_pod_resources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--period", metavar="SECONDS", type=float, default=_OF_PODS["period"],
                        help="how often the kubelet is asked (default: 15)")  # fmt: skip
    parser.add_argument("--socket", metavar="FILE", type=Path, default=_OF_PODS["socket"],
                        help="of the kubelet (default: %(default)s)")  # fmt: skip
    _add_instance(parser)


def _add_top(commands: Any) -> None:
    top = commands.add_parser("neuron-top")
    _add_instance(top)
    top.set_defaults(command=_top)


def _period(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a period: seconds from 0.01 to 86400")
    return seconds


def _add_device_tree(commands: Any) -> None:
    tree = commands.add_parser("device-tree")
    tree.add_argument(
        "--root", metavar="DIR", type=Path, required=True, help="below which sys/ and dev/ are written"
    )
    tree.add_argument("--every", metavar="SECONDS", type=_period, help="write again and again (default: once)")
    tree.add_argument("--remove", action="store_true", help="remove a tree that this wrote")
    _add_instance(tree)
    tree.set_defaults(command=_device_tree)


# Options of AWS's that a simulated device has no use for, and why.
_NOT_OF_CAPTURE = {
    "--profile-nth-exec": "one execution is like the other: the timeline is predicted once",
    "--capture-type": "neuron-explorer inspect records events of the runtime",
    "--exec-mode": "an execution is done when its call returns",
    "--ignore-exec-errors": "the timeline does not need an execution that succeeds: leave the inputs out",
    "--enable-dge-notifs": "DMA transfers have their names without it",
    "--single-io": "the memory of a host holds all tensors",
    "--single-io-threshold": "the memory of a host holds all tensors",
    "--collectives-workers-per-node": "a container holds the program of one core; JAX and PyTorch run several",
    "--collectives-worker-count": "a container holds the program of one core; JAX and PyTorch run several",
    "--collectives-worker-start-id": "a container holds the program of one core; JAX and PyTorch run several",
    "--collectives-profile-id": "a container holds the program of one core; JAX and PyTorch run several",
    "--multi-input": "a container holds the program of one core; JAX and PyTorch run several",
    "--systrace-get-event-types": "neuron-explorer inspect records them: model_load, nc_exec_running, nrt_execute",
    "--systrace-event-filter": "set NEURON_RT_INSPECT_EVENT_FILTER_TYPE for neuron-explorer inspect",
}
_NOT_OF_VIEW = {
    "--ingest-only": "there is no web interface: ui.perfetto.dev opens the traces, any reader of Parquet the tables",
    "--display-name": "there is no web interface to show it",
    "--framework-source-root": "tables name file and line; they hold no source text",
    "--nki-source-root": "tables name file and line; they hold no source text",
    "-F": "OpenTrn has no such switches",
}
_SHORT = {
    "--capture-type": "-t", "--collectives-workers-per-node": "-r", "--collectives-profile-id": "-i",
    "--multi-input": "-m",
}  # fmt: skip


class _Refused(argparse.Action):
    """An option of AWS's that is refused by its name, with the reason, when the command is run."""

    def __init__(self, *words: Any, why: str, **more: Any) -> None:
        more |= {"nargs": "?", "help": argparse.SUPPRESS, "default": argparse.SUPPRESS}
        super().__init__(*words, **more)
        self._why = why

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        namespace.refused = f"neuron-explorer has no {option} here: {self._why}"


def _expect_not_refused(options: argparse.Namespace) -> None:

    if text := getattr(options, "refused", ""):
        raise InputError(text, label="tools.explorer")


def _refuse_options(parser: argparse.ArgumentParser, reasons: dict[str, str]) -> None:
    for name, why in reasons.items():
        names = [name, _SHORT[name]] if name in _SHORT else [name]
        parser.add_argument(*names, action=_Refused, why=why, dest=f"refused{name}")


def _add_explorer(commands: Any) -> None:
    explorer = commands.add_parser("neuron-explorer")
    explorer.add_argument("-v", "--version", action="store_true", help="OpenTrn's")
    explorer.add_argument(
        "--show-profile-schema", action="store_true", help="the tables and fields that view writes"
    )
    explorer.set_defaults(command=_explorer_alone)
    actions = explorer.add_subparsers(title="actions", metavar="ACTION")
    _add_explorer_capture(actions)
    _add_explorer_view(actions)
    inspect = actions.add_parser("inspect", help="run a program, and profile all that it executes")
    inspect.add_argument("-o", "--output-dir", metavar="DIR", type=Path, default=Path("."),
                         help="(default: the current folder)")  # fmt: skip
    inspect.add_argument("-n", "--num-trace-events", metavar="N", type=int,
                         help="of a core, before old ones are dropped")  # fmt: skip
    inspect.add_argument("program", nargs=argparse.REMAINDER, help="the program and its words")
    inspect.set_defaults(command=_explorer_inspect)
    recommend = actions.add_parser("recommend", help="what would make a compiled model faster, as Markdown")
    recommend.add_argument(
        "-n", "--neff", metavar="FILE", type=Path, required=True, help="a compiled model (.neuron)"
    )
    recommend.add_argument("-s", "--session-file", metavar="FILE", type=Path,
                           help="of the model; it is not needed")  # fmt: skip
    recommend.add_argument("--nki-source-root", metavar="DIR", type=Path, help="where source lines are read")
    recommend.add_argument(
        "--loop-iterations", type=int, metavar="N", help="of loops whose bounds depend on values"
    )
    recommend.set_defaults(command=_explorer_recommend)
    schema = actions.add_parser("schema", help="the tables and fields that view writes")
    schema.set_defaults(command=_explorer_schema)


def _add_explorer_capture(actions: Any) -> None:
    capture = actions.add_parser("capture", help="predict a model's timeline")
    capture.add_argument("inputs", nargs="*", metavar="NAME FILE", help="values of inputs, as .npy files")
    capture.add_argument(
        "-n", "--neff", metavar="FILE", type=Path, default=Path("file.neff"),
        help="a compiled model (default: %(default)s)",
    )  # fmt: skip
    capture.add_argument("-s", "--session-file", metavar="FILE", type=Path, default=Path("profile.ntff"),
                         help="(default: %(default)s)")  # fmt: skip
    capture.add_argument("--num-exec", metavar="N", type=int, default=1,
                         help="executions; one that nothing is asked of is not made (default: 1)")  # fmt: skip
    capture.add_argument("--save-output-npy", action="store_true", help="write outputs, as NAME.npy")
    capture.add_argument("--save-output", action="store_true", help="write outputs, as their bytes")
    capture.add_argument("--check-output-determinism", action="store_true",
                         help="compare the outputs of all executions")  # fmt: skip
    capture.add_argument("--disable-profile", action="store_true", help="execute, and write no profile")
    capture.add_argument(
        "--loop-iterations", type=int, metavar="N", help="of loops whose bounds depend on values"
    )
    _refuse_options(capture, _NOT_OF_CAPTURE)
    capture.set_defaults(command=_explorer_capture)


def _add_explorer_view(actions: Any) -> None:
    from opentrn.tools.explorer import FORMATS

    view = actions.add_parser("view", help="write a profile as tables")
    view.add_argument("-n", "--neff", metavar="FILE", type=Path, help="of the profile; it is not needed")
    view.add_argument("-s", "--session-file", metavar="FILE", type=Path, default=Path("profile.ntff"),
                      help="(default: %(default)s)")  # fmt: skip
    view.add_argument("-d", "--session-dir", metavar="DIR", type=Path,
                      help="a folder of neuron-explorer inspect's, in place of a file")  # fmt: skip
    view.add_argument("--output-format", choices=FORMATS, default="parquet", help="(default: %(default)s)")
    view.add_argument("--output-file", "--data-path", metavar="PATH", type=Path, dest="output",
                      help="a file; of Parquet a folder (default: output)")  # fmt: skip
    of_folder = view.add_argument_group("of a folder")
    of_folder.add_argument("--ignore-device-profile", action="store_true", help="only the system profile")
    of_folder.add_argument("--ignore-system-profile", action="store_true", help="only device profiles")
    for name, what in (
        ("neuron-core", "logical cores"), ("event-type", "names of events"), ("instance-id", "instances"),
    ):  # fmt: skip
        of_folder.add_argument(f"--system-trace-filter-{name}", metavar="LIST", default="", help=f"only these {what}")
    of_folder.add_argument("--system-trace-primary-group", metavar="LIST", default="instance_id,process_id",
                           help="processes of the Perfetto trace (default: %(default)s)")  # fmt: skip
    of_folder.add_argument("--system-trace-secondary-group", metavar="LIST", default="lnc_idx",
                           help="its rows (default: %(default)s)")  # fmt: skip
    _refuse_options(view, _NOT_OF_VIEW)
    view.set_defaults(command=_explorer_view)


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

    if not options.enable_k8s_info:
        _refuse_given(options, _OF_PODS, "only for pods, which --enable-k8s-info asks the kubelet for")
        return run(options.port, options.host)
    from opentrn.tools.kubernetes.k8s_info import Kubelet

    return run(options.port, options.host, Kubelet(options.socket, options.period, options.instance).info)


def _cloudwatch(options: argparse.Namespace) -> int:
    from opentrn.tools.cloudwatch import run

    return run(options.namespace, options.region)


def _k8s_info(options: argparse.Namespace) -> int:
    from opentrn.tools.kubernetes.k8s_info import run

    return run(options.socket, options.period, options.instance)


def _statsd(options: argparse.Namespace) -> int:
    from opentrn.tools.statsd import run

    return run(options.host, options.port, options.prefix, options.tags == "datadog")


def _top(options: argparse.Namespace) -> int:
    from opentrn.tools.top import run

    return run(options.instance)


def _device_tree(options: argparse.Namespace) -> int:
    import time

    from opentrn import _core

    if options.remove:
        if options.every is not None or options.instance:
            raise InputError("--every and --instance are of a tree that is written, and this one is removed",
                             label="cli.argument", hint="leave them out")  # fmt: skip
        _core.remove_device_tree(options.root)
        return 0
    if options.every is None:
        _core.write_device_tree(options.root, options.instance)
        return 0
    _core.hold_as_tool()
    while True:  # until it is interrupted, which leaves the tree
        _core.write_device_tree(options.root, options.instance, 2 * options.every)
        time.sleep(options.every)


def _explorer_alone(options: argparse.Namespace) -> int:
    from opentrn import __version__

    if options.version:
        print(f"neuron-explorer of OpenTrn {__version__}")
        return 0
    if options.show_profile_schema:
        return _explorer_schema(options)
    raise InputError(
        "no action is named", label="tools.explorer", hint="capture, view, inspect, recommend or schema"
    )


def _explorer_capture(options: argparse.Namespace) -> int:
    _expect_not_refused(options)
    from opentrn.tools import explorer

    asked = explorer.Capture(
        tuple(options.inputs), options.num_exec, options.save_output_npy, options.save_output,
        options.check_output_determinism, options.disable_profile,
    )  # fmt: skip
    for path in explorer.capture(options.neff, options.session_file, options.loop_iterations, asked):
        print(path)
    return 0


def _explorer_view(options: argparse.Namespace) -> int:
    _expect_not_refused(options)
    from opentrn.tools import explorer, explorer_session

    if options.neff is not None:
        print(f"opentrn: --neff {options.neff} is not read: the profile has what is shown", file=sys.stderr)
    if options.session_dir is None:
        _refuse_given(options, _OF_A_SESSION, "only for a folder, which --session-dir names")
        paths = explorer.view(options.session_file, options.output_format, options.output)
    else:
        filters = explorer_session.Filters(
            options.system_trace_filter_neuron_core,
            {each for each in options.system_trace_filter_event_type.split(",") if each},
            {each for each in options.system_trace_filter_instance_id.split(",") if each},
            options.ignore_system_profile, options.ignore_device_profile,
        )  # fmt: skip
        grouping = explorer_session.Grouping(
            options.system_trace_primary_group, options.system_trace_secondary_group
        )
        paths = explorer_session.view(
            options.session_dir, options.output_format, options.output, filters, grouping
        )
    for path in paths:
        print(path)
    return 0


def _explorer_inspect(options: argparse.Namespace) -> int:
    from opentrn.tools import explorer_session

    return explorer_session.inspect(options.output_dir, options.num_trace_events, options.program)


def _explorer_recommend(options: argparse.Namespace) -> int:
    from opentrn.tools import recommend

    if options.session_file is not None:
        print(f"opentrn: --session-file {options.session_file} is not read: the model is timed", file=sys.stderr)
    print(recommend.recommend(options.neff, options.nki_source_root, options.loop_iterations), end="")
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

    from opentrn import _core

    machine = _core.NodeMachine(options.instance)
    made = machine.resource_slices(options.node, options.driver_version, options.ultraserver)
    items = [json.loads(_core.dra_device_class()), *json.loads(made)]
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
