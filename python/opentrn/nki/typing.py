"""nki.typing: annotations of kernel arguments. `tensor[128, 512]` declares a shape, `tensor[[128, 512], nl.bfloat16]` a
dtype too; a launch checks its arguments against them. Source: nki/migration/index.rst, "nki.typing module"; the form
with a dtype is that of published kernels of 0.1.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from opentrn.errors import ArgumentError, NkiValidationError, SourceLocation
from opentrn.nki._machine import NkiTensor, TensorMeta, is_tensor
from opentrn.types import dtypes

__all__ = ["mutable_tensor", "scalar", "tensor"]

scalar = int | float


class _AnnotationMeta(TensorMeta):
    """Annotations are classes, so that `tensor[128] | None` is one; every NKI tensor is an instance of `tensor`."""

    shape: tuple[int, ...] | None
    dtype: dtypes.DType | None

    def __instancecheck__(cls, instance: Any) -> bool:
        return is_tensor(instance)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return NkiTensor(*args, **kwargs)

    def __repr__(cls) -> str:
        if cls.shape is None:
            return f"nki.typing.{cls.__name__}"
        sizes = ", ".join(map(str, cls.shape))
        inside = sizes if cls.dtype is None else f"[{sizes}], {cls.dtype}"
        return f"nt.{cls.__name__}[{inside}]"


class tensor(NkiTensor, metaclass=_AnnotationMeta):
    """Annotates a tensor argument. Without a shape it only documents."""

    shape: tuple[int, ...] | None = None
    dtype: dtypes.DType | None = None

    def __class_getitem__(cls, item: Any) -> type:
        shape, dtype = item, None
        if isinstance(item, tuple) and item and isinstance(item[0], (list, tuple)):
            if len(item) != 2:
                raise ArgumentError(
                    f"{cls.__name__}[shape, dtype] takes one shape and one dtype, got {item!r}",
                    label="typing.annotation",
                )
            shape, dtype = item[0], dtypes.dtype_of(item[1])
        sizes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
        if not sizes or not all(_is_size(size) for size in sizes):
            raise ArgumentError(
                f"{cls.__name__}[{item!r}]: the sizes of a shape are positive ints", label="typing.annotation"
            )
        return _AnnotationMeta(cls.__name__, (cls,), {"shape": tuple(map(int, sizes)), "dtype": dtype})


class mutable_tensor(tensor):
    """Annotates an input tensor that the kernel writes. Every HBM input may be written, annotated or not."""


def _is_size(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and int(value) > 0


def check_arguments(func: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise NkiValidationError for the first of `arguments`, as the kernel sees them, that is not as declared."""
    for name, annotation in _annotations(func).items():
        declared = [kind for kind in _alternatives(annotation) if _is_annotation(kind)]
        if not declared or any(kind.shape is None for kind in declared):
            continue
        value = arguments.get(name)
        if value is None or any(_fits(value, kind) for kind in declared):
            continue
        found = f"{value.dtype}[{', '.join(map(str, value.shape))}]" if is_tensor(value) else repr(value)
        wanted = " or ".join(map(repr, declared))
        raise NkiValidationError(
            f"argument {name!r} of {func.__name__} is {found}, declared {wanted}",
            label="typing.argument",
            location=_place(func),
            hint=f"pass a tensor of that type, or annotate {name!r} with nt.tensor, which takes any",
        )


def _annotations(func: Callable[..., Any]) -> dict[str, Any]:
    """Of the parameters. Text (`from __future__ import annotations`) with names out of reach says nothing."""
    try:
        signature = inspect.signature(func, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError, ValueError):
        return {}
    return {
        p.name: p.annotation
        for p in signature.parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def _is_annotation(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tensor)


def _fits(value: Any, kind: Any) -> bool:
    if not is_tensor(value):
        return False
    return tuple(value.shape) == kind.shape and kind.dtype in (None, value.dtype)


def _place(func: Callable[..., Any]) -> SourceLocation:
    code = inspect.unwrap(func).__code__
    return SourceLocation(code.co_filename, code.co_firstlineno, code.co_name)
