"""Training on real data, from nothing to an accuracy that says that it learned."""

from __future__ import annotations

import pytest

pytest.importorskip("jax", reason="the platform is JAX's")
pytest.importorskip("sklearn", reason="its package carries the images")

from tests.jax.test_programs import run  # noqa: E402

# Four of the example's twelve epochs: seeds 0 to 2 end between 94 and 97 %, in either type; guessing has 10 %.
ENOUGH = 0.90


@pytest.mark.parametrize("dtype, rounding", [("float32", "0"), ("bfloat16", "1")])
def test_a_classifier_learns_digits(dtype: str, rounding: str) -> None:
    done = run(
        "neuron",
        *("examples/digits.py", "--epochs", "4", "--dtype", dtype),
        NEURON_RT_STOCHASTIC_ROUNDING_EN=rounding,
    )
    assert done.returncode == 0, done.stderr
    assert "on the host" not in done.stderr
    assert float(done.stdout.split("test accuracy")[1]) > ENOUGH
