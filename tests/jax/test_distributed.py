"""Several processes of JAX with the platform, each with devices of its own: values are those of one process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from tests.jax.test_programs import PYTHON, ROOT

pytest.importorskip("jax", reason="the platform is JAX's")

# Devices hold a shard each of everything, and print the bits of what they have in the end.
PROGRAM = """
import json, sys
import jax
port, count, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if count > 1:
    jax.distributed.initialize("localhost:" + port, num_processes=count, process_id=number)
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

assert jax.process_count() == count and jax.device_count() == 4 and jax.local_device_count() == 4 // count
assert [device.process_index for device in jax.devices()] == [i * count // 4 for i in range(4)]
mesh = Mesh(np.array(jax.devices()), ("d",))
rows = NamedSharding(mesh, P("d"))

def spread(whole):
    return jax.make_array_from_callback(whole.shape, rows, lambda index: whole[index])

x = spread(np.random.default_rng(0).standard_normal((8, 24), dtype=np.float32))
w = spread(np.random.default_rng(1).standard_normal((24, 16), dtype=np.float32))

def on_each(body, out=P("d")):
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=out, check_vma=False))

def halve_until_small(part):
    return lax.while_loop(lambda y: lax.psum(jnp.sum(jnp.abs(y)), "d") > 9.0, lambda y: 0.5 * y, part)

def loss(w, x):
    return jnp.sum(jnp.tanh(x @ w) ** 2)

results = {
    "psum": on_each(lambda part: lax.psum(part, "d"))(x),
    "all_gather": on_each(lambda part: lax.all_gather(part, "d", tiled=True), P())(x),
    "reduce_scatter": on_each(lambda part: lax.psum_scatter(jnp.tile(part, (4, 1)), "d", tiled=True))(x),
    "permuted": on_each(lambda part: lax.ppermute(part, "d", [(i, (i + 1) % 4) for i in range(4)]))(x),
    "loop": on_each(halve_until_small)(x),
    "gradient": jax.jit(jax.grad(loss), in_shardings=(rows, rows), out_shardings=rows)(w, x),
    "local": jnp.arange(4.0) * 2,
}
bits = {}
for name, array in results.items():
    for shard in array.addressable_shards:
        if name != "local":
            bits[f"{name} {shard.device.id}"] = np.asarray(shard.data).tobytes().hex()
print("BITS" + json.dumps(bits), flush=True)
"""

# Large enough for both physical cores of each device, with sums over devices and over cores.
LARGE = """
import hashlib, json, sys
import jax
port, count, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if count > 1:
    jax.distributed.initialize("localhost:" + port, num_processes=count, process_id=number)
import jax.numpy as jnp
import numpy as np
import opentrn
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("d",))
rows, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())

def put(seed, shape, sharding):
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return jax.make_array_from_callback(shape, sharding, lambda index: values[index])

def loss(weights, x):
    up, down = weights
    return jnp.mean((jnp.tanh(x @ up) @ down - x) ** 2)

weights = put(0, (256, 1024), whole), put(1, (1024, 256), whole)
step = jax.jit(jax.grad(loss), out_shardings=(rows, rows))
with opentrn.profile_program() as profile:
    results = jax.block_until_ready(step(weights, put(2, (4096, 256), rows)))
assert [row["physical_cores_used"] for row in profile.data["programs"] if row["name"] == "jit_loss"] == [2]
bits = {}
for i, array in enumerate(results):
    for shard in array.addressable_shards:
        bits[f"{i} {shard.device.id}"] = hashlib.sha256(np.asarray(shard.data).tobytes()).hexdigest()
print("BITS" + json.dumps(bits), flush=True)
"""

# The second process ends, or computes something else, where the first waits for it.
WRONG = """
import os, sys
import jax
port, count, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.distributed.initialize("localhost:" + port, num_processes=count, process_id=number)
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("d",))
rows = NamedSharding(mesh, P("d"))
x = jax.make_array_from_callback((4, 8), rows, lambda index: np.ones((4, 8), np.float32)[index])

def total(scale):
    on_each = jax.shard_map(lambda part: scale * lax.psum(part, "d"), mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    return jax.jit(on_each)

jax.block_until_ready(total(1.0)(x))
if number == 1 and HOW == "ends":
    os._exit(0)
try:
    jax.block_until_ready(total(2.0 + number * (HOW == "differs"))(x))
    print("went on", flush=True)
except Exception as error:
    print("ERROR", error, flush=True)
os._exit(0)
"""


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return str(free.getsockname()[1])


def run(code: str, count: int, **environment: str) -> list[str]:
    """What each of `count` processes printed; they have four devices together."""
    port, each = free_port(), 4 // count
    started: list[subprocess.Popen[Any]] = []
    for number in range(count):
        cores = f"{number * each}-{(number + 1) * each - 1}" if each > 1 else str(number)
        variables = os.environ | {
            "JAX_PLATFORMS": "neuron",
            "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2.48xlarge",
            "NEURON_RT_VISIBLE_CORES": cores,
            "PYTHONPATH": f"{PYTHON}:{ROOT}",
            "OPENTRN_PEER_TIMEOUT_S": "60",
            **environment,
        }
        words = [sys.executable, "-c", code, port, str(count), str(number)]
        started.append(
            subprocess.Popen(
                words, env=variables, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    try:
        texts = [process.communicate(timeout=240) for process in started]
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
    return [out if out else err for out, err in texts]


def bits_of(texts: list[str]) -> dict[str, str]:
    bits: dict[str, str] = {}
    for text in texts:
        assert "BITS" in text, text
        bits |= json.loads(text.partition("BITS")[2])
    return bits


def test_two_processes_have_the_bits_of_one():
    one, two = bits_of(run(PROGRAM, 1)), bits_of(run(PROGRAM, 2))
    assert len(one) == 6 * 4
    assert one == two


def test_two_processes_have_the_bits_of_one_on_both_cores_of_each_device():
    one, two = bits_of(run(LARGE, 1)), bits_of(run(LARGE, 2))
    assert len(one) == 2 * 4
    assert one == two


@pytest.mark.parametrize(("how", "label"), [("ends", "pjrt.absent"), ("differs", "pjrt.mismatch")])
def test_a_process_that_ends_or_differs_is_an_error_of_the_others(how, label):
    texts = run(WRONG.replace("HOW", repr(how)), 2)
    assert "ERROR" in texts[0] and (label in texts[0] or "pjrt.absent" in texts[0]), texts
    assert "went on" not in "".join(texts)
    if how == "differs":
        assert any(label in text for text in texts), texts
