"""Loads the C interface of the numerics library that the build made for these tests."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest

_LIBRARY = "libopentrn_numerics_capi.so"


class Numerics:
    """Rows of numbers through opentrn_numerics_capi; arrays must be contiguous and one-dimensional."""

    def __init__(self, path: Path):
        self._lib = ctypes.CDLL(str(path))
        self._lib.opentrn_activation_error_ulp.restype = ctypes.c_double
        self.simd_targets = self._lib.opentrn_force_simd_target(-1)

    def force_simd_target(self, index: int) -> None:
        """Uses the index-th target of this machine, best first; -1 restores the best."""
        self._lib.opentrn_force_simd_target(index)

    def _dtype(self, name: str) -> int:
        code = self._lib.opentrn_dtype(name.encode())
        assert code >= 0, f"unknown dtype {name}"
        return code

    def load_f32(self, name: str, row: np.ndarray) -> np.ndarray:
        """fp32 values of a row of codes."""
        out = np.empty(row.size, np.float32)
        self._lib.opentrn_load_f32(self._dtype(name), _pointer(row), _pointer(out), ctypes.c_size_t(row.size))
        return out

    def store_f32(
        self, name: str, row: np.ndarray, code_dtype: np.dtype, seed: int | None = None
    ) -> np.ndarray:
        """Codes of a row of fp32 values; rounds stochastically when a seed is given."""
        out = np.empty(row.size, code_dtype)
        self._lib.opentrn_store_f32(
            self._dtype(name), _pointer(row), _pointer(out), ctypes.c_size_t(row.size),
            int(seed is not None), ctypes.c_uint64(seed or 0), ctypes.c_uint64(0),
        )  # fmt: skip
        return out

    def activate(self, name: str, row: np.ndarray, param: float = 0.0) -> np.ndarray:
        """The activation function of each element."""
        out = np.empty(row.size, np.float32)
        self._lib.opentrn_activate(
            self._activation(name), _pointer(row), _pointer(out), ctypes.c_size_t(row.size),
            ctypes.c_float(param),
        )  # fmt: skip
        return out

    def activation_error_ulp(self, name: str) -> float:
        """The promised error bound."""
        return self._lib.opentrn_activation_error_ulp(self._activation(name))

    def _activation(self, name: str) -> int:
        code = self._lib.opentrn_activation(name.encode())
        assert code >= 0, f"unknown activation function {name}"
        return code

    def power(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """x to the power y, elementwise."""
        out = np.empty(x.size, np.float32)
        self._lib.opentrn_power(_pointer(x), _pointer(y), _pointer(out), ctypes.c_size_t(x.size))
        return out

    def unpack_x4(self, name: str, row: np.ndarray) -> np.ndarray:
        """Four fp32 values of each packed element."""
        out = np.empty(4 * row.size, np.float32)
        count = ctypes.c_size_t(row.size)
        self._lib.opentrn_unpack_x4(self._dtype(name), _pointer(row), _pointer(out), count)
        return out

    def pack_x4(self, name: str, row: np.ndarray, code_dtype: np.dtype) -> np.ndarray:
        """Packs each four fp32 values into an element."""
        out = np.empty(row.size // 4, code_dtype)
        self._lib.opentrn_pack_x4(self._dtype(name), _pointer(row), _pointer(out), ctypes.c_size_t(out.size))
        return out


def _pointer(row: np.ndarray) -> ctypes.c_void_p:
    assert row.flags.c_contiguous and row.ndim == 1
    return ctypes.c_void_p(row.ctypes.data)


@pytest.fixture(scope="session")
def numerics() -> Numerics:
    """The library under test; its absence is a failure, never a skip."""
    default = Path(__file__).resolve().parents[2] / "build" / "src" / "numerics" / _LIBRARY
    path = Path(os.environ.get("OPENTRN_NUMERICS_CAPI", default))
    if not path.is_file():
        pytest.fail(
            f"{path} does not exist: build the CMake target opentrn_numerics_capi, and set "
            f"OPENTRN_NUMERICS_CAPI to its {_LIBRARY} if the build folder is not build/"
        )
    return Numerics(path)
