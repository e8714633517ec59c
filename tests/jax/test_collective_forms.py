"""Every form of a collective in JAX, on every generation: values, and a time of each on that machine's fabric."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.package import PYTHON

PROGRAM = Path(__file__).with_name("collective_forms.py")
FORMS = 22
OPERATIONS = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"}


@pytest.mark.parametrize(
    ("machine", "lnc"),
    [
        ("inf2.48xlarge", "1"),
        ("trn1.32xlarge", "1"),
        ("trn1n.32xlarge", "1"),
        ("trn2.48xlarge", "1"),
        ("trn2.48xlarge", "2"),
        ("trn3-gen1-server", "2"),
        ("trn3-gen2-server", "2"),
    ],
)
def test_every_form_is_right_and_timed(machine, lnc, tmp_path):
    usage = tmp_path / "usage.json"
    # Other tests of this process choose platforms and devices by the environment.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "NEURON_", "OPENTRN_"))}
    own = {"NEURON_PLATFORM_TARGET_OVERRIDE": machine, "NEURON_LOGICAL_NC_CONFIG": lnc, "NEURON_RT_NUM_CORES": "8"}
    own |= {"JAX_PLATFORMS": "neuron", "OPENTRN_STRICT": "1", "OPENTRN_USAGE": str(usage), "PYTHONPATH": str(PYTHON)}
    done = subprocess.run(
        [sys.executable, PROGRAM], env=clean | own, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == FORMS, done.stdout
    traffic = [row["traffic"] for row in json.loads(usage.read_text())["programs"] if "traffic" in row]
    assert {one["machine"] for one in traffic} == {machine}
    collectives = [one for each in traffic for one in each["collectives"]]
    assert {one["name"] for one in collectives} == {f"stablehlo.{name}" for name in OPERATIONS}
    assert all(one["end_ns"] > one["start_ns"] for one in collectives)
