"""What the tools say of a real process that executes a model, and of what is no report."""

import json
import os
import re
import subprocess
import sys
import textwrap
import urllib.request

import pytest

from opentrn.cli import main
from opentrn.tools.prometheus import Collector

PROGRAM = textwrap.dedent(
    """
    import sys
    import numpy as np
    from opentrn.model import compile
    model = compile(sys.argv[1], target="trn2")
    x = np.ones((128, 512), np.float32)
    model(x)
    print("ready", flush=True)
    for line in sys.stdin:
        model(x)
        print("ran", flush=True)
    """
)
MODEL = """module {
func.func @main(%a: tensor<128x512xf32>) -> tensor<128x512xf32> {
  %0 = stablehlo.add %a, %a : tensor<128x512xf32>
  return %0 : tensor<128x512xf32>
}
}
"""
OPENTRN = [sys.executable, "-m", "opentrn"]


@pytest.fixture
def environment(tmp_path):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NEURON_")}
    return dict(
        clean, OPENTRN_RUN_DIR=str(tmp_path / "run"), NEURON_RT_VISIBLE_CORES="5", NEURON_PROCESS_TAG="job one",
        NEURON_PLATFORM_TARGET_OVERRIDE="trn2.48xlarge",
    )  # fmt: skip


@pytest.fixture
def process(tmp_path, environment):
    """A process that has executed a model once, and does so again for each line that it reads."""
    (tmp_path / "double.mlir").write_text(MODEL)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path / "double.mlir"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as started:  # fmt: skip
        assert started.stdout.readline() == "ready\n"
        yield started
        started.stdin.close()
        started.wait()


def execute(process, times):
    for _ in range(times):
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ran\n"


def listed(environment):
    done = subprocess.run([*OPENTRN, "neuron-ls", "-j"], capture_output=True, text=True, env=environment, check=True)
    return [[p["pid"] for p in device["neuron_processes"]] for device in json.loads(done.stdout)]


def test_a_process_is_listed_on_the_device_of_its_core(process, environment):
    assert listed(environment)[:3] == [[], [process.pid], []]
    process.stdin.close()
    process.wait()
    assert not any(listed(environment))


def test_a_report_counts_executions_and_simulated_time(process, environment, tmp_path):
    config = tmp_path / "monitor.conf"
    groups = ("neuroncore_counters", "execution_stats", "memory_used", "neuron_runtime_vcpu_usage")
    metrics = [{"type": name} for name in groups]
    config.write_text(json.dumps({"period": "2s", "neuron_runtimes": [{"tag_filter": "^job", "metrics": metrics}]}))
    command = [*OPENTRN, "neuron-monitor", "-c", config, "--verbose", "1"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as monitor:
        # It follows the process once it is listed as a tool, and its first report says nothing of what was before.
        first = json.loads(monitor.stdout.readline())
        execute(process, 5)
        second = json.loads(monitor.stdout.readline())
        monitor.terminate()
        assert monitor.wait() == 143
    assert first["neuron_hardware_info"]["neuron_device_count"] == 16
    (runtime,) = second["neuron_runtime_data"]
    assert (runtime["pid"], runtime["neuron_runtime_tag"]) == (process.pid, "job one")
    report = runtime["report"]
    assert report["execution_stats"]["execution_summary"]["completed"] == 5
    latency = report["execution_stats"]["latency_stats"]["device_latency"]
    assert 1e-6 < latency["p0"] == latency["p100"] < 1e-3  # the timing model gives every run the same time
    core = report["neuroncore_counters"]["neuroncores_in_use"]["5"]
    assert 0 <= core["neuroncore_utilization"] < 1 and set(core["v3d"]) == {"nc_v3.10", "nc_v3.11"}
    assert report["memory_used"]["loaded_models"][0]["subgraphs"]["sg_00"]["neuron_device_index"] == 1


def test_a_bad_configuration_is_refused(tmp_path, capsys):
    for text, what in ((b"\xff", "UTF-8"), (b"{", "not JSON")):
        (tmp_path / "c").write_bytes(text)
        assert main(["neuron-monitor", "-c", str(tmp_path / "c")]) == 2
        assert what in capsys.readouterr().err
    assert main(["neuron-monitor", "-c", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def report_of(period, completed):
    runtime = {
        "neuroncore_counters": {"neuroncores_in_use": {"5": {"neuroncore_utilization": 42.0}, "6": {}}},
        "execution_stats": {"period": period, "execution_summary": {"completed": completed},
                            "latency_stats": {"total_latency": None}},
    }  # fmt: skip
    return {
        "neuron_runtime_data": [{"neuron_runtime_tag": "a", "report": runtime}],
        "system_data": {}, "instance_info": {"instance_type": "trn2.48xlarge"}, "neuron_hardware_info": {},
    }  # fmt: skip


def test_counters_add_up_and_a_repeated_period_counts_once():
    collector = Collector()
    for period, completed in ((1.0, 3), (1.0, 3), (1.1, 4)):
        collector.take(report_of(period, completed))
    samples = {s.name: s for metric in collector.collect() for s in metric.samples}
    assert samples["execution_status_total"].value == 7
    ratio = samples["neuroncore_utilization_ratio"]
    assert ratio.value == 0.42 and ratio.labels["neuroncore"] == "5"
    assert ratio.labels["instance_type"] == "trn2.48xlarge"
    assert "execution_latency_seconds" not in samples  # null: nobody knows


def test_the_exporter_serves_on_loopback_and_survives_what_is_no_report(environment):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*OPENTRN, "neuron-monitor-prometheus", "--port", str(port)]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as exporter:
        for line in ("no report", "[]", '{"instance_info": 3}', json.dumps(report_of(1.0, 3))):
            exporter.stdin.write(line + "\n")
        exporter.stdin.flush()
        for _ in range(3):
            assert "passed over" in exporter.stderr.readline()
        text = ""
        for _ in range(100):
            text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
            if "execution_status_total{" in text:
                break
        assert re.search(r'execution_status_total{[^}]*status_type="completed"[^}]*} 3.0', text)
        exporter.stdin.close()
        assert exporter.wait(timeout=10) == 0
    assert main(["neuron-monitor-prometheus", "--port", "0", "--host", "256.0.0.1"]) == 2


JAX = textwrap.dedent(
    """
    import subprocess, sys
    import numpy as np
    import jax
    f = jax.jit(lambda a: a + a)
    first, second = jax.devices()
    kept = [jax.device_put(np.ones((64, 64), np.float32), device) for device in (first, second)]
    for _ in range(2):
        f(kept[0]).block_until_ready()
    for _ in range(3):
        f(kept[1]).block_until_ready()
    subprocess.run([sys.executable, "-m", "opentrn", "device-tree", "--root", sys.argv[1]], check=True)
    """
)


def test_jax_counts_on_the_core_of_the_device(environment, tmp_path):
    pytest.importorskip("jax")
    environment |= {"JAX_PLATFORMS": "neuron", "NEURON_RT_VISIBLE_CORES": "1-2",
                    "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2.3xlarge"}  # fmt: skip
    command = [sys.executable, "-c", JAX, tmp_path / "tree"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    device = tmp_path / "tree" / "sys" / "devices" / "virtual" / "neuron_device" / "neuron0"
    for core, executions in ((0, 0), (1, 2), (2, 3), (3, 0)):
        stats = device / f"neuron_core{core}" / "stats"
        assert int((stats / "other_info" / "inference_count").read_text()) == executions
        tensors = int((stats / "memory_usage" / "device_mem" / "tensors" / "total").read_text())
        assert (tensors >= 64 * 64 * 4) == (executions > 0)
