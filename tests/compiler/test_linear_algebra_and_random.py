"""Factors, triangular systems and random bits on the simulated core, against NumPy and the evaluator.

The evaluator's random bits are those of XLA:CPU (tests/graph); JAX's own key schedule is tested by what its
exported programs do (conformance/stablehlo, random_*).
"""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opentrn
from opentrn import graph

RNG = np.random.default_rng(23)


def tensor(shape: tuple[int, ...], element: str = "f32") -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


def positive(batch: int, n: int) -> np.ndarray:
    """Positive definite matrices of condition below about 10."""
    a = RNG.standard_normal((batch, n, n))
    return (a @ a.transpose(0, 2, 1) / n + np.eye(n)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 2, 7, 16, 17, 50])
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(n, lower):
    a = positive(2, n)
    # The other triangle is not read.
    given_part = (
        np.tril(a) + np.triu(np.full_like(a, np.nan), 1) if lower else np.triu(a) + np.tril(a * np.nan, -1)
    )
    text = f"""
func.func @main(%a: {tensor(a.shape)}) -> {tensor(a.shape)} {{
  %r = "stablehlo.cholesky"(%a) <{{lower = {str(lower).lower()}}}> : ({tensor(a.shape)}) -> {tensor(a.shape)}
  return %r : {tensor(a.shape)}
}}
"""
    (got,) = opentrn.compile(text)(given_part)
    want = np.linalg.cholesky(a.astype(np.float64))
    want = want if lower else want.transpose(0, 2, 1)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


def test_a_matrix_that_is_not_positive_gives_nan():
    a = np.array([[[4.0, 2.0], [2.0, -1.0]], [[1, 1], [1, 1]], [[4, 2], [2, 4]]], np.float32)
    text = f"""
func.func @main(%a: {tensor(a.shape)}) -> {tensor(a.shape)} {{
  %r = "stablehlo.cholesky"(%a) <{{lower = true}}> : ({tensor(a.shape)}) -> {tensor(a.shape)}
  return %r : {tensor(a.shape)}
}}
"""
    (got,) = opentrn.compile(text)(a)
    np.testing.assert_allclose(got, graph.parse(text).evaluate(a)[0], rtol=1e-6)
    # XLA's too, all of it: JAX's multivariate_normal of a singular covariance.
    assert np.isnan(got[:2]).all() and np.isfinite(got[2]).all()


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 40) | st.integers(60, 150),
    st.sampled_from([1, 2, 3, 9, 70, 140]),
    st.sampled_from([1, 2, 130]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]),
    st.integers(0, 99),
)
def test_triangular_systems(n, m, batch, left, lower, unit, transpose, seed):
    """A right side in each partition, a system in each, and halves of larger ones."""
    batch = 2 if n > 40 else batch
    random = np.random.default_rng(seed)
    # The other triangle, and a unit diagonal, are not read.
    a = random.standard_normal((batch, n, n)).astype(np.float32) / n + 2 * np.eye(n, dtype=np.float32)
    b = random.standard_normal((batch, n, m) if left else (batch, m, n)).astype(np.float32)
    kinds = tensor(a.shape), tensor(b.shape)
    flags = (
        f"left_side = {str(left).lower()}, lower = {str(lower).lower()}, unit_diagonal = {str(unit).lower()}"
    )
    text = f"""
func.func @main(%a: {kinds[0]}, %b: {kinds[1]}) -> {kinds[1]} {{
  %r = "stablehlo.triangular_solve"(%a, %b) <{{{flags}, transpose_a = #stablehlo<transpose {transpose}>}}>
    : ({kinds[0]}, {kinds[1]}) -> {kinds[1]}
  return %r : {kinds[1]}
}}
"""
    (got,) = opentrn.compile(text)(a, b)
    matrix = (np.tril(a) if lower else np.triu(a)).astype(np.float64)
    if unit:
        matrix[:, range(n), range(n)] = 1
    if transpose != "NO_TRANSPOSE":
        matrix = matrix.transpose(0, 2, 1)
    inverse = np.linalg.inv(matrix)
    want = inverse @ b if left else b @ inverse
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


STATES = {"THREE_FRY": 2, "PHILOX": 3, "DEFAULT": 2}


@pytest.mark.parametrize("algorithm", STATES)
@pytest.mark.parametrize("element", ["ui32", "i32", "ui16", "ui8", "f32"])
@pytest.mark.parametrize("shape", [(7,), (6, 5), (3, 5, 7), (300,)])
def test_random_bits_and_the_state_after_them(algorithm, element, shape):
    words = STATES[algorithm]
    state, wide = tensor((words, 2), "ui32"), tensor((words,), "ui64")
    out = tensor(shape, element)
    text = f"""
func.func @main(%words: {state}) -> ({state}, {out}) {{
  %state = stablehlo.bitcast_convert %words : ({state}) -> {wide}
  %next, %bits = stablehlo.rng_bit_generator %state, algorithm = {algorithm} : ({wide}) -> ({wide}, {out})
  %after = stablehlo.bitcast_convert %next : ({wide}) -> {state}
  return %after, %bits : {state}, {out}
}}
"""
    key = RNG.integers(0, 2**32, (words, 2), dtype=np.uint32)
    key[1] = [2**32 - 5, 2**32 - 1]  # the counter's words wrap
    got, want = opentrn.compile(text)(key), graph.parse(text).evaluate(key)
    np.testing.assert_array_equal(got[0], want[0])
    bits = f"uint{8 * want[1].dtype.itemsize}"
    same = got[1].view(bits) == want[1].view(bits)
    if element == "f32":  # the evaluator knows one NaN
        same |= np.isnan(got[1]) & np.isnan(want[1])
    assert same.all()


def test_a_state_of_64_bits_is_refused_by_name():
    text = """
func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>) {
  %n, %b = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return %n, %b : tensor<2xui64>, tensor<4xui32>
}
"""
    with pytest.raises(NotImplementedError, match=r"stablehlo\.rng_bit_generator"):
        opentrn.compile(text)  # nor can the host, which would get half of the state's bits


@pytest.mark.parametrize("distribution", ["UNIFORM", "NORMAL"])
@pytest.mark.parametrize(("element", "bound"), [("f32", 3e-6), ("bf16", 1e-2)])
def test_distributions(distribution, element, bound):
    text = f"""
func.func @main(%a: tensor<{element}>, %b: tensor<{element}>) -> tensor<40x50x{element}> {{
  %shape = stablehlo.constant dense<[40, 50]> : tensor<2xi64>
  %r = stablehlo.rng %a, %b, %shape, distribution = {distribution}
    : (tensor<{element}>, tensor<{element}>, tensor<2xi64>) -> tensor<40x50x{element}>
  return %r : tensor<40x50x{element}>
}}
"""
    dtype = np.float32 if element == "f32" else ml_dtypes.bfloat16
    a, b = np.array(-2.0, dtype), np.array(3.0, dtype)
    (got,), (want,) = opentrn.compile(text)(a, b), graph.parse(text).evaluate(a, b)
    got, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=0, atol=bound * np.abs(want).max())
    if distribution == "UNIFORM":
        assert got.min() >= -2 and got.max() <= 3 and abs(got.mean() - 0.5) < 0.15
    else:
        assert abs(got.mean() + 2) < 0.25 and abs(got.std() - 3) < 0.2
