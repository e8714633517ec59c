"""Programs that OpenTrn's own partitioner spreads over devices: without Shardy, and where devices do not divide."""

from __future__ import annotations

import json

import pytest

from tests.jax.test_programs import DEVICES, run

pytest.importorskip("jax", reason="the platform is JAX's")

# A Python whose executable is not there cannot start Shardy's child.
NO_SHARDY = "import sys; sys.executable = '/nowhere/python'\n"


def test_without_shardy_ops_over_devices_are_right_whatever_is_cut():
    code = NO_SHARDY + "import runpy; runpy.run_module('tests.jax.sharded_ops', run_name='__main__')"
    done = run("neuron", "-c", code, **DEVICES)
    assert done.stdout == "33 ops\n", done.stdout + done.stderr
    assert (
        "OpenTrn's own propagation spreads programs over devices; no Shardy: /nowhere/python" in done.stderr
    )
    assert "one device computes" not in done.stderr, done.stderr


TRAINING = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("dp", "tp"))
put = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, P(*spec)))
random = np.random.default_rng(0)
make = lambda *shape: random.standard_normal(shape).astype(np.float32) / 4
weights = {"up": put(make(16, 32), None, "tp"), "down": put(make(32, 16), "tp", None), "bias": put(make(32), "tp")}
x, y = put(make(8, 16), "dp", None), put(make(8, 16), "dp", None)
def loss(w, x, y):
    h = jax.nn.gelu(x @ w["up"] + w["bias"])
    h = jax.lax.with_sharding_constraint(h, NamedSharding(mesh, P("dp", "tp")))
    return jnp.mean((h @ w["down"] - y) ** 2)
@jax.jit
def step(w, x, y):
    value, gradients = jax.value_and_grad(loss)(w, x, y)
    return value, jax.tree.map(lambda a, g: a - 0.1 * g, w, gradients)
for _ in range(3):
    value, weights = step(weights, x, y)
    print(f"{float(value):.5f}")
print(f"{float(jnp.abs(weights['down']).sum()):.3f}", weights["up"].sharding.spec, weights["down"].sharding.spec)
summed = jax.shard_map(lambda a: jax.lax.psum(a, "tp"), mesh=mesh, in_specs=P("dp", "tp"), out_specs=P("dp", None))
print(np.asarray(jax.jit(lambda a: summed(a * 2) + 1)(put(np.arange(64.0).reshape(8, 8), "dp", "tp"))).sum())
"""


def test_without_shardy_a_model_trains_as_on_the_cpu():
    ours, theirs = run("neuron", "-c", NO_SHARDY + TRAINING, **DEVICES), run("cpu", "-c", TRAINING, **DEVICES)
    assert ours.returncode == 0 and theirs.returncode == 0, ours.stderr + theirs.stderr
    assert ours.stdout == theirs.stdout
    assert "one device computes" not in ours.stderr, ours.stderr


UNEVEN = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:8]), ("tp",))
random = np.random.default_rng(0)
x, wq, wk, wv = (random.standard_normal(s).astype(np.float32) for s in ((2, 5, 24), (24, 24), (24, 24), (24, 24)))
cut = lambda a, *spec: jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(*spec)))
def attention(x, wq, wk, wv):
    q, k, v = (cut((x @ w).reshape(2, 5, 4, 6), None, None, "tp") for w in (wq, wk, wv))  # 4 heads on 8 devices
    p = jax.nn.softmax(jnp.einsum("bshd,bthd->bhst", q, k) / 6 ** 0.5, -1)
    made = jnp.einsum("bhst,bthd->bshd", p, v)
    # 5 tokens on 8 devices, summed over as well.
    return made.reshape(2, 5, 24), cut(made, None, "tp").sum((1, 2)), cut(made, None, "tp").max(1)
for leaf in jax.jit(attention)(x, wq, wk, wv):
    print(leaf.shape, np.round(np.asarray(leaf).astype(np.float64).sum(), 3), np.round(np.abs(leaf).max(), 3))
text = jax.jit(attention).lower(x, wq, wk, wv).compile().as_text()
print("local part" if "f32[2,5,1,6]" in text else text)
"""


def test_dimensions_that_devices_do_not_divide_are_padded():
    ours, theirs = (run(platform, "-c", UNEVEN, **DEVICES) for platform in ("neuron", "cpu"))
    assert ours.returncode == 0 and theirs.returncode == 0, ours.stderr + theirs.stderr
    assert ours.stdout.splitlines()[:3] == theirs.stdout.splitlines()[:3]
    # One head of each device, of which the last four hold padding.
    assert ours.stdout.splitlines()[3] == "local part"
    assert "opentrn:" not in ours.stderr, ours.stderr


DECOMPOSITIONS = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("x", "y"))
a = np.random.default_rng(0).standard_normal((8, 4, 4)).astype(np.float32)
def put(*spec): return jax.device_put(a, NamedSharding(mesh, P(*spec)))
def qr(a):
    q, r = jnp.linalg.qr(a)
    return q @ r, jnp.abs(jnp.diagonal(r, axis1=1, axis2=2))
def eigh(a):
    w, v = jnp.linalg.eigh(a + a.transpose(0, 2, 1))
    return w, v @ (w[:, :, None] * v.transpose(0, 2, 1))
for f in (qr, eigh):
    for spec in (("x", "y"), (None, "y", None)):
        given = put(*spec)
        for leaf in jax.jit(f)(given):
            print(f.__name__, leaf.sharding.spec, np.round(np.asarray(leaf).astype(np.float64), 2).tolist())
    text = jax.jit(f).lower(put("x", "y")).compile().as_text()
    calls = [line for line in text.splitlines() if "opentrn.geqrf" in line or "opentrn.eigh" in line]
    print([line.split(" = ")[1].split("{")[0] for line in calls])
"""


def test_batches_of_decompositions_stay_cut_and_matrices_are_joined():
    ours, theirs = (run(platform, "-c", DECOMPOSITIONS, **DEVICES) for platform in ("neuron", "cpu"))
    assert ours.returncode == 0 and theirs.returncode == 0, ours.stderr + theirs.stderr
    assert "opentrn:" not in ours.stderr, ours.stderr
    rows, expected = (
        [line for line in done.stdout.splitlines() if line[0] != "["] for done in (ours, theirs)
    )
    assert [row.split(" [")[0] for row in rows] == [row.split(" [")[0] for row in expected]
    for row, want in zip(rows, expected, strict=True):
        found, wanted = (json.loads(text[text.index(" [") :]) for text in (row, want))
        assert _largest_difference(found, wanted) < 0.02, row
    # Two of eight matrices on each device, wholly.
    calls = [line for line in ours.stdout.splitlines() if line[0] == "["]
    assert len(calls) == 2 and all("(f32[2,4" in line for line in calls), calls


def _largest_difference(a: object, b: object) -> float:
    if isinstance(a, list) and isinstance(b, list):
        return max((_largest_difference(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    return abs(a - b)  # type: ignore[operator]


TWO_MESHES = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = np.array(jax.devices()[:8])
square, line = Mesh(devices.reshape(2, 4), ("dp", "tp")), Mesh(devices, ("x",))
random = np.random.default_rng(0)
x = random.integers(-3, 4, (8, 16)).astype(np.float32)
w = random.integers(-3, 4, (16, 8)).astype(np.float32)
step = jax.jit(lambda x, w: (x @ w) * 2, in_shardings=(NamedSharding(square, P("dp", "tp")),
               NamedSharding(square, P("tp", None))), out_shardings=NamedSharding(line, P(None, "x")))
y = step(x, w)
parts = [tuple(s.data.shape) for s in y.addressable_shards][:2]
print(y.sharding.spec, parts, bool((np.asarray(y) == 2 * (x @ w)).all()))
"""


def test_a_program_of_two_meshes_runs_on_their_devices():
    done = run("neuron", "-c", TWO_MESHES, **(DEVICES | {"OPENTRN_STRICT": "1"}))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "P(None, 'x') [(8, 1), (8, 1)] True\n", done.stdout
    assert "one device" not in done.stderr
