"""The example jobs: what each file asks of its service, and what the entry point makes of the service's variables."""

import json

import pytest

from conformance.jobs import run as jobs
from opentrn.tools.install import install

TORCHRUN = '#!/bin/bash\nprintf "%s\\n" "$@"\n'


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """OpenTrn's tools, stand-ins for srun and scontrol, and a torchrun that prints its words."""
    tools = tmp_path_factory.mktemp("tools")
    install(tools)
    jobs.stand_ins(tools / "bin")
    (tools / "bin" / "torchrun").write_text(TORCHRUN)
    (tools / "bin" / "torchrun").chmod(0o755)
    return [tools / "bin"]


# Nodes, cores of each.
EXPECTED = {"aws-batch": (2, "32"), "ecs": (1, "2"), "parallelcluster": (2, "32"), "sagemaker": (1, "2")}


@pytest.mark.parametrize("job", jobs.jobs(), ids=lambda job: job.name)
def test_the_entry_point_starts_torchrun_on_every_node(job, paths):
    assert jobs.lacking(job) == ""
    nodes, cores = EXPECTED[job.name]
    started = jobs.start(job, paths, 29512, OPENTRN_RUN_DIR="off")
    assert len(started) == nodes
    for number, each in enumerate(started):
        said, error = each.communicate(timeout=120)
        assert each.returncode == 0, error
        words = said.split("\n")[:-1]
        options = dict(zip(words[:10:2], words[1:10:2]))
        assert options == {
            "--nnodes": str(nodes), "--node-rank": str(number), "--master-addr": "127.0.0.1", "--master-port": "29512",
            "--nproc-per-node": cores,
        }  # fmt: skip
        assert words[10].endswith("ddp_torch.py") and words[11:] == ["--steps", "20"]


def test_a_job_that_does_not_fit_its_instance_is_told():
    job = jobs.jobs()[0]
    job.devices = [*job.devices, "/dev/neuron16"]
    assert jobs.lacking(job) == "trn1.32xlarge has no /dev/neuron16"
    job.devices, job.environment = [], {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn2.48xlarge"}
    assert "names trn2.48xlarge" in jobs.lacking(job)


def test_the_entry_point_counts_ranges_and_knows_its_host(paths):
    job = next(each for each in jobs.jobs() if each.name == "sagemaker")
    job.nodes = [{"SM_HOSTS": json.dumps(["algo-2", "algo-1"]), "SM_CURRENT_HOST": "algo-2",
                  "NEURON_RT_VISIBLE_CORES": "0-3,8"}]  # fmt: skip
    (started,) = jobs.start(job, paths, 1, OPENTRN_RUN_DIR="off")
    words = started.communicate(timeout=120)[0].split("\n")
    assert words[:6] == ["--nnodes", "2", "--node-rank", "1", "--master-addr", "algo-1"] and words[9] == "5"
