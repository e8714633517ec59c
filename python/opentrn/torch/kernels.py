"""NKI kernels called with torch tensors inside torch.compile: one op of torch's, whose call carries the traced program.

Dynamo leaves such a call whole; AOTAutograd runs it with fake tensors, which trace the kernel for their shapes
(opentrn.kernel.trace) and put `opentrn::nki_call` with the payload into the graph. On the device that is the custom
call AwsNeuronCustomNativeKernel; by another backend
the kernel runs on the functional model. A kernel has no derivative of
its own: its author says it, with torch.autograd.Function.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from opentrn import _core
from opentrn.errors import NkiValidationError
from opentrn.kernel import trace as kernel_call
from opentrn.nki import _dynamo
from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import RULES
from opentrn.torch.text import Value
from opentrn.types import dtypes

_HELD = "opentrn: by number"
# Kernels, and functions that they are called with, by id; nobody but the graph's call refers to them.
_KERNELS: dict[int, Any] = {}
_TARGET: list[str] = []  # of the program that is being compiled
_LIBRARY = torch.library.Library("opentrn", "DEF")
_LIBRARY.define("nki_call(Tensor[] operands, str name, str payload, str[] types) -> Tensor[]")


@contextmanager
def tracing_for(target: str) -> Iterator[None]:
    """Kernels that name no target of their own are traced for this one."""
    _TARGET.append(target)
    try:
        yield
    finally:
        _TARGET.pop()


def _torch_type(name: str) -> torch.dtype:
    name = {"bool_": "bool", "tfloat32": "float32"}.get(name, name)
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise NkiValidationError(f"torch has no {name}, which an NKI kernel returns", label="torch.type")
    return found


def _shapes(payload: str) -> list[tuple[int, ...]]:
    return [tuple(shape) for _, _, shape in _core.describe_kernel(payload)["outputs"]]


def _fake(
    operands: Sequence[torch.Tensor], name: str, payload: str, types: Sequence[str]
) -> list[torch.Tensor]:
    return [
        torch.empty(shape, dtype=_torch_type(kind), device=operands[0].device if operands else "cpu")
        for shape, kind in zip(_shapes(payload), types)
    ]


def _evaluate(
    operands: Sequence[torch.Tensor], name: str, payload: str, types: Sequence[str]
) -> list[torch.Tensor]:
    arrays = [each.detach().contiguous().reshape(-1).view(torch.uint8).numpy() for each in operands]
    wanted = _core.describe_kernel(payload)["inputs"]
    given = [
        array.view(dtypes.to_numpy_dtype(kind)).reshape(shape)
        for array, (_, kind, shape) in zip(arrays, wanted)
    ]
    results = []
    for value, kind in zip(kernel_call.run(payload, given), types):
        raw = torch.from_numpy(np.array(value).reshape(-1).view(np.uint8))
        results.append(raw.view(_torch_type(kind)).reshape(value.shape))
    return results


torch.library.register_fake("opentrn::nki_call", _fake, lib=_LIBRARY)
_LIBRARY.impl("nki_call", _evaluate, "CPU")


def _emit(
    body: Emitter, out: Any, operands: Sequence[Value], name: str, payload: str, types: Sequence[str]
) -> tuple[Value, ...]:
    text = f'call_target_name = "{kernel_call.TARGET}", backend_config = "{payload}"'
    return tuple(body.ops("custom_call", operands, [(spec.shape, spec.dtype) for spec in out], text))


RULES[torch.ops.opentrn.nki_call.default] = _emit


@torch._dynamo.allow_in_graph
def _traced(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    kernel = _KERNELS[number]
    args, kwargs = _with_held(args), {name: _with_held(value) for name, value in kwargs.items()}
    own = getattr(kernel, "target", None) or getattr(kernel, "options", {}).get("platform_target")
    target = None if own or not _TARGET else _TARGET[-1]
    call = kernel_call.trace(kernel, *args, target=target, **kwargs)
    types = [str(result.dtype) for result in call.results]
    results = torch.ops.opentrn.nki_call(list(call.arrays), call.name, call.payload, types)
    return call.unflatten(results)


def call(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a kernel's call is while dynamo traces it."""
    taken = [_held(value) for value in args]
    named = {name: _held(value) for name, value in kwargs.items()}
    return _traced(_number(type(kernel), kernel.parts()), tuple(taken), named)


def _held(value: Any) -> Any:
    """What the graph's call can hold in place of a function (nl.add, np.exp) or a class, in tuples and lists too."""
    if isinstance(value, (tuple, list)):
        return type(value)([_held(each) for each in value])
    return (_HELD, _number_of(value)) if callable(value) and not isinstance(value, torch.Tensor) else value


def _with_held(value: Any) -> Any:
    if not isinstance(value, (tuple, list)):
        return value
    if len(value) == 2 and isinstance(value[0], str) and value[0] == _HELD:
        return _KERNELS[value[1]]
    return type(value)(_with_held(each) for each in value)


@torch._dynamo.assume_constant_result
def _number_of(value: Any) -> int:
    _KERNELS[id(value)] = value
    return id(value)


def call_with_tensors(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A kernel's call with torch's tensors: one op, which is a program of the device where the tensors are on it.

    Fake tensors, as torch traces with, give fake results.
    """
    if torch.compiler.is_dynamo_compiling():
        return kernel(*args, **kwargs)
    _KERNELS[id(kernel)] = kernel
    return _traced(id(kernel), args, kwargs)


@torch._dynamo.assume_constant_result
def _number(kind: type, parts: dict[str, Any]) -> int:
    """Of a kernel of these parts: one that the traced function makes, kernel[2], is no object yet."""
    kernel = kind(**parts)
    _KERNELS[id(kernel)] = kernel
    return id(kernel)


_dynamo.is_tracing = torch.compiler.is_dynamo_compiling
_dynamo.call = call
