"""The evaluator against JAX on CPU: functions of the test harnesses in JAX's own wheel, as StableHLO text.

JAX is no dependency of OpenTrn: without it (and absl, which its harnesses import) these tests are skipped.
One harness of every primitive keeps it to seconds.
"""

from __future__ import annotations

import os
from collections import defaultdict

import numpy as np
import pytest

from opentrn import graph

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax", reason="compares with JAX, which is not installed")
pytest.importorskip("absl", reason="JAX's test harnesses import absl, which is not installed")
pytest.importorskip("jax._src.internal_test_util.test_harnesses")
from jax._src.internal_test_util import test_harnesses  # noqa: E402

# Lowered to calls of LAPACK or of XLA's own kernels on CPU, which have no meaning in StableHLO.
CUSTOM_CALLS = {
    "approx_top_k", "cholesky", "custom_linear_solve", "eig", "eigh", "geqrf", "householder_product", "lu", "qr",
    "schur", "svd", "triangular_solve", "tridiagonal_solve",
}  # fmt: skip
# Relative to max(1, |expected|), by bytes of a real number: XLA's f32 and narrower functions are
# approximations, and it sums in another order.
TOLERANCE = {1: 0.3, 2: 2e-2, 4: 2e-5, 8: 1e-12}


def one_of_each_primitive() -> list:
    groups = defaultdict(list)
    for harness in test_harnesses.all_harnesses:
        if harness.group_name not in CUSTOM_CALLS and harness.filter(device_under_test="cpu"):
            groups[harness.group_name].append(harness)
    # JAX makes some of them from sets, in another order in every process.
    for group in groups.values():
        group.sort(key=lambda harness: harness.fullname)
    return [group[len(group) // 2] for _, group in sorted(groups.items())]


@pytest.mark.parametrize("harness", one_of_each_primitive(), ids=lambda harness: harness.fullname)
def test_values_are_those_of_jax_on_cpu(harness):
    arguments = harness.dyn_args_maker(np.random.RandomState(42))
    with jax.enable_x64(True):
        function = jax.jit(harness.dyn_fun)
        lowered = function.lower(*arguments)
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(function(*arguments))]
        text = lowered.as_text()
        flat = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    module = graph.parse(text, harness.fullname)
    module.verify()
    # jit drops the arguments that the function does not read.
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    for actual, wanted in zip(module.evaluate(*[flat[i] for i in kept]), expected, strict=True):
        assert actual.dtype == wanted.dtype
        assert actual.shape == wanted.shape
        compare(actual, wanted)


def compare(actual: np.ndarray, expected: np.ndarray) -> None:
    if expected.dtype.kind not in "fcV":
        np.testing.assert_array_equal(actual, expected)
        return
    is_complex = expected.dtype.kind == "c"
    tolerance = TOLERANCE[expected.dtype.itemsize // (2 if is_complex else 1)]
    wide = np.complex128 if is_complex else np.float64
    np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance)
