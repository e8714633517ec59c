"""NKI kernels called with JAX tracers: a primitive whose lowering is AWS's custom call.

On the platform `neuron` the call becomes stablehlo.custom_call @AwsNeuronCustomNativeKernel with the traced kernel in
its backend_config (opentrn.kernel.trace), which the compiler puts among its own kernels. On other platforms the kernel
runs on OpenTrn's functional model through a host callback. Under jax.vmap it is called for every element of the batch.
A kernel has no derivative of its own: its author says it, with jax.custom_vjp.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError
from opentrn.kernel import trace as kernel_call
from opentrn.types import dtypes
from opentrn.types.shapes import ShapeOf

_PLATFORM = "neuron"


def call(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Trace `kernel` for these arguments and bind its call into the program that JAX traces."""
    traced = kernel_call.trace(kernel, *args, **kwargs)
    results = _primitive().bind(
        *traced.arrays, name=traced.name, payload=traced.payload, results=traced.results
    )
    return traced.unflatten(results)


@functools.cache
def _primitive() -> Any:
    from jax.extend import core
    from jax.interpreters import ad, batching, mlir

    nki_call = core.Primitive("nki_call")
    nki_call.multiple_results = True
    nki_call.def_impl(_evaluate)
    nki_call.def_abstract_eval(_types)
    mlir.register_lowering(nki_call, _lower)
    ad.primitive_jvps[nki_call] = _refuse_derivative
    batching.primitive_batchers[nki_call] = _batch
    return nki_call


def _numpy_type(result: ShapeOf) -> np.dtype:
    return np.dtype(np.bool_) if result.dtype == "bool_" else dtypes.to_numpy_dtype(result.dtype)


def _types(*_: Any, results: tuple[ShapeOf, ...], **__: Any) -> list[Any]:
    import jax

    return [jax.core.ShapedArray(result.shape, _numpy_type(result)) for result in results]


def _evaluate(*operands: Any, **parameters: Any) -> list[Any]:
    """Outside jit: as a program of its own."""
    import jax

    return jax.jit(functools.partial(_primitive().bind, **parameters))(*operands)


def _lower(context: Any, *operands: Any, name: str, payload: str, results: tuple[ShapeOf, ...]) -> Any:
    from jax._src.interpreters import mlir

    platforms = context.platforms or context.module_context.platforms
    if tuple(platforms) != (_PLATFORM,):
        return mlir.lower_fun(
            functools.partial(_call_back, payload=payload, results=results), multiple_results=True
        )(context, *operands)
    return mlir.custom_call(
        kernel_call.TARGET,
        result_types=[mlir.aval_to_ir_type(context.module_context, aval) for aval in context.avals_out],
        operands=operands,
        backend_config=payload,
    ).results


def _call_back(*operands: Any, payload: str, results: tuple[ShapeOf, ...]) -> Any:
    import jax

    types = [jax.ShapeDtypeStruct(result.shape, _numpy_type(result)) for result in results]

    def values(*arrays: Any) -> list[np.ndarray]:
        made = kernel_call.run(payload, [np.asarray(array) for array in arrays])
        return [value.view(kind.dtype).reshape(kind.shape) for value, kind in zip(made, types)]

    return jax.pure_callback(values, types, *operands)


def _refuse_derivative(primals: Any, tangents: Any, *, name: str, **_: Any) -> Any:
    raise NkiValidationError(
        f"NKI kernel {name!r} has no derivative",
        label="nki.derivative",
        hint="wrap its call in a function with jax.custom_vjp, whose backward rule says it (docs/jax.md)",
    )


def _batch(operands: Any, axes: Any, **parameters: Any) -> Any:
    """jax.vmap: the kernel is traced for one element's shapes, so it is called for one element after the other."""
    import jax

    mapped = [axis is not None for axis in axes]
    rows = [
        jax.numpy.moveaxis(operand, axis, 0) for operand, axis, each in zip(operands, axes, mapped) if each
    ]

    def of_element(given: list[Any]) -> list[Any]:
        parts = iter(given)
        return _primitive().bind(
            *(next(parts) if each else operand for operand, each in zip(operands, mapped)), **parameters
        )

    results = jax.lax.map(of_element, rows)
    return results, [0] * len(results)
