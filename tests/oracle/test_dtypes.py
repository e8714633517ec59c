"""dtype names, their numpy storage, and the packed formats."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opentrn.types import dtypes
from opentrn.types.dtypes import dtype_of, pack_x4, to_numpy_dtype, unpack_x4


@pytest.mark.parametrize(
    ("dtype", "other"),
    [
        (dtypes.float32, np.float32),
        (dtypes.float32, np.dtype("float32")),
        (dtypes.bfloat16, ml_dtypes.bfloat16),
        (dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)),
        (dtypes.float8_e4m3, ml_dtypes.float8_e4m3),
        (dtypes.bool_, np.bool_),
        (dtypes.bool_, "bool"),
        (dtypes.int32, "int32"),
    ],
)
def test_a_dtype_equals_its_name_and_its_numpy_type(dtype, other):
    assert dtype == other
    assert other == dtype
    assert dtype_of(other) is dtype
    assert dtype != dtypes.uint16


def test_names_are_strings_with_sizes_and_work_as_keys():
    assert isinstance(dtypes.float16, str)
    assert {dtypes.float16: 1}["float16"] == 1
    sizes = {d: d.itemsize for d in dtypes.ALL_DTYPES}
    assert sizes["float8_e5m2_x4"] == 4
    assert sizes["float4_e2m1fn_x4"] == 2
    assert sizes["tfloat32"] == 4
    assert sizes["bool_"] == 1


def test_types_that_share_storage_stay_distinct():
    assert dtypes.tfloat32 != dtypes.float32
    assert to_numpy_dtype("tfloat32") == np.float32
    assert dtypes.float8_e4m3fn_x4 != dtypes.uint32


def test_an_unknown_dtype_is_refused_by_name():
    with pytest.raises(TypeError, match="float7"):
        dtype_of("float7")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"])
def test_pack_then_unpack_keeps_representable_values(dtype):
    values = np.array([[[0.0, 1.0, -2.0, 6.0], [0.5, -0.5, 4.0, 1.5]]], np.float32)
    np.testing.assert_array_equal(unpack_x4(pack_x4(values, dtype), dtype), values)


def test_the_first_packed_value_is_in_the_low_bits():
    one = np.float32(1.0)
    packed = pack_x4(np.array([[one, 0, 0, 0]], np.float32), "float8_e4m3fn_x4")
    assert int(packed[0]) == int(ml_dtypes.float8_e4m3fn(1.0).view(np.uint8))


def test_packing_saturates():
    np.testing.assert_array_equal(
        unpack_x4(
            pack_x4(np.array([[1e9, -1e9, 449, 2]], np.float32), "float8_e4m3fn_x4"), "float8_e4m3fn_x4"
        ),
        [[448, -448, 448, 2]],
    )
