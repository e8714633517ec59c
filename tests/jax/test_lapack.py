"""What JAX lowers for the CPU, with LAPACK's calls in it, compiled for the device; against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular

import opentrn

RNG = np.random.default_rng(3)
TALL = RNG.standard_normal((2, 5, 3)).astype(np.float32)
SQUARE = (RNG.standard_normal((4, 4)) + 4 * np.eye(4)).astype(np.float32)
POSITIVE = (SQUARE @ SQUARE.T).astype(np.float32)
HERMITIAN = (POSITIVE + 1j * (SQUARE - SQUARE.T)).astype(np.complex64)


def wide(x):
    return x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)


CASES = {
    "qr": (lambda a: tuple(jnp.linalg.qr(a)), TALL, lambda a: np.linalg.qr(a)),
    "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False), TALL, lambda a: np.linalg.svd(a, compute_uv=False)),
    "solve": (lambda a: jnp.linalg.solve(a, a[:, :2] + 1), SQUARE, lambda a: np.linalg.solve(a, a[:, :2] + 1)),
    "det": (jnp.linalg.det, SQUARE, np.linalg.det),
    "eigvalsh": (jnp.linalg.eigvalsh, HERMITIAN, np.linalg.eigvalsh),
    "cholesky": (jnp.linalg.cholesky, POSITIVE, np.linalg.cholesky),
    "triangular": (
        lambda a: solve_triangular(a, a[:, :2] + 1, lower=True, trans=1),
        SQUARE,
        lambda a: np.linalg.solve(np.tril(a).T, a[:, :2] + 1),
    ),
}


@pytest.mark.parametrize("as_hlo", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_what_jax_lowers_for_the_cpu_runs_on_the_device(name, as_hlo, tmp_path):
    function, x, reference = CASES[name]
    lowered = jax.jit(function).trace(x).lower(lowering_platforms=("cpu",))
    assert "@lapack_" in lowered.as_text()
    path = tmp_path / ("program.pb" if as_hlo else "program.mlir")
    if as_hlo:
        path.write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    else:
        path.write_text(lowered.as_text())
    got = opentrn.compile(path)(x)
    want = reference(wide(x))
    for a, b in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * np.abs(b).max())
