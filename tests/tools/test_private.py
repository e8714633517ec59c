"""Ports that the tools open are of the loopback address, and nothing that a user keeps secret reaches a log."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from opentrn.cli import main
from opentrn.tools.kubernetes import extender

ROOT = Path(__file__).resolve().parents[2]
SECRET = "sEcReT0123456789"
SERVERS = ("neuron-monitor-prometheus", "kubernetes scheduler-extender", "neuron-monitor-statsd")


@pytest.mark.parametrize("command", SERVERS)
def test_the_default_address_is_this_machines_own(command, capsys):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    text = " ".join(capsys.readouterr().out.split())
    host = re.search(r"--host \w+ .*?\(default: (\S+?)\)", text)
    assert host and host[1] == "127.0.0.1"


def test_no_source_binds_all_addresses():
    """Of the tools and of libnrt: an address is the user's, or the loopback's."""
    files = [*(ROOT / "python/opentrn/tools").rglob("*.py"), *(ROOT / "src/nrt").glob("*.cc")]
    named = re.compile(r'"0\.0\.0\.0"|"::"|INADDR_ANY|\("", *\d')
    assert len(files) > 20 and [str(path) for path in files if named.search(path.read_text())] == []


def test_the_exporter_listens_on_loopback_only():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "opentrn", "neuron-monitor-prometheus", "--port", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as exporter:
        report = {"instance_info": {}, "neuron_runtime_data": []}
        exporter.stdin.write(json.dumps(report) + "\n" + SECRET + "\n")
        exporter.stdin.flush()
        assert "not a report" in exporter.stderr.readline()  # it is up, and does not repeat what it read
        listening = Path("/proc/net/tcp").read_text().split("\n")[1:]
        places = {row.split()[1] for row in listening if row and row.split()[3] == "0A"}
        assert {place.partition(":")[0] for place in places if place.endswith(f":{port:04X}")} == {"0100007F"}
        exporter.stdin.close()
        assert SECRET not in exporter.stderr.read()


def test_the_extender_repeats_nothing_of_a_request(capfd):
    class Cluster:
        def node(self, name):
            raise KeyError(SECRET)

        def call(self, *words):
            raise KeyError(SECRET)

    serving = extender.server(extender.Extender(Cluster()), "127.0.0.1", 0)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    try:
        pod = {"spec": {"containers": [{"env": [{"name": "TOKEN", "value": SECRET}],
                                        "resources": {"limits": {"aws.amazon.com/neuron": 1}}}]}}  # fmt: skip
        for verb, body in (
            ("filter", {"pod": pod, "nodenames": ["n"]}),
            ("bind", {"podName": SECRET, "podNamespace": "d", "node": "n"}),
        ):  # fmt: skip
            request = urllib.request.Request(
                f"http://127.0.0.1:{serving.server_address[1]}/{verb}", json.dumps(body).encode(),
                {"Authorization": f"Bearer {SECRET}"},
            )  # fmt: skip
            assert SECRET not in urllib.request.urlopen(request, timeout=20).read().decode()
    finally:
        serving.shutdown()
        serving.server_close()
        thread.join()
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err


PROGRAM = """
import os, sys
import numpy as np
from opentrn.model import compile
compile("module { func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> { "
        "%0 = stablehlo.add %a, %a : tensor<8x8xf32> return %0 : tensor<8x8xf32> } }\\n")(np.ones((8, 8), np.float32))
for command in (["neuron-ls", "-j"], ["device-tree", "--root", sys.argv[1] + "/tree"]):
    if os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-m", "opentrn", *command]):
        sys.exit(1)
"""


def test_variables_of_a_process_are_in_no_record_and_no_profile(tmp_path):
    """Tools show a command line, as AWS's do; variables, where keys are kept, they do not."""
    environment = dict(
        os.environ, AWS_SECRET_ACCESS_KEY=SECRET, HF_TOKEN=SECRET, OPENTRN_RUN_DIR=str(tmp_path / "run"),
        NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_DEVICE_PROFILE="1",
        NEURON_RT_INSPECT_OUTPUT_DIR=str(tmp_path / "inspect"),
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path], env=environment, capture_output=True, text=True, check=True
    )
    assert '"pid"' in done.stdout and list((tmp_path / "inspect").rglob("*.ntff"))
    assert SECRET not in done.stdout + done.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 100 and not any(SECRET.encode() in path.read_bytes() for path in written)
