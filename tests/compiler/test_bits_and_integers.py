"""Ops on bits and products of integers on the simulated core: exact, against NumPy, ml_dtypes and the evaluator."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opentrn
from opentrn import graph

RNG = np.random.default_rng(5)
INTEGERS = {
    f"{sign}i{bits}": np.dtype(f"{'u' if sign else ''}int{bits}")
    for sign in ("", "u")
    for bits in (8, 16, 32)
}
FLOATS = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


def any_integers(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Of all sizes, the extremes and 0 and 1 among them."""
    info = np.iinfo(dtype)
    values = RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    small = (values >> RNG.integers(0, info.bits, shape).astype(dtype)).astype(dtype)
    few = np.array([0, 1, info.min, info.max], dtype)
    small.reshape(-1)[:4] = few[: small.size]
    return small


def any_codes(dtype: np.dtype, count: int) -> np.ndarray:
    """Floats of every kind: their codes are random."""
    codes = np.dtype(f"uint{8 * dtype.itemsize}")
    return RNG.integers(0, np.iinfo(codes).max, count, dtype=codes, endpoint=True).view(dtype)


def run(body: str, types: list[str], result: str, *arrays: np.ndarray) -> np.ndarray:
    """The device's result, which is the evaluator's too, bit for bit (any NaN is like any other)."""
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(types))
    text = f"func.func @main({arguments}) -> {result} {{\n  %r = {body}\n  return %r : {result}\n}}\n"
    (got,) = opentrn.compile(text)(*arrays)
    want = np.asarray(graph.parse(text).evaluate(*arrays)[0])
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        assert ((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)).all()
    return got


@pytest.mark.parametrize("element", INTEGERS)
def test_counts_of_bits(element):
    dtype = INTEGERS[element]
    x = any_integers(dtype, (500,))
    kind = tensor(x.shape, element)
    ones = run(f"stablehlo.popcnt %a0 : {kind}", [kind], kind, x)
    np.testing.assert_array_equal(ones, np.bitwise_count(x.view(f"uint{dtype.itemsize * 8}")))
    zeros = run(f"stablehlo.count_leading_zeros %a0 : {kind}", [kind], kind, x)
    bits = dtype.itemsize * 8
    want = [bits - (int(v) & (2**bits - 1)).bit_length() for v in x]
    np.testing.assert_array_equal(zeros, np.array(want, dtype))


@pytest.mark.parametrize("element", INTEGERS)
def test_whole_powers_and_upper_halves(element):
    dtype = INTEGERS[element]
    a, b = any_integers(dtype, (400,)), any_integers(dtype, (400,))
    kind = tensor(a.shape, element)
    got = run(f"stablehlo.power %a0, %a1 : {kind}", [kind] * 2, kind, a, b)
    for base, exponent, power in zip(a.tolist(), b.tolist(), got.tolist()):
        if exponent >= 0:
            assert (power - pow(base, exponent, 2**64)) % 2 ** (8 * dtype.itemsize) == 0
    high = run(f"chlo.mulhi %a0, %a1 : {kind}, {kind} -> {kind}", [kind] * 2, kind, a, b)
    want = [int(x) * int(y) >> (8 * dtype.itemsize) for x, y in zip(a, b)]
    np.testing.assert_array_equal(high, np.array(want, np.int64).astype(dtype))


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize(("exponent", "mantissa"), [(8, 7), (5, 10), (5, 2), (4, 3), (8, 0), (2, 1)])
def test_reduced_precision(element, exponent, mantissa):
    x = any_codes(FLOATS[element], 3000)
    kind = tensor(x.shape, element)
    got = run(f"stablehlo.reduce_precision %a0, format = e{exponent}m{mantissa} : {kind}", [kind], kind, x)
    if (element, exponent, mantissa) == ("f32", 8, 7):
        normal = np.abs(x) >= 2.0**-126
        np.testing.assert_array_equal(got[normal], x.astype(ml_dtypes.bfloat16).astype(np.float32)[normal])


@pytest.mark.parametrize("element", FLOATS)
def test_the_next_number(element):
    dtype = FLOATS[element]
    x, y = any_codes(dtype, 2000), any_codes(dtype, 2000)
    y[:500] = x[:500]
    x[500:600], y[550:650] = 0, np.inf
    kind = tensor(x.shape, element)
    got = run(f"chlo.next_after %a0, %a1 : {kind}, {kind} -> {kind}", [kind] * 2, kind, x, y)
    if element != "bf16":
        np.testing.assert_array_equal(got, np.nextafter(x, y))
    for op in ("is_inf", "is_pos_inf", "is_neg_inf"):
        run(f"chlo.{op} %a0 : {kind} -> {tensor(x.shape, 'i1')}", [kind], tensor(x.shape, "i1"), x)


@pytest.mark.parametrize("element", FLOATS)
def test_bits_seen_as_another_type(element):
    x = any_codes(FLOATS[element], 1000)
    x[np.isnan(x)] = 1  # the evaluator knows one NaN
    bits = 8 * x.itemsize
    kind, whole = tensor(x.shape, element), tensor(x.shape, f"ui{bits}")
    got = run(f"stablehlo.bitcast_convert %a0 : ({kind}) -> {whole}", [kind], whole, x)
    np.testing.assert_array_equal(got, x.view(f"uint{bits}"))
    back = run(f"stablehlo.bitcast_convert %a0 : ({whole}) -> {kind}", [whole], kind, got)
    np.testing.assert_array_equal(back.view(f"uint{bits}"), got)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(INTEGERS)),
    st.integers(1, 40),
    st.integers(1, 600),
    st.integers(1, 40),
    st.booleans(),
)
def test_products_of_integers_are_exact(element, m, k, n, widens):
    dtype = INTEGERS[element]
    a, b = any_integers(dtype, (m, k)), any_integers(dtype, (k, n))
    result = element if not widens else ("ui32" if element.startswith("u") else "i32")
    types = [tensor(a.shape, element), tensor(b.shape, element)]
    out = tensor((m, n), result)
    body = f"stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] : ({types[0]}, {types[1]}) -> {out}"
    got = run(body, types, out, a, b)
    want = (a.astype(np.uint64) @ b.astype(np.uint64)).astype(got.dtype)  # modulo 2**64
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("element", sorted(INTEGERS))
@pytest.mark.parametrize("contracting", ["", "contracting_dims = [] x [] "])
def test_products_without_contraction(element: str, contracting: str):
    """As JAX's dot_general with batch dimensions only writes them: its bytecode has no list of the others."""
    dtype = INTEGERS[element]
    a, b = any_integers(dtype, (7,)), any_integers(dtype, (7, 5))
    types = [tensor(a.shape, element), tensor(b.shape, element)]
    dims = f"batching_dims = [0] x [0], {contracting}".rstrip(", ")
    body = f"stablehlo.dot_general %a0, %a1, {dims} : ({types[0]}, {types[1]}) -> {types[1]}"
    got = run(body, types, types[1], a, b)
    np.testing.assert_array_equal(got, (a[:, None].astype(np.uint64) * b.astype(np.uint64)).astype(got.dtype))


def test_eight_bit_data_less_a_zero_point_are_one_product():
    text = """
func.func @main(%a: tensor<40x300xui8>, %b: tensor<300x50xi8>) -> tensor<40x50xi32> {
  %z = stablehlo.constant dense<131> : tensor<40x300xi32>
  %x = stablehlo.convert %a : (tensor<40x300xui8>) -> tensor<40x300xi32>
  %c = stablehlo.subtract %x, %z : tensor<40x300xi32>
  %y = stablehlo.convert %b : (tensor<300x50xi8>) -> tensor<300x50xi32>
  %r = stablehlo.dot_general %c, %y, contracting_dims = [1] x [0]
    : (tensor<40x300xi32>, tensor<300x50xi32>) -> tensor<40x50xi32>
  return %r : tensor<40x50xi32>
}
"""
    a, b = any_integers(np.dtype(np.uint8), (40, 300)), any_integers(np.dtype(np.int8), (300, 50))
    model = opentrn.compile(text)
    np.testing.assert_array_equal(model(a, b)[0], (a.astype(np.int32) - 131) @ b.astype(np.int32))
    assert model.program_text().count("nc_matmul") <= 4


CONVOLUTION = """
func.func @main(%x: tensor<2x9x9x{c}x{e}>, %w: tensor<3x3x{ci}x8x{e}>) -> tensor<2x5x5x8xi32> {{
  %r = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {{stride = [2, 2], pad = [[1, 1], [1, 1]]}}
    {{batch_group_count = 1 : i64, feature_group_count = {g} : i64}}
    : (tensor<2x9x9x{c}x{e}>, tensor<3x3x{ci}x8x{e}>) -> tensor<2x5x5x8xi32>
  return %r : tensor<2x5x5x8xi32>
}}
"""


@pytest.mark.parametrize(("element", "channels", "groups"), [("i8", 200, 1), ("i32", 60, 1), ("i16", 8, 4)])
def test_convolutions_of_integers_are_exact(element, channels, groups):
    text = CONVOLUTION.format(e=element, c=channels, ci=channels // groups, g=groups)
    x = any_integers(INTEGERS[element], (2, 9, 9, channels))
    w = any_integers(INTEGERS[element], (3, 3, channels // groups, 8))
    (got,) = opentrn.compile(text)(x, w)
    np.testing.assert_array_equal(got, np.asarray(graph.parse(text).evaluate(x, w)[0]))


WIDE = [
    "{t} = stablehlo.add {a}, {b} : tensor<40xui64>",
    "{t} = stablehlo.subtract {a}, {b} : tensor<40xui64>",
    "{t} = stablehlo.multiply {a}, {b} : tensor<40xui64>",
    "{t} = stablehlo.and {a}, {b} : tensor<40xui64>",
    "{t} = stablehlo.or {a}, {b} : tensor<40xui64>",
    "{t} = stablehlo.xor {a}, {b} : tensor<40xui64>",
    "{t} = stablehlo.not {a} : tensor<40xui64>",
    "{t} = stablehlo.negate {a} : tensor<40xui64>",
    "{t} = stablehlo.popcnt {a} : tensor<40xui64>",
    "{t} = stablehlo.count_leading_zeros {a} : tensor<40xui64>",
    "{t}s = stablehlo.and {b}, %mask : tensor<40xui64>\n  {t} = stablehlo.shift_left {a}, {t}s : tensor<40xui64>",
    "{t} = stablehlo.shift_right_logical {a}, %thirty_two : tensor<40xui64>",
    "{t}s = stablehlo.and {b}, %mask : tensor<40xui64>\n"
    "  {t} = stablehlo.shift_right_logical {a}, {t}s : tensor<40xui64>",
    "{t} = stablehlo.shift_left {a}, {b} : tensor<40xui64>",
    "{t} = stablehlo.maximum {a}, {b} : tensor<40xui64>",
    "{t} = stablehlo.minimum {a}, {b} : tensor<40xui64>",
    "{t} = stablehlo.reverse {a}, dims = [0] : tensor<40xui64>",
    "{t} = stablehlo.bitcast_convert {a} : (tensor<40xui64>) -> tensor<40xui64>",
    "{t}f = stablehlo.convert {a} : (tensor<40xui64>) -> tensor<40xf32>\n"
    "  {t}g = stablehlo.multiply {t}f, %half : tensor<40xf32>\n"
    "  {t} = stablehlo.convert {t}g : (tensor<40xf32>) -> tensor<40xui64>",
    "{t}c = stablehlo.compare LT, {a}, {b}, UNSIGNED : (tensor<40xui64>, tensor<40xui64>) -> tensor<40xi1>\n"
    "  {t} = stablehlo.select {t}c, {a}, %large : tensor<40xi1>, tensor<40xui64>",
    "{t}c = stablehlo.compare GE, {a}, {b}, UNSIGNED : (tensor<40xui64>, tensor<40xui64>) -> tensor<40xi1>\n"
    "  {t} = stablehlo.convert {t}c : (tensor<40xi1>) -> tensor<40xui64>",
]


@pytest.mark.parametrize("case", range(12))
def test_ui64_keeps_all_its_bits(case):
    """Chains of ui64 ops from 32-bit words to 32-bit words, bit for bit those of the evaluator."""
    lines, names = [], ["%x", "%y", "%large"]
    for i in range(14):
        a, b = (names[RNG.integers(max(0, len(names) - 5), len(names))] for _ in range(2))
        lines.append("  " + WIDE[RNG.integers(len(WIDE))].format(t=f"%t{i}", a=a, b=b))
        names.append(f"%t{i}")
    body = "\n".join(lines)
    text = f"""
func.func @main(%p: tensor<40x2xui32>, %q: tensor<40x2xui32>)
    -> (tensor<40xui32>, tensor<40x2xui32>, tensor<40xf32>, tensor<40xi1>) {{
  %mask = stablehlo.constant dense<63> : tensor<40xui64>
  %thirty_two = stablehlo.constant dense<32> : tensor<40xui64>
  %large = stablehlo.constant dense<18446744073709551557> : tensor<40xui64>
  %half = stablehlo.constant dense<0.5> : tensor<40xf32>
  %x = stablehlo.bitcast_convert %p : (tensor<40x2xui32>) -> tensor<40xui64>
  %y = stablehlo.bitcast_convert %q : (tensor<40x2xui32>) -> tensor<40xui64>
{body}
  %last = stablehlo.xor %t13, %t12 : tensor<40xui64>
  %r = stablehlo.convert %last : (tensor<40xui64>) -> tensor<40xui32>
  %w = stablehlo.bitcast_convert %last : (tensor<40xui64>) -> tensor<40x2xui32>
  %f = stablehlo.convert %last : (tensor<40xui64>) -> tensor<40xf32>
  %e = stablehlo.compare EQ, %t13, %t12, UNSIGNED : (tensor<40xui64>, tensor<40xui64>) -> tensor<40xi1>
  return %r, %w, %f, %e : tensor<40xui32>, tensor<40x2xui32>, tensor<40xf32>, tensor<40xi1>
}}
"""
    words = [any_integers(np.dtype(np.uint32), (40, 2)) for _ in range(2)]
    for got, want in zip(opentrn.compile(text)(*words), graph.parse(text).evaluate(*words), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_ui64_product_has_its_upper_half():
    x = any_integers(np.dtype(np.uint32), (64,))
    (got,) = opentrn.compile("""
func.func @main(%x: tensor<64xui32>) -> tensor<64xui32> {
  %c = stablehlo.constant dense<3528531795> : tensor<64xui64>
  %s = stablehlo.constant dense<32> : tensor<64xui64>
  %w = stablehlo.convert %x : (tensor<64xui32>) -> tensor<64xui64>
  %m = stablehlo.multiply %w, %c : tensor<64xui64>
  %h = stablehlo.shift_right_logical %m, %s : tensor<64xui64>
  %r = stablehlo.convert %h : (tensor<64xui64>) -> tensor<64xui32>
  return %r : tensor<64xui32>
}""")(x)
    np.testing.assert_array_equal(got, ((x.astype(np.uint64) * 3528531795) >> 32).astype(np.uint32))


@pytest.mark.parametrize(
    ("kind", "number"), [("i64", 2**31), ("i64", -(2**31) - 1), ("i64", 2**40 + 1), ("ui64", 2**32)]
)
def test_64_bits_that_32_do_not_hold_are_refused(kind, number):
    model = opentrn.compile(f"""
func.func @main(%x: tensor<3x{kind}>) -> tensor<3x{kind}> {{
  %r = stablehlo.maximum %x, %x : tensor<3x{kind}>
  return %r : tensor<3x{kind}>
}}""")
    dtype = np.dtype(np.int64 if kind == "i64" else np.uint64)
    fitting = number - 1 if number > 0 else number + 1
    fits = np.array([1, fitting if abs(fitting) <= 2**32 else 7, 0], dtype)
    np.testing.assert_array_equal(model(fits)[0], fits)
    with pytest.raises(ValueError, match=rf"{number} of .*\[1\] does not fit the 32 bits"):
        model(np.array([1, number, 0], dtype))


@pytest.mark.parametrize("element", INTEGERS)
def test_the_first_bit_is_the_sign_of_arithmetic_shifts(element):
    """Of unsigned numbers too, as in XLA; amounts beyond the width leave copies of it alone."""
    dtype, kind = INTEGERS[element], tensor((500,), element)
    bits = dtype.itemsize * 8
    x = any_integers(dtype, (500,))
    amount = RNG.integers(0, bits + 3, 500).astype(dtype)
    amount[:2] = np.iinfo(dtype).max
    shifted = run(f"stablehlo.shift_right_arithmetic %a0, %a1 : {kind}", [kind, kind], kind, x, amount)
    signed = np.dtype(f"int{bits}")
    want = x.view(signed) >> np.minimum(amount, bits - 1).astype(signed)
    np.testing.assert_array_equal(shifted.view(signed), want)


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize(("narrow", "ends"), [("i4", (-8, 7)), ("ui4", (0, 15))])
def test_floats_become_the_nearest_number_of_four_bits(element, narrow, ends):
    x = np.array([np.nan, np.inf, -np.inf, 7.9, 8, 100, -8.5, -9, -0.5, 3e4], FLOATS[element])
    source, made = tensor(x.shape, element), tensor(x.shape, narrow)
    want = np.trunc(np.clip(np.nan_to_num(x.astype(np.float64), posinf=99, neginf=-99), *ends))
    body = f"stablehlo.convert %a0 : ({source}) -> {made}"
    np.testing.assert_array_equal(run(body, [source], made, x).astype(int), want)
    (back,) = opentrn.compile(f"""func.func @main(%a: {source}) -> {source} {{
      %n = stablehlo.convert %a : ({source}) -> {made}
      %r = stablehlo.convert %n : ({made}) -> {source}
      return %r : {source}
    }}""")(x)
    np.testing.assert_array_equal(back.astype(np.float64), want)


def test_floats_become_the_nearest_unsigned_number_of_64_bits():
    x = np.array([np.nan, -1.5, -np.inf, 0.9, 3e9, np.inf], np.float32)
    text = "func.func @main(%a: tensor<6xf32>) -> tensor<6xui64> {\n  %r = stablehlo.convert %a : (tensor<6xf32>) -> "
    (got,) = opentrn.compile(text + "tensor<6xui64>\n  return %r : tensor<6xui64>\n}\n")(x)
    assert got.tolist() == [0, 0, 0, 0, 3_000_000_000, 2**32 - 1]  # a core keeps the low 32 bits


@pytest.mark.parametrize("element", ["i64", "ui64"])
def test_powers_of_a_constant_with_64_bits_keep_32(element):
    dtype = np.dtype(np.int64 if element == "i64" else np.uint64)
    kind = tensor((7,), element)
    text = f"""func.func @main(%e: {kind}) -> {kind} {{
      %three = stablehlo.constant dense<3> : {kind}
      %r = stablehlo.power %three, %e : {kind}
      return %r : {kind}
    }}"""
    exponents = np.array([0, 1, 5, 19, 20, 31, 63], dtype)
    (got,) = opentrn.compile(text)(exponents)
    want = [pow(3, int(e), 2**32) for e in exponents]
    assert (got.astype(np.int64) % 2**32).tolist() == want and got.dtype == dtype
