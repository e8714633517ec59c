"""What the platform tells JAX about compiled programs, beside what JAX's CPU tells."""

from __future__ import annotations

import pytest

from tests.jax.test_programs import DEVICES, run

pytest.importorskip("jax", reason="the platform is JAX's")
pytest.importorskip("opentrn._core", exc_type=ImportError)

SHARDINGS = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
put = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, P(*spec)))
a = put(np.arange(128.0, dtype=np.float32).reshape(8, 16), "x", "y")
b = put(np.ones((16, 8), np.float32), "y", None)
def f(a, b, c):
    d = jnp.sin(a) @ b + c
    return d, d.T, a.sum(0), jnp.stack([a, a]), jax.lax.scan(lambda s, r: (s + r, s), c[0], d)
for leaf in jax.tree.leaves(jax.jit(f)(a, b, np.float32(2) * np.ones((8, 8), np.float32))):
    print(leaf.shape, leaf.sharding.spec, np.asarray(leaf).sum())
compiled = jax.jit(f).lower(a, b, np.ones((8, 8), np.float32)).compile()
print(jax.tree.leaves(compiled.input_shardings))
"""


def test_shardings_that_nobody_states_are_those_of_the_cpu():
    ours, theirs = (run(platform, "-c", SHARDINGS, **DEVICES) for platform in ("neuron", "cpu"))
    assert ours.returncode == 0 and theirs.returncode == 0, ours.stderr + theirs.stderr
    assert "'y'" in theirs.stdout and "replicated" not in ours.stderr
    assert ours.stdout == theirs.stdout


def test_without_shardy_results_are_replicated_and_stderr_says_so():
    # A Python whose executable is not there cannot start the child.
    done = run("neuron", "-c", "import sys; sys.executable = '/nowhere/python'\n" + SHARDINGS, **DEVICES)
    assert done.returncode == 0, done.stderr
    assert "results whose sharding nobody states are replicated; no Shardy: /nowhere/python" in done.stderr
    assert "(8, 8) P()" in done.stdout.replace("PartitionSpec", "P")


def test_a_compiled_program_has_hlo_text():
    code = (
        "import jax, jax.numpy as jnp\n"
        "print(jax.jit(lambda x: jnp.sin(x) @ x).lower(jnp.ones((4, 4))).compile().as_text())"
    )
    done = run("neuron", "-c", code)
    assert done.stdout.startswith("HloModule jit__lambda"), done.stderr
    assert " sine(" in done.stdout and " dot(" in done.stdout


def test_the_hlo_of_many_devices_has_their_collectives():
    code = (
        SHARDINGS[: SHARDINGS.index("def f")]
        + "print(jax.jit(lambda a, b: a @ b).lower(a, b).compile().as_text())"
    )
    done = run("neuron", "-c", code, **DEVICES)
    assert "all-reduce(" in done.stdout, done.stderr
    assert "f32[4,4]" in done.stdout  # one device's part of (8, 16)


def test_programs_can_be_dumped_and_compiled(tmp_path):
    done = run("neuron", "-c", "import jax.numpy as jnp; print(jnp.sin(1.0))", OPENTRN_DUMP=str(tmp_path))
    assert done.returncode == 0, done.stderr
    (first, *_) = sorted(tmp_path.glob("*.mlirbc"))
    done = run("", "-m", "opentrn", "compile", str(first), "--no-cache", "-o", str(tmp_path / "a.neuron"))
    assert done.returncode == 0, done.stderr
