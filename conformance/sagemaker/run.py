#!/usr/bin/env python3
"""SageMaker's training toolkit counts the simulated cores by neuron-ls.

    ./dev conformance sagemaker [--python PYTHON]

The toolkit is sagemaker-training of PyPI. Its environment.num_neurons() runs `neuron-ls -j` of the PATH, which is
OpenTrn's, installed in a folder of this run's own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from conformance.environments import add_option, interpreter  # noqa: E402

PROGRAM = """
import sys
from sagemaker_training import environment
print(environment.num_neurons("ml." + sys.argv[1]))
"""
EXPECTED = {"trn1.2xlarge": 2, "trn1.32xlarge": 32, "inf2.48xlarge": 24, "trn2.48xlarge": 64}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_option(parser, "sagemaker-training")
    options = parser.parse_args()
    python = options.python or interpreter("sagemaker", "sagemaker-training", "setuptools<81")
    good = 0
    with tempfile.TemporaryDirectory() as prefix:
        subprocess.run(
            [sys.executable, "-m", "opentrn", "neuron-tools", "install", "--prefix", prefix],
            env=dict(os.environ, PYTHONPATH=str(ROOT / "python")), check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        for instance, cores in EXPECTED.items():
            environment = dict(
                os.environ,
                PATH=f"{prefix}/bin:{os.environ['PATH']}",
                NEURON_PLATFORM_TARGET_OVERRIDE=instance,
            )
            done = subprocess.run(
                [python, "-c", PROGRAM, instance],
                env=environment, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            found = done.stdout.split()[-1:] or ["nothing"]
            good += found == [str(cores)]
            print(f"{instance}: num_neurons() is {found[0]}, expected {cores}")
    print(f"{good} of {len(EXPECTED)} instances")
    return 0 if good == len(EXPECTED) else 1


if __name__ == "__main__":
    sys.exit(main())
