"""NKI kernels inside models: a kernel traced for the shapes of one call, as what a custom call carries.

    call = kernel_call.trace(my_kernel[2], q, k, v, target="trn2", scale=0.125)
    call.payload            # text: the backend_config of a custom call with call_target_name kernel_call.TARGET
    call.arrays             # the arrays among the arguments, in the order of the call's operands
    call.results            # ShapeOf of every result: the types of the call's results
    call.unflatten(values)  # values of the results, in the structure that the kernel returned
    call.run(arrays)        # NumPy values of the results, from the functional model

Arguments are arrays, or anything that has a `shape` and a `dtype` (opentrn.ShapeOf, jax.ShapeDtypeStruct, a tracer, a
torch tensor, fake ones too); everything else is a constant of the trace. The kernel's Python runs once, without
values. docs/decisions/0021 says what the payload is; docs/jax.md shows kernels inside JAX programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.errors import InputError, NkiValidationError, NotModelled
from opentrn.settings import environment
from opentrn.types import dtypes
from opentrn.types.isa_enums import nc_version, target_version
from opentrn.types.shapes import ShapeOf

__all__ = ["TARGET", "KernelCall", "run", "trace"]

TARGET = "AwsNeuronCustomNativeKernel"


@dataclass(frozen=True)
class KernelCall:
    """A kernel traced for one call. `operands` and `results` are types; see the module for the rest."""

    name: str
    payload: str
    target: nc_version
    operands: tuple[ShapeOf, ...]
    results: tuple[ShapeOf, ...]
    arrays: tuple[Any, ...] = field(repr=False)
    _structure: Any = field(repr=False)

    def unflatten(self, values: Sequence[Any]) -> Any:
        """The results as the kernel returned them: `values` in place of its tensors."""
        return _unflatten(self._structure, list(values))

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Values of the results. Raises ValueError for arrays of other shapes or dtypes than the operands'."""
        return run(self.payload, arrays)


@dataclass(frozen=True)
class _Slot:
    """Result `index` of the call stands here."""

    index: int


def trace(kernel: Any, *args: Any, target: str | nc_version | None = None, **kwargs: Any) -> KernelCall:
    """Record `kernel` (of nki.jit of either NKI, with its grid) as it is called here.

    target: else the kernel's own, else NEURON_PLATFORM_TARGET_OVERRIDE, else trn2. Raises whatever the kernel raises,
    NkiValidationError for one that returns no tensor or whose result is no whole HBM tensor, NotModelled for cores
    that meet inside a device loop.
    """
    from opentrn.nki import _machine

    if _machine.backend().name != "core":
        raise InputError(
            "a kernel in a model needs the C++ machine; OPENTRN_NKI_BACKEND=oracle has none",
            label="nki.backend", hint="unset OPENTRN_NKI_BACKEND",
        )
    if getattr(kernel, "ranks", None) is not None:
        raise NotModelled(
            f"kernel {_name(kernel)!r} on {kernel.ranks} ranks in a model or a traced function, which has one",
            label="launch.ranks",
            hint="call it by itself, on arrays",
        )
    generation = _generation(kernel, target)
    recorded = _recorder(kernel)(generation, args, kwargs)
    tensors: list[Any] = []
    structure = _flatten(recorded.result, tensors)
    if not tensors:
        raise NkiValidationError(
            f"kernel {_name(kernel)!r} returns no tensor: in a model its results are what it returns",
            label="kernel.result", hint="return the tensor in shared HBM that holds the result",
        )
    payload = _core.record_kernel(
        recorded.machines, _name(kernel), list(recorded.grid), recorded.inputs, tensors, recorded.filled
    )
    described = _core.describe_kernel(payload)
    return KernelCall(
        _name(kernel),
        payload,
        generation,
        tuple(ShapeOf(tuple(shape), dtype) for _, dtype, shape in described["inputs"]),
        tuple(_type_of(tensor) for tensor in tensors),
        tuple(recorded.arrays),
        structure,
    )


def run(payload: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Values of a payload's results for these operands, from the functional model."""
    described = _core.describe_kernel(payload)
    if len(arrays) != len(described["inputs"]):
        raise InputError(
            f"{described['name']} takes {len(described['inputs'])} operands, {len(arrays)} were given",
            label="kernel_call.ports",
        )
    raw = []
    for array, (name, dtype, shape) in zip(arrays, described["inputs"]):
        given = np.ascontiguousarray(array)
        wanted = dtypes.to_numpy_dtype(dtype)
        if given.size * given.itemsize != np.prod(shape, dtype=np.int64) * wanted.itemsize:
            raise InputError(
                f"operand {name} of {described['name']} is {dtype}{shape}, got {given.dtype}{given.shape}",
                label="kernel_call.ports",
            )
        raw.append(given.reshape(-1).view(np.uint8))
    return [
        np.frombuffer(data, dtypes.to_numpy_dtype(dtype)).reshape(shape)
        for data, (_, dtype, shape) in zip(_core.run_kernel(payload, raw), described["outputs"])
    ]


# -- recording ---------------------------------------------------------------------------------------------


@dataclass
class _Recorded:
    machines: list[Any]
    grid: tuple[int, ...]
    inputs: list[Any]  # NkiTensor of each array
    arrays: list[Any]  # the caller's
    result: Any  # with NkiTensor leaves
    filled: bool


def is_leaf(value: Any) -> bool:
    """True for what becomes an operand: an array, or something with its shape and type."""
    from opentrn.nki import _arrays

    if isinstance(value, np.generic):
        return False
    if _arrays.is_array(value) or isinstance(value, ShapeOf):
        return True
    return type(getattr(value, "shape", None)) is tuple and hasattr(value, "dtype")


def _placeholder(value: Any) -> np.ndarray:
    """Zeros of the leaf's shape, whose pages nobody touches."""
    name = str(value.dtype).removeprefix("torch.")
    try:
        dtype = np.dtype(value.dtype) if isinstance(value, np.ndarray) else _numpy_dtype(name)
    except TypeError:
        raise NkiValidationError(
            f"no NeuronCore memory holds {name}",
            label="kernel_call.type", hint="convert the operand first",
        ) from None
    return np.zeros(value.shape, dtype)


def _numpy_dtype(name: str) -> np.dtype:
    return np.dtype(np.bool_) if name in ("bool", "bool_") else dtypes.to_numpy_dtype(dtypes.dtype_of(name))


class _Leaves:
    """Arrays of one call, each once, and what the kernel sees in their place."""

    def __init__(self) -> None:
        self.places: dict[int, np.ndarray] = {}
        self.arrays: list[Any] = []

    def replace(self, value: Any) -> Any:
        return _core.map_leaves(value, self._placed, exact=True)

    def _placed(self, value: Any) -> Any:
        if not is_leaf(value):
            return value
        found = self.places.get(id(value))
        if found is None:
            found = self.places[id(value)] = _placeholder(value)
            self.arrays.append(value)
        return found

    def tensors(self, made: dict[int, Any]) -> list[Any]:
        """The machine's tensors, in the order of `arrays`; `made`: by the id of their placeholder."""
        return [made[id(self.places[id(array)])] for array in self.arrays]


def _record(kernel: Any, generation: nc_version, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Recorded:
    from opentrn.nki import _kernel

    leaves = _Leaves()
    device_args, device_kwargs = leaves.replace((args, kwargs))
    machines: list[Any] = []
    result, made = _kernel.record(
        kernel.func, kernel.grid, generation, device_args, device_kwargs, machines.append,
        options=kernel.options, schedule=kernel.schedule,
    )  # fmt: skip
    return _Recorded(machines, kernel.grid, leaves.tensors(made), leaves.arrays, result, filled=False)


def _record_legacy(
    kernel: Any, generation: nc_version, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _Recorded:
    from opentrn.nki_legacy import kernel as legacy

    leaves = _Leaves()
    device_args, device_kwargs = leaves.replace((args, kwargs))
    machines: list[Any] = []
    result, made = legacy.record(kernel, generation, device_args, device_kwargs, machines.append)
    grid = tuple(int(axis) for axis in kernel.grid)
    return _Recorded(machines, grid, leaves.tensors(made), leaves.arrays, result, filled=True)


def _recorder(kernel: Any) -> Callable[..., _Recorded]:
    legacy = type(kernel).__module__.startswith("opentrn.nki_legacy")
    if not legacy and not hasattr(kernel, "func"):
        from opentrn.nki import simulate

        kernel = simulate(kernel)
    return functools.partial(_record_legacy if legacy else _record, kernel)


def _generation(kernel: Any, target: str | nc_version | None) -> nc_version:
    if target is None:
        options = getattr(kernel, "options", {})
        target = getattr(kernel, "target", None) or options.get("platform_target")
    if target is None:
        target = environment.read().target
    return target_version(target)


def _name(kernel: Any) -> str:
    return getattr(kernel, "__name__", None) or type(kernel).__name__


# -- results -----------------------------------------------------------------------------------------------


def _type_of(tensor: Any) -> ShapeOf:
    return ShapeOf(tuple(tensor.shape), str(tensor.dtype))


def _flatten(value: Any, tensors: list[Any]) -> Any:
    from opentrn.nki import _machine

    def slot(leaf: Any) -> Any:
        if not _machine.is_tensor(leaf):
            return leaf
        made = _Slot(len(tensors))
        tensors.append(leaf)
        return made

    return _core.map_leaves(value, slot)


def _unflatten(structure: Any, values: list[Any]) -> Any:
    return _core.map_leaves(structure, lambda leaf: values[leaf.index] if isinstance(leaf, _Slot) else leaf)
