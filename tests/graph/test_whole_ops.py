# ruff: noqa: E501  (programs in a table, one op each)
"""Reductions, windows, sorts, products, linear algebra, control flow, quantization, random bits."""

from __future__ import annotations

import numpy as np
import pytest
from cases import Case, assert_within_ulp, floats, ints

from opentrn import graph

RNG = np.random.default_rng(11)
X = RNG.standard_normal((3, 5)).astype(np.float32)
Y = RNG.standard_normal((5, 4)).astype(np.float32)


def region(op: str, element: str) -> str:
    return f"""({{
    ^bb0(%x: tensor<{element}>, %y: tensor<{element}>):
      %s = stablehlo.{op} %x, %y : tensor<{element}>
      stablehlo.return %s : tensor<{element}>
    }})"""


def comparator(*elements: str) -> str:
    arguments = ", ".join(f"%x{i}: tensor<{e}>, %y{i}: tensor<{e}>" for i, e in enumerate(elements))
    return f"""({{
    ^bb0({arguments}):
      %s = stablehlo.compare LT, %x0, %y0 : (tensor<{elements[0]}>, tensor<{elements[0]}>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }})"""


KEYS = ints([[3, 1, 2], [0, 5, 4]])
ORDER = np.argsort(KEYS, axis=1, kind="stable").astype(np.int32)
WINDOW_SUMS = ints(1, 3, 5, 7)  # of [1, 2, 3, 4] in windows of 2, one padding before
SPD = np.array([[4.0, 2.0], [2.0, 5.0]], np.float32)
L = np.linalg.cholesky(SPD.astype(np.float64)).astype(np.float32)
B = floats([[1.0], [2.0]])
IMAGE = RNG.standard_normal((1, 5, 6, 4)).astype(np.float32)
KERNEL = RNG.standard_normal((3, 2, 2, 6)).astype(np.float32)


def grouped_convolution() -> np.ndarray:
    """Strides (2, 1), padding ((1, 1), (0, 1)), rhs dilation (1, 2), two feature groups, NHWC x HWIO."""
    padded = np.pad(IMAGE.astype(np.float64), ((0, 0), (1, 1), (0, 1), (0, 0)))
    out = np.zeros((1, 3, 5, 6))
    for group in range(2):
        x = padded[..., 2 * group : 2 * group + 2]
        k = KERNEL.astype(np.float64)[..., 3 * group : 3 * group + 3]
        for i in range(3):
            for j in range(5):
                patch = x[0, 2 * i : 2 * i + 3, j : j + 3 : 2, :]
                out[0, i, j, 3 * group : 3 * group + 3] = np.einsum("hwi,hwio->o", patch, k)
    return out.astype(np.float32)


def ragged() -> np.ndarray:
    """Rows 0-1 of X with matrix 0, row 2 with matrix 1."""
    w = np.stack([Y, 2 * Y]).astype(np.float64)
    x = X.astype(np.float64)
    return np.concatenate([x[:2] @ w[0], x[2:] @ w[1]]).astype(np.float32)


def normalised(x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> list[np.ndarray]:
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axis=0), wide.var(axis=0)
    return [
        a.astype(np.float32)
        for a in ((wide - mean) / np.sqrt(variance + 1e-3) * scale + offset, mean, variance)
    ]


SCALE, OFFSET = floats(1.0, 0.5, 2.0, -1.0, 1.5), floats(0.0, 1.0, -1.0, 0.25, 3.0)
SIGNAL = RNG.standard_normal((2, 12)).astype(np.float32)
SPECTRUM = np.fft.rfft(SIGNAL.astype(np.float64)).astype(np.complex64)
FULL = np.fft.fft(SIGNAL.astype(np.float64)).astype(np.complex64)

CASES = [
    Case("stablehlo.reduce", "%r = stablehlo.reduce(%a init: %b) applies stablehlo.add across dimensions = [0] : ({A}, {B}) -> {R}",
         [ints([[1, 2], [3, 4]]), ints(10).reshape(())], ints(14, 16)),
    Case("stablehlo.reduce", f'%r = "stablehlo.reduce"(%a, %b) {region("maximum", "i32")} {{dimensions = array<i64: 0, 1>}} : ({{A}}, {{B}}) -> {{R}}',
         [KEYS, ints(-9).reshape(())], ints(5).reshape(())),
    # Largest value and its first index: two results from one region.
    Case("stablehlo.reduce", """%r, %q = "stablehlo.reduce"(%a, %b, %c, %d) ({
           ^bb0(%v: tensor<i32>, %i: tensor<i32>, %w: tensor<i32>, %j: tensor<i32>):
             %more = stablehlo.compare GT, %w, %v : (tensor<i32>, tensor<i32>) -> tensor<i1>
             %value = stablehlo.select %more, %w, %v : tensor<i1>, tensor<i32>
             %index = stablehlo.select %more, %j, %i : tensor<i1>, tensor<i32>
             stablehlo.return %value, %index : tensor<i32>, tensor<i32>
           }) {dimensions = array<i64: 1>} : ({A}, {B}, {C}, {D}) -> ({R0}, {R1})""",
         [KEYS, np.broadcast_to(ints(0, 1, 2), (2, 3)).copy(), ints(-9).reshape(()), ints(0).reshape(())],
         [ints(3, 5), ints(0, 1)], returned="%r, %q"),
    Case("stablehlo.map", f'%r = "stablehlo.map"(%a, %b) {region("multiply", "i32")} {{dimensions = array<i64: 0>}} : ({{A}}, {{B}}) -> {{A}}',
         [ints(1, 2, 3), ints(4, 5, 6)], ints(4, 10, 18)),
    Case("stablehlo.reduce_window", f"""%r = "stablehlo.reduce_window"(%a, %b) {region("add", "i32")} {{window_dimensions = array<i64: 2>,
           padding = dense<[[1, 0]]> : tensor<1x2xi64>}} : ({{A}}, {{B}}) -> {{R}}""",
         [ints(1, 2, 3, 4), ints(0).reshape(())], WINDOW_SUMS),
    Case("stablehlo.select_and_scatter", f"""%r = "stablehlo.select_and_scatter"(%a, %b, %c) ({{
           ^bb0(%x: tensor<i32>, %y: tensor<i32>):
             %s = stablehlo.compare GE, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %s : tensor<i1>
           }}, {region("add", "i32")[1:-1]}) {{window_dimensions = array<i64: 2>, window_strides = array<i64: 1>}}
           : ({{A}}, {{B}}, {{C}}) -> {{A}}""",
         [ints(1, 5, 2, 2), ints(10, 20, 30), ints(0).reshape(())], ints(0, 30, 30, 0)),
    Case("stablehlo.sort", f'%r, %q = "stablehlo.sort"(%a, %b) {comparator("i32", "i32")} {{dimension = 1 : i64}} : ({{A}}, {{B}}) -> ({{R0}}, {{R1}})',
         [KEYS, np.broadcast_to(ints(0, 1, 2), (2, 3)).copy()], [np.sort(KEYS, axis=1), ORDER], returned="%r, %q"),
    Case("chlo.top_k", "%r, %q = chlo.top_k(%a, k = 2) : {A} -> ({R0}, {R1})", [floats([[1, 5, 5], [np.nan, 2, 3]])],
         [floats([[5, 5], [np.nan, 3]]), ints([[1, 2], [0, 2]])], returned="%r, %q"),
    Case("chlo.scan", """%r, %q = chlo.scan(%a) inits(%b) dimension=0 {
           ^bb0(%x: tensor<i32>, %c: tensor<i32>):
             %s = stablehlo.add %x, %c : tensor<i32>
             stablehlo.return %s, %s : tensor<i32>, tensor<i32>
           } : ({A}, {B}) -> ({R0}, {R1})""",
         [ints(1, 2, 3), ints(0).reshape(())], [ints(1, 3, 6), ints(6).reshape(())], returned="%r, %q"),
    Case("stablehlo.dot", '%r = "stablehlo.dot"(%a, %b) : ({A}, {B}) -> {R}', [X, Y],
         (X.astype(np.float64) @ Y).astype(np.float32), 4),
    Case("stablehlo.dot_general", """%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({A}, {B}) -> {R}""",
         [KEYS.astype(np.int8), KEYS.T.astype(np.int8).copy()], (KEYS @ KEYS.T).astype(np.float32)),
    Case("stablehlo.dot_general", """%r = stablehlo.dot_general %a, %b, batching_dims = [0] x [1], contracting_dims = [2] x [0]
           : ({A}, {B}) -> {R}""", [np.stack([X, 2 * X]), np.stack([Y, -Y], axis=1)],
         np.stack([X.astype(np.float64) @ Y, -2 * (X.astype(np.float64) @ Y)]).astype(np.float32), 4),
    Case("stablehlo.einsum", '%r = "stablehlo.einsum"(%a, %b) {einsum_config = "ij,jk->ki"} : ({A}, {B}) -> {R}', [X, Y],
         (X.astype(np.float64) @ Y).T.astype(np.float32), 8),
    Case("stablehlo.unary_einsum", '%r = "stablehlo.unary_einsum"(%a) {einsum_config = "ij->j"} : ({A}) -> {R}', [KEYS],
         KEYS.sum(axis=0).astype(np.int32)),
    Case("chlo.ragged_dot", """%r = "chlo.ragged_dot"(%a, %b, %c) {ragged_dot_dimension_numbers = #chlo.ragged_dot<
           lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1],
           rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>,
           precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]} : ({A}, {B}, {C}) -> {R}""",
         [X, np.stack([Y, 2 * Y]), ints(2, 1, dtype="int64")], ragged(), 8),
    Case("stablehlo.convolution", """%r = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
           window = {stride = [2, 1], pad = [[1, 1], [0, 1]], rhs_dilate = [1, 2]}
           {feature_group_count = 2 : i64, batch_group_count = 1 : i64} : ({A}, {B}) -> {R}""",
         [IMAGE, KERNEL], grouped_convolution(), 64),
    Case("stablehlo.dynamic_conv", """%r = "stablehlo.dynamic_conv"(%a, %b, %c) {dimension_numbers =
           #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, window_strides = array<i64: 2, 1>,
           rhs_dilation = array<i64: 1, 2>, feature_group_count = 2 : i64, batch_group_count = 1 : i64} : ({A}, {B}, {C}) -> {R}""",
         [IMAGE, KERNEL, ints([[1, 1], [0, 1]])], grouped_convolution(), 64),
    Case("stablehlo.cholesky", '%r = "stablehlo.cholesky"(%a) {lower = true} : ({A}) -> {A}', [SPD], L),
    Case("stablehlo.cholesky", '%r = "stablehlo.cholesky"(%a) {lower = false} : ({A}) -> {A}', [SPD], L.T.copy()),
    Case("stablehlo.triangular_solve", """%r = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true,
           unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>} : ({A}, {B}) -> {B}""",
         [L, B], np.linalg.solve(L.T.astype(np.float64), B.astype(np.float64)).astype(np.float32)),
    Case("stablehlo.fft", "%r = stablehlo.fft %a, type = RFFT, length = [12] : ({A}) -> {R}", [SIGNAL], SPECTRUM, norm=2e-7),
    Case("stablehlo.fft", "%r = stablehlo.fft %a, type = IRFFT, length = [12] : ({A}) -> {R}", [SPECTRUM], SIGNAL, norm=2e-7),
    Case("stablehlo.fft", "%r = stablehlo.fft %a, type = FFT, length = [12] : ({A}) -> {R}", [SIGNAL.astype(np.complex64)], FULL, norm=2e-7),
    Case("stablehlo.fft", "%r = stablehlo.fft %a, type = IFFT, length = [12] : ({A}) -> {R}", [FULL],
         np.fft.ifft(FULL.astype(np.complex128)).astype(np.complex64), norm=2e-7),
    Case("stablehlo.batch_norm_training", """%r, %q, %p = "stablehlo.batch_norm_training"(%a, %b, %c) {epsilon = 0.001 : f32,
           feature_index = 1 : i64} : ({A}, {B}, {C}) -> ({R0}, {R1}, {R2})""",
         [X, SCALE, OFFSET], normalised(X, SCALE, OFFSET), 8, returned="%r, %q, %p"),
    Case("stablehlo.batch_norm_inference", """%r = "stablehlo.batch_norm_inference"(%a, %b, %c, %d, %e) {epsilon = 0.001 : f32,
           feature_index = 1 : i64} : ({A}, {B}, {C}, {D}, {E}) -> {A}""",
         [X, SCALE, OFFSET, *normalised(X, SCALE, OFFSET)[1:]], normalised(X, SCALE, OFFSET)[0], 64),
    Case("stablehlo.case", """%r = "stablehlo.case"(%a) ({
             %x = stablehlo.constant dense<1> : tensor<i32>
             stablehlo.return %x : tensor<i32>
           }, {
             %x = stablehlo.constant dense<2> : tensor<i32>
             stablehlo.return %x : tensor<i32>
           }) : ({A}) -> {R}""", [ints(-5).reshape(())], ints(2).reshape(())),
    Case("stablehlo.if", """%r = "stablehlo.if"(%a) ({
             stablehlo.return %b : {B}
           }, {
             %x = stablehlo.negate %b : {B}
             stablehlo.return %x : {B}
           }) : ({A}) -> {B}""", [np.array(False), ints(1, 2)], ints(-1, -2)),
    Case("stablehlo.while", """%r, %q = stablehlo.while(%i = %a, %x = %b) : {A}, {B}
           cond {
             %n = stablehlo.constant dense<5> : tensor<i32>
             %p = stablehlo.compare LT, %i, %n : ({A}, {A}) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           } do {
             %one = stablehlo.constant dense<1> : tensor<i32>
             %j = stablehlo.add %i, %one : {A}
             %y = stablehlo.add %x, %x : {B}
             stablehlo.return %j, %y : {A}, {B}
           }""", [ints(0).reshape(()), ints(1, 3)], [ints(5).reshape(()), ints(32, 96)], returned="%r, %q"),
    Case("func.call", "%r = func.call @twice(%a) : ({A}) -> {A}", [ints(4, 5)], ints(8, 10),
         functions="func.func private @twice(%x: tensor<2xi32>) -> tensor<2xi32> {\n  %y = stablehlo.add %x, %x : "
                   "tensor<2xi32>\n  return %y : tensor<2xi32>\n}"),
    Case("stablehlo.composite", '%r = stablehlo.composite "my.twice" %a {decomposition = @twice, version = 1 : i32} : ({A}) -> {A}',
         [ints(4, 5)], ints(8, 10),
         functions="func.func private @twice(%x: tensor<2xi32>) -> tensor<2xi32> {\n  %y = stablehlo.add %x, %x : "
                   "tensor<2xi32>\n  return %y : tensor<2xi32>\n}"),
    Case("stablehlo.optimization_barrier", "%r, %q = stablehlo.optimization_barrier %a, %b : {A}, {B}", [ints(1), X],
         [ints(1), X], returned="%r, %q"),
    Case("stablehlo.tuple", """%t = stablehlo.tuple %a, %b : tuple<{A}, {B}>
           %r = stablehlo.get_tuple_element %t[1] : (tuple<{A}, {B}>) -> {B}""", [ints(1), X], X),
    Case("stablehlo.get_tuple_element", """%t = stablehlo.tuple %a, %b : tuple<{A}, {B}>
           %r = stablehlo.get_tuple_element %t[0] : (tuple<{A}, {B}>) -> {A}""", [ints(1), X], ints(1)),
    Case("stablehlo.rng", """%r = "stablehlo.rng"(%a, %a, %b) {rng_distribution = #stablehlo<rng_distribution UNIFORM>}
           : ({A}, {A}, {B}) -> {R}""", [floats(2.5).reshape(()), ints(3, dtype="int64")], floats(2.5, 2.5, 2.5)),
    Case("stablehlo.uniform_quantize", """%q = stablehlo.uniform_quantize %a : ({A}) -> tensor<4x!quant.uniform<i8:f32, 5.0e-01:3>>
           %r = stablehlo.bitcast_convert %q : (tensor<4x!quant.uniform<i8:f32, 5.0e-01:3>>) -> {R}""",
         [floats(0.25, 0.75, -100, 1.0)], ints(4, 4, -128, 5, dtype="int8")),
    Case("stablehlo.uniform_dequantize", """%q = stablehlo.bitcast_convert %a : ({A}) -> tensor<3x!quant.uniform<i8:f32:0, {5.0e-01:3,2.0,1.0:-1}>>
           %r = stablehlo.uniform_dequantize %q : (tensor<3x!quant.uniform<i8:f32:0, {5.0e-01:3,2.0,1.0:-1}>>) -> {R}""",
         [ints(4, 5, -1, dtype="int8")], floats(0.5, 10, 0)),
    Case("stablehlo.add", """%q = stablehlo.uniform_quantize %a : ({A}) -> tensor<2x!quant.uniform<i8:f32, 5.0e-01>>
           %s = stablehlo.add %q, %q : (tensor<2x!quant.uniform<i8:f32, 5.0e-01>>, tensor<2x!quant.uniform<i8:f32, 5.0e-01>>)
             -> tensor<2x!quant.uniform<i8:f32, 2.5e-01:1>>
           %r = stablehlo.bitcast_convert %s : (tensor<2x!quant.uniform<i8:f32, 2.5e-01:1>>) -> {R}""",
         [floats(1.5, -2.0)], ints(13, -15, dtype="int8")),
    Case("chlo.constant", '%r = "chlo.constant"() {value = dense<[1, 2]> : tensor<2xi32>} : () -> {R}', [], ints(1, 2)),
    Case("chlo.constant_like", '%r = "chlo.constant_like"(%a) {value = 1.5 : f32} : ({A}) -> {A}', [X],
         np.full_like(X, 1.5)),
]  # fmt: skip

_BROADCAST = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "power": np.power, "remainder": np.fmod, "atan2": np.arctan2,
    "next_after": np.nextafter,
}  # fmt: skip
_POSITIVE = np.abs(X) + np.float32(0.5)
_ROW = _POSITIVE[0]
for _op, _function in _BROADCAST.items():
    _expected = _function(_POSITIVE, _ROW) if _op == "next_after" else _function(
        _POSITIVE.astype(np.float64), _ROW.astype(np.float64)).astype(np.float32)  # fmt: skip
    _body = f'%r = "chlo.broadcast_{_op}"(%a, %b) : ({{A}}, {{B}}) -> {{R}}'
    CASES.append(Case(f"chlo.broadcast_{_op}", _body, [_POSITIVE, _ROW], _expected))
_COLUMN = ints([[1], [6]])
for _op, _integers in {
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "shift_left": np.left_shift,
    "shift_right_arithmetic": np.right_shift, "shift_right_logical": np.right_shift,
}.items():  # fmt: skip
    _body = f'%r = "chlo.broadcast_{_op}"(%a, %b) : ({{A}}, {{B}}) -> {{R}}'
    CASES.append(
        Case(f"chlo.broadcast_{_op}", _body, [KEYS, _COLUMN], _integers(KEYS, _COLUMN).astype(np.int32))
    )
CASES += [
    Case("chlo.broadcast_compare", """%r = "chlo.broadcast_compare"(%a, %b) {comparison_direction =
           #chlo<comparison_direction GT>} : ({A}, {B}) -> {R}""", [KEYS, ints(2, 2, 2)], KEYS > 2),
    Case("chlo.broadcast_acos", '%r = "chlo.broadcast_acos"(%a) : ({A}) -> {A}', [floats(0.5)],
         np.arccos(np.array([0.5])).astype(np.float32)),
    Case("chlo.broadcast_select", '%r = "chlo.broadcast_select"(%a, %b, %c) : ({A}, {B}, {C}) -> {R}',
         [KEYS > 2, KEYS, ints(7, 8, 9)], np.where(KEYS > 2, KEYS, ints(7, 8, 9)).astype(np.int32)),
    Case("chlo.broadcast_complex", '%r = "chlo.broadcast_complex"(%a, %b) : ({A}, {B}) -> {R}', [X, X[0]],
         (X + 1j * X[0]).astype(np.complex64)),
    Case("chlo.broadcast_zeta", '%r = "chlo.broadcast_zeta"(%a, %b) : ({A}, {B}) -> {R}',
         [floats(2.0, 3.5), floats(1.0).reshape(())], floats(1.6449340668482264, 1.1267338673170566)),
    Case("chlo.broadcast_polygamma", '%r = "chlo.broadcast_polygamma"(%a, %b) : ({A}, {B}) -> {R}',
         [floats(1.0, 1.0), floats(0.5).reshape(())], floats(4.934802200544679, 4.934802200544679)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_op_agrees_with_numpy(case: Case):
    case.run()


def test_batch_norm_grad_is_the_derivative_of_batch_norm_training():
    """Against central differences of the training op in f64."""
    x, scale = X.astype(np.float64), SCALE.astype(np.float64)
    grad = RNG.standard_normal(x.shape)
    mean, variance = x.mean(axis=0), x.var(axis=0)

    def loss(values: np.ndarray) -> float:
        centred = (values - values.mean(axis=0)) / np.sqrt(values.var(axis=0) + 1e-3)
        return float((centred * scale * grad).sum())

    expected = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-6
        expected[index] = (loss(x + step) - loss(x - step)) / 2e-6
    case = Case("stablehlo.batch_norm_grad", """%r, %q, %p = "stablehlo.batch_norm_grad"(%a, %b, %c, %d, %e)
        {epsilon = 0.001 : f32, feature_index = 1 : i64} : ({A}, {B}, {C}, {D}, {E}) -> ({R0}, {R1}, {R2})""",
        [x, scale, mean, variance, grad], [expected, scale, scale], returned="%r, %q, %p")  # fmt: skip
    grad_x, grad_scale, grad_offset = graph.parse(case.text()).evaluate(*case.arguments)
    np.testing.assert_allclose(grad_x, expected, atol=1e-6)
    np.testing.assert_allclose(
        grad_scale, (grad * (x - mean) / np.sqrt(variance + 1e-3)).sum(axis=0), atol=1e-12
    )
    np.testing.assert_allclose(grad_offset, grad.sum(axis=0), atol=1e-12)


# jax 0.10.2 on CPU: lax.rng_bit_generator(np.array([1, 4, 5, 7], np.uint32), shape, dtype, algorithm).
RANDOM = [
    ("THREE_FRY", 3, np.array([1975585480, 2550008035, 180085619, 2107095478, 543687281], np.uint32)),
    ("THREE_FRY", 3, np.array([10952201116837808840, 9049906167739573107, 2509801209824019057], np.uint64)),
    ("THREE_FRY", 3, np.array([[200, 115, 113], [227, 182, 231]], np.uint8)),
    ("THREE_FRY", 2, np.array([2760, 2275, 58227], np.uint16)),
    ("THREE_FRY", 6, np.array([[1975585480, 180085619, 543687281], [2550008035, 2107095478, 584358631],
                               [2651400285, 508479095, 4129361857]], np.uint32)),
    ("PHILOX", 2, np.array([2577423805, 131230711, 4058505886, 4163913289, 3856034596], np.uint32)),
    ("PHILOX", 2, np.array([563631614553251261, 17883871403693302430, 8725971049232362276], np.uint64)),
    ("PHILOX", 2, np.array([[189, 247, 158], [73, 36, 111]], np.uint8)),
    ("PHILOX", 1, np.array([23997, 27639, 58014], np.uint16)),
    ("DEFAULT", 1, np.array([2577423805, 131230711, 4058505886, 4163913289], np.uint32)),
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "blocks", "expected"), RANDOM)
def test_random_bits_are_those_of_xla(algorithm: str, blocks: int, expected: np.ndarray):
    state = np.array([1, 4, 5, 7], np.uint32).view(np.uint64)
    after = state + np.array([0, blocks], np.uint64)
    body = f"%q, %r = stablehlo.rng_bit_generator %a, algorithm = {algorithm} : ({{A}}) -> ({{R0}}, {{R1}})"
    Case("stablehlo.rng_bit_generator", body, [state], [after, expected], returned="%q, %r").run()


def test_random_numbers_have_their_distribution():
    text = """func.func @main(%a: tensor<f32>, %b: tensor<f32>, %s: tensor<1xi64>) -> tensor<20000xf32> {
      %r = "stablehlo.rng"(%a, %b, %s) {rng_distribution = #stablehlo<rng_distribution NORMAL>}
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<20000xf32>
      return %r : tensor<20000xf32>
    }"""
    (values,) = graph.parse(text).evaluate(np.float32(3), np.float32(2), np.array([20000]))
    # Standard errors: 2/sqrt(20000) = 0.014 of the mean, 0.01 of the deviation.
    assert abs(values.mean() - 3) < 0.06
    assert abs(values.std() - 2) < 0.05


def test_float64_is_the_yardstick_of_rounding():
    text = Case("stablehlo.dot", '%r = "stablehlo.dot"(%a, %b) : ({A}, {B}) -> {R}', [X, Y],
                np.zeros((3, 4), np.float32)).text()  # fmt: skip
    module = graph.parse(text)
    (exact,) = module.evaluate(X, Y, float64=True)
    assert exact.dtype == np.float64
    assert_within_ulp(exact, X.astype(np.float64) @ Y.astype(np.float64), 8)
    (rounded,) = module.evaluate(X, Y)
    assert np.any(rounded.astype(np.float64) != exact)
