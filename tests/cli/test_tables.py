"""What-if values by file."""

from opentrn.cli import main

KERNEL = """
from opentrn import nki
from opentrn.nki import isa as nisa, language as nl
@nki.jit
def copy(x):
    t = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(t, x)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, t)
    return out
"""


def test_a_kernel_is_timed_under_a_files_values(capsys, tmp_path):
    kernel, plan, program = tmp_path / "k.py", tmp_path / "slow.toml", tmp_path / "k.otrn"
    kernel.write_text(KERNEL)
    plan.write_text('[neuron_core.v3]\ndma_engine_gb_s = {value = 1, source = "a plan"}\n')

    def time_of(*flags):
        assert main(["profile", *map(str, flags)]) == 0
        return capsys.readouterr().out

    kernel_flags = (kernel, "-i", "x=128x4096", "--no-execute")
    slow = time_of(*kernel_flags, "--tables", plan)
    assert (
        slow == time_of(*kernel_flags, "--set", "neuron_core.v3.dma_engine_gb_s=1") != time_of(*kernel_flags)
    )
    assert main(["run", *map(str, kernel_flags), "--save-program", str(program)]) == 0
    capsys.readouterr()
    assert time_of(program, "--tables", plan) == slow


def test_a_file_of_values_that_cannot_be_read_is_an_input_error(capsys, tmp_path):
    kernel = tmp_path / "k.py"
    kernel.write_text(KERNEL)
    flags = ["run", str(kernel), "-i", "x=128x8", "--no-execute", "--tables"]
    assert main([*flags, str(tmp_path / "none.toml")]) == 2
    assert "there is no file" in capsys.readouterr().err
    (tmp_path / "bad.toml").write_text("[neuron_core.v3]\ndma_engine_gb_s = 0\n")
    assert main([*flags, str(tmp_path / "bad.toml")]) == 2
    assert "is not a value for it" in capsys.readouterr().err
