"""JAX programs on the `neuron` platform against the same on JAX's CPU."""

from __future__ import annotations

import ast
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="the platform is JAX's")

from tests.package import PYTHON  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def names(module: str) -> list[tuple[str, str]]:
    """(module, program) of every decorated function; the modules import JAX, this process does not."""
    body = ast.parse(Path(__file__).with_name(f"{module}.py").read_text()).body
    return [(module, node.name) for node in body if isinstance(node, ast.FunctionDef) and node.decorator_list]


DEVICES = {"NEURON_RT_NUM_CORES": "8", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
# fp32 results: engines and XLA sum in different orders and round functions differently.
RTOL, ATOL = 2e-4, 2e-5
LOOSER = {"attention_in_bf16": 2e-2}


def run(platform: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python with JAX on a platform; the checkout's `python` folder makes `neuron` known to it."""
    variables = dict(os.environ, JAX_PLATFORMS=platform, PYTHONPATH=f"{PYTHON}:{ROOT}", **environment)
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300
    )


@functools.cache
def results(module: str) -> dict[str, dict[str, np.ndarray]]:
    """What the module's programs give, by platform."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for platform in ("neuron", "cpu"):
            path = Path(folder, f"{platform}.npz")
            environment = DEVICES if module == "device_programs" else {}
            done = run(platform, "-m", f"tests.jax.{module}", str(path), **environment)
            assert done.returncode == 0, done.stderr
            found[platform] = dict(np.load(path))
            assert str(found[platform]["platform"]) == platform
    return found


@pytest.mark.parametrize("module, name", [*names("programs"), *names("device_programs")])
def test_a_program_gives_what_it_gives_on_the_cpu(module: str, name: str):
    ours, theirs = (
        {key: value for key, value in results(module)[platform].items() if key.startswith(f"{name}/")}
        for platform in ("neuron", "cpu")
    )
    assert f"{name}/error" not in theirs, theirs
    assert f"{name}/error" not in ours, str(ours.get(f"{name}/error"))
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        other = theirs[key]
        assert value.dtype == other.dtype and value.shape == other.shape
        if np.issubdtype(value.dtype, np.inexact):
            np.testing.assert_allclose(value, other, rtol=LOOSER.get(name, RTOL), atol=LOOSER.get(name, ATOL))
        else:
            np.testing.assert_array_equal(value, other)


def test_the_platform_needs_no_python_of_ours():
    library = PYTHON / "opentrn" / "libneuronpjrt.so"
    variables = {"PJRT_NAMES_AND_LIBRARY_PATHS": f"neuron:{library}", "PYTHONPATH": ""}
    code = "import jax; print(jax.default_backend(), jax.numpy.arange(3).sum())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ, JAX_PLATFORMS="neuron", **variables),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "neuron 3\n", done.stderr


def test_the_cpu_stays_the_default():
    done = run("", "-c", "import jax; print(jax.default_backend(), jax.devices('neuron'))")
    assert done.stdout == "cpu [NeuronDevice(id=0)]\n", done.stderr


def test_an_instance_has_its_devices():
    code = "import jax; print(jax.device_count(), jax.devices()[0].device_kind)"
    done = run("neuron", "-c", code, NEURON_PLATFORM_TARGET_OVERRIDE="trn1.32xlarge")
    assert done.stdout == "32 NC_v2\n", done.stderr


def test_a_wrong_target_is_an_exception_with_a_remedy():
    done = run("neuron", "-c", "import jax; jax.devices()", NEURON_PLATFORM_TARGET_OVERRIDE="trn9")
    assert done.returncode == 1
    assert "'trn9' is not a target" in done.stderr and "did you mean" in done.stderr


def test_too_large_an_array_is_an_exception_in_the_users_program():
    code = (
        "import jax.numpy as jnp\ntry:\n  jnp.zeros((200_000, 200_000))\nexcept Exception as e:\n  print(e)"
    )
    done = run("neuron", "-c", code)
    assert done.returncode == 0, done.stderr
    assert "RESOURCE_EXHAUSTED" in done.stdout and "HBM" in done.stdout


def test_strict_refuses_what_has_no_device_kernel():
    # No NeuronCore stores this type.
    code = (
        "import jax.numpy as jnp\nprint(jnp.arange(3.0).astype(jnp.float8_e4m3b11fnuz).astype(jnp.float32))"
    )
    loose = run("neuron", "-c", code)
    assert loose.stdout == "[0. 1. 2.]\n"
    assert "host" in loose.stderr
    strict = run("neuron", "-c", code, OPENTRN_STRICT="1")
    assert strict.returncode == 1
    assert "UNIMPLEMENTED" in strict.stderr


def test_the_persistent_cache_takes_programs(tmp_path: Path):
    code = (
        "import jax, jax.numpy as jnp\n"
        f"jax.config.update('jax_compilation_cache_dir', {str(tmp_path)!r})\n"
        "jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)\n"
        "jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)\n"
        "print(jax.jit(lambda x: jnp.tanh(x) @ x.T)(jnp.ones((4, 3))).sum())"
    )
    first, second = run("neuron", "-c", code), run("neuron", "-c", code)
    assert first.returncode == 0, first.stderr
    assert list(tmp_path.iterdir())
    assert first.stdout == second.stdout
    assert "error" not in second.stderr.lower()


def test_the_example_trains_as_on_the_cpu():
    small = [
        "--steps",
        "6",
        "--width",
        "32",
        "--layers",
        "1",
        "--heads",
        "2",
        "--context",
        "32",
        "--batch",
        "4",
    ]
    losses = []
    for platform in ("neuron", "cpu"):
        done = run(platform, "examples/char_gpt.py", *small)
        assert done.returncode == 0, done.stderr
        losses.append([float(line.split()[-1]) for line in done.stdout.splitlines() if "loss" in line])
        if platform == "neuron":
            assert "on the host" not in done.stderr
    assert len(losses[0]) == 6 and losses[0][-1] < losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], atol=2e-5)


# 1024 + 0.5 is half way between two numbers of float16, and to nearest even stays 1024. The example is that of
# AWS's page on rounding modes.
ACCUMULATE = """
import jax, jax.numpy as jnp, numpy as np
step = jax.jit(lambda a: a + jnp.float16(0.5)OPTIONS)
a = jnp.full((256,), 1024, jnp.float16)
for _ in range(128):
    a = step(a)
print(np.asarray(a).astype(int).tolist())
"""
ON = {"NEURON_RT_STOCHASTIC_ROUNDING_EN": "1"}


def accumulated(options: str = "", **environment: str) -> list[int]:
    done = run("neuron", "-c", ACCUMULATE.replace("OPTIONS", options), **environment)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)


def test_stochastic_rounding_accumulates_what_nearest_even_loses():
    assert set(accumulated()) == {1024}
    values = accumulated(**ON)
    # 128 fair coins for each of 256 elements: six standard deviations of the mean, and of one.
    assert abs(np.mean(values) - (1024 + 64)) < 6 * np.sqrt(128 / 4 / 256)
    assert np.max(np.abs(np.array(values) - (1024 + 64))) < 6 * np.sqrt(128 / 4)
    assert accumulated(**ON, NEURON_RT_STOCHASTIC_ROUNDING_SEED="0") == values
    assert accumulated(**ON, NEURON_RT_STOCHASTIC_ROUNDING_SEED="1") != values
    assert accumulated(NEURON_CC_FLAGS="--enable-stochastic-rounding") == values


CAST = """
import jax, jax.numpy as jnp, numpy as np
x = jnp.asarray(np.random.default_rng(0).standard_normal((64, 64)), jnp.float32)
product = jax.jit(lambda a: a @ a, compiler_options=OPTIONS)
exact = np.asarray(x, np.float64) @ np.asarray(x, np.float64)
print(float(np.abs(np.asarray(product(x)) - exact).max()))
"""


def test_compiler_flags_are_those_of_opentrn_compile():
    def error(options: str, **environment: str) -> float:
        done = run("neuron", "-c", CAST.replace("OPTIONS", options), **environment)
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    assert error("{}") < 1e-4 < error("{}", NEURON_CC_FLAGS="--auto-cast=matmult")
    assert error('{"auto-cast": "none"}', NEURON_CC_FLAGS="--auto-cast=matmult") < 1e-4
    assert error('{"auto-cast": "matmult", "auto-cast-type": "fp16"}') < 0.5 * error(
        '{"auto-cast": "matmult"}'
    )


def test_a_compiler_flag_is_never_ignored_silently():
    flags = "--model-type transformer --disable-dge"
    told = run("neuron", "-c", ACCUMULATE.replace("OPTIONS", ""), NEURON_CC_FLAGS=flags)
    assert told.returncode == 0
    assert told.stderr.count("the compiler option --model-type transformer has no effect here") == 1
    assert told.stderr.count("the compiler option --disable-dge has no effect here") == 1
    refused = run("neuron", "-c", ACCUMULATE.replace("OPTIONS", ""), NEURON_CC_FLAGS="--auto-cats all")
    assert refused.returncode == 1 and "'--auto-cats', which is not an option of neuronx-cc" in refused.stderr
    other = run("neuron", "-c", ACCUMULATE.replace("OPTIONS", ""), NEURON_CC_FLAGS="--target trn1")
    assert other.returncode == 1 and "--target trn1 where the devices are those of trn2" in other.stderr


def test_profile_sums_a_programs_device_time(tmp_path: Path):
    small = [
        "--steps",
        "3",
        "--width",
        "32",
        "--layers",
        "1",
        "--heads",
        "2",
        "--context",
        "32",
        "--batch",
        "4",
    ]
    file = tmp_path / "usage.json"
    command = ["--json", str(file), "--", sys.executable, "examples/char_gpt.py", *small]
    done = run("neuron", "-m", "opentrn", "profile", *command)
    assert done.returncode == 0, done.stderr
    usage = json.loads(file.read_text())
    step = next(row for row in usage["programs"] if row["name"] == "jit_step")
    assert step["runs"] == 3 and step["device_us"] > 0
    assert usage["programs"][0]["name"] == "jit_step"  # the longest comes first
    assert abs(sum(row["share"] or 0 for row in usage["programs"]) - 1) < 1e-9
    assert 0 < usage["mfu"] < 1 and usage["bytes_peak"] > 0
    table = done.stdout[done.stdout.index("trn2, 1 core") :]
    assert max(len(line) for line in table.splitlines()) <= 80


def test_profile_of_what_uses_no_device_says_so():
    for command, status in ((["true"], 2), (["no-such-program"], 127), ([], 2)):
        done = run("neuron", "-m", "opentrn", "profile", "--", *command)
        assert done.returncode == status
        assert "opentrn profile:" in done.stderr
