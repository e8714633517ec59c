"""Ctrl-C in a JAX program on the platform `neuron`. docs/decisions/0034, docs/jax.md."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.alarms import SECONDS
from tests.package import PYTHON

pytest.importorskip("jax", reason="the platform is JAX's")
# Python's own end with JAX in it is in there: a fraction of a second, and many on a busy machine. What it must not wait
# for takes for ever, or a minute.
END_SECONDS = 60.0
# Adds 2 to 0 until it is -1.
WAITS = """
import jax, jax.numpy as jnp, sys
shown = sys.excepthook
sys.excepthook = lambda kind, *rest: (print(kind.__name__, flush=True), shown(kind, *rest))
f = jax.jit(lambda x: jax.lax.while_loop(lambda a: a != -1, lambda a: a + 2, x))
f(jnp.int32(-3)).block_until_ready()
y = f(jnp.int32(0))
print("ready", flush=True)
y.block_until_ready()
"""

COMPILES = """
import jax, jax.numpy as jnp, sys
shown = sys.excepthook
sys.excepthook = lambda kind, *rest: (print(kind.__name__, flush=True), shown(kind, *rest))
def f(x):
    for _ in range(4000):
        x = x @ x
    return x
lowered = jax.jit(f).lower(jax.ShapeDtypeStruct((2048, 2048), jnp.float32))
print("ready", flush=True)
lowered.compile()
"""

CATCHES = (
    COMPILES.replace("lowered.compile()", "try:\n    lowered.compile()\nexcept KeyboardInterrupt:\n    pass")
    + """
assert int(jax.jit(lambda a: a + 1)(jnp.int32(6))) == 7
print("goes on", flush=True)
"""
)


# A program that is dispatched and never awaited, in an array that somebody holds or nobody does.
LEFT = """
import jax, jax.numpy as jnp
f = jax.jit(lambda x: jax.lax.while_loop(lambda a: a != -1, lambda a: a + 2, x))
f(jnp.int32(-3)).block_until_ready()
{dispatch}
print("ready", flush=True)
"""
LEFTOVERS = {
    "held": "y = f(jnp.int32(0))",
    "dropped": "f(jnp.int32(0))",
    "queued": "x = f(jnp.int32(0))\nfor _ in range(1000): x = f(x)",
}


def started(code: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=dict(os.environ, JAX_PLATFORMS="neuron,cpu", PYTHONPATH=str(PYTHON), **variables),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def interrupted(code: str, after: float, told: str) -> tuple[int, str]:
    """(status, stderr) of a program that gets a SIGINT `after` seconds it is ready, and prints `told` then.

    What it has dispatched is abandoned at its end.
    """
    process = started(code)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n", process.communicate()[1]
        time.sleep(after)
        assert process.poll() is None, process.communicate()
        begin = time.perf_counter()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == f"{told}\n"
        assert time.perf_counter() - begin < SECONDS
        _, errors = process.communicate(timeout=END_SECONDS)
    finally:
        process.kill()
    return process.returncode, errors


@pytest.mark.parametrize("code", [WAITS, COMPILES], ids=["waits", "compiles"])
def test_ctrl_c_ends_the_program(code: str) -> None:
    status, _ = interrupted(code, 1.0, "KeyboardInterrupt")
    assert status != 0


def test_compilation_that_is_interrupted_can_be_caught() -> None:
    interrupted(CATCHES, 1.0, "goes on")


@pytest.mark.parametrize("dispatch", LEFTOVERS.values(), ids=LEFTOVERS)
def test_the_end_abandons_what_nobody_can_read(dispatch: str) -> None:
    process = started(LEFT.format(dispatch=dispatch))
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n", process.communicate()[1]
        process.communicate(timeout=END_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0


COUNTS = """
import jax, jax.numpy as jnp
def f(x):
    x = jax.lax.fori_loop(0, 400_000, lambda i, a: a + 2, x)
    {effect}
    return x
y = jax.jit(f)(jnp.int32(0))
print("ready", flush=True)
"""


def test_the_end_waits_for_effects() -> None:
    process = started(COUNTS.format(effect='jax.debug.print("value {}", x)'))
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "value 800000\n" in output


def test_the_end_waits_for_runs_that_are_reported(tmp_path: Path) -> None:
    usage = tmp_path / "usage.json"
    process = started(COUNTS.format(effect=""), OPENTRN_USAGE=str(usage))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    rows = [row for row in json.loads(usage.read_text())["programs"] if row["name"] == "jit_f"]
    assert [row["runs"] for row in rows] == [1]


def test_ctrl_c_ends_the_wait_for_runs_that_are_reported(tmp_path: Path) -> None:
    usage = tmp_path / "usage.json"
    process = started(LEFT.format(dispatch=LEFTOVERS["held"]), OPENTRN_USAGE=str(usage))
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n", process.communicate()[1]
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=2.0)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=END_SECONDS)
    finally:
        process.kill()
