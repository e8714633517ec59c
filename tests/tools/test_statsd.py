"""neuron-monitor-statsd: lines that no tag breaks, and a server that hears them.

What the lines say: src/monitor/companion_metrics_test.cc.
"""

import json
import re
import socket
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentrn import _core
from opentrn.cli import main

REPORT = {
    "neuron_runtime_data": [{
        "neuron_runtime_tag": "job: one",
        "report": {
            "neuroncore_counters": {"neuroncores_in_use": {"5": {"neuroncore_utilization": 42.0}}},
            "execution_stats": {"period": 1.0, "execution_summary": {"completed": 3, "timed_out": 0}},
        },
    }],
    "system_data": {"memory_info": {"memory_total_bytes": 68719476736}},
    "instance_info": {}, "neuron_hardware_info": {},
}  # fmt: skip
LINE = re.compile(r"[A-Za-z0-9_.\-]+:-?[0-9.e+\-]+\|[gc](\|#[A-Za-z0-9_\-:,]+)?")


def _lines(report, tags):
    return "\n".join(_core.statsd_datagrams(json.dumps(report), "neuron", tags)).split("\n")


@given(st.text(max_size=20))
def test_a_tag_never_breaks_a_line(tag):
    report = dict(
        REPORT, neuron_runtime_data=[dict(REPORT["neuron_runtime_data"][0], neuron_runtime_tag=tag)]
    )
    for tags in (False, True):
        assert all(LINE.fullmatch(line) for line in _lines(report, tags))


def test_a_server_hears_them():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(20)
        command = [
            sys.executable,
            "-m",
            "opentrn",
            "neuron-monitor-statsd",
            "--port",
            str(server.getsockname()[1]),
        ]
        done = subprocess.run(
            command, input=f"no report\n{json.dumps(REPORT)}\n", capture_output=True, text=True
        )
        assert done.returncode == 0 and "passed over" in done.stderr
        assert b"neuroncore_utilization_ratio" in server.recv(65536)


@pytest.mark.parametrize("words", [["--prefix", "a b"], ["--host", "no.such.host.invalid"]])
def test_names_that_are_none(words, capsys):
    assert main(["neuron-monitor-statsd", *words]) == 2
    assert "tools.statsd" in capsys.readouterr().err
