"""`opentrn profile --html --perfetto -- python program`: what collectives of a JAX program did to the fabric."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:4]), ("model",))
put = lambda value, *axes: jax.device_put(value, NamedSharding(mesh, P(*axes)))
a, b = put(np.ones((256, 512), np.float32), None, "model"), put(np.ones((512, 256), np.float32), "model", None)
product = jax.jit(lambda x, y: x @ y)
for _ in range(3):
    out = product(a, b)
assert (np.asarray(out.addressable_data(0)) == 512).all()
"""


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    (folder / "program.py").write_text(PROGRAM)
    page = folder / "page.html"
    command = [sys.executable, "-m", "opentrn", "profile", "--target", "trn2.48xlarge"]
    command += ["--json", "-", "--html", str(page), "--perfetto", str(folder / "events.json")]
    # Other tests of this process choose platforms and devices by the environment.
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAX_", "NEURON_", "OPENTRN_"))
    }
    done = subprocess.run(
        [*command, "--", sys.executable, str(folder / "program.py")],
        env=clean,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), page.read_text(), json.loads((folder / "events.json").read_text())


def test_traffic_says_what_the_totals_say(profiled):
    summary, page, _ = profiled
    (row,) = [row for row in summary["programs"] if "traffic" in row]
    traffic = row["traffic"]
    assert traffic["machine"] == "trn2.48xlarge"
    assert traffic["total_ns"] == pytest.approx(row["device_us"] * 1e3)
    assert traffic["exposed_ns"] == pytest.approx(row["exposed_us"] * 1e3)
    (one,) = traffic["collectives"]
    assert one["group"] == [0, 1, 2, 3] and one["bytes"] == 256 * 256 * 4
    assert one["end_ns"] - one["start_ns"] == pytest.approx(row["collectives_us"] * 1e3)
    assert one["bus_gb_s"] == pytest.approx(1.5 * one["bytes"] / (one["end_ns"] - one["start_ns"]))
    assert traffic["links"] and all(0 < link["percent"] < 101 for link in traffic["links"])
    assert traffic["verdict"].replace(">", "") in page_text(page).replace(">", "")


def test_events_have_cc_cores_and_links_over_time(profiled):
    summary, _, events = profiled
    (row,) = [row for row in summary["programs"] if "traffic" in row]
    listed = events["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in listed if event["name"] == "process_name"}
    assert list(processes.values()) == ["ranks", "collectives (CC-cores)", "links"]
    (one,) = [event for event in listed if event["ph"] == "X" and "bus_gb_s" in event["args"]]
    assert processes[one["pid"]] == "collectives (CC-cores)"
    (told,) = row["traffic"]["collectives"]
    assert one["dur"] * 1e3 == pytest.approx(told["end_ns"] - told["start_ns"], abs=1)
    assert one["args"]["algorithm"] == told["algorithm"] and one["args"]["stream"] == told["stream"]
    assert one["args"]["algorithm_gb_s"] == pytest.approx(told["algorithm_gb_s"])
    links = {event["name"] for event in listed if event["ph"] == "C"}
    assert links == {f"{link['kind']} {link['name']}" for link in row["traffic"]["links"]}


def page_text(page):
    return page[page.index('"verdict":"') + len('"verdict":"') :].split('"', 1)[0]


def test_one_of_two_physical_cores_is_said_with_its_bound(profiled):
    summary, _, _ = profiled
    assert summary["physical_cores_per_core"] == 2
    (row,) = [row for row in summary["programs"] if "traffic" in row]
    assert row["exposed_us"] < row["both_cores_us_min"] < row["device_us"]
