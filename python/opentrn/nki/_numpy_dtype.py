"""Registering a numpy dtype that only stores bits: a name, a size, copies; no arithmetic and no casts.

numpy lets extension modules add dtypes through `PyArray_RegisterDataType` (this is how ml_dtypes adds
bfloat16). The packed x4 types need nothing but storage, so their copy, item and comparison functions are
those of an unsigned integer of the same size, taken from numpy's own table, and no C code of ours is
involved: this module only fills in the two structures of numpy's stable C ABI (numpy/ndarraytypes.h,
`PyArray_DescrProto` and `PyArray_ArrFuncs`, and the function table of __multiarray_api.h) with ctypes. Needs
numpy 2.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy._core import _multiarray_umath  # type: ignore[attr-defined]  # numpy's stubs leave it out

_Pointer = ctypes.c_void_p
# Places in numpy's C function table.
_DESCR_FROM_TYPE = 45
_REGISTER_DATA_TYPE = 192
_GET_ARR_FUNCS = 365
_NPY_USE_GETITEM = 0x20  # an element is what getitem returns (its bits, a Python int), not a scalar object
# Functions that may not be missing, and those that copying and printing use.
_STORAGE_FUNCTIONS = ("getitem", "setitem", "copyswapn", "copyswap", "compare", "nonzero")


class _ArrFuncs(ctypes.Structure):
    """`PyArray_ArrFuncs`: what numpy calls to handle elements. Unset functions are unsupported operations."""

    _fields_ = [
        ("cast", _Pointer * 21),
        *((name, _Pointer) for name in ("getitem", "setitem", "copyswapn", "copyswap", "compare", "argmax")),
        *(
            (name, _Pointer)
            for name in ("dotfunc", "scanfunc", "fromstr", "nonzero", "fill", "fillwithscalar")
        ),
        ("sort", _Pointer * 3),
        ("argsort", _Pointer * 3),
        *((name, _Pointer) for name in ("castdict", "scalarkind", "cancastscalarkindto", "cancastto")),
        ("unused", _Pointer * 3),
        ("argmin", _Pointer),
    ]


class _DescrProto(ctypes.Structure):
    """`PyArray_DescrProto`: the description of a dtype to register."""

    _fields_ = [
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", _Pointer),
        ("typeobj", _Pointer),
        ("kind", ctypes.c_char),
        ("type", ctypes.c_char),
        ("byteorder", ctypes.c_char),
        ("flags", ctypes.c_char),
        ("type_num", ctypes.c_int),
        ("elsize", ctypes.c_int),
        ("alignment", ctypes.c_int),
        *((name, _Pointer) for name in ("subarray", "fields", "names", "f", "metadata", "c_metadata")),
        ("hash", ctypes.c_ssize_t),
    ]


def _function_table() -> ctypes._Pointer[ctypes.c_void_p]:
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = _Pointer, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(pointer_of(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(_Pointer))


_registered: list[object] = []  # numpy keeps pointers to these for the life of the process


def register_storage_dtype(name: str, storage: np.dtype, letter: str) -> np.dtype:
    """A new numpy dtype `name` whose elements are stored like `storage` (an unsigned integer dtype).

    `str(dtype)` is `name`, and `dtype.type.nki_dtype` too. `.view(storage)` reinterprets both ways; `astype`
    to or from any other dtype raises TypeError. `letter` is the type character, which numpy does not check
    for uniqueness.
    """
    table = _function_table()
    arr_funcs = ctypes.PYFUNCTYPE(_Pointer, ctypes.py_object)(table[_GET_ARR_FUNCS])
    register = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(_DescrProto))(table[_REGISTER_DATA_TYPE])
    descr_from_type = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_int)(table[_DESCR_FROM_TYPE])

    scalar = type(name, (np.generic,), {"nki_dtype": name, "__module__": "opentrn.nki._x4"})
    borrowed = _ArrFuncs.from_address(arr_funcs(storage))
    functions = _ArrFuncs(**{function: getattr(borrowed, function) for function in _STORAGE_FUNCTIONS})
    proto = _DescrProto(
        ob_refcnt=1,
        ob_type=id(np.dtype),
        typeobj=id(scalar),
        kind=b"V",
        type=letter.encode(),
        byteorder=b"=",
        flags=_NPY_USE_GETITEM,
        elsize=storage.itemsize,
        alignment=storage.alignment,
        f=ctypes.addressof(functions),
    )
    _registered.extend((scalar, functions, proto))
    number = register(proto)  # raises what numpy raises
    return descr_from_type(number)
