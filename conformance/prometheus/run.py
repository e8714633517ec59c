#!/usr/bin/env python3
"""A real Prometheus server answers the queries of AWS's Grafana dashboard about a simulated device.

    ./dev conformance prometheus CHECKOUT [--prometheus PROGRAM]

CHECKOUT is one of aws-neuron/aws-neuron-sdk; PROGRAM is the server (default: that of Debian's package prometheus,
unpacked into .deps/conformance). A process
executes a model all the while; neuron-monitor reports each second, and the server scrapes the exporter. A query counts
as answered when the server returns at least one finite number.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from conformance.environments import unpack_debian  # noqa: E402

PYTHON = HERE.parents[1] / "python"
DASHBOARD = "src/examples/neuron-monitor/neuron-monitor-grafana.json"
SCRAPES_S = 15
PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[2])
import numpy as np
from opentrn.model import compile
model = compile(sys.argv[1], target="trn2")
x = np.ones((128, 512), np.float32)
while True:
    model(x)
    time.sleep(0.001)  # so that its simulated time shows beside the pauses of a busy host
"""
MODEL = """module {
func.func @main(%a: tensor<128x512xf32>) -> tensor<128x512xf32> {
  %0 = stablehlo.add %a, %a : tensor<128x512xf32>
  return %0 : tensor<128x512xf32>
}
}
"""


def queries_of(dashboard: object) -> list[str]:
    """Every different `expr` of a dashboard, in order."""
    found: dict[str, None] = {}

    def walk(node: object) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("expr"), str):
                found[node["expr"].strip()] = None
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(dashboard)
    return list(found)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answer(port: int, query: str) -> list[float]:
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(url, timeout=10) as response:
        return [float(row["value"][1]) for row in json.load(response)["data"]["result"]]


def start_exporter(folder: Path, exporter: int) -> list[subprocess.Popen[bytes]]:
    """A process that executes a model, the monitor, and the exporter at the port; end() ends them."""
    (folder / "monitor.json").write_text(
        json.dumps({
            "period": "1s",
            "neuron_runtimes": [{"metrics": [{"type": name} for name in (
                "neuroncore_counters", "execution_stats", "memory_used", "neuron_runtime_vcpu_usage")]}],
            "system_metrics": [{"type": name} for name in ("vcpu_usage", "memory_info", "neuron_hw_counters")],
        })
    )  # fmt: skip
    (folder / "model.mlir").write_text(MODEL)
    environment = dict(os.environ, PYTHONPATH=str(PYTHON), OPENTRN_RUN_DIR=str(folder / "run"))
    environment["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn2.48xlarge"
    opentrn = [sys.executable, "-m", "opentrn"]
    job = [sys.executable, "-c", PROGRAM, str(folder / "model.mlir"), str(PYTHON)]
    started = [subprocess.Popen(job, env=environment)]
    try:
        monitor = subprocess.Popen(
            [*opentrn, "neuron-monitor", "-c", str(folder / "monitor.json")],
            env=environment,
            stdout=subprocess.PIPE,
        )
        started.append(monitor)
        command = [*opentrn, "neuron-monitor-prometheus", "--port", str(exporter)]
        started.append(subprocess.Popen(command, env=environment, stdin=monitor.stdout))
    except BaseException:
        end(started)
        raise
    return started


def end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in reversed(started):
        process.terminate()
    for process in started:
        process.wait()


def ask_all(folder: Path, server: Path, queries: Sequence[str]) -> dict[str, list[float]]:
    """Starts everything, waits for some scrapes, and asks; ends what it started."""
    exporter, port = free_port(), free_port()
    scrape = {
        "job_name": "neuron",
        "scrape_interval": "1s",
        "static_configs": [{"targets": [f"127.0.0.1:{exporter}"]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))
    store = [f"--storage.tsdb.path={folder / 'data'}", f"--config.file={folder / 'prometheus.yml'}"]
    started = start_exporter(folder, exporter)
    try:
        with (folder / "log").open("wb") as log:
            command = [str(server), *store, f"--web.listen-address=127.0.0.1:{port}"]
            started.append(subprocess.Popen(command, stdout=log, stderr=log))
        time.sleep(SCRAPES_S)
        return {query: answer(port, query) for query in queries}
    finally:
        end(started)


def debian_server() -> Path:
    folder = HERE.parents[1] / ".deps" / "conformance" / "prometheus"
    server = folder / "usr" / "bin" / "prometheus"
    if not server.exists():
        unpack_debian(folder, "prometheus")
    return server


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--prometheus", metavar="PROGRAM", type=Path)
    options = parser.parse_args()
    server = options.prometheus or debian_server()
    queries = queries_of(json.loads((options.checkout / DASHBOARD).read_text()))
    with tempfile.TemporaryDirectory() as folder:
        answers = ask_all(Path(folder), server, queries)
    answered = 0
    for query, values in answers.items():
        good = any(math.isfinite(value) for value in values)
        answered += good
        shown = ", ".join(f"{value:.6g}" for value in values[:7]) or "nothing"
        print(f"{'answered' if good else 'NOTHING '}  {query}: {shown}")
    print(f"{answered} of {len(queries)} different queries answered")
    return 0 if queries and answered == len(queries) else 1


if __name__ == "__main__":
    sys.exit(main())
