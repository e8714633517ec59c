"""Slurm's configuration and prolog; ./dev conformance slurm asks a real Slurm."""

import pytest

from opentrn.cli import main
from opentrn.errors import InputError
from opentrn.tools import slurm


def test_the_configuration(capsys):
    words = [
        "slurm",
        "config",
        "--instance",
        "trn1.32xlarge",
        "--nodes",
        "trn[0-3]",
        "--prolog",
        "/etc/slurm/prolog",
    ]
    assert main(words) == 0
    assert capsys.readouterr().out == (
        "# gres.conf\nNodeName=trn[0-3] Name=gpu Type=trn1 Flags=nvidia_gpu_env File=/dev/neuron[0-15]\n"
        "# slurm.conf\nGresTypes=gpu\nNodeName=trn[0-3] Gres=gpu:trn1:16\nTaskProlog=/etc/slurm/prolog\n"
    )


@pytest.mark.parametrize(
    ("nodes", "dev"), [("a b", "/dev"), ("a\nGresTypes=x", "/dev"), ("a", "dev"), ("a", "/d\n"), ("", "/dev")]
)
def test_names_that_are_no_lines(nodes, dev):
    with pytest.raises(InputError) as refused:
        slurm.configuration("trn2.48xlarge", nodes, dev, "")
    assert refused.value.label == "tools.slurm"


def test_the_prolog_tells_cores(monkeypatch):
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    assert slurm.task_prolog("trn2.48xlarge") == ""
    monkeypatch.setenv("SLURM_STEP_GPUS", "0,1,9")
    assert "export NEURON_RT_VISIBLE_CORES=0-7,36-39\n" in slurm.task_prolog("trn2.48xlarge")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "9")  # of this task
    text = slurm.task_prolog("trn2.48xlarge")
    assert "export NEURON_RT_VISIBLE_CORES=36-39\n" in text and "unset CUDA_VISIBLE_DEVICES\n" in text
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "16")
    with pytest.raises(InputError, match="0 to 15"):
        slurm.task_prolog("trn2.48xlarge")
