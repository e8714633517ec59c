"""lax.ragged_all_to_all, which XLA:CPU does not run."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="the platform is JAX's")

from tests.jax.test_programs import run  # noqa: E402


def test_rows_come_where_they_are_sent_and_gradients_go_back() -> None:
    machine = {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn2", "NEURON_RT_NUM_CORES": "8", "OPENTRN_STRICT": "1"}
    done = run("neuron", "tests/jax/ragged_exchange.py", **machine)
    assert done.stdout.splitlines() == ["done"], done.stdout + done.stderr
