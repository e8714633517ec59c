"""JAX programs that run unchanged on any platform; each gives arrays that two platforms must agree on.

`python -m tests.jax.programs OUT.npz` runs them all on the platform that JAX_PLATFORMS names and saves what they
give. One that fails is saved as its error's text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

PROGRAMS: dict[str, Callable[[], object]] = {}


def program(function: Callable[[], object]) -> Callable[[], object]:
    PROGRAMS[function.__name__] = function
    return function


def normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@program
def eager_arithmetic():
    x = jnp.arange(12.0).reshape(3, 4)
    return x + 1, x @ x.T, (x > 3).sum(), x[1:, ::2], jnp.where(x % 2 == 0, x, -x)


@program
def integers():
    x = jnp.array([-(2**31), -7, -1, 0, 1, 5, 2**31 - 1], jnp.int32)
    y = x.astype(jnp.uint32)
    return (
        x // 3,
        x % 3,
        x * 3,
        y,
        y >> 3,
        y ^ 0xFFFF,
        x.astype(jnp.int8),
        y.astype(jnp.float32),
        jnp.bitwise_not(x),
    )


@program
def grad_of_softmax_cross_entropy():
    w, x = normal(0, 16, 10), normal(1, 32, 16)
    labels = jnp.arange(32) % 10

    def loss(w):
        logits = x @ w
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(32), labels])

    return jax.jit(jax.value_and_grad(loss))(w)


@program
def vmap_of_grad():
    return jax.vmap(jax.grad(lambda v: jnp.sum(jnp.sin(v) ** 2)))(normal(2, 8, 5))


@program
def recurrent_scan():
    w, xs = normal(3, 8, 8) * 0.3, normal(4, 20, 4, 8)

    def step(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h.sum(-1)

    return jax.jit(lambda xs: jax.lax.scan(step, jnp.zeros((4, 8)), xs))(xs)


@program
def while_and_cond():
    def collatz(n):
        return jax.lax.while_loop(
            lambda c: c[0] != 1,
            lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1),
            (n, 0),
        )[1]

    picked = jax.jit(lambda p, x: jax.lax.cond(p, jnp.sin, jnp.cos, x))
    return jax.jit(collatz)(27), picked(True, 1.0), picked(False, 1.0)


@program
def random_numbers():
    key = jax.random.key(7)
    a, b, c, d = jax.random.split(key, 4)
    return (
        jax.random.normal(a, (100,)),
        jax.random.uniform(b, (3, 7)),
        jax.random.randint(c, (50,), -5, 1000),
        jax.random.permutation(d, 20),
        jax.random.bernoulli(a, 0.3, (40,)),
    )


@program
def sorting():
    x = normal(5, 6, 33)
    return (
        jnp.sort(x, axis=1),
        jnp.argsort(x, axis=0),
        jax.lax.top_k(x, 5),
        jnp.unique(jnp.arange(9) % 4, size=4),
    )


@program
def convolution_step():
    kernel, images = normal(6, 3, 3, 3, 8) * 0.2, normal(7, 4, 12, 12, 3)

    def loss(kernel):
        y = jax.lax.conv_general_dilated(
            images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        y = jax.lax.reduce_window(jax.nn.relu(y), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.mean(y**2)

    return jax.jit(jax.value_and_grad(loss))(kernel)


@program
def attention_in_bf16():
    q, k, v = (normal(i, 2, 4, 16, 8).astype(jnp.bfloat16) for i in (8, 9, 10))

    @jax.jit
    def attend(q, k, v):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k).astype(jnp.float32) / 8**0.5
        mask = jnp.tril(jnp.ones((16, 16), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9)).astype(jnp.bfloat16)
        return jnp.einsum("bhqk,bhkd->bhqd", weights, v)

    return attend(q, k, v).astype(jnp.float32)


@program
def donation():
    step = jax.jit(lambda state, x: state * 0.5 + x, donate_argnums=0)
    state = jnp.ones((16,))
    first = state
    for i in range(5):
        state = step(state, jnp.full((16,), float(i)))
    return state, np.asarray(first.is_deleted() or first is state)


@program
def training_a_perceptron():
    x, y = normal(11, 64, 8), normal(12, 64, 1)
    params = {"w1": normal(13, 8, 32) * 0.3, "b1": jnp.zeros(32), "w2": normal(14, 32, 1) * 0.3}

    def loss(p):
        return jnp.mean((jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] - y) ** 2)

    @jax.jit
    def step(p):
        value, grads = jax.value_and_grad(loss)(p)
        return jax.tree.map(lambda a, g: a - 0.1 * g, p, grads), value

    losses = []
    for _ in range(10):
        params, value = step(params)
        losses.append(value)
    return jnp.stack(losses), params


@program
def scatters_and_gathers():
    x = normal(15, 10, 6)
    at = jnp.array([3, 1, 3, 9])
    return (
        x.at[at].add(1.0),
        x.at[:, 2].set(0.0),
        x[at, jnp.array([0, 5, 2, 2])],
        jnp.take(x, jnp.array([-1, 2, 20]), axis=0, mode="clip"),
        jax.lax.dynamic_slice(x, (jnp.int32(8), jnp.int32(1)), (4, 3)),
        jax.lax.dynamic_update_slice(x, jnp.ones((2, 2)), (jnp.int32(9), jnp.int32(5))),
        jnp.cumsum(x, axis=0),
    )


@program
def special_functions():
    x = jnp.linspace(0.1, 3.0, 20)
    return (
        jax.scipy.special.gammaln(x),
        jax.scipy.special.erfinv(x / 4),
        jnp.arctan2(x, -x[::-1]),
        jnp.log1p(x),
        jnp.expm1(x),
        jnp.cbrt(x),
        jax.nn.gelu(x),
    )


@program
def complex_and_fft():
    x = normal(16, 16)
    z = jnp.fft.fft(x)
    return z.real, z.imag, jnp.abs(z), jnp.fft.irfft(jnp.fft.rfft(x))


@program
def qr_decompositions():
    tall, wide = normal(40, 9, 5), normal(41, 2, 4, 6)
    q, r = jnp.linalg.qr(tall)
    complete, _ = jnp.linalg.qr(tall, mode="complete")
    return q, r, complete, jnp.linalg.qr(wide)[1], jnp.linalg.qr(jnp.zeros((3, 2)))[1]


@program
def singular_values():
    x = normal(42, 12, 7)
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    return s, (u * s) @ v, jnp.linalg.pinv(x), jnp.linalg.norm(x, 2)


@program
def complex_matrices():
    a = normal(43, 2, 21, 21) + 1j * normal(44, 2, 21, 21)
    positive = a @ a.conj().swapaxes(-1, -2) + 21 * jnp.eye(21)
    lower = jnp.linalg.cholesky(positive)
    b = normal(45, 2, 21, 3).astype(jnp.complex64)
    solve = jax.lax.linalg.triangular_solve
    adjoint = solve(lower, b, left_side=True, lower=True, transpose_a=True, conjugate_a=True)
    s = jnp.linalg.svd(a[:, :3], compute_uv=False)
    return lower, adjoint, solve(lower, b.swapaxes(-1, -2), lower=True), s


@program
def complex_places_and_a_small_divisor():
    z = normal(46, 6) + 1j * normal(47, 6)
    small = jnp.complex64(3e-37 - 2e-37j)  # its square is no fp32 number
    places = jnp.array([4, 0, 4])
    bits = jax.lax.bitcast_convert_type(z, jnp.complex64)
    return (
        z.at[places[:2]].set(bits[:2]),
        z.at[places].add(1j),
        z * small / small,
        jax.lax.iota("complex64", 3),
    )


@program
def complex_products_and_extremes():
    z = normal(48, 6, 5) + 1j * normal(49, 6, 5)
    return z.prod(0), z.max(1), z.min(), jnp.sort(z, axis=0), jax.lax.cumprod(z), jnp.cumsum(z, 1)


@program
def scatters_by_functions():
    z = normal(51, 6, 5) + 1j * normal(52, 6, 5)
    places, w = jnp.array([4, 0, 4]), normal(53, 3, 5) - 1j
    x = normal(54, 7)
    return (
        z.at[places].multiply(w),
        z.at[places].max(w),
        z.at[places].min(w),
        x.at[jnp.array([1, 3, 1, 9])].apply(jnp.tanh),
        x.at[jnp.array([1, 3, 1])].divide(jnp.array([2.0, 3.0, 5.0])),
    )


@program
def one_predicate_beside_reductions():
    x, y = normal(55, 20, 6), normal(56, 3, 4, 5)
    rising = x[0, 0] < x[0, 1]
    return (
        jax.lax.select(rising, x.sum(1), x.max(1)),
        jnp.where(~rising, y.sum(1), 0),
        jax.lax.clamp(x[0, 0] - 1, y.mean(2), x[0, 0]),
        jnp.digitize(x[:, 0], jnp.sort(x[0]), method="compare_all"),
    )


@program
def random_whole_numbers_of_64_bits():
    with jax.enable_x64(True):
        key = jax.random.key(5)
        return (
            jax.random.randint(key, (40,), -3, 1000),
            jax.random.randint(key, (40,), -(2**31), 2**31 - 1),
            jax.random.permutation(key, 20),
            jax.random.choice(key, 7, (9,)),
            jnp.arange(9, dtype=jnp.uint64) % jnp.uint64(4),
        )


@program
def products_of_whole_numbers():
    a, b = jnp.arange(12, dtype=jnp.int8).reshape(3, 4), jnp.arange(20, dtype=jnp.int8).reshape(4, 5) - 9
    wide = jax.lax.dot(a, b, preferred_element_type=jnp.float32)
    return wide, jax.lax.dot(a > 7, b > 5), jax.lax.dot(a, b, preferred_element_type=jnp.int32)


@program
def approximate_extremes():
    x = normal(50, 3, 40)
    return jax.lax.approx_max_k(x, 4), jax.lax.approx_min_k(x, 3, reduction_dimension=0)


@program
def nothing_at_all():
    none = jnp.zeros((3, 0, 0))
    return (
        jax.lax.linalg.cholesky(none),
        jnp.sort(none),
        jnp.fft.fft(jnp.zeros((2, 0, 4))),
        jnp.linalg.det(none),
    )


def flattened(value: object) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(value)]


def main(path: str) -> None:
    saved: dict[str, np.ndarray] = {"platform": np.asarray(jax.default_backend())}
    for name, function in PROGRAMS.items():
        try:
            for i, array in enumerate(flattened(function())):
                saved[f"{name}/{i}"] = array
        except Exception as error:  # the comparison shows it under the program's name
            saved[f"{name}/error"] = np.asarray(f"{type(error).__name__}: {error}")
    np.savez(path, **saved)


if __name__ == "__main__":
    main(sys.argv[1])
