"""Element-wise and reducing Vector/GpSimd instructions against numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opentrn.errors import NkiValidationError
from opentrn.oracle import alu
from opentrn.oracle import isa as nisa
from opentrn.types.isa_ops import ACTIVATION_FUNCTIONS, ALU_OPS, op_name

BF16 = ml_dtypes.bfloat16
F32 = np.float32

DIRECT = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": lambda a, b: (a == b).astype(F32),
    "not_equal": lambda a, b: (a != b).astype(F32),
    "greater": lambda a, b: (a > b).astype(F32),
    "greater_equal": lambda a, b: (a >= b).astype(F32),
    "less": lambda a, b: (a < b).astype(F32),
    "less_equal": lambda a, b: (a <= b).astype(F32),
    "logical_and": lambda a, b: ((a != 0) & (b != 0)).astype(F32),
    "logical_or": lambda a, b: ((a != 0) | (b != 0)).astype(F32),
    "logical_xor": lambda a, b: ((a != 0) ^ (b != 0)).astype(F32),
    "abs_max": lambda a, b: np.where(abs(a) > abs(b), a, b),
    "abs_min": lambda a, b: np.where(abs(a) < abs(b), a, b),
}


@pytest.mark.parametrize("op", sorted(DIRECT))
def test_tensor_tensor_computes_in_float32_and_rounds_once(tiles, rng, op):
    a = rng.integers(-3, 4, (4, 3, 5)).astype(BF16)
    b = np.where(rng.random((4, 15)) < 0.3, 1, rng.standard_normal((4, 15))).astype(F32)
    dst = tiles.empty((4, 15), "float16")
    nisa.tensor_tensor(dst, tiles.of(a), tiles.of(b), op)
    with np.errstate(all="ignore"):
        expected = DIRECT[op](a.astype(F32).reshape(4, 15), b).astype(np.float16)
    np.testing.assert_array_equal(dst.numpy(), expected)


def test_power_and_mod(tiles):
    a, b = tiles.of(np.array([[2, 9, -7]], F32)), tiles.of(np.array([[3, 0.5, 3]], F32))
    dst = tiles.empty((1, 3))
    nisa.tensor_tensor(dst, a, b, np.power)
    np.testing.assert_allclose(dst.numpy(), [[8, 3, -343]], rtol=1e-6)
    nisa.tensor_tensor(dst, a, b, "mod")
    np.testing.assert_array_equal(dst.numpy(), [[2, 0, 2]])
    nisa.tensor_tensor(dst, a, b, "fmod")
    np.testing.assert_array_equal(dst.numpy(), [[2, 0, -1]])


def test_int32_is_exact_on_gpsimd_and_float32_elsewhere(tiles):
    big = 2**24 + 1
    a, b = tiles.of([[big, 2**31 - 1]], "int32"), tiles.of([[2, 1]], "int32")
    dst = tiles.empty((1, 2), "int32")
    nisa.tensor_tensor(dst, a, b, "add")
    np.testing.assert_array_equal(dst.numpy(), [[big + 2, -(2**31)]])
    nisa.tensor_tensor(dst, a, b, "add", engine=nisa.engine.vector)
    np.testing.assert_array_equal(dst.numpy(), [[2**24 + 2, 2**31 - 1]])
    psum = tiles.of([[big, 0]], "int32", "psum")
    nisa.tensor_tensor(dst, psum, b, "multiply")
    np.testing.assert_array_equal(dst.numpy(), [[2**25, 0]])
    wide = tiles.empty((1, 2))
    nisa.tensor_tensor(wide, a, b, "add")
    assert wide.numpy()[0, 0] == 2**24 + 2


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("op", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bitvec_keeps_bits(tiles, rng, dtype, op):
    width = np.dtype(dtype).itemsize * 8
    a, b = rng.integers(0, 2**width, (2, 3, 8), np.uint64).astype(f"u{width // 8}")
    dst = tiles.empty((3, 8), dtype)
    nisa.tensor_tensor(dst, tiles.of(a).view(dtype), tiles.of(b).view(dtype), op)
    np.testing.assert_array_equal(dst.numpy().view(a.dtype), getattr(np, op)(a, b))


def test_shifts_are_logical_and_large_counts_give_zero(tiles):
    data = tiles.of([[-8, 5, 1]], "int32")
    dst = tiles.empty((1, 3), "int32")
    nisa.tensor_scalar(dst, data, "right_shift", 1)
    np.testing.assert_array_equal(dst.numpy(), [[(2**32 - 8) >> 1, 2, 0]])
    nisa.tensor_scalar(dst, data, np.left_shift, 31)
    np.testing.assert_array_equal(dst.numpy(), [[0, -(2**31), -(2**31)]])
    nisa.tensor_scalar(dst, data, "right_shift", 40)
    np.testing.assert_array_equal(dst.numpy(), [[0, 0, 0]])
    nisa.tensor_scalar(dst, data, "arithmetic_right_shift", 1)
    np.testing.assert_array_equal(dst.numpy(), [[-4, 2, 0]])
    nisa.tensor_scalar(dst, data, "invert", None, op1="bitwise_and", operand1=0xFF)
    np.testing.assert_array_equal(dst.numpy(), [[7, 250, 254]])


def test_bitvec_needs_integers_and_one_class(tiles):
    floats, ints = tiles.empty((1, 2)), tiles.empty((1, 2), "int32")
    with pytest.raises(NkiValidationError, match="integers"):
        nisa.tensor_tensor(ints, floats, ints, "bitwise_and")
    with pytest.raises(NkiValidationError, match="integers"):
        nisa.tensor_tensor(floats, ints, ints, "bitwise_and")
    with pytest.raises(NkiValidationError, match="both"):
        nisa.tensor_scalar(ints, ints, "bitwise_and", 1, op1="add", operand1=1)


def test_two_psum_operands_and_mismatched_tiles_are_refused(tiles):
    psum, sbuf = tiles.empty((2, 4), buffer="psum"), tiles.empty((2, 4))
    with pytest.raises(NkiValidationError, match="both be in PSUM"):
        nisa.tensor_tensor(sbuf, psum, psum, "add")
    with pytest.raises(NkiValidationError, match="partitions"):
        nisa.tensor_tensor(sbuf, sbuf, tiles.empty((2, 5)), "add")


@pytest.mark.parametrize("reverse", [(False, False), (True, False), (False, True), (True, True)])
def test_tensor_scalar_two_operators(tiles, rng, reverse):
    data = rng.standard_normal((4, 2, 3)).astype(BF16)
    vector = rng.standard_normal((4, 1)).astype(F32)
    dst = tiles.empty((4, 2, 3), "bfloat16")
    nisa.tensor_scalar(
        dst,
        tiles.of(data),
        np.subtract,
        tiles.of(vector),
        reverse0=reverse[0],
        op1="multiply" if not reverse[1] else "subtract",
        operand1=0.3,
        reverse1=reverse[1],
    )
    first = vector[:, :, None] - data.astype(F32) if reverse[0] else data.astype(F32) - vector[:, :, None]
    second = F32(0.3) - first if reverse[1] else first * F32(0.3)
    np.testing.assert_array_equal(dst.numpy(), second.astype(BF16))


@pytest.mark.parametrize("op", ["abs", "square", "relu", "rsqrt", "reciprocal"])
def test_unary_operators_of_tensor_scalar(tiles, rng, op):
    data = (rng.random((2, 7)) + 0.5).astype(F32)
    dst = tiles.empty((2, 7))
    nisa.tensor_scalar(dst, tiles.of(-data if op in ("abs", "square", "relu") else data), op, 0.0)
    expected = {
        "abs": data,
        "square": data * data,
        "relu": np.zeros_like(data),
        "rsqrt": data.astype(np.float64) ** -0.5,
        "reciprocal": 1 / data.astype(np.float64),
    }[op]
    np.testing.assert_allclose(dst.numpy(), expected, rtol=2e-7)


def test_scalar_tensor_tensor(tiles, rng):
    data, other = rng.standard_normal((2, 4, 6)).astype(F32)
    vector = rng.standard_normal((4, 1)).astype(F32)
    dst = tiles.empty((4, 6))
    nisa.scalar_tensor_tensor(
        dst, tiles.of(data), "multiply", tiles.of(vector), "subtract", tiles.of(other), reverse1=True
    )
    np.testing.assert_array_equal(dst.numpy(), other - data * vector)
    with pytest.raises(NkiValidationError):
        nisa.scalar_tensor_tensor(dst, tiles.of(data), "bitwise_and", 1, "add", tiles.of(other))


@pytest.mark.parametrize("axis", [3, (2, 3), [1, 2, 3], -1])
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_tensor_reduce(tiles, rng, axis, op):
    data = rng.standard_normal((5, 2, 3, 4)).astype(F32)
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    reference = {"add": np.sum, "multiply": np.prod, "maximum": np.max, "minimum": np.min}[op](
        data.astype(np.float64), axis=axes
    ).reshape(5, -1)
    dst = tiles.empty(reference.shape)
    nisa.tensor_reduce(dst, op, tiles.of(data), axis=axis, negate=True)
    np.testing.assert_allclose(dst.numpy(), -reference, rtol=1e-5, atol=1e-6)


def test_tensor_reduce_of_bits_and_its_limits(tiles, rng):
    data = rng.integers(0, 2**16, (3, 9)).astype(np.uint16)
    dst = tiles.empty((3, 1), "uint16")
    nisa.tensor_reduce(dst, "bitwise_xor", tiles.of(data), axis=1)
    np.testing.assert_array_equal(dst.numpy()[:, 0], np.bitwise_xor.reduce(data, axis=1))
    for axis in (0, (0, 1)):
        with pytest.raises(NkiValidationError):
            nisa.tensor_reduce(dst, "add", tiles.of(data), axis=axis)
    with pytest.raises(NkiValidationError):
        nisa.tensor_reduce(dst, "equal", tiles.of(data), axis=1)
    with pytest.raises(NkiValidationError):
        nisa.tensor_reduce(tiles.empty((3, 2, 4)), "add", tiles.empty((3, 2, 4)), axis=1)


def test_sums_run_in_order():
    row = np.array([[2**24, 1, 1, 1, -(2**24)]], F32)
    assert alu.reduce_rows("add", row)[0] == 0  # each 1 is lost; a pairwise sum would keep two of them


@pytest.mark.parametrize(("op", "reference"), [("add", np.sum), ("average", np.mean), ("max", np.max)])
def test_tensor_partition_reduce(tiles, rng, op, reference):
    data = rng.standard_normal((7, 2, 3)).astype(F32)
    dst = tiles.empty((1, 2, 3))
    nisa.tensor_partition_reduce(dst, op, tiles.of(data))
    np.testing.assert_allclose(
        dst.numpy()[0], reference(data.astype(np.float64), axis=0), rtol=1e-5, atol=1e-6
    )


def test_reciprocal(tiles, rng):
    data = rng.standard_normal((3, 5)).astype(BF16)
    dst = tiles.empty((3, 5), "float32")
    nisa.reciprocal(dst, tiles.of(data))
    np.testing.assert_allclose(dst.numpy(), 1 / data.astype(np.float64), rtol=1e-7)


def test_scan_is_a_recurrence(tiles, rng):
    a, b = rng.standard_normal((2, 3, 8)).astype(F32)
    initial = rng.standard_normal((3, 1)).astype(F32)
    dst = tiles.empty((3, 8))
    nisa.tensor_tensor_scan(dst, tiles.of(a), tiles.of(b), tiles.of(initial), np.multiply, np.add)
    state = initial[:, 0]
    for i in range(8):
        state = a[:, i] * state + b[:, i]
        np.testing.assert_array_equal(dst.numpy()[:, i], state)
    nisa.tensor_tensor_scan(dst, tiles.of(a), tiles.of(b), 0.5, "subtract", "subtract", True, True)
    state = np.full(3, 0.5, F32)
    for i in range(8):
        state = b[:, i] - (state - a[:, i])
        np.testing.assert_array_equal(dst.numpy()[:, i], state)


def test_the_operator_resolver():
    def add():
        pass

    class Handle:
        op_name = "gelu"

    for given, name in [
        ("add", "add"),
        (add, "add"),
        (Handle(), "gelu"),
        (np.add, "add"),
        (np.max, "maximum"),
        (np.sum, "add"),
        (np.exp, "exp"),
        (np.bitwise_and, "bitwise_and"),
        (np.true_divide, "divide"),
        (np.copy, "copy"),
        (max, "maximum"),
    ]:
        assert op_name(given) == name
    for bad in ("cosh", 3, None):
        with pytest.raises(TypeError):
            op_name(bad)


def test_every_operator_and_activation_has_a_body():
    from opentrn.oracle.activations import FUNCTIONS

    assert set(alu.ARITHMETIC) | set(alu.BITVEC) == ALU_OPS
    assert set(FUNCTIONS) | {"prelu"} == ACTIVATION_FUNCTIONS | {"bypass"}
