"""What a platform cannot do is an exception in the user's Python, with the line and what to try."""

from __future__ import annotations

import pytest

from tests.jax.test_programs import run

pytest.importorskip("jax", reason="the platform is JAX's")

# Each in turn in one process: none may end it. `line` marks the line that the message must name.
PROGRAM = """
import inspect, jax, jax.numpy as jnp

def type_without_a_form(x):
    return x.astype("float4_e2m1fn")  # line

def one_value_too_large(x):
    rows = jnp.broadcast_to(x[:, None], (1 << 18, 1 << 18))
    return jnp.sort(rows, axis=0).sum()  # line

def too_much_at_once(x):
    large = x[:, None] + x  # line
    return jax.nn.softmax(large, 0) @ x, jax.nn.softmax(large, 1) @ x

def shapes(x):
    return x @ jnp.ones((3, 4))  # line

def none(x):
    return x + 1

import traceback
for f, size in ((type_without_a_form, 4), (one_value_too_large, 1 << 18), (too_much_at_once, 1 << 17), (shapes, 4)):
    lines, first = inspect.getsourcelines(f)
    wanted = first + next(i for i, text in enumerate(lines) if text.endswith("# line\\n"))
    try:
        jax.jit(f)(jnp.ones(size))
    except Exception as error:
        where = f"{__file__}:{wanted} " in str(error) or f'line {wanted}, in {f.__name__}' in traceback.format_exc()
        print(f.__name__, type(error).__name__, where, "try: " in str(error), str(error).splitlines()[0])
try:
    held = [jax.device_put(jnp.zeros((1 << 14, 1 << 14))) for _ in range(20)]
except Exception as error:
    print("arrays", type(error).__name__, True, "try: " in str(error), str(error).splitlines()[0])
held = None
try:
    twice = jnp.ones(3)
    jax.jit(jnp.add, donate_argnums=0)(twice, twice)
except Exception as error:
    print("donated", type(error).__name__, True, "try: " in str(error), str(error).splitlines()[0])
print("after", jax.jit(none)(jnp.ones(2)))
"""


def test_what_cannot_be_done_is_an_exception_with_line_and_remedy(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    done = run("neuron", str(file), OPENTRN_STRICT="1")
    assert done.returncode == 0, done.stderr
    told = {line.split()[0]: line.split(maxsplit=4)[1:] for line in done.stdout.splitlines()}
    assert told.pop("after") == ["[2.", "2.]"]
    assert list(told) == [
        "type_without_a_form",
        "one_value_too_large",
        "too_much_at_once",
        "shapes",
        "arrays",
        "donated",
    ]
    for name, (_, names_the_line, has_a_remedy, _) in told.items():
        assert names_the_line == "True", (name, done.stdout)
        assert has_a_remedy == str(name != "shapes"), (name, done.stdout)  # JAX's own error
    assert "f4E2M1FN" in told["type_without_a_form"][3]
    assert "RESOURCE_EXHAUSTED" in told["too_much_at_once"][3] and "GiB of HBM" in told["too_much_at_once"][3]
    assert "RESOURCE_EXHAUSTED" in told["arrays"][3]


def test_without_strict_too_large_is_the_same():
    code = (
        "import jax, jax.numpy as jnp\n"
        "def f(x):\n"
        "    return jnp.sort(jnp.broadcast_to(x[:, None], (1 << 18, 1 << 18)), axis=0).sum()\n"
        "try: jax.jit(f)(jnp.ones(1 << 18))\n"
        "except jax.errors.JaxRuntimeError as error: print(error)"
    )
    done = run("neuron", "-c", code)
    assert done.returncode == 0, done.stderr
    assert "RESOURCE_EXHAUSTED" in done.stdout and "at <string>:3 in jit(f)" in done.stdout


WIDE = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
a = np.array([5, -3, 7])
def far(x):
    return x + (1 << 40)  # line 6
def ends(x):
    return jnp.where(x > 0, x, jnp.iinfo(jnp.int64).max).min(), jnp.clip(x, -2, 1 << 50), x < (1 << 35)
for f in far, ends:
    try: print(f.__name__, [each.tolist() for each in jax.tree.leaves(jax.jit(f)(a))])
    except jax.errors.JaxRuntimeError as error: print(f.__name__, str(error).replace("\\n", " "))
try: print("argument", np.asarray(jax.jit(jnp.sin)(np.array([1 << 40]))))
except jax.errors.JaxRuntimeError as error: print("argument", str(error).replace("\\n", " "))
for seed in 0, 2**31 - 1:
    print("draw", *(f"{each:.5f}" for each in jax.random.normal(jax.random.key(seed), (3,)).tolist()))
"""


def wide(platform: str, tmp_path, **environment: str) -> list[str]:
    file = tmp_path / "wide.py"
    file.write_text(WIDE)
    done = run(platform, str(file), **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_numbers_beyond_32_bits_are_right_or_refused(tmp_path):
    ours, theirs = wide("neuron", tmp_path), wide("cpu", tmp_path)
    assert ours[:2] == theirs[:2]  # by the host
    assert "argument 0, tensor<1xi64>, holds 1099511627776" in ours[2] and "try: " in ours[2]
    assert ours[3:] == theirs[3:]  # fp32's numbers, to five digits
    strict = wide("neuron", tmp_path, OPENTRN_STRICT="1")
    assert "stablehlo.add of 1099511627776" in strict[0] and "wide.py:6" in strict[0] and "try: " in strict[0]
    assert "stablehlo.select of 9223372036854775807" in strict[1]


# Collectives that do not fit the ranks, each in turn in one process.
COLLECTIVES = """
import traceback, numpy as np, jax, jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()[:4]), ("i",))
def tried(name, body):
    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False))
    try:
        print(name, f(jnp.arange(8.0)))
    except Exception as error:
        print(name, type(error).__name__, " ".join((str(error) + traceback.format_exc()).split()))

def overlap(x): return jax.lax.psum(x, "i", axis_index_groups=[[0, 1], [1, 2, 3]])
def missing(x): return jax.lax.psum(x, "i", axis_index_groups=[[0, 1]])
def twice(x): return jax.lax.ppermute(x, "i", [(0, 1), (2, 1)])
def far(x): return jax.lax.ppermute(x, "i", [(0, 1), (2, 7)])
def last(x): return jax.lax.ppermute(x, "i", [(0, -1)])
def alone(x):
    return jax.lax.cond(jax.lax.axis_index("i") == 0, lambda y: jax.lax.psum(y, "i"), lambda y: y, x)

def other_sum(x):
    is_even = jax.lax.axis_index("i") % 2 == 0
    return jax.lax.cond(is_even, lambda y: jax.lax.psum(y, "i"), lambda y: jax.lax.pmax(y, "i"), x)
def other_order(x):
    first = lambda y: jax.lax.psum(jax.lax.all_gather(y, "i", tiled=True)[:2], "i")
    second = lambda y: jax.lax.all_gather(jax.lax.psum(y, "i"), "i", tiled=True)[:2]
    return jax.lax.cond(jax.lax.axis_index("i") == 0, first, second, x)
def other_shape(x):
    part = lambda y: y + jax.lax.psum(y[:1], "i").sum()
    whole = lambda y: y + jax.lax.psum(y, "i").sum()
    return jax.lax.switch(jax.lax.axis_index("i") % 2, [part, whole], x)
def more_turns(x):
    return jax.lax.fori_loop(0, jax.lax.axis_index("i") + 1, lambda _, y: jax.lax.psum(y, "i"), x)

for body in (overlap, missing, twice, far, last, alone, other_sum, other_order, other_shape, more_turns):
    tried(body.__name__, body)
"""


def test_collectives_that_do_not_fit_name_ranks_op_and_line(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(COLLECTIVES)
    done = run("neuron", str(file), NEURON_RT_NUM_CORES="8")
    assert done.returncode == 0, done.stderr
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())

    def line_of(text):
        return next(f"{file}:{i}" for i, line in enumerate(COLLECTIVES.splitlines(), 1) if text in line)

    assert told["last"].startswith("[0. 0.")  # -1 is the last rank, to JAX
    assert told["overlap"].startswith("ValueError") and told["twice"].startswith("ValueError")  # JAX's own
    assert "sends from rank 2 to rank 7, and the axis 'i' has 4 ranks" in told["far"]
    assert "InputError input error [graph.collective]" in told["far"]
    assert f'"{file}", line {line_of("def far").rpartition(":")[2]}, in far' in told["far"]
    assert "[eval.stablehlo.all_reduce]: no group has process 2" in told["missing"]
    assert line_of("def missing") in told["missing"]
    assert "waits at stablehlo.all_reduce for processes 1, 2, 3" in told["alone"]
    assert line_of("jax.lax.cond") in told["alone"]
    # Each had numbers of its own, or an internal error, from what the others brought to another collective.
    for name, text in (("other_sum", "[stablehlo.maximum] of tensor<2xf32>"), ("other_order", "[all_gather_dim 0]"),
                       ("other_shape", "of tensor<1xf32>")):  # fmt: skip
        assert "[eval.mismatch]: the processes 0, 1, 2, 3 meet at different collectives: " in told[name], told
        assert text in told[name] and told[name].count(f"{file}:") >= 2, told[name]
    assert "[eval.deadlock]" in told["more_turns"] and line_of("fori_loop") in told["more_turns"]
