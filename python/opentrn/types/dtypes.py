"""Element types of NeuronCore memory, as names.

`DType` is a `str`, because NKI kernels treat dtypes as strings (`nki.language.float32` is documented as
`DType = str`). A DType also equals the numpy or ml_dtypes dtype and scalar type of the same format, so
`t.dtype == np.float32`, `t.dtype == "float32"` and `t.dtype == nl.float32` all hold.

Source of the list: nki/api/nki.api.shared.rst, table "Supported Data Types by NKI". int64, uint64 and float64
exist on the host and in HBM only; float8_e3m4 is the third scalar fp8 format of NeuronCore-v2/v3.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from opentrn.errors import ArgumentError

# name -> (storage format in numpy, bytes of one addressable element)
_STORAGE: dict[str, np.dtype] = {
    "bool_": np.dtype(np.uint8),  # "boolean stored as uint8"
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8),
    "uint16": np.dtype(np.uint16),
    "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "tfloat32": np.dtype(np.float32),  # 4 bytes, 10-bit mantissa
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "float8_e3m4": np.dtype(ml_dtypes.float8_e3m4),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": np.dtype(ml_dtypes.float8_e8m0fnu),
    "float8_e5m2_x4": np.dtype(np.uint32),  # four packed values, the first in the low byte
    "float8_e4m3fn_x4": np.dtype(np.uint32),
    "float4_e2m1fn_x4": np.dtype(np.uint16),
}

_ALIASES = {
    "bool": "bool_",
    "bool8": "bool_",
    "half": "float16",
    "float": "float32",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "double": "float64",
    "tf32": "tfloat32",
    "float8e4": "float8_e4m3",
    "float8e5": "float8_e5m2",
}

# Which numpy dtype names which DType. Types that share a storage format (tfloat32, bool_, x4) are reached by
# name only; numpy bool is its own dtype.
_FROM_NUMPY: dict[np.dtype, str] = {
    storage: name
    for name, storage in _STORAGE.items()
    if name not in ("bool_", "tfloat32", "float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4")
}
_FROM_NUMPY[np.dtype(np.bool_)] = "bool_"

_PACKED_X4 = {
    "float8_e5m2_x4": ml_dtypes.float8_e5m2,
    "float8_e4m3fn_x4": ml_dtypes.float8_e4m3fn,
    "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn,
}


class DType(str):
    """A dtype name. Equal to, and hashed like, its name; also equal to the matching numpy dtype or type."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self)

    @property
    def itemsize(self) -> int:
        """Bytes of one addressable element."""
        return _STORAGE[str.__str__(self)].itemsize

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, _ALIASES.get(other, other))
        try:
            return str.__eq__(self, str.__str__(dtype_of(other)))
        except TypeError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return str.__str__(self)

    def __str__(self) -> str:
        return str.__str__(self)


_DTYPES: dict[str, DType] = {name: DType(name) for name in _STORAGE}

bool_ = _DTYPES["bool_"]
int8 = _DTYPES["int8"]
int16 = _DTYPES["int16"]
int32 = _DTYPES["int32"]
int64 = _DTYPES["int64"]
uint8 = _DTYPES["uint8"]
uint16 = _DTYPES["uint16"]
uint32 = _DTYPES["uint32"]
uint64 = _DTYPES["uint64"]
float16 = _DTYPES["float16"]
bfloat16 = _DTYPES["bfloat16"]
tfloat32 = _DTYPES["tfloat32"]
float32 = _DTYPES["float32"]
float64 = _DTYPES["float64"]
float8_e3m4 = _DTYPES["float8_e3m4"]
float8_e4m3 = _DTYPES["float8_e4m3"]
float8_e4m3fn = _DTYPES["float8_e4m3fn"]
float8_e5m2 = _DTYPES["float8_e5m2"]
float8_e8m0fnu = _DTYPES["float8_e8m0fnu"]
float8_e5m2_x4 = _DTYPES["float8_e5m2_x4"]
float8_e4m3fn_x4 = _DTYPES["float8_e4m3fn_x4"]
float4_e2m1fn_x4 = _DTYPES["float4_e2m1fn_x4"]

ALL_DTYPES: tuple[DType, ...] = tuple(_DTYPES.values())


def dtype_of(value: Any) -> DType:
    """The DType that `value` names: a DType, a string, a numpy/ml_dtypes dtype or scalar type, a torch dtype,
    or anything with a `.dtype`.

    Raises TypeError when `value` names none of them.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        name = value.rsplit(".", 1)[-1]
        found = _DTYPES.get(_ALIASES.get(name, name))
        if found is None:
            raise ArgumentError(
                f"unknown dtype {value!r}", label="dtype.unknown", hint=f"one of {', '.join(_STORAGE)}"
            )
        return found
    if not isinstance(value, (np.dtype, type)) and type(value).__module__ == "torch":
        return dtype_of(str(value))  # "torch.bfloat16"
    packed = getattr(getattr(value, "type", value), "nki_dtype", None)  # numpy dtype of an x4 type
    if packed is not None:
        return _DTYPES[packed]
    if value is bool:
        return bool_
    if value is int:
        return int32
    if value is float:
        return float32
    try:
        return _DTYPES[_FROM_NUMPY[np.dtype(value)]]
    except (TypeError, KeyError):
        pass
    inner = getattr(value, "dtype", None)
    if inner is not None and inner is not value and not isinstance(value, type):
        return dtype_of(inner)
    raise ArgumentError(
        f"{value!r} names no dtype", label="dtype.unknown", hint=f"one of {', '.join(_STORAGE)}"
    )


def to_numpy_dtype(dtype: Any) -> np.dtype:
    """The numpy dtype that stores `dtype`: float32 for tfloat32, uint8 for bool_, uint32/uint16 for x4
    types."""
    return _STORAGE[str.__str__(dtype_of(dtype))]


_FLOATS = frozenset(
    name for name in _STORAGE if "float" in name and name not in _PACKED_X4 and name != "float8_e8m0fnu"
)


def is_integer(dtype: Any) -> bool:
    """True for int8..int64, uint8..uint64 and bool_ (a byte); False for floats and packed types."""
    name = dtype_of(dtype)
    return _STORAGE[str.__str__(name)].kind in "iu" and not is_packed_x4(name)


def is_float(dtype: Any) -> bool:
    """True for every scalar float, fp8 included; False for packed types and float8_e8m0fnu (a scale)."""
    return str.__str__(dtype_of(dtype)) in _FLOATS


def is_packed_x4(dtype: Any) -> bool:
    """True for the types that pack four 8- or 4-bit floats into one addressable element."""
    return str.__str__(dtype_of(dtype)) in _PACKED_X4


def unpack_x4(packed: np.ndarray, dtype: Any) -> np.ndarray:
    """Four float32 values per element: shape [..., N] of uint32/uint16 becomes [..., N, 4].

    Element 0 is in the lowest bits, the order in which `ndarray.view` of an OCP byte array packs them.
    """
    name = str.__str__(dtype_of(dtype))
    element = _PACKED_X4[name]
    packed = np.ascontiguousarray(packed)
    if name == "float4_e2m1fn_x4":
        nibbles = (packed[..., None] >> np.array([0, 4, 8, 12], np.uint16)) & np.uint16(0xF)
        return nibbles.astype(np.uint8).view(element).astype(np.float32)
    codes: np.ndarray = packed.view(np.uint8).reshape(*packed.shape, 4)
    return codes.view(element).astype(np.float32)


def pack_x4(values: np.ndarray, dtype: Any) -> np.ndarray:
    """The inverse of `unpack_x4`: float32 [..., N, 4] to packed [..., N].

    Rounds to nearest even and saturates, as OCP MX does.
    """
    name = str.__str__(dtype_of(dtype))
    largest = np.float32(ml_dtypes.finfo(_PACKED_X4[name]).max)
    clipped = np.clip(np.asarray(values, np.float32), -largest, largest)
    codes = np.ascontiguousarray(clipped.astype(_PACKED_X4[name])).view(np.uint8)
    if name == "float4_e2m1fn_x4":
        nibbles = (codes & 0xF).astype(np.uint16) << np.array([0, 4, 8, 12], np.uint16)
        return np.bitwise_or.reduce(nibbles, axis=-1)
    return codes.view(np.uint32)[..., 0]
