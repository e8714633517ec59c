"""Host arrays in and out of a launch: numpy, torch and JAX.

A kernel sees HBM tensors over the caller's own memory wherever that memory is C-contiguous and writable, so
writes to an input reach the caller. Results come back in the caller's kind of array. bfloat16 and fp8
travel between torch and ml_dtypes by reinterpreting the bytes, without a copy.
"""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from opentrn.errors import NkiValidationError
from opentrn.nki import _x4
from opentrn.types import dtypes

# torch dtype name -> (torch integer type of the same width, numpy dtype of the values)
_TORCH_BITS: dict[str, tuple[str, np.dtype]] = {
    "bfloat16": ("int16", np.dtype(ml_dtypes.bfloat16)),
    "float8_e4m3fn": ("uint8", np.dtype(ml_dtypes.float8_e4m3fn)),
    "float8_e5m2": ("uint8", np.dtype(ml_dtypes.float8_e5m2)),
    "float8_e8m0fnu": ("uint8", np.dtype(ml_dtypes.float8_e8m0fnu)),
}


def is_torch(value: Any) -> bool:
    """True for a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_jax(value: Any) -> bool:
    """True for a JAX array or tracer, without importing JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def is_tracer(value: Any) -> bool:
    """True for an array that JAX traces (jit, grad, vmap): it has a shape and a type, and no values."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def holds_tracer(value: Any) -> bool:
    """True if a tracer is somewhere inside a container."""
    if "jax" not in sys.modules:
        return False
    if isinstance(value, dict):
        return any(holds_tracer(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds_tracer(item) for item in value)
    return is_tracer(value)


def is_array(value: Any) -> bool:
    """True for an array that a launch turns into an HBM tensor."""
    return isinstance(value, np.ndarray) or is_torch(value) or is_jax(value)


def torch_to_numpy(tensor: Any) -> np.ndarray:
    """The values of a torch tensor as numpy, in its shape, sharing memory for a CPU tensor."""
    import torch

    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _TORCH_BITS:
        bits, numpy_dtype = _TORCH_BITS[name]
        return tensor.view(getattr(torch, bits)).numpy().view(numpy_dtype)
    return tensor.numpy()


def numpy_to_torch(array: np.ndarray) -> Any:
    """The values of a numpy array as a torch tensor of its shape over the same memory."""
    import torch

    for name, (bits, numpy_dtype) in _TORCH_BITS.items():
        if array.dtype == numpy_dtype and hasattr(torch, name):
            integers = torch.from_numpy(array.view(np.dtype(bits)))
            return integers.view(getattr(torch, name))
    try:
        return torch.from_numpy(array)
    except TypeError:
        raise NkiValidationError(
            f"torch has no dtype for {array.dtype}",
            label="nki.dtype", hint="call the kernel with numpy arrays to get it as numpy",
        ) from None


class HostArray:
    """One array argument: its numpy view for the machine, and what to do with writes after the launch."""

    def __init__(self, value: Any, name: str):
        self.value = value
        self.name = name
        self.detached = False
        array = self._numpy()
        if array.ndim == 0:
            array = array.reshape(1)
        self.dtype = _kernel_dtype(array, name)
        if array.dtype == np.bool_:
            array = array.view(np.uint8)
        elif _x4.packed_name(array.dtype) is not None:
            array = array.view(dtypes.to_numpy_dtype(self.dtype))
        self.original = array
        writable_in_place = array.flags.c_contiguous and array.flags.writeable
        self.array = array if writable_in_place else np.array(array, order="C")

    def _numpy(self) -> np.ndarray:
        if is_torch(self.value):
            return torch_to_numpy(self.value)
        if is_jax(self.value):
            jax = sys.modules["jax"]
            if isinstance(self.value, jax.core.Tracer):
                raise NkiValidationError(
                    f"argument {self.name!r} is being traced by JAX (jit, grad or vmap) where a value is "
                    "needed",
                    label="nki.traced",
                    hint="pass it to the kernel as an argument of its own, or in a tuple, list or dict",
                )
            return np.asarray(self.value)
        return self.value

    def detach(self) -> None:
        """Give the machine memory of its own: what the kernel writes does not reach the caller."""
        self.array = np.array(self.array, order="C")
        self.detached = True

    def write_back(self) -> None:
        """Copy what the kernel wrote into a strided caller array. Read-only arrays keep their values."""
        if self.detached:
            return
        if self.array is self.original:
            if is_torch(self.value) and self.value.device.type != "cpu":
                self.value.copy_(numpy_to_torch(self.array).reshape(self.value.shape))
            return
        if self.original.flags.writeable:
            self.original[...] = self.array


def _kernel_dtype(array: np.ndarray, name: str) -> dtypes.DType:
    try:
        return dtypes.dtype_of(_x4.packed_name(array.dtype) or array.dtype)
    except TypeError:
        raise NkiValidationError(
            f"argument {name!r} is an array of {array.dtype}, which no NeuronCore memory holds",
            label="nki.dtype", hint="convert it first (float32, bfloat16, int32, ...)",
        ) from None


def wrap_output(array: np.ndarray, dtype: dtypes.DType, kind: str) -> Any:
    """A returned tensor's values as `kind` ("numpy", "torch" or "jax"), in its shape."""
    if dtype == dtypes.bool_ or (kind == "numpy" and dtypes.is_packed_x4(dtype)):
        array = array.view(_x4.host_dtype(dtype))
    if kind == "torch":
        return numpy_to_torch(array)
    if kind == "jax":
        import jax.numpy as jnp

        return jnp.asarray(array)
    return array


def caller_kind(values: list[Any]) -> str:
    """The kind of array the caller uses: torch or jax if any argument is one, else numpy."""
    if any(is_torch(v) for v in values):
        return "torch"
    if any(is_jax(v) for v in values):
        return "jax"
    return "numpy"
