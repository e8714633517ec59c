"""Scalar registers of the engine sequencers, concrete because execution is eager."""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.errors import require
from opentrn.oracle.instruction import VirtualRegister
from opentrn.oracle.tensor import NkiTensor
from opentrn.types.dtypes import is_integer, to_numpy_dtype


def register_alloc(x: Any = None) -> VirtualRegister:
    """A fresh register: uninitialised, an immediate, or (NKI 0.2-0.3) loaded from a one-element tensor."""
    register = VirtualRegister()
    if isinstance(x, NkiTensor):
        register_load(register, x)
    elif x is not None:
        register.value = int(x)
    return register


def register_move(dst: VirtualRegister, src: Any) -> None:
    """dst = an integer or another register."""
    dst.value = int(src)


def register_load(dst: VirtualRegister, src: NkiTensor) -> None:
    """dst = the one element of an HBM or SBUF tensor; a 32-bit float gives its bits' integer value only if
    whole."""
    require(src.size == 1, f"register_load: {src!r} must have one element")
    value = src.numpy_or_gather().reshape(())[()]
    require(
        is_integer(src.dtype) or float(value) == int(value),
        f"register_load: {src!r} holds {value}, registers hold integers",
    )
    dst.value = int(value)


def register_store(dst: NkiTensor, src: Any) -> None:
    """The one element of dst = the register's value."""
    require(dst.size == 1, f"register_store: {dst!r} must have one element")
    bits = np.array(int(src) & 0xFFFFFFFF, np.uint32)
    storage = to_numpy_dtype(dst.dtype)
    if is_integer(dst.dtype):
        dst.write(bits.astype(f"u{storage.itemsize}").view(storage))
    else:
        dst.write(np.array(int(src)).astype(storage))


__all__ = ["register_alloc", "register_load", "register_move", "register_store"]
