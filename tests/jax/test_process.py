"""What a process of JAX with this platform does about others, and what it tells its user."""

from __future__ import annotations

import textwrap

import pytest

from tests.jax.test_programs import run

pytest.importorskip("jax", reason="the platform is JAX's")


def test_one_process_of_jax_distributed_works():
    code = (
        "import socket, jax, jax.numpy as jnp\n"
        "with socket.socket() as free: free.bind(('localhost', 0)); port = free.getsockname()[1]\n"
        "jax.distributed.initialize(f'localhost:{port}', num_processes=1, process_id=0)\n"
        "print(jax.process_count(), float(jnp.ones(3).sum()))\n"
    )
    done = run("neuron", "-c", code)
    assert done.stdout == "1 3.0\n", done.stderr


FORKED = """
import multiprocessing, sys, warnings
import jax, jax.numpy as jnp
warnings.simplefilter("ignore")
x = jnp.ones(3)
x.sum().block_until_ready()

def child(queue):
    for use in (lambda: float(x[0]), lambda: float(jnp.ones(3).sum()), lambda: float(jnp.ones((4, 5)).sum())):
        try:
            queue.put(use())
        except BaseException as error:
            queue.put(str(error))

context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=child, args=(queue,))
process.start()
for _ in range(3):
    print(queue.get(timeout=60).partition("\\n")[0])
process.join(30)
print(process.exitcode, float(jnp.ones(3).sum()))
"""


def test_the_child_of_a_fork_is_told_to_spawn_and_the_parent_goes_on():
    done = run("neuron", "-c", FORKED)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "0 3.0", done.stdout + done.stderr
    assert all(
        "this process was forked after the platform neuron had started" in line for line in lines[:3]
    ), lines


def test_a_child_that_uses_no_jax_ends():
    code = (
        "import os, sys, warnings; warnings.simplefilter('ignore')\n"
        "import jax, jax.numpy as jnp\n"
        "jnp.ones(3).sum().block_until_ready()\n"
        "child = os.fork()\n"
        "if child == 0: sys.exit(7)\n"  # JAX's own exit handlers run
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = run("neuron", "-c", code)
    assert done.stdout == "7\n", done.stderr


WIDE = """
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
{}
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("jax.jit(lambda x: x.sum())(jnp.arange(100_000))", "reduce to tensor<i64>"),
        ("jax.jit(lambda x: x.prod())(jnp.arange(1, 21))", "reduce to tensor<i64>"),
        ("jax.jit(lambda x: x * x)(jnp.arange(3) + 2**20)", "multiply to tensor<3xi64>"),
        ("jax.jit(lambda x: (x * 2).astype(jnp.int64))(jnp.ones(3))", "multiply to tensor<3xf64>"),
        ("jax.jit(lambda x: x / 3)(jnp.ones(3, jnp.float32).astype(jnp.float64))", "is rounded to f32"),
        ("jax.jit(lambda x, i: x[i])(jnp.ones(9, jnp.float32), 3)", None),
        ("jax.jit(lambda x: jnp.argmax(x))(jnp.ones(9, jnp.float32))", None),
        ("jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda i, s: s + x[i], x[0]))(jnp.ones(9, jnp.float32))", None),
        ("jax.jit(lambda x: (x > 0).sum())(jnp.ones(9, jnp.float32))", None),
    ],
    ids=["sum", "prod", "product", "float", "f64", "index", "argmax", "loop", "count"],
)  # fmt: skip
def test_what_x64_loses_is_told_once_for_a_program(body, told):
    done = run("neuron", "-c", WIDE.format(body))
    assert done.returncode == 0, done.stderr
    lines = [
        line
        for line in done.stderr.splitlines()
        if "64-bit numbers in 32 bits" in line and "jit__lambda" in line
    ]
    if told is None:
        assert lines == []
        return
    assert len(lines) == 1 and told in lines[0] and lines[0].startswith("opentrn: "), done.stderr


def test_narrowing_can_be_silenced():
    code = WIDE.format("jax.jit(lambda x: x.sum())(jnp.arange(100_000))")
    assert "64-bit" not in run("neuron", "-c", code, OPENTRN_NARROWING="off").stderr
    refused = run("neuron", "-c", code, OPENTRN_NARROWING="no")
    assert refused.returncode == 1 and "OPENTRN_NARROWING" in refused.stderr


def test_svd_and_reconstruction_of_any_size_compile():
    """Sizes whose predicted time came back to the same transfers without end."""
    code = textwrap.dedent(
        """
        import jax, jax.numpy as jnp, numpy as np
        @jax.jit
        def reconstructed(a):
            u, s, v = jnp.linalg.svd(a, full_matrices=False)
            return (u * s) @ v
        for rows, columns in ((170, 85), (200, 100)):
            reconstructed.lower(jnp.zeros((rows, columns), jnp.float32)).compile()
        a = np.random.default_rng(0).standard_normal((60, 30)).astype(np.float32)
        print(np.abs(reconstructed(a) - a).max() < 1e-4)
        """
    )
    done = run("neuron", "-c", code)
    assert done.stdout == "True\n", done.stderr


def test_a_value_larger_than_a_cores_hbm_is_refused_when_it_is_compiled():
    code = (
        "import jax, jax.numpy as jnp\n"
        "f = jax.jit(lambda a: jnp.sort(a[:, None] * a[None, :], 0).sum())\n"
        "try:\n"
        "    f.lower(jnp.ones(80000)).compile()\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    done = run("neuron", "-c", code)
    assert "RESOURCE_EXHAUSTED" in done.stdout and "a logical core has 12.0 GiB of HBM" in done.stdout, (
        done.stdout
    )


def test_meshes_that_do_not_go_together_compute_on_every_device():
    """Arguments by 2 x 3 devices, results by 3 x 2, constraints and a shard_map in between."""
    code = textwrap.dedent(
        """
        import jax, jax.numpy as jnp, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        six = np.array(jax.devices()[:6])
        wide, tall = Mesh(six.reshape(2, 3), ("x", "y")), Mesh(six.reshape(3, 2), ("a", "b"))
        w = np.arange(12 * 36, dtype=np.float32).reshape(12, 36) % 7
        lying = jax.device_put(w, NamedSharding(wide, P("x", "y")))
        for mesh, axes in ((tall, ("a", "b")), (tall, ("b", None)), (wide, ("y", "x"))):
            result = NamedSharding(mesh, P(*axes))
            found = jax.jit(lambda w: w * 2 + w.sum(0), out_shardings=result)(lying)
            assert found.sharding.is_equivalent_to(result, 2), found.sharding
            assert (np.asarray(found) == w * 2 + w.sum(0)).all()
            for part in found.addressable_shards:
                assert (np.asarray(part.data) == (w * 2 + w.sum(0))[part.index]).all()

        @jax.jit
        def step(w):
            y = jax.lax.with_sharding_constraint(w * 2, NamedSharding(wide, P("x", "y")))
            z = jax.lax.with_sharding_constraint(y @ y.T, NamedSharding(tall, P("a", "b")))
            summed = jax.shard_map(
                lambda z: jax.lax.psum(z, "a"), mesh=tall, in_specs=P("a", "b"), out_specs=P(None, "b")
            )(z)
            return summed.sum(0)

        wanted = (2 * w) @ (2 * w).T
        assert (np.asarray(step(lying)) == wanted.sum(0)).all()
        print("right")
        """
    )
    done = run("neuron", "-c", code, NEURON_RT_NUM_CORES="8", OPENTRN_STRICT="1")
    assert done.stdout == "right\n", done.stderr


def test_strict_refuses_a_program_that_one_device_would_compute_for_all():
    """A shard_map inside another, where Shardy is not there to partition it."""
    code = textwrap.dedent(
        """
        import sys; sys.executable = "/nowhere/python"
        import jax, numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
        mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))
        w = jax.device_put(np.ones((16, 32), np.float32), NamedSharding(mesh, P("x", "y")))

        def inner(v):
            return jax.lax.psum(v, "y")

        def outer(v):
            return jax.shard_map(inner, in_specs=P(None, "y"), out_specs=P(None, None), axis_names={"y"})(v)

        by_x = dict(mesh=mesh, in_specs=P("x", None), out_specs=P("x", None), axis_names={"x"})
        try:
            jax.jit(jax.shard_map(outer, **by_x))(w)
        except Exception as error:
            print(error)
        """
    )
    strict = run("neuron", "-c", code, NEURON_RT_NUM_CORES="8", OPENTRN_STRICT="1")
    assert "one device would compute jit_outer for all of them: one inside another" in strict.stdout, (
        strict.stderr
    )
