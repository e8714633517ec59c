"""Instructions that generate index patterns and random values: iota, affine_select, rng, rand2, dropout and
the random state. Source: nki/api/nki/isa/__init__.py; for random bits see random_state.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opentrn.errors import require
from opentrn.oracle import alu
from opentrn.oracle.instruction import NkiInstruction
from opentrn.oracle.machine import current
from opentrn.oracle.numerics import (
    cast_from_f32,
    rows_f32,
    rows_raw,
    same_elements,
    scalar_or_vector,
    store,
    store_raw,
)
from opentrn.oracle.tensor import NkiTensor
from opentrn.types.dtypes import is_integer, to_numpy_dtype
from opentrn.types.isa_enums import MemoryRegion, engine, nc_version
from opentrn.types.isa_ops import op_name


def affine_values(pattern: Sequence, offset: Any, channel_multiplier: Any, partitions: int) -> np.ndarray:
    """offset + p * channel_multiplier + sum of index * step, wrapped to int32; int64 [P, N], last step
    innermost."""
    require(1 <= len(pattern) <= 4, f"pattern {pattern}: 1 to 4 [step, count] pairs")
    row: np.ndarray = np.zeros(1, np.int64)
    for step, count in pattern:
        row = (row[:, None] + np.arange(int(count)) * int(step)).reshape(-1)
    values = np.arange(partitions)[:, None] * int(channel_multiplier) + row[None, :] + int(offset)
    return values.astype(np.int32).astype(np.int64)


def iota(
    dst: NkiTensor,
    pattern: Sequence,
    offset: Any = 0,
    channel_multiplier: Any = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Fill dst with affine index values, computed in int32 and cast to its dtype."""
    require(dst.buffer is MemoryRegion.sbuf, f"iota: dst {dst!r} must be in SBUF")
    values = affine_values(pattern, offset, channel_multiplier, dst.shape[0])
    require(values.size == dst.size, f"iota: pattern {pattern} gives {values.shape[1]} elements for {dst!r}")
    if is_integer(dst.dtype):
        limits = np.iinfo(to_numpy_dtype(dst.dtype))
        if dst.dtype == "uint32":  # same 32 bits
            store_raw(dst, values.astype(np.int32).view(np.uint32))
        else:
            store_raw(dst, np.clip(values, limits.min, limits.max).astype(to_numpy_dtype(dst.dtype)))
    else:
        store(dst, values.astype(np.float32))
    return NkiInstruction(name)


def affine_select(
    dst: NkiTensor,
    pattern: Sequence,
    channel_multiplier: Any,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Any = "equal",
    offset: Any = 0,
    name: str | None = None,
) -> NkiInstruction:
    """dst = on_true_tile where (affine index value <cmp_op> 0), else on_false_value."""
    require(
        MemoryRegion.psum not in (dst.buffer, on_true_tile.buffer),
        f"affine_select: {dst!r} and {on_true_tile!r} must be in SBUF",
    )
    same_elements("affine_select", dst, on_true_tile)
    values = affine_values(pattern, offset, channel_multiplier, dst.shape[0])
    require(values.size == dst.size, f"affine_select: pattern {pattern} does not cover {dst!r}")
    chosen = alu.apply(op_name(cmp_op), values, 0) != 0
    if dst.dtype == on_true_tile.dtype:
        otherwise = cast_from_f32(np.full((1, 1), on_false_value, np.float32), dst.dtype)
        store_raw(dst, np.where(chosen, rows_raw(on_true_tile), otherwise))
    else:
        store(dst, np.where(chosen, rows_f32(on_true_tile), np.float32(on_false_value)))
    return NkiInstruction(name)


def _random_engine(where: engine) -> engine:
    where = engine.vector if where is engine.unknown else where
    require(where in (engine.vector, engine.gpsimd), f"{where} has no random generator")
    return where


def rng(dst: NkiTensor, engine: engine = engine.vector, name: str | None = None) -> NkiInstruction:
    """Fill an integer dst with random bits, the low bits of one 32-bit value per element."""
    require(is_integer(dst.dtype), f"rng: dst {dst!r} must be an integer tile")
    bits = current().random.bits(_random_engine(engine), dst.shape[0], dst.size // dst.shape[0])
    store_raw(dst, alu.bits_to(bits, dst.dtype))
    return NkiInstruction(name)


def _unit_interval(bits: np.ndarray) -> np.ndarray:
    """32 random bits to float32 in [0, 1): the top 24 bits."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def rand2(dst: NkiTensor, min: Any, max: Any, name: str | None = None) -> NkiInstruction:
    """Uniform float32 values in [min, max), cast to dst (NeuronCore-v4, Vector engine)."""
    machine = current()
    require(machine.nc_version >= nc_version.gen4, "rand2 needs NeuronCore-v4")
    partitions = dst.shape[0]
    low = scalar_or_vector(min, partitions, "rand2: min")
    high = scalar_or_vector(max, partitions, "rand2: max")
    require(bool(np.all(low < high)), "rand2: min must be less than max")
    unit = _unit_interval(machine.random.bits(engine.vector, partitions, dst.size // partitions))
    store(dst, low + unit * (high - low))
    return NkiInstruction(name)


def dropout(dst: NkiTensor, data: NkiTensor, prob: Any, name: str | None = None) -> NkiInstruction:
    """dst = data with each element replaced by 0 with probability prob; no rescaling."""
    require(dst.dtype == data.dtype, f"dropout: {dst!r} and {data!r} must have the same dtype")
    same_elements("dropout", dst, data)
    partitions = data.shape[0]
    values = rows_raw(data)
    unit = _unit_interval(current().random.bits(engine.vector, partitions, values.shape[1]))
    dropped = unit < scalar_or_vector(prob, partitions, "dropout: prob")
    store_raw(dst, np.where(dropped, np.zeros((), values.dtype), values))
    return NkiInstruction(name)


def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Seed the Vector engine's generator from a [1, 1] tile of 32 bits."""
    require(
        src_seeds.size == 1 and src_seeds.itemsize == 4,
        f"set_rng_seed: {src_seeds!r} must be one 32-bit value",
    )
    seed = int(np.ascontiguousarray(src_seeds.numpy_or_gather()).reshape(1).view(np.uint32)[0])
    current().random.seed(seed, engine.vector)
    return NkiInstruction(name)


def rand_set_state(
    src_seeds: NkiTensor, engine: engine = engine.gpsimd, name: str | None = None
) -> NkiInstruction:
    """Load the XORWOW state of lanes 0..P-1 from uint32 [P, 6] (GpSimd) or [P, 24] (Vector)."""
    where = _random_state_tile("rand_set_state", src_seeds, engine)
    current().random.set_state(where, rows_raw(src_seeds))
    return NkiInstruction(name)


def rand_get_state(dst: NkiTensor, engine: engine = engine.gpsimd, name: str | None = None) -> NkiInstruction:
    """Store the XORWOW state of lanes 0..P-1 as uint32 [P, 6] (GpSimd) or [P, 24] (Vector)."""
    where = _random_state_tile("rand_get_state", dst, engine)
    store_raw(dst, current().random.get_state(where, dst.shape[0]))
    return NkiInstruction(name)


def _random_state_tile(instruction: str, tile: NkiTensor, where: engine) -> engine:
    where = _random_engine(where)
    words = current().random.state_words(where)
    require(
        tile.dtype == "uint32" and tile.size == tile.shape[0] * words,
        f"{instruction}: {tile!r} must be uint32 with {words} words per partition",
    )
    return where


__all__ = [
    "affine_select",
    "dropout",
    "iota",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "rng",
    "set_rng_seed",
]
