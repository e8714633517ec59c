"""What neuronx-cc gives the Scalar engine on NeuronCore-v2 where the kernel names no engine.

Read off the engine-active shares of published profiles (AccelOpt, trn1). Copies out of PSUM are on Scalar, even
where Vector is idle (matmul: Vector 0 %, transpose_matmul: 0.002 %; in mamba, 896 broadcast copies and 32
exponentials are Scalar's time to 0.1 %). So is a product with a number or with one value per partition
(bmm_softmax, gqa_full: Vector has time for the two reductions of a tile only), and a wide reciprocal (silu:
exponential and reciprocal are Scalar's time to 0.2 %, and Vector's documented 8 cycles per element would alone take
longer than the kernel). An activation of the same value takes their place: Scalar has no copy before v3. From v3
on the backend chooses between the engines.
"""

from __future__ import annotations

from typing import Any

from opentrn.dtypes import is_float
from opentrn.isa_enums import MemoryRegion, nc_version
from opentrn.isa_enums import engine as engines
from opentrn.nki import isa as machine

# Elements per partition from which 8 cycles each on Vector take longer than one each on Scalar, even with a change of
# Scalar's function table: 8 N / 0.96 GHz > N / 1.4 GHz + 368 ns (timing_v2.toml) holds from 49 on.
WIDE_RECIPROCAL = 49


def _scalar_takes(dst: Any, src: Any) -> bool:
    return machine.get_nc_version() == nc_version.gen2 and is_float(dst.dtype) and is_float(src.dtype)


def copy(dst: Any, src: Any, engine: Any = engines.unknown) -> None:
    """dst = src, machine views on chip."""
    if engine is engines.unknown and src.buffer == MemoryRegion.psum and _scalar_takes(dst, src):
        machine.activation(dst, "copy", src)
    else:
        machine.tensor_copy(dst, src, engine)


def scale(dst: Any, src: Any, op: str, operand: Any, reverse: bool, engine: Any = engines.unknown) -> None:
    """dst = src <op> operand, a number or one value per partition."""
    if engine is engines.unknown and op == "multiply" and _scalar_takes(dst, src) and _is_factor(operand):
        machine.activation(dst, "copy", src, None, operand)
    else:
        machine.tensor_scalar(dst, src, op, operand, reverse, None, None, False, engine)


def _is_factor(operand: Any) -> bool:
    return isinstance(operand, (int, float)) or str(getattr(operand, "dtype", "")) == "float32"


def reciprocal(dst: Any, src: Any) -> None:
    """dst = 1 / src."""
    if src.size >= WIDE_RECIPROCAL * src.shape[0] and _scalar_takes(dst, src):
        machine.activation(dst, "reciprocal", src)
    else:
        machine.reciprocal(dst, src)
