"""Random numbers of the device neuron beside JAX's Threefry on the CPU, which another project wrote."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import opentrn.torch  # noqa: F401  (registers the device)

jax = pytest.importorskip("jax")


@pytest.mark.parametrize("shape", [(4,), (6, 5), (7, 3), (2, 130, 33)], ids=str)
def test_uniform_numbers_are_threefry(shape: tuple[int, ...]) -> None:
    """A generator's seed is the key; its first call counts elements below and draws, from 1, above."""
    generator = torch.Generator("neuron")
    generator.manual_seed(7)
    drawn = torch.rand(shape, generator=generator, device="neuron").cpu().numpy()
    state = np.array([7, 0, 0, 1], np.uint32)
    with jax.default_device(jax.devices("cpu")[0]):
        _, words = jax.lax.rng_bit_generator(state, shape, algorithm=jax.lax.RandomAlgorithm.RNG_THREE_FRY)
    np.testing.assert_array_equal(drawn, (np.asarray(words) >> 8).astype(np.float32) * np.float32(2**-24))
