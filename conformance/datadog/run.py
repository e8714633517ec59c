#!/usr/bin/env python3
"""Datadog's AwsNeuronCheck collects a simulated device from the exporter for Prometheus.

    ./dev conformance datadog CHECKOUT [--python PYTHON]

CHECKOUT is one of github.com/DataDog/integrations-core, or holds its folder aws_neuron. A process executes a model,
neuron-monitor reports, the exporter serves, and the check, unmodified, is run twice. Counted are the metrics of its map
that it submits; those that a simulated device does not know are named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from conformance.environments import add_option, interpreter  # noqa: E402
from conformance.prometheus import run as with_prometheus  # noqa: E402

UNKNOWN = {"neuroncore_memory_usage_model_code", "neuroncore_memory_usage_runtime_memory",
           "neuroncore_memory_usage_tensors"}  # fmt: skip
CHECK = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import datadog_checks
datadog_checks.__path__.append(sys.argv[1] + "/datadog_checks")
from datadog_checks.aws_neuron.check import AwsNeuronCheck
from datadog_checks.aws_neuron.metrics import METRIC_MAP
from datadog_checks.base.stubs import aggregator
check = AwsNeuronCheck("aws_neuron", {}, [{"openmetrics_endpoint": sys.argv[2]}])
check.run()
time.sleep(2)
error = check.run()
names = {name.removeprefix("aws_neuron.") for name in aggregator.metric_names}
names |= {name.removesuffix(".count") for name in names}  # of counters
print("RESULT " + json.dumps([error, {key: value in names for key, value in METRIC_MAP.items()}]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    add_option(parser, "datadog-checks-base")
    options = parser.parse_args()
    python = options.python or interpreter("datadog", "datadog-checks-base[deps]")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = with_prometheus.free_port()
        started = with_prometheus.start_exporter(folder, port)
        try:
            time.sleep(8)
            done = subprocess.run(
                [python, "-c", CHECK, str(options.checkout / "aws_neuron"), f"http://127.0.0.1:{port}/metrics"],
                stdout=subprocess.PIPE, text=True, timeout=60, env=dict(os.environ, HOME=name),
            )  # fmt: skip
        finally:
            with_prometheus.end(started)
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not results:
        print(f"the check ended with {done.returncode}\n{done.stdout}")
        return 1
    error, found = json.loads(results[0].removeprefix("RESULT "))
    if error:
        print(f"the check failed: {error}")
        return 1
    missing = [key for key, there in found.items() if not there]
    for key in missing:
        print(f"{'unknown to a simulated device' if key in UNKNOWN else 'MISSING'}: {key}")
    print(f"{len(found) - len(missing)} of {len(found)} metrics of the check are submitted")
    return 0 if set(missing) <= UNKNOWN else 1


if __name__ == "__main__":
    sys.exit(main())
