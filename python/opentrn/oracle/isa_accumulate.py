"""Instructions that keep running results in their engine's accumulator registers.

Scalar engine: activation, activation_reduce, activate2 (128 float32 registers). Vector engine:
tensor_scalar_reduce, tensor_scalar_cumulative, select_reduce, range_select, exponential, which share one
register file. Reductions read the float32 values before they are rounded to dst. Source:
nki/api/nki/isa/__init__.py, "Accumulator behavior".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.errors import require
from opentrn.oracle import alu
from opentrn.oracle.activations import activate
from opentrn.oracle.instruction import NkiInstruction
from opentrn.oracle.machine import current
from opentrn.oracle.numerics import rows_f32, rows_raw, same_elements, scalar_or_vector, store
from opentrn.oracle.tensor import NkiTensor
from opentrn.types.isa_enums import nc_version, reduce_cmd
from opentrn.types.isa_ops import is_bitvec, op_name

FP32_MIN = float(np.finfo(np.float32).min)
_cmd = reduce_cmd


def _accumulate(
    registers: np.ndarray, values: np.ndarray, operator: str | None, command: reduce_cmd, start: Any = None
) -> None:
    """Update lanes 0..P-1 of a register file with a reduction of float32 values [P, N]."""
    if command is _cmd.idle:
        return
    lanes = registers[: values.shape[0]]
    name = operator or "add"
    if command in (_cmd.reset, _cmd.reset_reduce):
        lanes[...] = alu.IDENTITY.get(name, 0.0)
    elif command is _cmd.load_reduce:
        lanes[...] = np.broadcast_to(np.asarray(start, np.float32).reshape(-1), lanes.shape)
    if command is not _cmd.reset:
        # In order: the register first, then each element of the row.
        lanes[...] = alu.reduce_rows(name, np.concatenate([lanes[:, None], values], axis=1))


def _read_out(result: NkiTensor | None, registers: np.ndarray, partitions: int, negate: bool = False) -> None:
    if result is None:
        return
    require(
        result.shape[0] == partitions and result.size == partitions,
        f"reduce_res {result!r} must have one element in each of {partitions} partitions",
    )
    lanes = registers[:partitions]
    store(result, -lanes if negate else lanes)


# -- Scalar engine -------------------------------------------------------------------------------------------


def activation(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """dst = op(data * scale + bias), and optionally a running sum of the result along each partition."""
    same_elements("activation", dst, data)
    require(reduce_op is None or op_name(reduce_op) == "add", "activation: reduce_op must be nl.add or None")
    partitions = data.shape[0]
    value = rows_f32(data)
    with np.errstate(all="ignore"):
        if isinstance(scale, NkiTensor) or scale != 1.0:
            value = value * scalar_or_vector(scale, partitions, "activation: scale")
        if bias is not None:
            value = value + scalar_or_vector(bias, partitions, "activation: bias")
    result = activate(op_name(op), value)
    registers = current().scalar_accumulators
    _accumulate(registers, result, "add", reduce_cmd)
    store(dst, result)
    _read_out(reduce_res, registers, partitions)
    return NkiInstruction(name)


def activation_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor | None,
    bias: Any = None,
    scale: Any = 1.0,
    name: str | None = None,
) -> NkiInstruction:
    """activation with reduce_cmd.reset_reduce."""
    return activation(dst, op, data, bias, scale, reduce_op, reduce_res, _cmd.reset_reduce, name)


_ACTIVATE2_PAIRS = frozenset(
    {
        ("multiply", "add"),
        ("multiply", "subtract"),
        ("multiply", "bypass"),
        ("add", "bypass"),
        ("subtract", "bypass"),
        ("bypass", "bypass"),
    }
)
_ACTIVATE2_REDUCTIONS = frozenset({"add", "maximum", "minimum", "abs_max", "abs_min"})


def activate2(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    imm0: Any,
    imm1: Any,
    op0: Any,
    op1: Any,
    relu_param: Any = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """dst = op((data <op0> imm0) <op1> imm1), with an optional running reduction (NeuronCore-v4)."""
    machine = current()
    require(machine.nc_version >= nc_version.gen4, "activate2 needs NeuronCore-v4")
    same_elements("activate2", dst, data)
    pair = tuple("bypass" if o is None else op_name(o) for o in (op0, op1))
    require(pair in _ACTIVATE2_PAIRS, f"activate2: {pair} is none of the supported pairs of operators")
    partitions = data.shape[0]
    value = rows_f32(data)
    for operator, operand, reverse in ((pair[0], imm0, reverse0), (pair[1], imm1, reverse1)):
        if operator != "bypass":
            value = alu.apply(operator, value, scalar_or_vector(operand, partitions, "activate2"), reverse)
    result = activate(op_name(op), value, scalar_or_vector(relu_param, partitions, "activate2: relu_param"))
    store(dst, result)
    reduction = None if reduce_op is None else op_name(reduce_op)
    require(reduction is None or reduction in _ACTIVATE2_REDUCTIONS, f"activate2: reduce_op {reduction}")
    _accumulate(machine.scalar_accumulators, result, reduction, reduce_cmd)
    _read_out(reduce_res, machine.scalar_accumulators, partitions)
    return NkiInstruction(name)


# -- Vector engine -------------------------------------------------------------------------------------------


def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst = data <op0> operand0, and reduce_res = reduction of it along each partition."""
    operator, reduction = op_name(op0), op_name(reduce_op)
    require(not is_bitvec(operator), f"tensor_scalar_reduce: {operator} is not an arithmetic operator")
    require(
        reduction in ("add", "multiply", "maximum", "minimum"),
        f"tensor_scalar_reduce: reduce_op {reduction} is not supported",
    )
    require(
        (reduce_init is None) == (reduce_cmd is not _cmd.load_reduce),
        "tensor_scalar_reduce: reduce_init goes with reduce_cmd.load_reduce, and only with it",
    )
    same_elements("tensor_scalar_reduce", dst, data)
    partitions = data.shape[0]
    scalar = scalar_or_vector(0.0 if operand0 is None else operand0, partitions, "tensor_scalar_reduce")
    result = alu.apply(operator, rows_f32(data), scalar, reverse0)
    start = None if reduce_init is None else scalar_or_vector(reduce_init, partitions, "reduce_init")
    store(dst, result)
    registers = current().vector_accumulators
    _accumulate(registers, result, reduction, reduce_cmd, start)
    _read_out(reduce_res, registers, partitions, reduce_res_negate)
    return NkiInstruction(name)


def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """dst[i] = register = (src[i] <op0> imm0) <op1> register, along each partition."""
    operator, running = op_name(op0), op_name(op1)
    require(not is_bitvec(operator), f"tensor_scalar_cumulative: {operator} is not an arithmetic operator")
    require(
        running in ("add", "subtract", "multiply", "maximum", "minimum"),
        f"tensor_scalar_cumulative: op1 {running} is not supported",
    )
    for tile in (dst, src):
        require(
            tile.dtype not in ("int32", "uint32"), f"tensor_scalar_cumulative: {tile!r} of 32-bit integers"
        )
    same_elements("tensor_scalar_cumulative", dst, src)
    partitions = src.shape[0]
    lanes = current().vector_accumulators[:partitions]
    if reduce_cmd is _cmd.reset_reduce:
        lanes[...] = alu.IDENTITY[running]
    elif reduce_cmd is _cmd.load_reduce:
        require(imm1 is not None, "tensor_scalar_cumulative: load_reduce needs imm1")
        start = scalar_or_vector(imm1, partitions, "tensor_scalar_cumulative: imm1")
        lanes[...] = np.broadcast_to(np.asarray(start).reshape(-1), lanes.shape)
    else:
        require(reduce_cmd is _cmd.reduce, f"tensor_scalar_cumulative: {reduce_cmd} is not supported")
    values = alu.apply(operator, rows_f32(src), scalar_or_vector(imm0, partitions, "imm0"))
    result = np.empty_like(values)
    for i in range(values.shape[1]):
        lanes[...] = alu.apply(running, values[:, i], lanes)
        result[:, i] = lanes
    store(dst, result)
    return NkiInstruction(name)


def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: Any,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: Any = "maximum",
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst = on_true where predicate is not 0, else on_false; optionally a running maximum along each
    partition."""
    require(op_name(reduce_op) == "maximum", "select_reduce: reduce_op must be nl.maximum")
    same_elements("select_reduce", dst, predicate, on_true)
    partitions = on_true.shape[0]
    chosen = (rows_raw(predicate) != 0) != bool(reverse_pred)
    otherwise = scalar_or_vector(on_false, partitions, "select_reduce: on_false")
    result = np.where(chosen, rows_f32(on_true), otherwise).astype(np.float32)
    store(dst, result)
    registers = current().vector_accumulators
    _accumulate(registers, result, "maximum", reduce_cmd)
    _read_out(reduce_res, registers, partitions)
    return NkiInstruction(name)


_COMPARISONS = frozenset({"equal", "less", "less_equal", "greater", "greater_equal"})


def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Any = "maximum",
    range_start: Any = 0,
    on_false_value: float = FP32_MIN,
    name: str | None = None,
) -> NkiInstruction:
    """Keep elements whose index + range_start satisfies both comparisons, else FP32_MIN; running row
    maximum."""
    require(current().nc_version >= nc_version.gen3, "range_select needs NeuronCore-v3 or newer")
    names = op_name(comp_op0), op_name(comp_op1)
    require(all(n in _COMPARISONS for n in names), f"range_select: {names} must be comparisons")
    require(op_name(reduce_op) == "maximum", "range_select: reduce_op must be nl.maximum")
    require(
        np.float32(on_false_value) == np.float32(FP32_MIN), f"range_select: on_false_value must be {FP32_MIN}"
    )
    same_elements("range_select", dst, on_true_tile)
    partitions = on_true_tile.shape[0]
    values = rows_f32(on_true_tile)
    index = np.arange(values.shape[1], dtype=np.float32)[None, :] + np.float32(int(range_start))
    inside = np.ones(values.shape, np.bool_)
    for operator, bound in zip(names, (bound0, bound1), strict=True):
        inside &= alu.apply(operator, index, scalar_or_vector(bound, partitions, "range_select: bound")) != 0
    result = np.where(inside, values, np.float32(FP32_MIN))
    store(dst, result)
    registers = current().vector_accumulators
    _accumulate(registers, result, "maximum", reduce_cmd)
    _read_out(reduce_res, registers, partitions)
    return NkiInstruction(name)


def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: Any = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_init: Any = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """dst = exp(src - max_value), optionally with a running sum along each partition (NeuronCore-v4)."""
    machine = current()
    require(machine.nc_version >= nc_version.gen4, "exponential needs NeuronCore-v4")
    same_elements("exponential", dst, src)
    partitions = src.shape[0]
    with np.errstate(all="ignore"):
        result = np.exp(rows_f32(src) - scalar_or_vector(max_value, partitions, "exponential: max_value"))
    start = scalar_or_vector(reduce_init, partitions, "exponential: reduce_init")
    store(dst, result)
    _accumulate(machine.vector_accumulators, result, "add", reduce_cmd, start)
    _read_out(reduce_res, machine.vector_accumulators, partitions)
    return NkiInstruction(name)


__all__ = [
    "activate2",
    "activation",
    "activation_reduce",
    "exponential",
    "range_select",
    "select_reduce",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
]
