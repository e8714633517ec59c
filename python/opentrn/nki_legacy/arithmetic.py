"""Element-by-element operations on tiles, and the operators of Tile.

Which instruction an operation becomes: with a number, or with a float32 tile of one value per partition,
`tensor_scalar`; otherwise `tensor_tensor`, reading size-one free dimensions with stride 0. One operand of
two in PSUM is copied to SBUF first, as the Vector engine reads at most one from there. One partition
broadcast to many is spread by nc_stream_shuffle. Source of the default dtypes: nki.api.shared.rst, "NKI
Type Promotion"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opentrn.base import members
from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki_legacy import emit
from opentrn.nki_legacy.box import Box, full_box
from opentrn.nki_legacy.dtypes import is_floating, promote, scalar_dtype
from opentrn.nki_legacy.emit import PSUM, read, write
from opentrn.nki_legacy.index import regions
from opentrn.nki_legacy.tile import Tile
from opentrn.types.isa_ops import is_bitvec, op_name

_FP32 = np.dtype(np.float32)
(_ONE,) = full_box((1,))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.generic))


def _check_operands(name: str, x: Any, y: Any) -> None:
    for value in (x, y):
        if isinstance(value, Tile):
            emit.operand(value, name)
        elif not _is_scalar(value):
            raise NkiValidationError(f"{name}: {value!r} is neither a tile nor a number", label="nki.operand")
    if not (isinstance(x, Tile) or isinstance(y, Tile)):
        raise NkiValidationError(f"{name} needs at least one tile, got {x!r} and {y!r}", label="nki.operand")


def result_dtype(op: str, x: Any, y: Any) -> np.dtype:
    """The promoted dtype; division of integers gives float32."""
    types = [v.dtype if isinstance(v, Tile) else scalar_dtype(v) for v in (x, y)]
    dtype = promote(*types)
    return _FP32 if op == "divide" and not is_floating(dtype) else dtype


def _is_vector(tile: Tile, shape: tuple[int, ...]) -> bool:
    """One float32 value per partition of a wider result: a tensor_scalar operand."""
    return tile.shape[0] == shape[0] and tile.size == tile.shape[0] and tile.dtype == _FP32


class _Plan:
    """A binary operation with its operands brought to one shape."""

    def __init__(self, op: str, x: Any, y: Any):
        self.op = op
        tiles = [v for v in (x, y) if isinstance(v, Tile)]
        self.shape = emit.broadcast_shape(*tiles)
        self.reverse = False
        self.scalar: Any = None
        self.vector: Tile | None = None
        if len(tiles) == 1:
            self.data = tiles[0]
            self.reverse = tiles[0] is y
            self.scalar = _plain(x if self.reverse else y)
            self.kind = "scalar"
            return
        size = math.prod(self.shape)
        wide = self.shape[0] != size
        self.kind = "tensor"
        if wide and not is_bitvec(op):
            for data, vector, reverse in ((x, y, False), (y, x, True)):
                if data.size == size and data.shape[0] == self.shape[0] and _is_vector(vector, self.shape):
                    self.data, self.vector, self.reverse, self.kind = data, vector, reverse, "vector"
                    self.data = emit.broadcast(data, self.shape)
                    return
        self.data = emit.broadcast(x, self.shape)
        self.other = emit.broadcast(y, self.shape)
        if op == "power":  # GpSimd's, which cannot read PSUM
            self.data, self.other = emit.to_sbuf(self.data), emit.to_sbuf(self.other)
        elif self.data.region is PSUM and self.other.region is PSUM:
            self.other = emit.to_sbuf(self.other)

    @property
    def sources(self) -> list[Tile]:
        return [t for t in (self.data, self.vector, getattr(self, "other", None)) if t is not None]

    def issue(self, dst: Tile, boxes: list[Box]) -> None:
        for box in boxes:
            data = read(self.data, box)
            if self.kind == "tensor":
                other = read(self.other, box)
                nisa.tensor_tensor(write(dst, box), data, other, self.op)
                continue
            scalar = self.scalar
            if self.vector is not None:
                scalar = read(self.vector.column(self.shape[0], self.op), (box[0], _ONE))
            nisa.tensor_scalar(write(dst, box), data, self.op, scalar, self.reverse)


def binary(op: Any, x: Any, y: Any, dtype: Any = None, mask: Any = None) -> Tile:
    """op(x, y) of tiles and numbers, broadcast; a deferred result."""
    emit.flush()
    name = op_name(op)
    _check_operands(name, x, y)
    plan = _Plan(name, x, y)
    boxes = regions(mask, plan.shape, name)
    out = result_dtype(name, x, y) if dtype is None else dtype
    return emit.defer(
        plan.shape,
        out,
        lambda dst: plan.issue(dst, boxes),
        boxes=boxes,
        sources=plan.sources,
        exact=not is_bitvec(name),
    )


def binary_into(dst: Tile, op: Any, x: Any, y: Any) -> None:
    """dst = op(x, y) at once."""
    name = op_name(op)
    _check_operands(name, x, y)
    plan = _Plan(name, x, y)
    if plan.shape != dst.shape:
        raise NkiValidationError(
            f"{name}: operands give {plan.shape}, the destination is {dst!r}", label="nki.shape"
        )
    for source in plan.sources:
        if dst.overlaps(source) and not dst.same_place(source):
            copied = emit.fresh(plan.shape, dst.dtype)
            plan.issue(copied, [full_box(plan.shape)])
            emit.copy_into(dst, copied)
            return
    plan.issue(dst, [full_box(plan.shape)])


def _binary_operator(name: str, comparison: bool = False):
    dtype = np.bool_ if comparison else None

    def forward(self: Tile, other: Any) -> Tile:
        return binary(name, self, other, dtype)

    def reverse(self: Tile, other: Any) -> Tile:
        return binary(name, other, self, dtype)

    return forward, reverse


def _in_place_operator(name: str):
    def operator(self: Tile, other: Any) -> Tile:
        emit.flush()
        self.realised()
        binary_into(self, name, self, other)
        return self

    return operator


def install_operators() -> None:
    """Give Tile its Python operators, each a function of nki.language."""
    arithmetic = {
        "add": "add",
        "sub": "subtract",
        "mul": "multiply",
        "truediv": "divide",
        "pow": "power",
        "and": "bitwise_and",
        "or": "bitwise_or",
        "xor": "bitwise_xor",
        "lshift": "left_shift",
        "rshift": "right_shift",
    }
    for suffix, name in arithmetic.items():
        forward, reverse = _binary_operator(name)
        setattr(Tile, f"__{suffix}__", forward)
        setattr(Tile, f"__r{suffix}__", reverse)
        if suffix != "add":  # += has a form of its own: matmul accumulation
            setattr(Tile, f"__i{suffix}__", _in_place_operator(name))
    comparisons = {
        "lt": "less",
        "le": "less_equal",
        "gt": "greater",
        "ge": "greater_equal",
        "eq": "equal",
        "ne": "not_equal",
    }
    for suffix, name in comparisons.items():
        setattr(Tile, f"__{suffix}__", _comparison(name))
    members.add(Tile, {"__neg__": _negative, "__hash__": object.__hash__})


def _negative(tile: Tile) -> Tile:
    return binary("multiply", tile, -1.0, tile.dtype)


def _comparison(name: str):
    def operator(self: Tile, other: Any) -> Any:
        if isinstance(other, Tile) or _is_scalar(other):
            return binary(name, self, other, np.bool_)
        return NotImplemented

    return operator


install_operators()
