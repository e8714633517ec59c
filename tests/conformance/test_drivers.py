"""Programs that the build makes on request, benchmarks and drivers of conformance runners, can be built."""

from __future__ import annotations

import re
import subprocess

from conformance.drivers import BUILD, built
from conformance.vllm_sampler.run import case, text

SEED = 5


def executables() -> set[str]:
    """Of the whole build, also those that it makes on request."""
    listed = subprocess.run(["ninja", "-C", BUILD, "-t", "targets", "all"], capture_output=True, text=True, check=True)
    return set(re.findall(r"^(\S+): CXX_EXECUTABLE_LINKER", listed.stdout, re.MULTILINE))


def test_every_program_can_be_built() -> None:
    names = executables()
    assert "src/serving/opentrn_serving_bench" in names and len(names) > 12
    done = subprocess.run(["ninja", "-C", BUILD, *sorted(names)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_sampler_reads_cases() -> None:
    driver = built("opentrn_vllm_sampler", "decoder")
    work = case(SEED)
    done = subprocess.run([driver], input=text(work), capture_output=True, text=True, check=True)
    probabilities = [float(word) for word in done.stdout.split()]
    assert len(probabilities) == len(work["logits"]) and abs(sum(probabilities) - 1) < 1e-9
