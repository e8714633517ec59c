"""Calls that cannot be traced: what torch itself says of them.

The functions that torch traces with (meta functions, decompositions) word errors in their own way, and refuse some
calls that its kernels take. The CPU has the last word: it is asked with zeros of the same types, sizes and strides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

_BYTES_MAX = 1 << 28  # of a call's tensors together
_LIFTED = 0.5  # for numbers that are inputs of a program


def takes(op: Any, arguments: list[Any], given: Sequence[Any]) -> bool:
    """Whether the CPU takes such a call, False where that cannot be tried. Raises what it raises of it."""
    from opentrn.torch.eager.compiler import Ref, beside_numbers, split

    if sum(_bytes(each) for each in given) > _BYTES_MAX:
        return False
    beside = beside_numbers(op._schema, given)
    tensors = [_zeros(each, beside) for each in given]

    def plain(ref: Any) -> Any:
        return tensors[ref.index] if ref.index >= 0 else _LIFTED

    real = pytree.tree_map_only(Ref, plain, arguments)
    real = pytree.tree_map_only(torch.device, lambda _: torch.device("cpu"), real)
    positional, keywords = split(op._schema, real)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        op(*positional, **keywords)
    return True


# Errors that tracing does not find.
_OF_TYPES = (
    "can't be cast", "dtypes match", "Found dtype", "Expected out type", "Expected out tensor to have dtype",
    "must have the same scalar type", "not supported for complex", "have the same dtype", "input and out to match",
    "Expected object of scalar type", "expected scalar type", "expected scalar_type", "of same type",
    "with different dtypes", "have the same type", "safely castable", "canCast(", "should be same as input",
    "must not be a floating point number", "must not be a complex number", "only supports bool tensor for result",
    "not support non-boolean",
)  # fmt: skip


# Ops that PyTorch's other devices have of whole numbers and its CPU has not: counts of tokens by expert, as mixtures of
# experts in transformers ask for them on any device but the CPU.
_BEYOND_THE_CPU = frozenset({"aten::histc"})

# Calls of whole numbers up to here are tried on the CPU, whose products of them are slow.
_TRIED_BYTES_MAX = 1 << 20


def hold_types(op: Any, arguments: list[Any], given: Sequence[Any], written: Sequence[int]) -> None:
    """Raises what torch raises where what an op writes into has a type that takes no such results, and where an op has
    no kernel for whole or complex numbers, none for floats beside whole ones, or none that gives such.

    written: numbers of those tensors. The CPU is asked where that can be: of types that differ, of such numbers, and of
    what is given for results.
    """
    types, names = {each.dtype for each in given}, {given[i].dtype for i in written}
    read = {each.dtype for i, each in enumerate(given) if i not in written}
    is_complex = any(each.is_complex for each in types)
    is_whole = bool(types) and not is_complex and not any(each.is_floating_point for each in types)
    is_whole = is_whole and op._schema.name not in _BEYOND_THE_CPU
    is_small = sum(map(_bytes, given)) <= _TRIED_BYTES_MAX
    asks = is_complex or is_whole and (_has_fractions(arguments) or is_small)
    # Some results have a type of their own: truths, or complex numbers of two tensors of floats.
    asks = asks or is_small and any(each.is_out for each in op._schema.arguments)
    if not asks and (not written or (len(types) == 1 and all(name.is_floating_point for name in names))):
        return
    words: tuple[str, ...] = _OF_TYPES
    if is_whole or is_complex:
        words += ("not implemented for '", "only support", "not support", "to be non-complex")
    words += tuple(f"not implemented for '{_name_of(each)}'" for each in names - read if not each.is_floating_point)
    try:
        takes(op, arguments, given)
    except (RuntimeError, TypeError) as fault:
        if any(each in str(fault) for each in words):
            raise
    except Exception:  # noqa: BLE001  (of the zeros, not of the call)
        return


def _name_of(dtype: torch.dtype) -> str:
    """As torch's kernels name a type: Long."""
    return torch.empty(0, dtype=dtype).type().rpartition(".")[2].removesuffix("Tensor")


def _has_fractions(arguments: list[Any]) -> bool:
    """Whether a number among the arguments is a float; those that are inputs of a program are."""
    from opentrn.torch.eager.compiler import Ref

    leaves = pytree.tree_leaves(arguments)
    return any(isinstance(leaf, (float, complex)) or isinstance(leaf, Ref) and leaf.index < 0 for leaf in leaves)


# Ops that draw numbers into a tensor, between limits that tracing does not look at.
DRAWS = frozenset(
    f"aten::{name}_"
    for name in ("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "random", "uniform")
)


def hold_draws(op: Any, arguments: list[Any], given: Sequence[Any]) -> None:
    """Raises what torch raises of the limits and of the type."""
    takes(op, arguments, [dataclasses.replace(each, shape=(1,), stride=(1,)) for each in given])


def _bytes(given: Any) -> int:
    last = sum((size - 1) * step for size, step in zip(given.shape, given.stride))
    return (last + 1) * given.dtype.itemsize if 0 not in given.shape else 0


def _zeros(given: Any, beside: torch.dtype | None) -> Any:
    if given.number is not None:
        return given.as_number(beside)
    count = _bytes(given) // given.dtype.itemsize
    return torch.zeros(count, dtype=given.dtype).as_strided(given.shape, given.stride)
