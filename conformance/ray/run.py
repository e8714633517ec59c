#!/usr/bin/env python3
"""Ray finds the simulated cores by neuron-ls, and gives actors cores of their own.

    ./dev conformance ray [--python PYTHON]

Ray calls /opt/aws/neuron/bin/neuron-ls: the tools are installed there in a mount namespace of this run's own, so that
nothing of the machine changes; that needs root, or user namespaces.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from conformance.environments import add_option, interpreter  # noqa: E402

PYTHON = HERE.parents[1] / "python"
PREFIX = "/opt/aws/neuron"
ACTORS = 8
LIMIT_S = 600
PROGRAM = f"""
import json, os, ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
@ray.remote(resources={{"neuron_cores": 1}}, num_cpus=0)
class Actor:
    def cores(self):
        return os.environ.get("NEURON_RT_VISIBLE_CORES")
actors = [Actor.remote() for _ in range({ACTORS})]
cores = ray.get([actor.cores.remote() for actor in actors])
print("RESULT", json.dumps([ray.cluster_resources().get("neuron_cores"), cores]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_option(parser, "ray")
    options = parser.parse_args()
    python = options.python or str(interpreter("ray", "ray==2.60.0"))
    install = shlex.join([sys.executable, "-m", "opentrn", "neuron-tools", "install", "--prefix", PREFIX])
    script = (
        f"set -e; mount -t tmpfs none /opt; PYTHONPATH={shlex.quote(str(PYTHON))} {install} >&2; "
        f"exec {shlex.join([python, '-c', PROGRAM])}"
    )
    # Eight logical cores of one physical core each.
    environment = dict(os.environ, NEURON_PLATFORM_TARGET_OVERRIDE="trn2.3xlarge", NEURON_LOGICAL_NC_CONFIG="1")
    environment.pop("NEURON_RT_VISIBLE_CORES", None)
    home = tempfile.TemporaryDirectory()  # Ray keeps a token there
    environment["HOME"] = home.name
    spaces = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    done = subprocess.run(
        [*spaces, "sh", "-c", script], env=environment, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S
    )
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode != 0 or not results:
        print(f"the program ended with {done.returncode}\n{done.stdout}")
        return 1
    found, cores = json.loads(results[0].removeprefix("RESULT "))
    print(f"ray.init() sees neuron_cores: {found}")
    print(f"{ACTORS} actors have the cores {', '.join(sorted(map(str, cores)))}")
    return 0 if found == ACTORS and sorted(cores) == [str(core) for core in range(ACTORS)] else 1


if __name__ == "__main__":
    sys.exit(main())
