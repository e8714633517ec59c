"""JAX programs at LNC 2: both physical cores of a logical one compute, with the values of one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="the platform is JAX's")

from tests.jax.test_programs import run  # noqa: E402

MACHINE = {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn2.3xlarge"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict, dict]]:
    """By how many cores of a logical one compute: what the program said, and its values."""
    found = {}
    for which in ("one", "both"):
        path = tmp_path_factory.mktemp(which) / "values.npz"
        done = run("neuron", "tests/jax/both_cores.py", str(path), **MACHINE, OPENTRN_LOGICAL_CORE=which)
        assert done.returncode == 0, done.stderr
        found[which] = (json.loads(done.stdout.splitlines()[-1]), dict(np.load(path)))
    return found


def test_values_are_those_of_one_core(ran: dict) -> None:
    one, both = ran["one"][1], ran["both"][1]
    assert (one["counts0"] == both["counts0"]).all()
    for name, value in one.items():
        np.testing.assert_allclose(both[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


def test_both_cores_are_faster_and_are_named(ran: dict) -> None:
    (one, _), (both, _) = ran["one"], ran["both"]
    for name in ("mlp", "counts", "step", "kernel", "kernel_on_two", "mapped"):
        assert both["seconds"][name] < 0.85 * one["seconds"][name], name
    assert all(used[0] == 1 and used[2] == "OPENTRN_LOGICAL_CORE=one" for used in one["used"].values())
    assert both["used"]["jit_mlp"][0] == 2 and both["used"]["jit_mlp"][1]


def test_a_callback_is_made_once(ran: dict) -> None:
    assert ran["both"][0]["called"] == ran["one"][0]["called"] == [[512, 1024]]
    assert ran["both"][0]["used"]["jit_around_a_callback"][0] == 2


def test_another_word_is_refused() -> None:
    done = run("neuron", "-c", "import jax; jax.devices()", **MACHINE, OPENTRN_LOGICAL_CORE="two")
    assert done.returncode == 1 and "OPENTRN_LOGICAL_CORE is 'two'; it takes both or one" in done.stderr


def test_a_program_without_a_gain_stays_on_one_core_and_says_why(tmp_path: Path) -> None:
    code = (
        "import jax, opentrn, json\n"
        "with opentrn.profile_program() as profile:\n"
        "    jax.jit(lambda x: x + 1)(jax.numpy.ones(8)).block_until_ready()\n"
        "print(json.dumps([row['one_core_because'] for row in profile.data['programs']]))\n"
    )
    done = run("neuron", "-c", code, **MACHINE)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout.splitlines()[-1])) == {"no cut of it promises to be faster"}
