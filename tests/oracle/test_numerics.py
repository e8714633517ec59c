"""Casts from float32: rounding, overflow and NaN per format."""

from __future__ import annotations

import numpy as np
import pytest

from opentrn.oracle.numerics import cast_from_f32, round_tfloat32


@pytest.mark.parametrize(
    ("dtype", "halfway", "expected"),
    [
        ("bfloat16", [1 + 2**-8, 1 + 3 * 2**-8], [1.0, 1 + 2**-6]),
        ("float16", [1 + 2**-11, 1 + 3 * 2**-11], [1.0, 1 + 2**-9]),
        ("float8_e4m3", [1 + 2**-4, 1 + 3 * 2**-4], [1.0, 1.25]),
        ("tfloat32", [1 + 2**-11, 1 + 3 * 2**-11], [1.0, 1 + 2**-9]),
        ("int32", [0.5, 1.5, -2.5], [0, 2, -2]),
    ],
)
def test_ties_go_to_even(dtype, halfway, expected):
    np.testing.assert_array_equal(
        cast_from_f32(np.array(halfway, np.float32), dtype).astype(np.float64), expected
    )


@pytest.mark.parametrize(
    ("dtype", "largest", "beyond"),
    [
        ("float8_e4m3", 240.0, np.inf),
        ("float8_e5m2", 57344.0, np.inf),
        ("float8_e4m3fn", 448.0, np.nan),
        ("float16", 65504.0, np.inf),
    ],
)
def test_overflow_of_floats(dtype, largest, beyond):
    values = cast_from_f32(np.array([largest, 1e30, -1e30], np.float32), dtype).astype(np.float32)
    np.testing.assert_array_equal(values, [largest, beyond, -beyond])


def test_integers_saturate_and_nan_is_zero():
    values = np.array([1e20, -1e20, np.nan, np.inf, -3.7], np.float32)
    np.testing.assert_array_equal(cast_from_f32(values, "int8"), [127, -128, 0, 127, -4])
    np.testing.assert_array_equal(cast_from_f32(values, "uint32"), [2**32 - 1, 0, 0, 2**32 - 1, 0])


def test_tfloat32_keeps_nan_and_infinity():
    values = np.array([np.nan, np.inf, -np.inf, 3.4e38], np.float32)
    assert np.isnan(round_tfloat32(values)[0])
    assert list(np.isinf(round_tfloat32(values))) == [False, True, True, False]
    assert (round_tfloat32(values).view(np.uint32)[1:] & 0x1FFF == 0).all()
