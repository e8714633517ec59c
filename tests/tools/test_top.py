"""neuron-top: what its lines say of a report, its keys, and the program on a terminal."""

import json
import os
import pty
import select
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentrn import _core
from opentrn.cli import main
from opentrn.tools import top


def view_of():
    return _core.TopView("trn2.48xlarge")


def runtime(tag, core, percent, flops, **memory):
    used = {"host": 5 << 20, "neuron_device": sum(memory.values()), "usage_breakdown": {
        "host": {"application_memory": 5 << 20, "constants": 0, "dma_buffers": 0, "tensors": 0},
        "neuroncore_memory_usage": {str(core): memory}}}  # fmt: skip
    models = [{"name": "mlp", "model_id": 10001, "subgraphs": {"sg_00": {
        "neuroncore_index": core, "memory_used_bytes": {"host": 0, "neuron_device": 4096}}}}]  # fmt: skip
    return {
        "neuron_runtime_tag": tag,
        "report": {
            "neuroncore_counters": {
                "neuroncores_in_use": {str(core): {"neuroncore_utilization": percent, "flops": flops}}
            },
            "memory_used": {"neuron_runtime_used_bytes": used, "loaded_models": models},
            "neuron_runtime_vcpu_usage": {"vcpu_usage": {"user": 30.0, "system": 2.0}},
        },
    }


REPORT = {
    "neuron_runtime_data": [
        runtime("train", 5, 75.0, 4_000_000_000_000, constants=1 << 20, tensors=2 << 20),
        runtime("serve", 8, 12.5, 1_000_000_000_000, constants=3 << 20),
    ],
    "system_data": {"vcpu_usage": {"average_usage": {"user": 40.0, "system": 10.0}}},
}


def text_of(view=None, report=REPORT, width=100, height=40):
    lines = top.screen(json.dumps(report), view or view_of(), width, height)
    assert len(lines) == height and all(sum(len(t) for t, _ in line) <= width for line in lines)
    return ["".join(text for text, _ in line) for line in lines]


def test_the_sections_of_all_processes():
    lines = text_of()
    text = "\n".join(lines)
    assert "trn2.48xlarge (simulated)" in lines[0] and "no instance id" in lines[0]
    assert "NeuronCore v3d utilisation of simulated time" in lines[1]
    assert (
        "NC5  [||||||  ]   75.0%" in text
        and "NC8  [|       ]   12.5%" in text
        and "NC4  [        ]       -" in text
    )
    assert "14 of 16 devices are held by no process" in text
    assert "user  40.0%  system  10.0%" in text and "user  60.0%  system   4.0%" in text
    assert "Host Used Memory    Total    10.0MB" in text and "Device Used Memory  Total     6.0MB" in text
    assert "Tensors 2.0MB  Constants 4.0MB  Model Code -" in text
    assert any(line.split() == ["-", "Neuron", "Device", "1", "-", "3.0MB"] for line in lines)
    assert any("model mlp" in line and "10001" in line and "4.0KB" in line for line in lines)
    assert lines[-2].split() == [">1:all<", "2:train", "3:serve"]


def test_keys_change_the_view():
    view, report = view_of(), json.dumps(REPORT)
    assert (
        view.press("F", report)
        and "teraflops" in text_of(view)[1]
        and any("4.00" in line for line in text_of(view))
    )
    assert view.press("3", report) and not any(
        "train<" in line or "NC5" in line for line in text_of(view)[:-2]
    )
    assert view.press("d", report) and view.tab == 0 and view.press("a", report) and view.tab == 2
    view = view_of()
    assert view.press("left", report) and "+ Neuron Device 1" in "\n".join(text_of(view))
    assert not any("NeuronCore 5" in line for line in text_of(view))
    assert view.press("right", report) and any("NeuronCore 5" in line for line in text_of(view))
    assert view.press("x", report) and not any("NeuronCore" in line for line in text_of(view)[8:])
    assert view.press("down", report) and view.row == 1
    assert not view.press("q", report)


def test_nothing_runs_and_small_windows():
    assert any("no process holds cores" in line for line in text_of(report={}))
    for height in range(4, 30):
        text_of(width=60, height=height)


@settings(deadline=None, max_examples=60)
@given(
    st.text(max_size=30),
    st.integers(50, 140),
    st.integers(4, 50),
    st.lists(st.sampled_from("qfFad123x"), max_size=6),
)
def test_any_tag_and_window_fit(tag, width, height, keys):
    view = view_of()
    report = {"neuron_runtime_data": [runtime(tag, 63, 100.0, 0)]}
    for key in keys:
        view.press(key, json.dumps(report))
    assert all(c.isprintable() for line in text_of(view, report, width, height) for c in line)


def test_without_a_terminal_it_is_refused(capsys):
    assert main(["neuron-top"]) == 2
    assert "neuron-monitor" in capsys.readouterr().err


def test_it_draws_on_a_terminal_and_ends(tmp_path):
    ours, theirs = pty.openpty()
    environment = dict(
        os.environ, TERM="xterm", LINES="40", COLUMNS="100", OPENTRN_RUN_DIR=str(tmp_path / "run")
    )
    command = [sys.executable, "-m", "opentrn", "neuron-top", "--instance", "trn1.32xlarge"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as started:
        os.close(theirs)
        seen = b""
        end = time.monotonic() + 20
        while b"no process holds cores" not in seen and time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                seen += os.read(ours, 65536)
        assert b"trn1.32xlarge (simulated)" in seen and b"no process holds cores" in seen
        os.write(ours, b"q")
        while started.poll() is None and time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    os.read(ours, 65536)
                except OSError:
                    break
        assert started.wait(timeout=10) == 0
    os.close(ours)


@pytest.mark.parametrize(
    ("count", "text"), [(None, "-"), (0, "0B"), (1023, "1023B"), (1 << 20, "1.0MB"), (3 << 40, "3072.0GB")]
)
def test_sizes(count, text):
    assert _core.top_size_text(count) == text


def test_a_report_of_the_monitor_is_one(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENTRN_RUN_DIR", str(tmp_path))
    monitor = _core.Monitor("trn2.48xlarge", _core.top_config(), "neuron-top")
    time.sleep(max(monitor.wait_s(), 0))
    assert len(top.screen(monitor.report(), view_of(), 90, 30)) == 30
