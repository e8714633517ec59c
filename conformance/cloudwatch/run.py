#!/usr/bin/env python3
"""neuron-monitor-cloudwatch with the real boto3, against a stand-in for CloudWatch on the loopback address.

    ./dev conformance cloudwatch [--python PYTHON]

A process executes a model, neuron-monitor reports, and the companion sends; the stand-in takes PutMetricData, checks
that each request is signed, and counts what boto3 encoded. Then it refuses, and the companion is to tell the code of
the error and nothing of the request, keys least of all.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from conformance.environments import add_option, interpreter  # noqa: E402

SECRET = "SECRETSECRETSECRET"
REPORTS = 3
WANTED = {"neuroncore_utilization_ratio", "neuron_runtime_memory_used_bytes", "execution_status_total",
          "system_memory_used_bytes", "hardware_ecc_events_total"}  # fmt: skip


class Service(ThreadingHTTPServer):
    """CloudWatch's part of it: `names` of metrics that came, how many requests were signed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.names: set[str] = set()
        self.namespaces: set[str] = set()
        self.requests = self.signed = 0
        self.refuses = False


def metric_names(kind: str, body: bytes) -> tuple[set[str], str]:
    """(names, namespace) of a request, in JSON, in CBOR or as a form, as boto3's release encodes it."""
    if "json" in kind:
        content = json.loads(body)
        return {row["MetricName"] for row in content["MetricData"]}, content["Namespace"]
    if "cbor" in kind:  # texts lie in it as they are
        return {name for name in WANTED if name.encode() in body}, "opentrn_test" if b"opentrn_test" in body else ""
    rows = dict(parse_qsl(body.decode()))
    return {value for key, value in rows.items() if key.endswith("MetricName")}, rows.get("Namespace", "")


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        service = self.server
        service.requests += 1
        service.signed += "AWS4-HMAC-SHA256" in self.headers.get("Authorization", "")
        kind = self.headers.get("Content-Type", "")
        names, namespace = metric_names(kind, body)
        service.names |= names
        service.namespaces.add(namespace)
        text = b""
        if service.refuses:
            text = json.dumps({"__type": "AccessDenied", "message": f"not with {SECRET}"}).encode()
            if "form" in kind:
                text = (b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>" + SECRET.encode()
                        + b"</Message></Error></ErrorResponse>")  # fmt: skip
        self.send_response(403 if service.refuses else 200)
        self.send_header("Content-Type", kind if text == b"" or "cbor" not in kind else "application/json")
        self.send_header("smithy-protocol", self.headers.get("smithy-protocol", ""))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: object) -> None:
        return


def reports(folder: Path) -> str:
    """Some reports of neuron-monitor."""
    (folder / "monitor.json").write_text(json.dumps({
        "period": "200ms",
        "neuron_runtimes": [{"metrics": [{"type": name} for name in (
            "neuroncore_counters", "execution_stats", "memory_used", "neuron_runtime_vcpu_usage")]}],
        "system_metrics": [{"type": name} for name in ("memory_info", "neuron_hw_counters", "vcpu_usage")],
    }))  # fmt: skip
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), OPENTRN_RUN_DIR=str(folder / "run"),
                       NEURON_PLATFORM_TARGET_OVERRIDE="trn2.48xlarge")  # fmt: skip
    program = ("import time\nimport numpy as np\nfrom opentrn.model import compile\n"
               "m = compile('module { func.func @main(%a: tensor<128x512xf32>) -> tensor<128x512xf32> {\\n"
               "%0 = stablehlo.add %a, %a : tensor<128x512xf32> return %0 : tensor<128x512xf32> } }')\n"
               "while True:\n    m(np.ones((128, 512), np.float32))\n    time.sleep(0.01)\n")  # fmt: skip
    job = subprocess.Popen([sys.executable, "-c", program], env=environment)
    monitor = subprocess.Popen(
        [sys.executable, "-m", "opentrn", "neuron-monitor", "-c", str(folder / "monitor.json")],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines: list[str] = []
    try:
        while len(lines) < REPORTS:
            line = monitor.stdout.readline()
            if json.loads(line)["neuron_runtime_data"]:
                lines.append(line)
        return "".join(lines)
    finally:
        for each in (monitor, job):
            each.terminate()
            each.wait()


def send(python: str, service: Service, text: str) -> subprocess.CompletedProcess[str]:
    environment = dict(
        os.environ, PYTHONPATH=str(ROOT / "python"), AWS_ACCESS_KEY_ID="AKIAEXAMPLE", AWS_SECRET_ACCESS_KEY=SECRET,
        AWS_ENDPOINT_URL_CLOUDWATCH=f"http://127.0.0.1:{service.server_address[1]}", AWS_MAX_ATTEMPTS="1",
    )  # fmt: skip
    program = "import sys\nfrom opentrn.tools.cloudwatch import run\nsys.exit(run('opentrn_test', 'us-west-2'))"
    return subprocess.run(
        [python, "-c", program], input=text, capture_output=True, text=True, env=environment, timeout=120
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_option(parser, "boto3")
    options = parser.parse_args()
    python = options.python or str(interpreter("cloudwatch", "boto3"))
    with tempfile.TemporaryDirectory() as place, Service() as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        text = reports(Path(place))
        taken = send(python, service, text)
        came, requests, signed = set(service.names), service.requests, service.signed
        service.refuses = True
        refused = send(python, service, text)
        service.shutdown()
    checks = {
        "reports are sent": taken.returncode == 0 and requests >= REPORTS and not taken.stderr,
        "each request is signed": requests == signed > 0,
        "the metrics are there": came >= WANTED and service.namespaces == {"opentrn_test"},
        "a refusal is told": refused.returncode == 0 and "values are lost" in refused.stderr,
        "and holds no secret": SECRET not in refused.stderr + refused.stdout + taken.stderr,
    }
    for what, good in checks.items():
        print(f"{'ok    ' if good else 'FAILED'}  {what}")
    if not all(checks.values()):
        print(re.sub(SECRET, "...", taken.stderr + refused.stderr)[-1500:])
    print(f"{len(came)} metrics in {requests} requests; {sum(checks.values())} of {len(checks)} checks")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
