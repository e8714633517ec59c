"""Functions that the device computes by polynomials and range reduction, in fp32, against PyTorch in float64.

Each row's bound is the largest error measured over the row's sample, rounded up, in units in the last place of
fp32 (ulp). A device is not asked for subnormal numbers: magnitudes below 2**-126 count as that.
"""

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import opentrn
from opentrn import graph

COUNT = 20_000
RNG = np.random.default_rng(11)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, np.inf, -np.inf, np.nan]


def uniform(low: float, high: float) -> np.ndarray:
    return RNG.uniform(low, high, COUNT).astype(np.float32)


def every_size(low: int = -30, high: int = 30) -> np.ndarray:
    """Normal numbers, numbers of all magnitudes from 10**low to 10**high, and what is special."""
    wide = 10.0 ** RNG.uniform(low, high, COUNT // 4) * RNG.choice([-1, 1], COUNT // 4)
    return np.concatenate([RNG.normal(0, 3, COUNT), wide, SPECIAL]).astype(np.float32)


def program(op: str, shape: tuple[int, ...], element: str, operands: int) -> str:
    kind = f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"
    arguments = ", ".join(f"%a{i}: {kind}" for i in range(operands))
    names = ", ".join(f"%a{i}" for i in range(operands))
    signature = f"{', '.join([kind] * operands)} -> {kind}" if op.startswith("chlo") else kind
    return f"func.func @main({arguments}) -> {kind} {{\n  %r = {op} {names} : {signature}\n  return %r : {kind}\n}}\n"


def error_ulp(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in ulp of fp32; infinite where one is a number and the other is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.maximum(np.abs(want), 2.0**-126).astype(np.float32)
        error = np.abs(got.astype(np.float64) - want) / np.spacing(size).astype(np.float64)
        nearest = want.astype(np.float32)
    alike = (got == nearest) | (np.isnan(got) & np.isnan(want))
    return np.where(alike, 0, np.where(np.isfinite(got) & np.isfinite(nearest), error, np.inf))


def float64(function) -> object:
    """A PyTorch function on float64 arrays, so that it rounds nothing that counts."""

    def evaluate(*arrays: np.ndarray) -> np.ndarray:
        return function(*(torch.from_numpy(array.astype(np.float64)) for array in arrays)).numpy()

    return evaluate


UNARY = [
    ("chlo.asin", torch.asin, uniform(-1.01, 1.01), 3),
    ("chlo.asin", torch.asin, every_size(-30, 0), 3),
    ("chlo.acos", torch.acos, uniform(-1.01, 1.01), 3),
    ("chlo.atan", torch.atan, every_size(), 2),
    ("chlo.asinh", torch.asinh, every_size(), 3),
    ("chlo.acosh", torch.acosh, every_size(), 3),
    ("chlo.atanh", torch.atanh, uniform(-1.01, 1.01), 3),
    ("chlo.atanh", torch.atanh, every_size(-30, 0), 3),
    ("chlo.sinh", torch.sinh, every_size(), 3),
    ("chlo.cosh", torch.cosh, every_size(), 2),
    ("stablehlo.sine", torch.sin, uniform(-10_000, 10_000), 2),
    ("stablehlo.cosine", torch.cos, uniform(-10_000, 10_000), 2),
    ("stablehlo.tan", torch.tan, uniform(-10_000, 10_000), 4),
    ("chlo.erfc", torch.erfc, every_size(), 4),
    ("chlo.erf_inv", torch.special.erfinv, uniform(-1.01, 1.01), 4),
    ("chlo.bessel_i1e", torch.special.i1e, every_size(), 5),
    ("chlo.lgamma", torch.special.gammaln, np.abs(every_size()), 4),
    ("chlo.lgamma", torch.special.gammaln, uniform(0, 12), 4),
    ("chlo.digamma", torch.special.digamma, uniform(0.001, 100), 3),
]


@pytest.mark.parametrize(("op", "reference", "x", "bound"), UNARY)
def test_a_function_of_one_number(op, reference, x, bound):
    (got,) = opentrn.compile(program(op, x.shape, "f32", 1))(x)
    worst = error_ulp(got, float64(reference)(x))
    assert worst.max() <= bound, f"{worst.max():.2f} ulp at {x[worst.argmax()]}: {got[worst.argmax()]}"


@pytest.mark.parametrize(
    ("op", "reference"), [("lgamma", torch.special.gammaln), ("digamma", torch.special.digamma)]
)
def test_left_of_zero_the_error_is_absolute(op, reference):
    # The zeros and poles between negative whole numbers lie where fp32 numbers are too far apart for more.
    x = uniform(-30, 0)
    (got,) = opentrn.compile(program(f"chlo.{op}", x.shape, "f32", 1))(x)
    want = float64(reference)(x)
    error = np.abs(got - want) / np.maximum(1, np.abs(want))
    assert error.max() <= 2e-6
    poles = np.arange(-5, 1, dtype=np.float32)
    (got,) = opentrn.compile(program(f"chlo.{op}", poles.shape, "f32", 1))(poles)
    assert np.isinf(got).all() if op == "lgamma" else np.isnan(got).all()


def test_atan2_in_all_quadrants():
    a, b = every_size(), RNG.permutation(every_size())
    corners = np.array([[y, x] for y in SPECIAL for x in SPECIAL], np.float32)
    y, x = np.concatenate([a, corners[:, 0]]), np.concatenate([b, corners[:, 1]])
    (got,) = opentrn.compile(program("stablehlo.atan2", x.shape, "f32", 2))(y, x)
    want = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    assert error_ulp(got, want).max() <= 2
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


def test_zeta_and_polygamma():
    q = uniform(0.1, 20)
    s = uniform(1.01, 12)
    (got,) = opentrn.compile(program("chlo.zeta", s.shape, "f32", 2))(s, q)
    # The worst of 14 draws is 7.4: a base near 1 to a power of 12 or so.
    assert error_ulp(got, float64(torch.special.zeta)(s, q)).max() <= 10
    for order in range(5):
        n = np.full_like(q, order)
        (got,) = opentrn.compile(program("chlo.polygamma", n.shape, "f32", 2))(n, q)
        want = torch.special.polygamma(order, torch.from_numpy(q.astype(np.float64))).numpy()
        # Within what the zero of digamma and the factorial allow.
        assert np.max(np.abs(got - want) / np.maximum(np.abs(want), 1e-3)) <= 2e-6


def test_polygamma_of_large_numbers():
    """Its terms are subnormal, or zeros, where their integral is not."""
    q = np.logspace(6, 36, 31, dtype=np.float32)
    (got,) = opentrn.compile(program("chlo.polygamma", q.shape, "f32", 2))(np.ones_like(q), q)
    want = torch.special.polygamma(1, torch.from_numpy(q.astype(np.float64))).numpy()
    np.testing.assert_allclose(got, want, rtol=2e-6)


SHAPES = st.lists(st.integers(1, 40), min_size=0, max_size=3).map(tuple)
FLOATS = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
INSIDE_ONE = {"chlo.asin", "chlo.acos", "chlo.atanh", "chlo.erf_inv"}


@settings(max_examples=60, deadline=None)
@given(
    SHAPES,
    st.sampled_from(sorted(FLOATS)),
    st.sampled_from(sorted({row[0] for row in UNARY})),
    st.integers(0, 99),
)
def test_shapes_and_types_against_the_evaluator(shape, element, op, seed):
    random = np.random.default_rng(seed)
    scale = 0.9 if op in INSIDE_ONE else 5.0
    x = random.uniform(-scale, scale, shape).astype(FLOATS[element])
    text = program(op, shape, element, 1)
    (got,) = opentrn.compile(text)(x)
    want = np.asarray(graph.parse(text).evaluate(x)[0]).astype(np.float64)
    assert got.shape == shape
    got = got.astype(np.float64)
    bound = {"f32": 2e-6, "f16": 2e-3, "bf16": 1.6e-2}[element]
    floor = 1.0 if op in ("chlo.lgamma", "chlo.digamma") else 1e-3
    assert (np.isnan(got) == np.isnan(want)).all()
    with np.errstate(invalid="ignore"):
        close = (got == want) | (np.abs(got - want) <= bound * np.maximum(floor, np.abs(want)))
    assert (close | np.isnan(want)).all()


@pytest.mark.parametrize("largest", [3e4, 1e6, 1e8, 1e11, 1e14])
def test_sines_of_large_angles(largest):
    """Absolute errors: near a zero of the sine, an angle's own rounding is all there is."""
    kind = "tensor<20000xf32>"
    text = f"""func.func @main(%x: {kind}) -> ({kind}, {kind}) {{
  %s = stablehlo.sine %x : {kind}
  %c = stablehlo.cosine %x : {kind}
  return %s, %c : {kind}, {kind}
}}"""
    x = uniform(-largest, largest)
    sine, cosine = opentrn.compile(text)(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(sine, np.sin(wide), rtol=0, atol=2.5e-7)
    np.testing.assert_allclose(cosine, np.cos(wide), rtol=0, atol=2.5e-7)


def test_what_is_special_to_a_function():
    x = np.array([0.0, -0.0, -1e-30, 3e-39, np.inf, -np.inf, np.nan, 3e38, -1e17], np.float32)
    (sine,), (cosine,), (log,) = (
        opentrn.compile(program(f"stablehlo.{op}", x.shape, "f32", 1))(x)
        for op in ("sine", "cosine", "log_plus_one")
    )
    np.testing.assert_array_equal(sine[:4].view(np.uint32), x[:4].view(np.uint32))
    np.testing.assert_array_equal(cosine[:4], 1)
    assert np.isnan(sine[4:7]).all() and np.isnan(cosine[4:7]).all()
    # Beyond 2**47 an angle's turns are not counted any more.
    assert np.abs(np.concatenate([sine[7:], cosine[7:]])).max() <= 1
    np.testing.assert_array_equal(log[:4].view(np.uint32), x[:4].view(np.uint32))
    assert log[4] == np.inf and np.isnan(log[5:7]).all() and np.isnan(log[8])
    np.testing.assert_allclose(log[7], np.log(3e38), rtol=2e-7)


def test_numbers_of_which_halves_are_the_last_bits_are_rounded():
    # Those from 2**22 on kept their half.
    x = np.concatenate([
        RNG.uniform(-(2.0**24), 2.0**24, 4000), RNG.uniform(2.0**22, 2.0**23, 1000), np.arange(-4.5, 5, 0.5),
        [4194304.5, -4194305.5, 8388607.5, -8388607.5, 8388609, 1e30, np.inf, -np.inf, np.nan],
    ]).astype(np.float32)  # fmt: skip
    (got,) = opentrn.compile(program("stablehlo.round_nearest_even", x.shape, "f32", 1))(x)
    np.testing.assert_array_equal(got, np.round(x))


# Beside an op of the same bytes that one instruction does, which memory bounds: 8.8, 8.7 and 4.0 times before.
@pytest.mark.parametrize(("op", "times"), [("sine", 2.7), ("cosine", 2.9), ("log_plus_one", 2.1)])
def test_what_a_function_takes(op, times):
    function, other = (
        opentrn.compile(program(f"stablehlo.{name}", (1024, 2048), "f32", 1)).time().time_us
        for name in (op, "negate")
    )
    assert function <= times * other
