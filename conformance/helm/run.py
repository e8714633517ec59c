#!/usr/bin/env python3
"""The values for AWS's Helm chart deploy OpenTrn's device plug-in.

    ./dev conformance helm CHART [--python PYTHON]

CHART is charts/neuron-helm-chart of a checkout of aws-neuron/neuron-helm-charts. Helm itself is not at hand. Checked
are: every value of examples/kubernetes/values.yaml is one that the chart has, of the same kind; the chart's template of
the DaemonSet takes the image from them; it mounts what the image's command needs; and that command, of the Dockerfile,
registers both resources with a kubelet's socket, its folders being those of this run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent import futures
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

from conformance.environments import add_option, interpreter, yaml_documents  # noqa: E402
from opentrn.tools.kubernetes import messages  # noqa: E402

EXAMPLE = ROOT / "examples" / "kubernetes"
RESOURCES = {"aws.amazon.com/neuron", "aws.amazon.com/neuroncore"}
LIMIT_S = 60


def unknown(values: Any, chart: Any, place: str = "") -> list[str]:
    """Values that the chart does not have, or has as another kind."""
    if not isinstance(values, dict):
        return [] if isinstance(values, type(chart)) or chart is None else [place]
    if not isinstance(chart, dict):
        return [place]
    found = []
    for key, value in values.items():
        inner = f"{place}.{key}".lstrip(".")
        found += unknown(value, chart[key], inner) if key in chart else [inner]
    return found


def entry_point(target: str) -> list[str]:
    """Of the Dockerfile's stage."""
    text = (EXAMPLE / "Dockerfile").read_text()
    stage = text.partition(f" AS {target}\n")[2].partition("\nFROM ")[0]
    return json.loads(re.findall(r"^ENTRYPOINT (\[.*\])$", stage, re.MULTILINE)[-1])


def registered(command: list[str], environment: dict[str, str]) -> set[str]:
    """The resources that the command registers with a kubelet; its folders are made here."""
    grpc, made = messages.grpc_module(), messages.classes()
    seen: set[str] = set()

    def register(request: Any, context: Any) -> Any:
        seen.add(request.resource_name)
        return made["Empty"]()

    handler = grpc.unary_unary_rpc_method_handler(
        register, request_deserializer=made["RegisterRequest"].FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="opentrn-helm-") as name:
        place = Path(name)
        plugins, run = place / "plugins", place / "run"
        plugins.mkdir()
        python = [sys.executable, "-m", "opentrn"]
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), **environment)
        subprocess.run([*python, "device-tree", "--root", str(run / "opentrn")], env=environment, check=True)
        server = grpc.server(futures.ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler}),)
        )
        server.add_insecure_port(f"unix:{plugins / 'kubelet.sock'}")
        server.start()
        words = [word.replace("/run/", f"{run}/") for word in command[1:]]
        plugin = subprocess.Popen([*python, *words, "--kubelet", str(plugins)], env=environment)
        try:
            until = time.monotonic() + LIMIT_S
            while not seen >= RESOURCES and time.monotonic() < until and plugin.poll() is None:
                time.sleep(0.1)
        finally:
            plugin.terminate()
            plugin.wait()
            server.stop(None).wait()
    return seen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chart", metavar="CHART", type=Path)
    add_option(parser, "PyYAML")
    options = parser.parse_args()
    python = options.python or interpreter("yaml", "PyYAML")
    values = yaml_documents(python, EXAMPLE / "values.yaml")[0]
    wrong = unknown(values, yaml_documents(python, options.chart / "values.yaml")[0])
    template = (options.chart / "templates" / "device-plugin-daemonset.yaml").read_text()
    helpers = (options.chart / "templates" / "_helpers.tpl").read_text()
    command = entry_point("device-plugin")
    mounts = set(re.findall(r"mountPath: (\S+)", template))
    dockerfile = (EXAMPLE / "Dockerfile").read_text()
    target = re.findall(r"^ENV NEURON_PLATFORM_TARGET_OVERRIDE=(\S+)$", dockerfile, re.MULTILINE)
    checks = {
        f"the chart has each value{': not ' + ', '.join(wrong) if wrong else ''}": not wrong,
        "its DaemonSet takes the image from the values":
            "devicePlugin.image.repository" in helpers + template and "devicePlugin.image.tag" in helpers + template,
        "and gives it no words of its own": not re.search(r"^\s+(command|args):", template, re.MULTILINE),
        "it mounts the kubelet's folder and /run": {"/var/lib/kubelet/device-plugins", "/run"} <= mounts,
        "the nodes it wants are those that the image plays": values["neuronInstances"] == target,
        "the image's command registers both resources":
            registered(command, {"NEURON_PLATFORM_TARGET_OVERRIDE": target[0]}) == RESOURCES,
    }  # fmt: skip
    for what, good in checks.items():
        print(f"{'ok    ' if good else 'FAILED'}  {what}")
    print(f"{sum(checks.values())} of {len(checks)} checks")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
