"""Element-wise and reducing instructions of the Vector and GpSimd engines.

All compute in float32 and round once to dst, except bit-vector operators, which keep bits, and tensor_tensor
on 32-bit integers, which is exact on GpSimd. Source: nki/api/nki/isa/__init__.py, docstring of each function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.errors import NkiValidationError, require
from opentrn.oracle import alu
from opentrn.oracle.instruction import NkiInstruction
from opentrn.oracle.numerics import rows_f32, rows_raw, same_elements, scalar_or_vector, store, store_raw
from opentrn.oracle.tensor import NkiTensor
from opentrn.types.isa_enums import MemoryRegion, engine
from opentrn.types.isa_ops import is_bitvec, op_name

_INT32 = frozenset({"int32", "uint32"})
# What GpSimd computes in native 32-bit integers. Division-like operators are not documented as exact.
_EXACT_INTEGER = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}


def _runs_on_exact_integers(operands: list[NkiTensor], name: str, where: engine) -> bool:
    """All tiles 32-bit integers, none in PSUM, and the Vector engine not asked for."""
    return (
        name in _EXACT_INTEGER
        and where in (engine.unknown, engine.gpsimd)
        and all(t.dtype in _INT32 for t in operands)
        and not any(t.buffer is MemoryRegion.psum for t in operands)
    )


def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Any,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """dst = data1 <op> data2, element by element."""
    operator = op_name(op)
    same_elements("tensor_tensor", dst, data1, data2)
    require(
        not (data1.buffer is MemoryRegion.psum and data2.buffer is MemoryRegion.psum),
        f"tensor_tensor: {data1!r} and {data2!r} cannot both be in PSUM",
    )
    if is_bitvec(operator):
        a, b = alu.as_bits(rows_raw(data1), "data1"), alu.as_bits(rows_raw(data2), "data2")
        wide = a.dtype if a.dtype.itemsize >= b.dtype.itemsize else b.dtype
        bits = alu.apply_bits(operator, a.astype(wide), b.astype(wide))
        store_raw(dst, alu.bits_to(bits, dst.dtype))
    elif _runs_on_exact_integers([dst, data1, data2], operator, engine):
        exact = _EXACT_INTEGER[operator](rows_raw(data1).astype(np.int64), rows_raw(data2).astype(np.int64))
        store_raw(dst, exact.astype(np.int64).astype(dst.numpy_or_gather().dtype))  # wraps modulo 2^32
    else:
        store(dst, alu.apply(operator, rows_f32(data1), rows_f32(data2)))
    return NkiInstruction(name)


def _operand_bits(operand: Any, like: np.ndarray) -> np.ndarray:
    """A bit-vector operand of tensor_scalar: an integer immediate or an integer [P, 1] tile."""
    if isinstance(operand, NkiTensor):
        require(
            operand.size == operand.shape[0],
            f"tensor_scalar: {operand!r} must have one element per partition",
        )
        return alu.as_bits(rows_raw(operand), "operand").astype(like.dtype)
    return alu.immediate_bits(0 if operand is None else operand, like)


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """dst = (data <op0> operand0) <op1> operand1; operands are immediates or one value per partition."""
    name0 = op_name(op0)
    name1 = None if op1 is None else op_name(op1)
    same_elements("tensor_scalar", dst, data)
    if alu.same_class("tensor_scalar", name0, name1):
        value = alu.as_bits(rows_raw(data), "data")
        for operator, operand, reverse in ((name0, operand0, reverse0), (name1, operand1, reverse1)):
            if operator not in (None, "bypass"):
                value = alu.apply_bits(operator, value, _operand_bits(operand, value), reverse)
        store_raw(dst, alu.bits_to(value, dst.dtype))
        return NkiInstruction(name)
    value = rows_f32(data)
    for operator, operand, reverse in ((name0, operand0, reverse0), (name1, operand1, reverse1)):
        if operator not in (None, "bypass"):
            scalar = scalar_or_vector(0.0 if operand is None else operand, data.shape[0], "tensor_scalar")
            value = alu.apply(operator, value, scalar, reverse)
    store(dst, value)
    return NkiInstruction(name)


def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst = (data <op0> operand0) <op1> operand1 with a scalar or per-partition operand0 and a tile
    operand1."""
    name0, name1 = op_name(op0), op_name(op1)
    for operator in (name0, name1):
        require(
            not is_bitvec(operator), f"scalar_tensor_tensor: bit-vector operator {operator} is not supported"
        )
    same_elements("scalar_tensor_tensor", dst, data, operand1)
    require(
        not (data.buffer is MemoryRegion.psum and operand1.buffer is MemoryRegion.psum),
        f"scalar_tensor_tensor: {data!r} and {operand1!r} cannot both be in PSUM",
    )
    scalar = scalar_or_vector(0.0 if operand0 is None else operand0, data.shape[0], "scalar_tensor_tensor")
    value = alu.apply(name0, rows_f32(data), scalar, reverse0)
    store(dst, alu.apply(name1, value, rows_f32(operand1), reverse1))
    return NkiInstruction(name)


def tensor_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: Any,
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Reduce the trailing free dimensions named by `axis`, in order, in float32 (bit-vector operators on
    bits)."""
    operator = alu.reduce_op_name(op)
    axes = sorted(int(a) % data.ndim for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    require(
        axes == list(range(data.ndim - len(axes), data.ndim)) and axes[0] > 0,
        f"tensor_reduce: axis {axis} of {data!r} must be the last free dimensions",
    )
    kept = data.size
    for a in axes:
        kept //= data.shape[a]
    require(
        dst.size == kept and dst.shape[0] == data.shape[0],
        f"tensor_reduce: dst {dst!r} must have {kept} elements in {data.shape[0]} partitions",
    )
    if is_bitvec(operator):
        require(not negate, "tensor_reduce: negate needs an arithmetic operator")
        bits = alu.as_bits(data.numpy_or_gather().reshape(kept, -1), "data")
        store_raw(dst, alu.bits_to(alu.reduce_bits(operator, bits, 1), dst.dtype))
        return NkiInstruction(name)
    result = alu.reduce_rows(operator, rows_f32(data).reshape(kept, -1))
    store(dst, -result if negate else result)
    return NkiInstruction(name)


def tensor_partition_reduce(
    dst: NkiTensor, op: Any, data: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Reduce over partitions to one row (GpSimd): add, average, maximum, bitwise_or, bitwise_and."""
    operator = op_name(op)
    require(
        operator in ("add", "average", "maximum", "bitwise_or", "bitwise_and"),
        f"tensor_partition_reduce: {operator} is not supported",
    )
    require(
        dst.shape[0] == 1 and dst.size * data.shape[0] == data.size,
        f"tensor_partition_reduce: dst {dst!r} must be one row of {data!r}",
    )
    if is_bitvec(operator):
        bits = alu.as_bits(rows_raw(data), "data")
        store_raw(dst, alu.bits_to(alu.reduce_bits(operator, bits, 0), dst.dtype))
        return NkiInstruction(name)
    rows = rows_f32(data)
    result = alu.reduce_rows("add" if operator == "average" else operator, rows.T)
    store(dst, result / np.float32(rows.shape[0]) if operator == "average" else result)
    return NkiInstruction(name)


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst = 1 / data on the Vector engine."""
    same_elements("reciprocal", dst, data)
    store(dst, alu.apply("reciprocal", rows_f32(data), None))
    return NkiInstruction(name)


def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i] along each partition, r[-1] = initial; r stays
    float32."""
    name0, name1 = op_name(op0), op_name(op1)
    for operator in (name0, name1):
        if is_bitvec(operator):
            raise NkiValidationError(f"tensor_tensor_scan: {operator} is not an arithmetic operator")
    same_elements("tensor_tensor_scan", dst, data0, data1)
    a, b = rows_f32(data0).T, rows_f32(data1).T  # [N, P]
    state = np.broadcast_to(
        np.asarray(scalar_or_vector(initial, data0.shape[0], "tensor_tensor_scan"), np.float32).reshape(-1),
        (data0.shape[0],),
    )
    result = np.empty(a.shape, np.float32)
    for i in range(a.shape[0]):
        state = alu.apply(name1, alu.apply(name0, a[i], state, reverse0), b[i], reverse1)
        result[i] = state
    store(dst, result.T)
    return NkiInstruction(name)


__all__ = [
    "reciprocal",
    "scalar_tensor_tensor",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_tensor",
    "tensor_tensor_scan",
]
