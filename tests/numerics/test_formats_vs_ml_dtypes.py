"""Every code of every small format, and millions of fp32 values, against ml_dtypes and numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

# OpenTrn name, the independent implementation's type, the unsigned type of its codes.
FORMATS = [
    ("float16", np.float16, np.uint16),
    ("bfloat16", ml_dtypes.bfloat16, np.uint16),
    ("float8_e3m4", ml_dtypes.float8_e3m4, np.uint8),
    ("float8_e4m3", ml_dtypes.float8_e4m3, np.uint8),
    ("float8_e4m3fn", ml_dtypes.float8_e4m3fn, np.uint8),
    ("float8_e5m2", ml_dtypes.float8_e5m2, np.uint8),
    ("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, np.uint8),
]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
formats = pytest.mark.parametrize(("name", "other", "codes"), FORMATS, ids=[row[0] for row in FORMATS])


def same_values(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal bits, or both NaN with the same sign."""
    nan = np.isnan(a) & np.isnan(b) & (np.signbit(a) == np.signbit(b))
    return nan | (a.view(np.uint32) == b.view(np.uint32))


def fp32_values(seed: int) -> np.ndarray:
    """Two million: any bit pattern; values around 1; ties; every exponent."""
    rng = np.random.default_rng(seed)
    n = 500_000
    bits = rng.integers(0, 2**32, n, dtype=np.uint32)
    ties = bits & np.uint32(0xFFF80000)
    near_one = rng.normal(size=n).astype(np.float32)
    spread = np.ldexp(rng.random(n) - 0.5, rng.integers(-150, 128, n)).astype(np.float32)
    limits = [0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 240, 248, 448, 464, 465, 57344, 61440, 65504, 65520]
    special = np.array(limits, np.float32)
    return np.concatenate([bits.view(np.float32), ties.view(np.float32), near_one, spread, special])


def nearest_codes(values: np.ndarray, other: type, codes: type) -> np.ndarray:
    """The independent implementation's rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(other).view(codes)


@formats
def test_every_code_has_the_value_of_ml_dtypes(numerics, name, other, codes):
    row = np.arange(2 ** (8 * np.dtype(codes).itemsize), dtype=codes)
    assert same_values(numerics.load_f32(name, row), row.view(other).astype(np.float32)).all()


@formats
def test_rounding_to_nearest_agrees_with_ml_dtypes(numerics, name, other, codes):
    values = fp32_values(1)
    mine = numerics.store_f32(name, values, codes)
    theirs = nearest_codes(values, other, codes)
    if name == "float16":  # numpy keeps NaN payloads; OpenTrn makes the quiet NaN of the same sign
        quiet = np.where(np.signbit(values), 0xFE00, 0x7E00).astype(np.uint16)
        theirs = np.where(np.isnan(values), quiet, theirs)
    if name == "float8_e8m0fnu":  # ml_dtypes rounds all above 2^-127 up to 2^-126, which is not the nearest
        low = (values > 2.0**-127) & (values < 1.5 * 2.0**-127)
        theirs = np.where(low, 0, theirs).astype(codes)
    wrong = np.flatnonzero(mine != theirs)
    assert wrong.size == 0, [(values[i], hex(mine[i]), hex(theirs[i])) for i in wrong[:5]]


def test_every_simd_target_stores_the_same_codes(numerics):
    values = fp32_values(2)
    try:
        for name, _, codes in FORMATS:
            for seed in (None, 7):
                results = []
                for target in range(numerics.simd_targets):
                    numerics.force_simd_target(target)
                    results.append(numerics.store_f32(name, values, codes, seed))
                assert all((row == results[0]).all() for row in results[1:]), name
    finally:
        numerics.force_simd_target(-1)


def test_tfloat32_rounds_to_ten_mantissa_bits(numerics):
    values = fp32_values(3)
    values = values[np.isfinite(values)]
    bits = values.view(np.uint32).astype(np.uint64)
    expected = ((bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000).astype(np.uint32)
    assert (numerics.store_f32("tfloat32", values, np.uint32) == expected).all()


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_round_to_even_and_saturate(numerics, name):
    dtype = np.dtype(name)
    info = np.iinfo(dtype)
    values = np.concatenate([fp32_values(4), np.arange(-70000, 70000, dtype=np.float32) / 2])
    mine = numerics.store_f32(name, values, dtype)
    whole = np.rint(np.nan_to_num(values, nan=0.0).astype(np.float64))
    expected = [min(max(int(x) if np.isfinite(x) else int(np.sign(x)) * 2**70, info.min), info.max)
                for x in whole[::37]]  # fmt: skip
    assert (mine[::37] == np.array(expected, dtype)).all()


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_to_fp32_round_once(numerics, name):
    rng = np.random.default_rng(5)
    dtype = np.dtype(name)
    row = rng.integers(0, 2**64, 300_000, dtype=np.uint64) >> rng.integers(0, 64, 300_000, dtype=np.uint64)
    row = row.astype(dtype)
    assert (numerics.load_f32(name, row) == row.astype(np.float32)).all()


@pytest.mark.parametrize(("name", "other", "codes"), FORMATS[:-1], ids=[row[0] for row in FORMATS[:-1]])
def test_stochastic_rounding_picks_a_neighbour_in_proportion(numerics, name, other, codes):
    # 0.3 of the way from 1 to the next value.
    step = np.ldexp(1.0, -{"float16": 10, "bfloat16": 7, "float8_e3m4": 4, "float8_e5m2": 2}.get(name, 3))
    values = np.full(200_000, 1 + 0.3 * step, np.float32)
    mine = numerics.store_f32(name, values, codes, seed=11).view(other).astype(np.float64)
    assert set(np.unique(mine)) == {1.0, 1.0 + step}
    assert abs((mine > 1).mean() - 0.3) < 0.005  # 5 standard deviations


def test_stochastic_rounding_of_the_documented_example(numerics):
    """fp16 1024 + 0.5, 2048 times: nearest stays at 1024, stochastic comes near 2048 (rounding-modes.rst)."""
    lanes = np.full(64, 1024.0, np.float32)
    nearest = lanes.copy()
    for i in range(2048):
        codes = numerics.store_f32("float16", nearest + np.float32(0.5), np.uint16)
        nearest = numerics.load_f32("float16", codes)
        codes = numerics.store_f32("float16", lanes + np.float32(0.5), np.uint16, seed=i)
        lanes = numerics.load_f32("float16", codes)
    assert (nearest == 1024).all()
    assert abs(lanes.mean() - 2048) < 16


@pytest.mark.parametrize(
    ("name", "element", "word", "bits"),
    [
        ("float8_e5m2_x4", ml_dtypes.float8_e5m2, np.uint32, 8),
        ("float8_e4m3fn_x4", ml_dtypes.float8_e4m3fn, np.uint32, 8),
        ("float4_e2m1fn_x4", ml_dtypes.float4_e2m1fn, np.uint16, 4),
    ],
)
def test_packed_elements_agree_with_ml_dtypes(numerics, name, element, word, bits):
    codes = np.random.default_rng(6).integers(0, 2**bits, (4096, 4), dtype=np.uint8)
    packed = np.zeros(4096, np.uint64)
    for j in range(4):
        packed |= codes[:, j].astype(np.uint64) << np.uint64(bits * j)
    values = numerics.unpack_x4(name, packed.astype(word))
    assert same_values(values, codes.ravel().view(element).astype(np.float32)).all()
    wide = (np.random.default_rng(7).normal(size=40_000) * 3).astype(np.float32)  # well inside every range
    again = numerics.unpack_x4(name, numerics.pack_x4(name, wide, word))
    limit = float(ml_dtypes.finfo(element).max)
    assert (again == np.clip(wide, -limit, limit).astype(element).astype(np.float32)).all()
