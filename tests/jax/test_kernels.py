"""NKI kernels inside JAX programs, on the platform `neuron` and on JAX's CPU, against the same without kernels."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="the kernels stand in JAX's programs")

from tests.jax.test_programs import names, run  # noqa: E402

HEAD = """
import jax, jax.numpy as jnp
from tests.jax.kernels import nki_tensor_add
x = jnp.ones((128, 8))
"""


@functools.cache
def results(platform: str) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.npz")
        done = run(platform, "-m", "tests.jax.kernels", str(path))
        assert done.returncode == 0, done.stderr
        assert "on the host" not in done.stderr
        return dict(np.load(path))


@pytest.mark.parametrize("name", [n for _, n in names("kernels") if not n.startswith("nki_")])
@pytest.mark.parametrize("platform", ["neuron", "cpu"])
def test_a_kernel_gives_what_xla_gives_without_it(platform: str, name: str):
    ours, theirs = results(platform), results("cpu")
    assert f"{name}/error" not in ours, str(ours.get(f"{name}/error"))
    kernel = {key: value for key, value in ours.items() if key.startswith(f"{name}/kernel/")}
    assert kernel
    for key, value in kernel.items():
        formula = theirs[key.replace("/kernel/", "/formula/")]
        assert value.shape == formula.shape
        # fp32 sums in another order; bfloat16's are rounded alike.
        np.testing.assert_allclose(value, formula, rtol=1e-5, atol=1e-5 * np.abs(formula).max())


def test_a_kernel_has_no_derivative_of_its_own():
    done = run("neuron", "-c", f"{HEAD}\njax.grad(lambda x: nki_tensor_add(x, x).sum())(x)")
    assert done.returncode == 1
    assert "NKI kernel 'nki_tensor_add'" in done.stderr and "jax.custom_vjp" in done.stderr


def test_the_program_carries_the_custom_call_of_aws():
    code = f"{HEAD}\nprint(jax.jit(nki_tensor_add).lower(x, x).as_text())"
    done = run("neuron", "-c", code)
    assert "stablehlo.custom_call @AwsNeuronCustomNativeKernel(%arg0, %arg1)" in done.stdout, done.stderr
    assert 'backend_config = "opentrn-kernel-1 nki_tensor_add ' in done.stdout


def test_the_persistent_cache_tells_kernels_of_one_name_apart(tmp_path: Path):
    code = (
        "import sys, jax, jax.numpy as jnp\n"
        f"jax.config.update('jax_compilation_cache_dir', {str(tmp_path)!r})\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
        "jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)\n"
        "from opentrn import nki\nfrom opentrn.nki import isa as nisa, language as nl\n"
        "factor = float(sys.argv[1])\n"
        "import tests.jax.scaled as kernels\n"
        "print(jax.jit(lambda x: kernels.scaled(x, factor))(jnp.ones((4, 3))).sum())"
    )
    sums = [run("neuron", "-c", code, factor) for factor in ("2", "2", "3")]
    assert [done.stdout for done in sums] == ["24.0\n", "24.0\n", "36.0\n"], sums[0].stderr


def test_a_launch_on_two_cores_takes_the_programs_time_once(tmp_path: Path):
    code = f"""
import glob, jax, numpy as np, opentrn
from tests.jax.kernels import nki_halves
x = np.ones((256, 512), np.float32)
f = jax.jit(lambda x: nki_halves[2](x))
g = jax.jit(lambda x: jax.numpy.tanh(nki_halves[2](jax.numpy.tanh(x))))
for each in (f, g): each(x)
for each in (f, g):
    with opentrn.profile_program() as profile: each(x).block_until_ready()
    print(profile.data["programs"][0]["device_us"])
print(opentrn.run(nki_halves[2], x, target="trn2").time_us)
with jax.profiler.trace({str(tmp_path)!r}): f(x).block_until_ready()
data = jax.profiler.ProfileData.from_file(glob.glob({str(tmp_path)!r} + "/**/*.xplane.pb", recursive=True)[0])
(plane,) = (plane for plane in data.planes if plane.name == "/device:CUSTOM:NEURON:0")
print([line.name for line in plane.lines if "vector" in line.name])
"""
    done = run("neuron", "-c", code)
    assert done.returncode == 0, done.stderr
    launch, among_others, alone, lines = done.stdout.splitlines()
    assert float(launch) == pytest.approx(float(alone), rel=1e-3)
    assert float(alone) + 5 < float(among_others) < float(alone) + 25
    assert lines == "['vector engine', 'vector engine (core 1)']"


def test_what_a_kernel_leaves_unwritten_is_told(monkeypatch: pytest.MonkeyPatch):
    code = HEAD.replace("nki_tensor_add", "nki_first_half") + "print(jax.jit(nki_first_half)(x).sum())"
    wanted = "nothing wrote 512 of the 1024 elements of output 0"
    monkeypatch.delenv("OPENTRN_UNWRITTEN", raising=False)
    done = run("neuron", "-c", code)
    assert done.returncode == 0 and done.stdout.strip() == "nan"
    assert wanted in done.stderr and "kernels.py:" in done.stderr
    monkeypatch.setenv("OPENTRN_UNWRITTEN", "off")
    assert wanted not in run("neuron", "-c", code).stderr
    monkeypatch.setenv("OPENTRN_UNWRITTEN", "error")
    done = run("neuron", "-c", code)
    assert done.returncode == 1 and wanted in done.stderr
