"""Stochastic rounding of kernels: unbiased, reproducible by its seed, apart in launches and cores."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import opentrn

opentrn.activate()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

import nki  # noqa: E402
from opentrn.errors import NotModelled  # noqa: E402
from opentrn.settings import stochastic_rounding  # noqa: E402
from tests.package import PYTHON  # noqa: E402

ENABLED, SEED = "NEURON_RT_STOCHASTIC_ROUNDING_EN", "NEURON_RT_STOCHASTIC_ROUNDING_SEED"
# A quarter of the way from 1 to the next bfloat16.
STEP, SHARE = 2.0**-7, 0.25
X = np.full((128, 1024), 1 + SHARE * STEP, np.float32)
# Six standard deviations of the mean of so many draws.
TOLERANCE = 6 * STEP * np.sqrt(SHARE * (1 - SHARE) / X.size)


@nki.jit
def narrow(x):
    wide = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    tile = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=wide, src=x)
    nisa.tensor_copy(dst=tile, src=wide)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def one_output_of_each_core(x):
    core = nl.program_id(0)
    wide = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    tile = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    out = nl.ndarray((2, *x.shape), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=wide, src=x)
    nisa.tensor_copy(dst=tile, src=wide)
    nisa.dma_copy(dst=out[core], src=tile)
    return out


def run(kernel=narrow, **options) -> np.ndarray:
    return np.asarray(opentrn.run(kernel, X, time=False, **options).outputs).astype(np.float64)


def simulate(**options) -> np.ndarray:
    return np.asarray(nki.simulate(narrow, **options)(X)).astype(np.float64)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(ENABLED, raising=False)
    monkeypatch.delenv(SEED, raising=False)


def test_the_mean_is_the_number():
    values = run(stochastic_rounding=3)
    assert set(np.unique(values)) == {1.0, 1 + STEP}
    assert abs(values.mean() - X[0, 0]) < TOLERANCE


def test_the_default_is_to_nearest_even():
    assert (run() == 1).all() and (run(stochastic_rounding=False) == 1).all()


def test_the_seed_decides_and_eager_execution_does_not():
    values = run(stochastic_rounding=3)
    assert np.array_equal(values, run(stochastic_rounding=3))
    assert np.array_equal(values, run(stochastic_rounding=3, eager=True))
    assert np.array_equal(values, simulate(stochastic_rounding=3))
    assert not np.array_equal(values, run(stochastic_rounding=4))


def test_cores_and_launches_draw_apart():
    first, second = run(one_output_of_each_core, stochastic_rounding=3, lnc=2)
    assert not np.array_equal(first, second)
    # Independent draws agree where both go down or both go up.
    agree = SHARE**2 + (1 - SHARE) ** 2
    assert abs((first == second).mean() - agree) < 6 * np.sqrt(agree * (1 - agree) / X.size)

    def twice(x):
        return narrow(x), narrow(x)

    with opentrn.kernel.machine.observed_launches(stochastic_rounding=3):
        first, second = (np.asarray(out).astype(np.float64) for out in twice(X))
    assert np.array_equal(first, run(stochastic_rounding=3)) and not np.array_equal(first, second)


def test_the_environment_holds_for_every_way_to_launch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(ENABLED, "1")
    monkeypatch.setenv(SEED, "20261122")
    ways = [run(), simulate(), np.asarray(narrow(X)).astype(np.float64)]
    for values in ways:
        assert abs(values.mean() - X[0, 0]) < TOLERANCE
    assert not np.array_equal(ways[0], ways[1]) and not np.array_equal(ways[1], ways[2])
    assert np.array_equal(ways[0], run(stochastic_rounding=True)), "the first launch of the seed"
    assert (run(stochastic_rounding=False) == 1).all()
    monkeypatch.setenv(ENABLED, "0")
    assert (run() == 1).all()


@pytest.mark.parametrize(("name", "value"), [(ENABLED, "2"), (ENABLED, "yes"), (SEED, "-1"), (SEED, "x")])
def test_a_value_that_a_variable_does_not_take_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} is '{value}'"):
        narrow(X)


@pytest.mark.parametrize("asked", [-1, 2**64, 1.5, "3"])
def test_a_seed_that_is_none_is_refused(asked):
    with pytest.raises(ValueError, match="stochastic_rounding is a seed"):
        run(stochastic_rounding=asked)
    with pytest.raises(ValueError, match="stochastic_rounding is a seed"):
        nki.simulate(narrow, stochastic_rounding=asked)


def test_the_oracle_refuses_it(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NotModelled, match="to nearest even"):
        nki.simulate(narrow, backend="oracle", stochastic_rounding=3)(X)
    monkeypatch.setenv(ENABLED, "1")
    with pytest.raises(NotModelled, match="to nearest even"):
        nki.simulate(narrow, backend="oracle")(X)
    out = nki.simulate(narrow, backend="oracle", stochastic_rounding=False)(X)
    assert (np.asarray(out).astype(np.float32) == 1).all()


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "opentrn",
        "run",
        f"{__file__}:narrow",
        "--no-time",
        "-i",
        "x=128x512:float32:rand(1)",
    ]
    return subprocess.run(
        [*command, *arguments], env={**os.environ, "PYTHONPATH": str(PYTHON), **environment},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_the_program_takes_it():
    plain = program()
    flag = program("--enable-stochastic-rounding", "--seed", "3")
    assert flag.returncode == 0 and flag.stdout != plain.stdout
    assert flag.stdout == program(**{ENABLED: "1", SEED: "3"}).stdout
    assert program("--enable-stochastic-rounding", **{ENABLED: "0"}).stdout == plain.stdout
    alone = program("--seed", "3")
    assert alone.returncode == 2 and "--enable-stochastic-rounding" in alone.stderr
    negative = program("--enable-stochastic-rounding", "--seed", "-3")
    assert negative.returncode == 2 and "--seed" in negative.stderr


def test_the_oracle_reads_the_variable_as_the_core_does(monkeypatch):
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "perhaps")
    for ask in (lambda: stochastic_rounding.is_wanted(None), lambda: stochastic_rounding.of_launch(None, 0)):
        with pytest.raises(ValueError, match="NEURON_RT_STOCHASTIC_ROUNDING_EN"):
            ask()
