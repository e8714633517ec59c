#!/usr/bin/env python3
"""The resource claims that AWS publishes for its DRA driver are allocated on slices of simulated nodes.

    ./dev conformance dra CHECKOUT [--python PYTHON]

CHECKOUT: aws-neuron/aws-neuron-sdk (deploy/files/specs). Published are two nodes: a trn2.48xlarge, and one of an
UltraServer, both with the driver's version that a claim names.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

from conformance.environments import add_option, interpreter, yaml_documents  # noqa: E402
from opentrn import _core  # noqa: E402
from opentrn.errors import InputError  # noqa: E402

INSTANCE, DRIVER = "trn2.48xlarge", "2.25.4.0"
# Claim -> how many devices it is given, and physical cores of a logical one.
EXPECTED = {
    "1x4-connected-neurons": (4, "2"),
    "us-2-node-config": (1, "2"),
    "us-4-node-config": (1, "2"),
    "all-neurons": (16, "2"),
    "all-neurons-lnc-1": (16, "1"),
    "driver-version-neuron": (16, "2"),
    "us-and-lnc-config": (1, "1"),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", metavar="CHECKOUT", type=Path)
    add_option(parser, "PyYAML")
    options = parser.parse_args()
    python = options.python or interpreter("yaml", "PyYAML")
    machine = _core.NodeMachine(INSTANCE)
    published = [
        *json.loads(machine.resource_slices("node-a", DRIVER)),
        *json.loads(machine.resource_slices("node-u", DRIVER, ultraserver="us-1")),
    ]
    found = {}
    for path in sorted((options.checkout / "deploy" / "files" / "specs").glob("*.yaml")):
        for document in yaml_documents(python, path):
            if not document or document["kind"] != "ResourceClaimTemplate":
                continue
            name = document["metadata"]["name"]
            try:
                allocation = _core.allocate_claim(json.dumps(document["spec"]["spec"]), json.dumps(published))
                container, servers = machine.container_of(allocation)
                made, variables = json.loads(allocation), json.loads(container)
            except InputError as error:
                print(f"FAILED {name}: {error.message}")
                continue
            found[name] = (len(made["results"]), variables["NEURON_LOGICAL_NC_CONFIG"])
            more = f", {servers} servers together" if servers else ""
            print(f"{name}: {found[name][0]} of {made['results'][0]['pool']}, cores "
                  f"{variables['NEURON_RT_VISIBLE_CORES']}, LNC {found[name][1]}{more}")  # fmt: skip
    good = sum(found.get(name) == expected for name, expected in EXPECTED.items())
    print(f"{good} of {len(EXPECTED)} published claims")
    return 0 if good == len(EXPECTED) else 1


if __name__ == "__main__":
    sys.exit(main())
