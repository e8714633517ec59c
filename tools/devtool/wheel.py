"""./dev wheel-test: builds the wheel of this tree, installs it where nothing else is, and runs a kernel
and programs of JAX and of PyTorch with it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from devtool.paths import ROOT, TOOLS, VENV
from devtool.release import BUILD_ENV
from devtool.report import run, say

# Run in a folder of its own, so that only the installed package can be found.
_PROGRAM = """
import numpy as np
import opentrn
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

assert "site-packages" in opentrn.__file__, opentrn.__file__


def kernel(x):
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    nisa.activation(tile, nl.exp, tile)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


x = np.linspace(-1, 1, 128 * 64, dtype=np.float32).reshape(128, 64)
result = opentrn.run(kernel, x)
assert np.allclose(result.outputs, np.exp(x), rtol=1e-4)
assert result.time_us > 0
"""

# With JAX beside it: the entry point alone makes the platform known.
_JAX_PROGRAM = """
import jax
import jax.numpy as jnp

assert jax.default_backend() == "neuron", jax.default_backend()
assert float(jax.jit(lambda x: jnp.tanh(x).sum())(jnp.ones(4))) > 3
"""

# With PyTorch beside it: the entry point alone makes the device.
_TORCH_PROGRAM = """
import torch

x = torch.arange(4.0).to("neuron")
assert float((x + x).sum()) == 12, x
assert torch.neuron.simulated_time_us() > 0
"""


def _jax_pin() -> str:
    """jax==X.Y.Z, as the development environment has it."""
    lines = (TOOLS / "requirements.txt").read_text().splitlines()
    return next(line.split(";")[0].strip() for line in lines if line.startswith("jax=="))


def check(python: Path) -> int:
    """Builds with `python` (its pip fetches the build requirements); the build folder build-wheel is kept."""
    with tempfile.TemporaryDirectory(prefix="opentrn-wheel-") as temporary:
        folder = Path(temporary)
        say("build the wheel")
        pip = [python, "-m", "pip", "-q", "--disable-pip-version-check"]
        run(
            # At the depth of ./dev's build folder and by its compiler's name, ccache has most objects already.
            [*pip, "wheel", "--no-deps", "-C", "build-dir=build-wheel", "-w", folder, ROOT],
            env=BUILD_ENV,
            hint="pip fetches scikit-build-core and nanobind; pyproject.toml names them",
        )
        (wheel,) = folder.glob("opentrn-*.whl")
        say(f"install {wheel.name} into a new environment")
        run([python, "-m", "venv", folder / "env"], hint="install python3-venv")
        bin_ = folder / "env" / "bin"
        run(
            [bin_ / "python", "-m", "pip", "-q", "--disable-pip-version-check", "install", wheel],
            hint="pip fetches numpy and ml_dtypes",
        )
        say("run a kernel and the command")
        program = folder / "program.py"
        program.write_text(_PROGRAM)
        alone = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
        run(
            [bin_ / "python", program],
            hint="the wheel lacks something that the tree has",
            cwd=folder,
            env=alone,
        )
        run([bin_ / "opentrn", "ls"], hint="the wheel lacks the command", cwd=folder, env=alone, quiet=True)
        say("run JAX on it")
        run(
            [bin_ / "python", "-m", "pip", "-q", "--disable-pip-version-check", "install", _jax_pin()],
            hint="tools/requirements.txt pins JAX",
        )
        program.write_text(_JAX_PROGRAM)
        run(
            [bin_ / "python", program],
            hint="the wheel lacks libneuronpjrt.so, or the entry point jax_plugins",
            cwd=folder,
            env=alone | {"JAX_PLATFORMS": "neuron"},
        )
        say("run PyTorch on it")
        # The torch of this environment: the wheel was built for it, and it is large to install twice.
        packages = next((folder / "env" / "lib").glob("python3*/site-packages"))
        own = next(VENV.glob("lib/python3*/site-packages"))
        (packages / "beside.pth").write_text(f"{own}\n")
        program.write_text(_TORCH_PROGRAM)
        run(
            [bin_ / "python", program],
            hint="the wheel lacks _torch, the extension that is the PyTorch device, or the entry point torch.backends",
            cwd=folder,
            env=alone,
        )
    say("the wheel works")
    return 0
