# ruff: noqa: E501  (programs in a table, one op each)
"""Elementwise ops against NumPy: floats in f64 rounded once, integers as they wrap."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from cases import BF16, Case, floats, ints, rounded

from opentrn import graph

_X = [-3.5, -1.0, -0.6, -0.0, 0.0, 0.25, 0.5, 1.0, 2.5, 3.5, 77.0, np.inf, -np.inf, np.nan]
_REAL_UNARY = {
    "abs": np.abs,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log_plus_one": np.log1p,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "negate": np.negative,
    "round_nearest_even": np.rint,
    "round_nearest_afz": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "sine": np.sin,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
_CHLO_UNARY = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "conj": np.conj,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "sinh": np.sinh,
    "square": np.square,
    "tan": np.tan,
}
_BINARY = {
    "add": np.add,
    "atan2": np.arctan2,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "power": np.power,
    "remainder": np.fmod,
    "subtract": np.subtract,
}


def _real_cases() -> list[Case]:
    cases = []
    for dtype in ("float32", "float64", "float16", BF16):
        x = floats(_X, dtype=dtype)
        ulp = 1 if dtype == "float64" else 0
        for op, function in _REAL_UNARY.items():
            cases.append(
                Case(f"stablehlo.{op}", f"%r = stablehlo.{op} %a : {{A}}", [x], rounded(function, x), ulp)
            )
        for op, function in _CHLO_UNARY.items():
            expected = rounded(function, x)
            cases.append(
                Case(f"chlo.{op}", f'%r = "chlo.{op}"(%a) : ({{A}}) -> {{A}}', [x], expected, 2 * ulp)
            )
        a, b = (array.ravel() for array in np.meshgrid(x, x))
        for op, function in _BINARY.items():
            expected = rounded(function, a, b)
            if op in ("maximum", "minimum"):
                expected = _signed_zeros(op, a, b, expected)
            cases.append(
                Case(f"stablehlo.{op}", f"%r = stablehlo.{op} %a, %b : {{A}}", [a, b], expected, ulp)
            )
    return cases


def _signed_zeros(op: str, a: np.ndarray, b: np.ndarray, picked: np.ndarray) -> np.ndarray:
    """+0 is larger than -0; NumPy gives either."""
    both = (a == 0) & (b == 0)
    negative = (np.signbit(a) & np.signbit(b)) if op == "maximum" else (np.signbit(a) | np.signbit(b))
    zeros = np.where(negative, -0.0, 0.0).astype(a.dtype)
    return np.where(both, zeros, picked)


def _complex_cases() -> list[Case]:
    z = np.array([1 + 2j, -0.5 + 0.25j, 3 - 1j, -2 - 0.125j, 0.75 + 0j], np.complex64)
    w = np.array([0.5 - 1j, 2 + 2j, -1 + 0.5j, 1j, 1 + 0j], np.complex64)
    functions = {
        "cosine": np.cos, "sine": np.sin, "tan": np.tan, "tanh": np.tanh, "exponential": np.exp,
        "exponential_minus_one": np.expm1, "log": np.log, "log_plus_one": np.log1p, "sqrt": np.sqrt,
        "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)), "negate": np.negative,
        "sign": lambda x: x / np.abs(x), "cbrt": lambda x: np.abs(x) ** (1 / 3) * np.exp(1j * np.angle(x) / 3),
    }  # fmt: skip
    cases = [
        Case(f"stablehlo.{op}", f"%r = stablehlo.{op} %a : {{A}}", [z], rounded(function, z), 1)
        for op, function in functions.items()
    ]
    for op in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "conj", "square"):
        body = f'%r = "chlo.{op}"(%a) : ({{A}}) -> {{A}}'
        cases.append(Case(f"chlo.{op}", body, [z], rounded(_CHLO_UNARY[op], z), 1))
    for op in ("add", "subtract", "multiply", "divide", "power"):
        body = f"%r = stablehlo.{op} %a, %b : {{A}}"
        cases.append(Case(f"stablehlo.{op}", body, [z, w], rounded(_BINARY[op], z, w), 1))
    # The kernel gives asin(z) = atan2(x, w.real) + i sign(y) w.imag.
    asin = np.arcsin(z.astype(np.complex128))
    kernel = (z.real / np.tan(asin.real) + 1j * np.abs(asin.imag)).astype(np.complex64)
    cases.append(
        Case("chlo._asin_acos_kernel", '%r = "chlo._asin_acos_kernel"(%a) : ({A}) -> {A}', [z], kernel, 2)
    )
    re, im = z.real.copy(), z.imag.copy()
    cases += [
        Case("stablehlo.real", "%r = stablehlo.real %a : ({A}) -> {R}", [z], re),
        Case("stablehlo.imag", "%r = stablehlo.imag %a : ({A}) -> {R}", [z], im),
        Case("stablehlo.complex", "%r = stablehlo.complex %a, %b : {R}", [re, im], z),
        Case("stablehlo.abs", "%r = stablehlo.abs %a : ({A}) -> {R}", [z],
             np.abs(z.astype(np.complex128)).astype(np.float32)),
    ]  # fmt: skip
    return cases


def _integer_cases() -> list[Case]:
    cases = []
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        info = np.iinfo(dtype)
        values = [info.min, info.max, 0, 1, 2, 7, 100, info.max // 3]
        a, b = (array.ravel() for array in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
        with np.errstate(all="ignore"):
            expected = {"add": a + b, "subtract": a - b, "multiply": a * b, "maximum": np.maximum(a, b),
                        "minimum": np.minimum(a, b), "and": a & b, "or": a | b, "xor": a ^ b}  # fmt: skip
            for op, result in expected.items():
                cases.append(Case(f"stablehlo.{op}", f"%r = stablehlo.{op} %a, %b : {{A}}", [a, b], result))
            cases.append(Case("stablehlo.negate", "%r = stablehlo.negate %a : {A}", [a], -a))
            cases.append(Case("stablehlo.not", "%r = stablehlo.not %a : {A}", [a], ~a))
        bits = info.bits
        ones = np.array([bin(int(v) & (2**bits - 1)).count("1") for v in a], dtype)
        zeros = np.array([bits - (int(v) & (2**bits - 1)).bit_length() for v in a], dtype)
        high = np.array([int(x) * int(y) >> bits for x, y in zip(a, b, strict=True)], dtype)
        cases += [
            Case("stablehlo.popcnt", "%r = stablehlo.popcnt %a : {A}", [a], ones),
            Case("stablehlo.count_leading_zeros", "%r = stablehlo.count_leading_zeros %a : {A}", [a], zeros),
            Case("chlo.mulhi", '%r = "chlo.mulhi"(%a, %b) : ({A}, {A}) -> {A}', [a, b], high),
        ]
        amount = np.array([0, 1, 3, bits - 1, bits, bits + 1, 2, 5], dtype)
        x = np.array(values, dtype)
        low_bits = [int(v) & (2**bits - 1) for v in x]
        shifts = {
            "shift_left": [v << int(s) if s < bits else 0 for v, s in zip(low_bits, amount, strict=True)],
            "shift_right_logical": [v >> int(s) for v, s in zip(low_bits, amount, strict=True)],
            "shift_right_arithmetic": [
                _signed(v, bits) >> min(int(s), bits - 1) for v, s in zip(low_bits, amount, strict=True)
            ],
        }
        for op, results in shifts.items():
            expected_shift = np.array([v & (2**bits - 1) for v in results], f"uint{bits}").view(dtype)
            cases.append(
                Case(f"stablehlo.{op}", f"%r = stablehlo.{op} %a, %b : {{A}}", [x, amount], expected_shift)
            )
    a, b = ints(7, -7, 7, -7, 5), ints(2, 2, -2, -2, 0)
    cases += [
        Case("stablehlo.divide", "%r = stablehlo.divide %a, %b : {A}", [a, b], ints(3, -3, -3, 3, -1)),
        Case("stablehlo.remainder", "%r = stablehlo.remainder %a, %b : {A}", [a, b], ints(1, -1, 1, -1, 5)),
        Case("stablehlo.power", "%r = stablehlo.power %a, %b : {A}", [ints(3, -2, 1, -1, 2), ints(4, 3, -5, -3, -1)],
             ints(81, -8, 1, -1, 0)),
        Case("stablehlo.abs", "%r = stablehlo.abs %a : {A}", [ints(-5, 5, -(2**31))], ints(5, 5, -(2**31))),
        Case("stablehlo.sign", "%r = stablehlo.sign %a : {A}", [ints(-5, 5, 0)], ints(-1, 1, 0)),
    ]  # fmt: skip
    return cases


def _signed(value: int, bits: int) -> int:
    return value - 2**bits if value >> (bits - 1) else value


def _other_cases() -> list[Case]:
    t, f = True, False
    p, q = np.array([t, t, f, f]), np.array([t, f, t, f])
    x, nan = floats(1.0, np.nan, -0.0, 2.0), float("nan")
    y = floats(1.0, 1.0, 0.0, nan)
    cases = [
        Case("stablehlo.and", "%r = stablehlo.and %a, %b : {A}", [p, q], p & q),
        Case("stablehlo.add", "%r = stablehlo.add %a, %b : {A}", [p, q], p | q),
        Case("stablehlo.not", "%r = stablehlo.not %a : {A}", [p], ~p),
        Case("stablehlo.select", "%r = stablehlo.select %a, %b, %c : {A}, {B}", [p, ints(1, 2, 3, 4), ints(5, 6, 7, 8)],
             ints(1, 2, 7, 8)),
        Case("stablehlo.clamp", "%r = stablehlo.clamp %a, %b, %c : ({A}, {B}, {C}) -> {B}",
             [ints(0)[0:1].reshape(()), ints(-4, 3, 9), ints(5).reshape(())], ints(0, 3, 5)),
        Case("stablehlo.is_finite", "%r = stablehlo.is_finite %a : ({A}) -> {R}", [floats(1, nan, np.inf)],
             np.array([t, f, f])),
        Case("chlo.is_inf", '%r = "chlo.is_inf"(%a) : ({A}) -> {R}', [floats(1, nan, np.inf, -np.inf)],
             np.array([f, f, t, t])),
        Case("chlo.is_pos_inf", '%r = "chlo.is_pos_inf"(%a) : ({A}) -> {R}', [floats(np.inf, -np.inf)],
             np.array([t, f])),
        Case("chlo.is_neg_inf", '%r = "chlo.is_neg_inf"(%a) : ({A}) -> {R}', [floats(np.inf, -np.inf)],
             np.array([f, t])),
        Case("stablehlo.compare", "%r = stablehlo.compare EQ, %a, %b, TOTALORDER : ({A}, {B}) -> {R}", [x, y],
             np.array([t, f, f, f])),
        Case("chlo.next_after", '%r = "chlo.next_after"(%a, %b) : ({A}, {A}) -> {A}',
             [floats(1, 1, 0, 0, -1, 5), floats(2, 0, 1, -1, 3, 5)],
             np.nextafter(floats(1, 1, 0, 0, -1, 5), floats(2, 0, 1, -1, 3, 5))),
        Case("chlo.next_after", '%r = "chlo.next_after"(%a, %b) : ({A}, {A}) -> {A}',
             [floats(1, 1, 0, dtype=BF16), floats(2, 0, -1, dtype=BF16)],
             floats(1 + 2**-7, 1 - 2**-8, -(2.0**-133), dtype=BF16)),
    ]  # fmt: skip
    for direction, function in (("EQ", np.equal), ("NE", np.not_equal), ("LT", np.less), ("LE", np.less_equal),
                                ("GT", np.greater), ("GE", np.greater_equal)):  # fmt: skip
        body = f"%r = stablehlo.compare {direction}, %a, %b : ({{A}}, {{B}}) -> {{R}}"
        cases.append(Case("stablehlo.compare", body, [x, y], function(x, y)))
    # Values of scipy.special 1.17 in f64; f32 results are those rounded.
    for op, x64, golden in (
        ("lgamma", [0.5, -2.5, 100.25], [0.5723649429247001, -0.05624371649767405, 360.28455963776423]),
        ("digamma", [0.5, -1.75, 30.0], [-1.9635100260214235, -2.32269162861436, 3.384438132685525]),
        ("bessel_i1e", [0.5, -20.0, 60.0], [0.15642080318487173, -0.08750622218328867, 0.05117963018902872]),
        ("erf_inv", [0.25, -0.5, 1.0], [0.2253120550121781, -0.4769362762044699, np.inf]),
    ):
        body = f'%r = "chlo.{op}"(%a) : ({{A}}) -> {{A}}'
        cases.append(Case(f"chlo.{op}", body, [floats(x64)], floats(golden)))
    cases += [
        Case("chlo.zeta", '%r = "chlo.zeta"(%a, %b) : ({A}, {A}) -> {A}', [floats(2, 3.5), floats(1, 0.25)],
             floats(1.6449340668482264, 128.54695896428433)),
        Case("chlo.polygamma", '%r = "chlo.polygamma"(%a, %b) : ({A}, {A}) -> {A}', [floats(1, 4), floats(0.5, 2.25)],
             floats(4.934802200544679, -0.5110686379337336)),
    ]  # fmt: skip
    return cases


CASES = _real_cases() + _complex_cases() + _integer_cases() + _other_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_elementwise_op_agrees_with_numpy(case: Case):
    case.run()


NARROW = [
    "f4E2M1FN", "f6E2M3FN", "f6E3M2FN", "f8E3M4", "f8E4M3", "f8E4M3FN", "f8E4M3FNUZ", "f8E4M3B11FNUZ", "f8E5M2",
    "f8E5M2FNUZ", "f8E8M0FNU", "bf16", "f16",
]  # fmt: skip


@pytest.mark.parametrize("element", NARROW)
def test_convert_to_a_narrow_float_agrees_with_ml_dtypes(element: str):
    """All codes of a 16-bit pattern as the upper half of f32, and random ones around them."""
    dtype = graph.DTYPES[element]
    rng = np.random.default_rng(7)
    patterns = np.arange(0, 2**16, 3, dtype=np.uint32) << 16
    x = np.concatenate([patterns, patterns + rng.integers(0, 2**16, patterns.size, dtype=np.uint32)]).view(
        np.float32
    )
    if element in ("f4E2M1FN", "f6E2M3FN", "f6E3M2FN"):
        x = x[~np.isnan(x)]  # no NaN in the format: what becomes of one is not defined
    if element == "f8E8M0FNU":
        x = x[np.abs(x) >= 2.0**-126]  # ml_dtypes rounds subnormal f32 up, whatever is nearest
    with np.errstate(all="ignore"):
        expected = x.astype(dtype)
    text = f"func.func @main(%a: tensor<{x.size}xf32>) -> tensor<{x.size}x{element}> {{\n"
    text += f"  %r = stablehlo.convert %a : (tensor<{x.size}xf32>) -> tensor<{x.size}x{element}>\n"
    text += f"  return %r : tensor<{x.size}x{element}>\n}}"
    (actual,) = graph.parse(text).evaluate(x)
    np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int8"), ("float32", "uint8"), ("int32", "float32"), ("int64", "float32"), ("uint64", "float32"),
     ("bool", "float32"), ("int32", "bool"), ("float64", "float32"), ("int64", "int8"), ("float32", "complex64")],
)  # fmt: skip
def test_convert_between_kinds_agrees_with_numpy(source: str, target: str):
    """Within the target's range; beyond it floats saturate (XLA's choice), NumPy's result is undefined."""
    values = {
        "float32": floats(-3.7, 0.0, 2.5, 100.9),
        "float64": np.array([1 + 2**-40, 1e300, -1e-50]),
        "bool": np.array([True, False]),
        "int32": ints(-(2**31), 2**24 + 1, 0, 77),
        "int64": ints(2**62 + 2**38 + 1, -(2**53) - 1, 300, dtype="int64"),
        "uint64": ints(2**64 - 1, 2**63 + 2**39, dtype="uint64"),
    }[source]
    with np.errstate(all="ignore"):
        expected = values.astype(target)
    if target == "uint8":
        expected = np.maximum(values, 0).astype(target)
    Case("stablehlo.convert", "%r = stablehlo.convert %a : ({A}) -> {R}", [values], expected).run()


def test_float_to_integer_saturates():
    x = floats(1e10, -1e10, np.inf, -np.inf, np.nan)
    expected = ints(2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 0)
    Case("stablehlo.convert", "%r = stablehlo.convert %a : ({A}) -> {R}", [x], expected).run()


def test_bitcast_convert_splits_and_joins_elements():
    x = np.array([0x04030201, 0x08070605], np.uint32)
    split = Case("stablehlo.bitcast_convert", "%r = stablehlo.bitcast_convert %a : ({A}) -> {R}", [x],
                 x.view(np.uint8).reshape(2, 4))  # fmt: skip
    split.run()
    Case(
        "stablehlo.bitcast_convert", "%r = stablehlo.bitcast_convert %a : ({A}) -> {R}", [split.results[0]], x
    ).run()
    nibbles = np.array([[1, 2], [-8, 7]]).astype(ml_dtypes.int4)
    packed = np.array([0x21, 0x78], np.uint8).view(np.int8)
    Case(
        "stablehlo.bitcast_convert", "%r = stablehlo.bitcast_convert %a : ({A}) -> {R}", [nibbles], packed
    ).run()


@pytest.mark.parametrize(("exponent", "mantissa", "dtype"), [(5, 10, "float16"), (8, 7, BF16)])
def test_reduce_precision_is_a_round_trip_through_the_format(exponent: int, mantissa: int, dtype: object):
    """But for subnormals of a format with fewer exponent bits, which become zero."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    with np.errstate(all="ignore"):
        expected = x.astype(dtype).astype(np.float32)
    tiny = 2.0 ** (2 - 2 ** (exponent - 1)) if exponent < 8 else 0.0
    flushed = np.abs(expected) < tiny
    expected[flushed] = np.copysign(0.0, expected[flushed])
    body = f"%r = stablehlo.reduce_precision %a, format = e{exponent}m{mantissa} : {{A}}"
    Case("stablehlo.reduce_precision", body, [x], expected).run()
