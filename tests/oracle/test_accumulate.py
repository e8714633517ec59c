"""Activations, and the accumulator registers of the Scalar and Vector engines."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from opentrn.errors import NkiValidationError
from opentrn.oracle import isa as nisa
from opentrn.oracle.machine import Machine
from opentrn.types.isa_enums import reduce_cmd

BF16, F32 = ml_dtypes.bfloat16, np.float32
FP32_MIN = np.finfo(F32).min
X = np.concatenate([np.linspace(-6, 6, 97), [0.0, 1e-6, -30.0, 30.0]])


def vectorize(function):
    return np.array([function(float(x)) for x in X])


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def cdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


EXACT = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": sigmoid,
    "relu": lambda x: max(x, 0),
    "gelu": lambda x: x * cdf(x),
    "gelu_dx": lambda x: cdf(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "gelu_apprx_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: sigmoid(1.702 * x) * (1 + 1.702 * x * sigmoid(-1.702 * x)),
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": lambda x: sigmoid(x) * (1 + x * sigmoid(-x)),
    "tanh": math.tanh,
    "softplus": lambda x: max(x, 0) + math.log1p(math.exp(-abs(x))),
    "mish": lambda x: x * math.tanh(max(x, 0) + math.log1p(math.exp(-abs(x)))),
    "erf": math.erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
    "exp": math.exp,
    "sign": lambda x: (x > 0) - (x < 0),
    "abs": abs,
    "arctan": math.atan,
}


@pytest.mark.parametrize("op", sorted(EXACT))
def test_activation_functions_are_the_exact_ones(tiles, op):
    dst = tiles.empty((1, X.size))
    nisa.activation(dst, op, tiles.of(X[None, :].astype(F32)))
    # A few float32 roundings of the input, of intermediate values and of the result.
    np.testing.assert_allclose(dst.numpy()[0], vectorize(EXACT[op]), rtol=1e-5, atol=5e-7)


@pytest.mark.parametrize("op", ["log", "sqrt", "rsqrt", "reciprocal"])
def test_activation_functions_of_positive_values(tiles, op):
    x = np.geomspace(1e-6, 1e6, 50)
    dst = tiles.empty((1, 50))
    nisa.activation(dst, op, tiles.of(x[None, :].astype(F32)))
    exact = {"log": np.log(x), "sqrt": np.sqrt(x), "rsqrt": x**-0.5, "reciprocal": 1 / x}[op]
    np.testing.assert_allclose(dst.numpy()[0], exact, rtol=1e-6)


def test_sin_extrapolates_a_cubic_as_documented(tiles):
    dst = tiles.empty((1, 4))
    nisa.activation(dst, np.sin, tiles.of(np.array([[9.0, -9.0, 1.0, math.pi]], F32)))
    np.testing.assert_allclose(dst.numpy()[0], [27.65, -27.65, math.sin(1), 0], atol=5e-3)


def test_activation_scales_adds_a_bias_and_rounds_once(tiles, rng):
    data = rng.standard_normal((4, 6)).astype(BF16)
    scale, bias = rng.standard_normal((2, 4, 1)).astype(F32)
    dst = tiles.empty((4, 6), "bfloat16")
    nisa.activation(dst, "relu", tiles.of(data), bias=tiles.of(bias), scale=tiles.of(scale))
    np.testing.assert_array_equal(dst.numpy(), np.maximum(data.astype(F32) * scale + bias, 0).astype(BF16))
    nisa.activation(dst, "copy", tiles.of(data), bias=0.25, scale=2.0)
    np.testing.assert_array_equal(dst.numpy(), (data.astype(F32) * 2 + F32(0.25)).astype(BF16))


def test_scalar_registers_persist_across_activations(tiles):
    ones = tiles.of(np.ones((3, 4), F32))
    out, total = tiles.empty((3, 4)), tiles.empty((3, 1))
    nisa.activation(out, "copy", ones, reduce_op="add", reduce_cmd=reduce_cmd.reset_reduce)
    nisa.activation(out, "copy", ones, scale=2.0, reduce_op="add", reduce_cmd=reduce_cmd.reduce)
    nisa.activation(out, "copy", ones, scale=100.0)  # idle: registers untouched
    nisa.activation(out, "copy", ones, reduce_op="add", reduce_res=total, reduce_cmd=reduce_cmd.reduce)
    np.testing.assert_array_equal(total.numpy(), np.full((3, 1), 16))
    nisa.activation(out, "copy", ones, reduce_res=total, reduce_cmd=reduce_cmd.reset)
    np.testing.assert_array_equal(total.numpy(), np.zeros((3, 1)))
    with pytest.raises(NkiValidationError):
        nisa.activation(out, "copy", ones, reduce_op="maximum")


def test_activation_reduce_resets_first(tiles):
    data = tiles.of(np.arange(8, dtype=F32).reshape(2, 4))
    out, total = tiles.empty((2, 4)), tiles.empty((2, 1), "bfloat16")
    for _ in range(2):
        nisa.activation_reduce(out, "square", data, "add", total)
    np.testing.assert_array_equal(total.numpy().astype(F32)[:, 0], [14, 126])


def test_activate2_pairs_reverses_and_reduces(tiles_v4, rng):
    data = rng.standard_normal((3, 5)).astype(F32)
    dst, res = tiles_v4.empty((3, 5)), tiles_v4.empty((3, 1))
    nisa.activate2(
        dst, "prelu", tiles_v4.of(data), 2.0, 0.5, "multiply", "subtract", relu_param=0.1, reverse1=True,
        reduce_op="maximum", reduce_res=res, reduce_cmd=reduce_cmd.reset_reduce,
    )  # fmt: skip
    stage = F32(0.5) - data * 2
    expected = np.where(stage > 0, stage, F32(0.1) * stage)
    np.testing.assert_array_equal(dst.numpy(), expected)
    np.testing.assert_array_equal(res.numpy()[:, 0], expected.max(axis=1))
    nisa.activate2(
        dst, "copy", tiles_v4.of(data), None, None, None, None,
        reduce_op="abs_max", reduce_res=res, reduce_cmd=reduce_cmd.reset_reduce,
    )  # fmt: skip
    np.testing.assert_array_equal(np.abs(res.numpy()[:, 0]), np.abs(data).max(axis=1))
    with pytest.raises(NkiValidationError, match="pairs"):
        nisa.activate2(dst, "copy", tiles_v4.of(data), 1.0, 1.0, "add", "multiply")


def test_fourth_generation_instructions_are_refused_before(tiles):
    tile = tiles.empty((2, 8))
    with pytest.raises(NkiValidationError, match="v4"):
        nisa.activate2(tile, "copy", tile, None, None, None, None)
    with pytest.raises(NkiValidationError, match="v4"):
        nisa.exponential(tile, tile)
    with pytest.raises(NkiValidationError, match="v4"):
        nisa.rand2(tile, 0.0, 1.0)


@pytest.mark.parametrize(
    ("reduction", "reference"), [("add", np.sum), ("multiply", np.prod), ("max", np.max), ("min", np.min)]
)
def test_tensor_scalar_reduce(tiles, rng, reduction, reference):
    data = rng.standard_normal((4, 2, 5)).astype(F32)
    dst, res = tiles.empty((4, 10)), tiles.empty((4, 1))
    nisa.tensor_scalar_reduce(dst, tiles.of(data), "add", 1.5, reduction, res, reduce_res_negate=True)
    expected = data.reshape(4, 10) + F32(1.5)
    np.testing.assert_array_equal(dst.numpy(), expected)
    np.testing.assert_allclose(res.numpy()[:, 0], -reference(expected.astype(np.float64), axis=1), rtol=1e-5)


def test_vector_registers_are_shared_and_can_be_loaded(tiles):
    data, res = tiles.of(np.full((2, 3), 2.0, F32)), tiles.empty((2, 1))
    out = tiles.empty((2, 3))
    nisa.tensor_scalar_reduce(out, data, "multiply", 1.0, "add", reduce_res_negate=True)
    nisa.tensor_scalar_reduce(out, data, "multiply", 1.0, "add", res, reduce_cmd=reduce_cmd.reduce)
    np.testing.assert_array_equal(res.numpy(), [[12], [12]])
    start = tiles.of(np.array([[10], [20]], F32))
    nisa.tensor_scalar_reduce(
        out, data, "multiply", 1.0, "add", res, reduce_cmd=reduce_cmd.load_reduce, reduce_init=start
    )
    np.testing.assert_array_equal(res.numpy(), [[16], [26]])
    nisa.tensor_scalar_cumulative(out, data, "add", "add", 0.0, reduce_cmd=reduce_cmd.reduce)
    np.testing.assert_array_equal(out.numpy(), [[18, 20, 22], [28, 30, 32]])
    with pytest.raises(NkiValidationError, match="reduce_init"):
        nisa.tensor_scalar_reduce(out, data, "add", 0.0, "add", res, reduce_init=1.0)


@pytest.mark.parametrize(
    ("op1", "expected"),
    [
        ("add", [2, 5, 9]),
        ("multiply", [2, 6, 24]),
        ("max", [2, 3, 4]),
        ("subtract", [2, 3 - 2, 4 - 1]),  # op1(value, register)
    ],
)
def test_tensor_scalar_cumulative(tiles, op1, expected):
    dst = tiles.empty((1, 3), "bfloat16")
    nisa.tensor_scalar_cumulative(dst, tiles.of(np.array([[1, 2, 3]], BF16)), "add", op1, 1.0)
    np.testing.assert_array_equal(dst.numpy().astype(F32), [expected])
    with pytest.raises(NkiValidationError, match="32-bit"):
        nisa.tensor_scalar_cumulative(dst, tiles.of([[1, 2, 3]], "int32"), "add", "add", 1.0)


@pytest.mark.parametrize("reverse", [False, True])
def test_select_reduce(tiles, rng, reverse):
    on_true = rng.standard_normal((3, 6)).astype(BF16)
    predicate = rng.integers(0, 2, (3, 6)).astype(np.uint8)
    on_false = rng.standard_normal((3, 1)).astype(F32)
    dst, res = tiles.empty((3, 6)), tiles.empty((3, 1))
    nisa.select_reduce(
        dst, tiles.of(predicate), tiles.of(on_true), tiles.of(on_false), res, reduce_cmd.reset_reduce,
        reverse_pred=reverse,
    )  # fmt: skip
    expected = np.where((predicate == 0) == reverse, on_true.astype(F32), on_false)
    np.testing.assert_array_equal(dst.numpy(), expected)
    np.testing.assert_array_equal(res.numpy()[:, 0], expected.max(axis=1))


def test_range_select(tiles, rng):
    data = rng.standard_normal((4, 10)).astype(F32)
    low, high = np.array([[0], [3], [12], [5]], F32), np.array([[10], [7], [20], [5]], F32)
    dst, res = tiles.empty((4, 10)), tiles.empty((4, 1))
    nisa.range_select(
        dst,
        tiles.of(data),
        "greater_equal",
        "less",
        tiles.of(low),
        tiles.of(high),
        reduce_res=res,
        range_start=2,
    )
    index = np.arange(10)[None, :] + 2
    expected = np.where((index >= low) & (index < high), data, FP32_MIN)
    np.testing.assert_array_equal(dst.numpy(), expected)
    np.testing.assert_array_equal(res.numpy()[:, 0], expected.max(axis=1))
    narrow = tiles.empty((4, 10), "bfloat16")
    nisa.range_select(narrow, tiles.of(data), "less", "less", tiles.of(low * 0), tiles.of(low * 0))
    assert np.isneginf(narrow.numpy().astype(F32)).all()
    with pytest.raises(NkiValidationError):
        nisa.range_select(dst, tiles.of(data), "add", "less", tiles.of(low), tiles.of(high))


def test_range_select_needs_the_third_generation():
    with Machine("trn1") as machine:
        tile, bound = machine.ndarray((1, 8), "float32"), machine.ndarray((1, 1), "float32")
        with pytest.raises(NkiValidationError, match="v3"):
            nisa.range_select(tile, tile, "less", "less", bound, bound)


def test_exponential_subtracts_and_sums(tiles_v4, rng):
    data = rng.standard_normal((3, 7)).astype(BF16)
    largest = data.astype(F32).max(axis=1, keepdims=True)
    dst, res = tiles_v4.empty((3, 7), "bfloat16"), tiles_v4.empty((3, 1))
    nisa.exponential(dst, tiles_v4.of(data), tiles_v4.of(largest), res, reduce_cmd.reset_reduce)
    exact = np.exp(data.astype(np.float64) - largest)
    np.testing.assert_allclose(dst.numpy().astype(F32), exact, rtol=2**-8)
    np.testing.assert_allclose(res.numpy()[:, 0], exact.sum(axis=1), rtol=1e-6)
    nisa.exponential(
        dst, tiles_v4.of(data), tiles_v4.of(largest), res, reduce_cmd.load_reduce, reduce_init=10.0
    )
    np.testing.assert_allclose(res.numpy()[:, 0], 10 + exact.sum(axis=1), rtol=1e-6)
