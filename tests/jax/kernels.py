"""JAX programs with NKI kernels in them. Each gives (what its kernels make, the same without kernels).

`python -m tests.jax.kernels OUT.npz` runs them all on the platform that JAX_PLATFORMS names, as tests.jax.programs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from opentrn import nki
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from tests.jax.programs import normal

PROGRAMS: dict[str, Callable[[], tuple[object, object]]] = {}


def program(function: Callable[[], tuple[object, object]]) -> Callable[[], tuple[object, object]]:
    PROGRAMS[function.__name__] = function
    return function


@nki.jit
def nki_first_half(a):
    """Leaves the other half of its rows unwritten."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    half = slice(0, a.shape[0] // 2)
    nisa.dma_copy(dst=out[half], src=nl.load(a)[half])
    return out


@nki.jit
def nki_tensor_add(a, b):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    for row in range(0, a.shape[0], 128):
        left, right = nl.ndarray((128, a.shape[1]), a.dtype), nl.ndarray((128, a.shape[1]), a.dtype)
        nisa.dma_copy(left, a[row : row + 128])
        nisa.dma_copy(right, b[row : row + 128])
        nisa.tensor_tensor(left, left, right, nl.add)
        nisa.dma_copy(out[row : row + 128], left)
    return out


def softmax_rows(tile, rows, columns):
    top, total = nl.ndarray((rows, 1), nl.float32), nl.ndarray((rows, 1), nl.float32)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.activation(tile, nl.exp, tile)
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)


@nki.jit
def nki_attention(q, k, v, scale=1.0):
    """softmax(q k^T scale) v of one head of up to 128 tokens; also the weights."""
    tokens, width = q.shape
    out = nl.ndarray(q.shape, q.dtype, buffer=nl.shared_hbm)
    weights_out = nl.ndarray((tokens, tokens), nl.float32, buffer=nl.shared_hbm)
    turned = []
    for source in (q, k):
        tile = nl.ndarray((tokens, width), source.dtype)
        nisa.dma_copy(tile, source)
        across = nl.ndarray((width, tokens), source.dtype, buffer=nl.psum)
        nisa.nc_transpose(across, tile)
        kept = nl.ndarray((width, tokens), source.dtype)
        nisa.tensor_copy(kept, across)
        turned.append(kept)
    scores = nl.ndarray((tokens, tokens), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(scores, turned[0], turned[1])
    weights = nl.ndarray((tokens, tokens), nl.float32)
    nisa.tensor_scalar(weights, scores, nl.multiply, scale)
    softmax_rows(weights, tokens, tokens)
    nisa.dma_copy(weights_out, weights)
    across = nl.ndarray((tokens, tokens), nl.float32, buffer=nl.psum)
    nisa.nc_transpose(across, weights)
    turned_weights, values = nl.ndarray((tokens, tokens), nl.float32), nl.ndarray((tokens, width), v.dtype)
    nisa.tensor_copy(turned_weights, across)
    nisa.dma_copy(values, v)
    made = nl.ndarray((tokens, width), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(made, turned_weights, values)
    result = nl.ndarray((tokens, width), q.dtype)
    nisa.tensor_copy(result, made)
    nisa.dma_copy(out, result)
    return {"out": out, "weights": weights_out}


@nki.jit
def nki_halves(x):
    """Both cores of LNC2 take half of the rows each and send their sums to one another."""
    core = nl.program_id(0)
    rows = x.shape[0] // 2
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, x.shape[1]), x.dtype)
    total, theirs = nl.ndarray((rows, 1), x.dtype), nl.ndarray((rows, 1), x.dtype)
    nisa.dma_copy(tile, x[core * rows : (core + 1) * rows])
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    nisa.sendrecv(src=total, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.tensor_scalar(tile, tile, nl.add, theirs)
    nisa.dma_copy(out[core * rows : (core + 1) * rows], tile)
    return out


def attention(q, k, v, scale=1.0):
    weights = jax.nn.softmax(q @ k.T * scale, axis=-1)
    return {"out": weights @ v, "weights": weights}


@program
def example_of_the_guide():
    a, b = normal(0, 256, 1024), normal(1, 256, 1024)
    return jax.jit(lambda a, b: a * b * nki_tensor_add(a, b))(a, b), a * b * (a + b)


@program
def attention_between_products():
    q, k, v, w = normal(0, 96, 64), normal(1, 96, 64), normal(2, 96, 64), normal(3, 64, 128)

    def layer(of):
        def apply(q, k, v, w):
            made = of(q * 2, k, v, scale=0.125)
            return jnp.tanh(made["out"] @ w), made["weights"].sum(axis=0)

        return apply

    return jax.jit(layer(nki_attention))(q, k, v, w), layer(attention)(q, k, v, w)


@program
def gradient_through_custom_vjp():
    @jax.custom_vjp
    def add(a, b):
        return nki_tensor_add(a, b)

    add.defvjp(lambda a, b: (add(a, b), (a, b)), lambda saved, grad: (grad, grad))

    def both(f):
        def loss(x, y):
            return (f(x, y) * x * y).sum()

        return lambda a, b: (f(a, b) * a * b, *jax.grad(loss, argnums=(0, 1))(a, b))

    a, b = normal(0, 128, 256), normal(1, 128, 256)
    return jax.jit(both(add))(a, b), both(jnp.add)(a, b)


@program
def inside_a_scan():
    x = normal(0, 4, 128, 32)

    def sums(f):
        return lambda x: jax.lax.scan(lambda c, row: (f(c, row), c.sum()), jnp.zeros(x.shape[1:]), x)

    return jax.jit(sums(nki_tensor_add))(x), sums(jnp.add)(x)


@program
def operands_that_are_views_and_the_same():
    x = normal(0, 64, 256)

    def twice(f):
        return lambda x: f(x.T[:128], x.T[:128]) + f(jnp.full((128, 64), 2.0), x.T[128:])

    return jax.jit(twice(nki_tensor_add))(x), twice(jnp.add)(x)


@program
def two_cores_that_meet():
    x = normal(0, 128, 16)
    sums = x.sum(axis=1, keepdims=True)
    theirs = jnp.concatenate([sums[64:], sums[:64]])
    return jax.jit(lambda x: nki_halves[2](x) * 2)(x), (x + theirs) * 2


@program
def eagerly():
    a, b = normal(0, 128, 8), normal(1, 128, 8)
    return nki_tensor_add(a, b), a + b


@program
def of_bfloat16_and_integers():
    a, b = normal(0, 128, 32).astype(jnp.bfloat16), normal(1, 128, 32).astype(jnp.bfloat16)
    c, d = jnp.arange(128 * 4).reshape(128, 4), jnp.arange(128 * 4)[::-1].reshape(128, 4)
    both = jax.jit(lambda a, b, c, d: (nki_tensor_add(a, b), nki_tensor_add(c, d)))
    return both(a, b, c, d), (a + b, c + d)


@program
def kernel_under_vmap():
    a, b = normal(30, 3, 128, 16), normal(31, 128, 16)
    shared = jax.jit(jax.vmap(nki_tensor_add, in_axes=(0, None)))(a, b)
    turned = jax.vmap(nki_tensor_add, in_axes=(2, 0), out_axes=1)(a.transpose(1, 2, 0), a)
    twice = jax.vmap(jax.vmap(nki_tensor_add))(a[None], a[None])
    return (shared, turned, twice), (a + b, jnp.moveaxis(a + a, 0, 1), (a + a)[None])


def main(path: str) -> None:
    saved: dict[str, np.ndarray] = {"platform": np.asarray(jax.default_backend())}
    for name, function in PROGRAMS.items():
        try:
            for side, value in zip(("kernel", "formula"), function(), strict=True):
                for i, leaf in enumerate(jax.tree.leaves(value)):
                    saved[f"{name}/{side}/{i}"] = np.asarray(leaf, np.float32)
        except Exception as error:  # the comparison shows it under the program's name
            saved[f"{name}/error"] = np.asarray(f"{type(error).__name__}: {error}")
    np.savez(path, **saved)


if __name__ == "__main__":
    main(sys.argv[1])
