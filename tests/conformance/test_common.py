"""The rule by which runners compare: what must never pass, and what is rounding."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance import common  # noqa: E402
from conformance.common import Tolerance, difference, differences, distance  # noqa: E402

WANT = np.array([1.0, -1000.0, 0.5], np.float32)
LOOSE = Tolerance(each=0.5, largest=0.5, least=1.0, integers=True)

NEVER = {
    "a NaN": np.array([np.nan, -1000.0, 0.5], np.float32),
    "a NaN at the end": np.array([1.0, -1000.0, np.nan], np.float32),
    "an infinity": np.array([np.inf, -1000.0, 0.5], np.float32),
    "another shape": WANT.reshape(1, 3),
    "a number for a row": np.float32(1.0),
    "another dtype": WANT.astype(np.float64),
    "bits as integers": WANT.view(np.int32),
}


@pytest.mark.parametrize("found", NEVER.values(), ids=NEVER.keys())
def test_no_tolerance_lets_it_pass(found: np.ndarray):
    assert difference(WANT, found, LOOSE)
    assert differences([WANT, WANT], [WANT, found], LOOSE).startswith("result 1: ")
    assert distance(WANT, found) == math.inf


def test_a_number_where_the_reference_has_none_is_a_difference():
    for special in (np.nan, np.inf, -np.inf):
        assert difference(np.array([special, 1.0]), np.array([1.0, 1.0]), LOOSE)
        assert difference(np.array([special, 1.0]), np.array([special, 1.0])) == ""
        assert distance(np.array([special, 1.0]), np.array([special, 1.0])) == 0.0
    assert difference(np.array([np.inf]), np.array([-np.inf]), LOOSE)


def test_a_missing_or_surplus_result_is_a_difference():
    assert differences([WANT, WANT], [WANT]) == "1 results, expected 2"
    assert differences([WANT], []) == "0 results, expected 1"
    assert differences([WANT], [WANT, WANT]) == "2 results, expected 1"
    assert differences([], []) == ""


def test_bounds_are_of_the_element_of_the_largest_and_absolute():
    found = WANT + np.array([0, 0.5, 0], np.float32)
    assert difference(WANT, found, Tolerance(each=1e-3)) == ""
    assert difference(WANT, found, Tolerance(each=0.4e-3))
    found = WANT + np.array([0, 0, 0.01], np.float32)
    assert difference(WANT, found, Tolerance(each=1e-3))
    for bound in ("largest", 1e-5), ("least", 0.01):
        assert difference(WANT, found, Tolerance(**{bound[0]: 1.1 * bound[1]})) == ""
        assert difference(WANT, found, Tolerance(**{bound[0]: 0.9 * bound[1]}))
    assert "1 of 3 values differ; at (2,): 0.5099" in difference(WANT, found)


def test_an_infinity_does_not_widen_the_bound_of_others():
    want = np.array([np.inf, 1.0])
    assert difference(want, np.array([np.inf, 2.0]), Tolerance(each=0.1, largest=0.1))


def test_whole_numbers_are_equal_unless_a_runner_says_otherwise():
    want, near = np.array([1000, 2**62]), np.array([1001, 2**62])
    assert difference(want, near, Tolerance(each=0.5))
    assert difference(want, near, Tolerance(each=0.01, integers=True)) == ""
    assert difference(want, np.array([1000, 2**62 + 1]))
    assert difference(np.array([True]), np.array([False]), LOOSE)


def test_parts_of_complex_numbers_are_held_apart():
    want = np.array([1 + 1j, complex(np.inf, 2)])
    assert difference(want, want, LOOSE) == ""
    assert difference(want, np.array([1 - 1j, complex(np.inf, 2)]), Tolerance(each=0.1))
    assert difference(want, np.array([1 + 1j, complex(np.inf, 3)]), Tolerance(each=0.1))
    assert difference(want, np.array([1 + 1j, complex(np.inf, np.nan)]), LOOSE)


@pytest.mark.parametrize(
    "name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint4"]
)
def test_formats_that_numpy_lacks(name: str):
    dtype = np.dtype(getattr(ml_dtypes, name))
    want = np.array([1, 2, 4], np.float32).astype(dtype)
    assert difference(want, want.copy()) == ""
    assert "1 of 3 values differ" in difference(want, np.array([1, 2, 3], np.float32).astype(dtype))
    assert difference(want, want.astype(np.float32), LOOSE)
    assert distance(want, np.array([1, 2, 3], np.float32).astype(dtype)) == 0.25


def test_what_are_no_numbers_is_not_compared():
    with pytest.raises(TypeError, match="object"):
        difference(np.array([None]), np.array([None]))


def test_the_worst_of_distances_is_a_nan():
    assert common.worst([0.1, math.nan, 0.2]) == math.inf
    assert common.worst([0.1, 0.2]) == 0.2
    with pytest.raises(ValueError):
        common.worst([])
