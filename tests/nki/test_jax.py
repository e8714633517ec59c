"""JAX arrays in and out, where JAX is installed."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

from opentrn import nki  # noqa: E402
from opentrn.nki import isa as nisa  # noqa: E402
from opentrn.nki import language as nl  # noqa: E402


@nki.jit
def double(x):
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32"])
def test_jax_in_jax_out(dtype):
    x = jnp.arange(128 * 8).reshape(128, 8).astype(dtype)
    result = nki.simulate(double, target="trn2")(x)
    assert isinstance(result, jax.Array) and result.dtype == x.dtype
    assert np.array_equal(np.asarray(result), np.asarray(x * 2))


def test_arguments_keep_their_values():
    x = jnp.ones((128, 8), jnp.float32)
    double(x)
    assert (np.asarray(x) == 1).all()  # JAX arrays are immutable


def test_a_traced_argument_stands_in_jaxs_program():
    x = jnp.arange(128 * 8, dtype=jnp.float32).reshape(128, 8)
    assert np.array_equal(np.asarray(jax.jit(lambda x: double(x + 1) - 1)(x)), np.asarray((x + 1) * 2 - 1))


def test_a_value_that_jax_traces_is_no_constant_of_a_kernel():
    class Settings:
        pass

    def kernel(x, settings):
        nisa.memset(nl.ndarray((128, 1), nl.float32), settings.scale)
        return double(x)

    def model(x, scale):
        settings = Settings()
        settings.scale = scale
        return nki.jit(kernel)(x, settings)

    with pytest.raises(Exception, match="[Tt]rac"):
        jax.jit(model)(jnp.ones((128, 8)), 2.0)


def test_pure_callback_calls_a_kernel_from_jit():
    @jax.jit
    def model(x):
        kernel = nki.simulate(double, target="trn2")
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda a: np.asarray(kernel(np.array(a))), shape, x) + 1

    assert (np.asarray(model(jnp.ones((128, 8), jnp.float32))) == 3).all()
