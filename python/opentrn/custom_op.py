"""Instructions beyond nki.isa: custom operators on the GpSimd Engine, and structured-sparse matmul.

A custom operator is code of yours that runs as one GpSimd instruction: a Python function, or a function of a
shared library (C or C++) with the interface of `opentrn/custom_op_abi.h`, whose path is `ABI_HEADER`.

    @opentrn.custom_op.register("axpy")
    def axpy(outputs, inputs):               # numpy arrays over the simulator's memory
        outputs[0][...] = float(inputs[0]) * inputs[1].astype("float32")

    opentrn.custom_op.load_library("./libops.so")             # registers what the library exports

    def kernel(x):
        ...
        opentrn.custom_op.call("axpy", outputs=[y], inputs=[2.0, tile])

No public document says how long such an operator takes: state it where you register it (`ns`,
`cycles_per_element`, or `set_time` for one of a library), or run with time=False or --no-time. The operator belongs
to the process; a saved program that uses one needs it registered again for values, and carries its time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.errors import InputError
from opentrn.kernel import machine as core
from opentrn.types import dtypes

ABI_HEADER = Path(__file__).with_name("custom_op_abi.h")


def nc_matmul_sparse(
    dst: Any,
    stationary: Any,
    moving: Any,
    indices: Any,
    pattern: str = "4:16",
    accumulate: bool | None = None,
) -> None:
    """dst[m, n] += sum over k of stationary[k, m] * the moving value that its tag chooses.

    pattern: "4:16", "4:12", "4:8", "2:8", "2:4", "1:4" or "1:2": M values kept of N along the contraction;
    R = N / M.
    stationary: [K, m], the kept values; indices: [K, m / 4] uint16, four 4-bit tags each, the first in the low
    bits; moving: [K, R, n]. Groups are M partitions; tag t means partition t // R of the group, and index t % R.
    Source: trainium2_arch.rst, "M:N Structured Sparsity", for the layout; neuron-core-v3.rst for the patterns;
    NeuronCore-v3 and later. Raises InputError for another pattern.
    """
    kept, _, group = pattern.partition(":")
    if not (kept.isdigit() and group.isdigit()):
        raise InputError(f"{pattern!r} is not a pattern", label="sparsity.pattern", hint="M:N, for example 4:16")
    code = int(kept) * 100 + int(group)
    core.isa.nc_matmul_sparse(dst, stationary, moving, indices, code, accumulate)


Function = Callable[[list[np.ndarray], list[np.ndarray]], None]


def _array(described: tuple[np.ndarray, str, list[int]]) -> np.ndarray:
    data, dtype, shape = described
    return data.view(dtypes.to_numpy_dtype(dtype)).reshape(shape)


# What the environment loads comes first, so that what a kernel's file registers and states replaces it.
_load_environment = _core.load_custom_ops_of_environment


def set_time(name: str, ns: float | None = None, cycles_per_element: float | None = None) -> None:
    """State how long operator `name` takes in kernels recorded from now on; neither argument: not known.

    It occupies GpSimd for `ns` nanoseconds and `cycles_per_element` of the engine's cycles for every element per
    partition of its longest operand. Raises ValueError for a time that is negative or not finite.
    """
    for what, value in (("ns", ns), ("cycles_per_element", cycles_per_element)):
        if value is not None and not 0 <= value < math.inf:
            raise InputError(
                f"{what} of custom operator {name!r} is {value}; a time is finite and not negative",
                label="custom_op.time",
            )
    _load_environment()
    stated = (-1.0 if value is None else float(value) for value in (ns, cycles_per_element))
    _core.set_custom_op_time(name, *stated)


def register(
    name: str, ns: float | None = None, cycles_per_element: float | None = None
) -> Callable[[Function], Function]:
    """Decorator: `function(outputs, inputs)` becomes the operator `name`, replacing one of that name.

    `ns` and `cycles_per_element` state its time, see set_time(). The arrays are dense, partition first; a number
    arrives as a float32 array of rank 0. They are valid during the call only. Outputs hold nothing defined before:
    what the function does not write is unwritten in the kernel. What it raises fails the kernel.
    """

    def keep(function: Function) -> Function:
        def run(outputs: list[Any], inputs: list[Any]) -> None:
            function([_array(o) for o in outputs], [_array(i) for i in inputs])

        set_time(name, ns, cycles_per_element)
        _core.register_custom_op(name, run)
        return function

    return keep


def load_library(path: str | Path) -> list[str]:
    """Register every operator that the shared library exports; their names. Raises ValueError."""
    _load_environment()
    return _core.load_custom_op_library(str(Path(path).resolve()))


def call(name: str, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    """Run operator `name` on GpSimd: `outputs` are tensors, `inputs` tensors or numbers.

    Raises ValueError when no operator has that name.
    """
    _load_environment()
    if not _core.has_custom_op(name):
        raise InputError(
            f"there is no custom operator {name!r}",
            label="custom_op.unknown",
            hint="register() it, or name its library by load_library(), --custom-ops or OPENTRN_CUSTOM_OPS",
        )
    _core.custom_op(name, list(outputs), list(inputs))


__all__ = ["ABI_HEADER", "call", "load_library", "nc_matmul_sparse", "register", "set_time"]
