"""neuron-monitor-statsd: lines of the protocol, datagrams that fit, and a server that hears them."""

import json
import re
import socket
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentrn.cli import main
from opentrn.tools import statsd

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


def test_labels_stand_in_the_name_or_behind():
    plain = list(statsd.lines_of(REPORT, "neuron", tags=False))
    assert "neuron.neuroncore_utilization_ratio.neuroncore.5.runtime_tag.job__one:0.42|g" in plain
    assert "neuron.execution_status_total.runtime_tag.job__one.status_type.completed:3|c" in plain
    assert "neuron.system_memory_total_bytes:68719476736|g" in plain
    assert not any("timed_out" in line for line in plain)  # a counter that did not grow
    tagged = list(statsd.lines_of(REPORT, "neuron", tags=True))
    assert "neuron.neuroncore_utilization_ratio:0.42|g|#neuroncore:5,runtime_tag:job__one" in tagged
    assert all(LINE.fullmatch(line) for line in plain + tagged)


@given(st.lists(st.text("abc", min_size=1, max_size=300), max_size=30))
def test_datagrams_hold_every_line_and_fit(lines):
    parts = list(statsd.datagrams(iter(lines)))
    assert [line for part in parts for line in part.decode().split("\n") if line] == lines
    assert all(len(part) <= 1400 for part in parts)


@given(st.text(max_size=20))
def test_a_tag_never_breaks_a_line(tag):
    report = dict(
        REPORT, neuron_runtime_data=[dict(REPORT["neuron_runtime_data"][0], neuron_runtime_tag=tag)]
    )
    for tags in (False, True):
        assert all(LINE.fullmatch(line) for line in statsd.lines_of(report, "neuron", tags))


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
