"""Issuing instructions: results that wait for a destination, masks, PSUM accumulation, assignment.

In NKI 0.1 an instruction returns its result and `t[...] = nisa.activation(...)` says where it goes. The
machine's instructions name their destination. So an operation here returns a Tile whose instruction is
*deferred*: the next statement either assigns it to part of a tensor, and the instruction writes there, or
uses it otherwise, and it is issued first into a fresh tile. At most one instruction waits, and every
operation issues the waiting one before anything else, so program order is kept.

The instruction goes straight into the assigned tensor only where that changes no value: the same dtype or
an unrounded float32 result, a memory its engine can write, no overlap with its own operands (except
element by element in place), and nobody else holding the result. Otherwise it is issued into a fresh tile
and copied, which is what the assignment means.

What happens for every instruction (the waiting, reading, writing, and the direct assignment) is in base.py;
here is what decides the rest.

PSUM: `psum += nisa.nc_matmul(...)` is one matmul that accumulates, by whatever name the product goes. The
first one into a region that is unwritten or zero overwrites it; a region filled by another engine is added to
by the Vector engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki.language import _elementwise as machine_ops
from opentrn.nki_legacy import base
from opentrn.nki_legacy.base import defer, flush, operand, read, session_or_none, set_session, write
from opentrn.nki_legacy.box import Range, full_box, is_full
from opentrn.nki_legacy.call_site import OWN, issuer
from opentrn.nki_legacy.dtypes import device_dtype, host_dtype, tile_dtype
from opentrn.nki_legacy.index import DynamicSlice, broadcast_shapes, regions, split
from opentrn.nki_legacy.psum_state import MATMUL, OTHER, ZERO_PENDING, elements_of
from opentrn.nki_legacy.tile import Indirect, ParDim, Place, Tensor, Tile, refuse_shape
from opentrn.nki_legacy.traced import Traced
from opentrn.types.isa_enums import MemoryRegion

SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum
ON_CHIP = frozenset({SBUF, PSUM})
_FP32 = np.dtype(np.float32)
_SPREAD_BY_MATMUL = frozenset({_FP32, np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})
PSUM_BANK_FLOATS = 512  # 2 KiB of each partition, nki.language.tile_size.psum_fmax


class Session:
    """What the operations of one launch share."""

    def __init__(self, grid: tuple[int, ...] = (), places_all: bool = False):
        self.grid = grid
        self.places_all = places_all  # the kernel's own addresses do not count
        self.program_ids: tuple[int, ...] = (0,) * len(grid)
        self.shared: list[Tensor] = []  # shared_hbm tensors, in creation order of the first program
        self.shared_made = 0
        self.identities: dict[tuple[int, str], Tensor] = {}  # in HBM, by size and dtype
        self.identity_tiles: dict[str, Tile] = {}  # in SBUF, by dtype
        self.ones: dict[tuple[int, str], Tile] = {}  # [1, n] of ones in SBUF, by n and dtype
        self.reductions: dict[Any, Tile] = {}  # running results of nl.loop_reduce, by call site and loops
        self.traced = Traced()


def session() -> Session:
    """The launch that this thread is in. Raises NkiValidationError outside a kernel."""
    current = session_or_none()
    if current is None:
        raise NkiValidationError(
            "this NKI call works inside a kernel only",
            label="nki.scope", hint="decorate the function with nki.jit, or run it with nki.simulate_kernel",
        )
    return current


# -- reading and writing -------------------------------------------------------------------------------------


def settle_zeros(tile: Tile) -> None:
    """Write the zeros that part or all of a PSUM region was promised, before something reads it."""
    if base.psum_uniform(tile) == ZERO_PENDING:
        nisa.memset(tile.raw(), 0)
        base.psum_fill(tile, OTHER)
        return
    states = elements_of(tile, base.psum_elements(tile))
    waiting = states == ZERO_PENDING
    if not waiting.any():
        return
    whole = tile if states.ndim == len(tile._dims) else tile._tensor.tile()
    for box in split(waiting.reshape(whole.shape)):
        nisa.memset(whole.sub(box).raw(), 0)
    states[waiting] = OTHER


def fresh(shape: Sequence[int], dtype: Any, region: MemoryRegion = SBUF, name: str = "") -> Tile:
    """An uninitialised tile."""
    return Tensor(tuple(shape), dtype, Place(region), name).tile()


def wrap(raw: Any, shape: Sequence[int] | None = None) -> Tile:
    """A Tile over a freshly made, contiguous tensor of the machine."""
    shape = tuple(raw.shape) if shape is None else tuple(shape)
    region = MemoryRegion(raw.buffer)
    dtype = np.dtype(np.bool_) if str(raw.dtype) == "bool_" else host_dtype(raw.dtype)
    free = raw.size // raw.shape[0]
    storage = raw.reshape((raw.shape[0], free)) if region.is_on_chip else raw
    tensor = Tensor(shape, dtype, Place(region), raw.name, storage)
    tensor.written = True
    return tensor.tile()


def refuse_operand(value: Any, what: str, name: str | None) -> None:
    """Why `value` is no operand `name` of `what`."""
    where = what if name is None else f"{what}: {name}"
    if not isinstance(value, Tile):
        raise NkiValidationError(
            f"{where} needs a tile, got {type(value).__name__}: {value!r}", label="nki.operand"
        )
    value.require_tile(where)
    raise NkiValidationError(
        f"{where}: {value!r} is in HBM", label="nki.memory", hint="nl.load it into SBUF first"
    )


def to_sbuf(tile: Tile) -> Tile:
    """`tile`, or a copy in SBUF if it is in PSUM."""
    return tile if tile.region is not PSUM else converted(tile, tile.dtype)


def converted(tile: Tile, dtype: Any) -> Tile:
    """A copy of `tile` in SBUF."""
    copy = fresh(tile.shape, dtype)
    copy_into(copy, tile)
    copy.valid = tile.valid
    return copy


def broadcast(tile: Tile, shape: tuple[int, ...]) -> Tile:
    """`tile` seen with `shape`: free dimensions by stride 0, one partition spread to many by instructions."""
    tile = tile.realised().require_tile("a broadcast")
    first = tile._dims[0]
    if first[0] == 0 and first[1] > 1 and tile.is_on_chip:
        tile = tile._replace(dims=[(0, 1), *tile._dims[1:]])
    if tile.shape == shape:
        return tile
    if len(shape) < tile.ndim:
        raise NkiValidationError(f"{tile!r} does not broadcast to {shape}", label="nki.shape")
    if tile.shape[0] != shape[0]:
        if tile.ndim < len(shape) or tile.shape[0] != 1:
            raise NkiValidationError(
                f"{tile!r} does not broadcast to {shape}: the partition dimensions are aligned, and only one "
                "partition spreads to many",
                label="nki.shape",
            )
        tile = _spread(tile, shape[0])
    return tile.broadcast_view(shape)


def _spread(tile: Tile, partitions: int) -> Tile:
    """One partition copied to many.

    Floats go through the Tensor engine, as a product of ones with the row, which is what NKI 0.1 issues
    (trainium_inferentia2_arch.rst, "Partition Broadcast"; only the sign of a zero is lost). A float32 row
    that fits one PSUM bank is used from there; otherwise it is copied to SBUF bank by bank. Integers, whose
    bits a product does not keep, are shuffled by the Vector engine."""
    shape = (partitions, *tile.shape[1:])
    width = tile.size
    if tile.region is PSUM or tile.dtype not in _SPREAD_BY_MATMUL:
        return wrap(machine_ops.broadcast_partition(read(tile), partitions), shape)
    ones = _ones_row(partitions, tile.dtype)
    row = tile.reshape((1, width)) if tile.ndim != 2 else tile
    in_psum = tile.dtype == _FP32 and width <= PSUM_BANK_FLOATS
    spread = fresh((partitions, width), tile.dtype) if not in_psum else None
    for start in range(0, width, PSUM_BANK_FLOATS):
        count = min(PSUM_BANK_FLOATS, width - start)
        part = (Range(start, 1, count),)
        product = fresh((partitions, count), _FP32, PSUM)
        nisa.nc_matmul(write(product), read(ones), read(row.sub((Range(0, 1, 1), *part))))
        if spread is None:
            return product.reshape(shape)
        nisa.tensor_copy(write(spread.sub((Range(0, 1, partitions), *part))), read(product))
    assert spread is not None  # a row in PSUM is one product
    return spread.reshape(shape)


def _ones_row(partitions: int, dtype: np.dtype) -> Tile:
    """[1, partitions] ones in SBUF, one per dtype."""
    known = session().ones
    key = (partitions, str(dtype))
    if key not in known:
        ones = fresh((1, partitions), dtype)
        nisa.memset(write(ones), 1.0)
        known[key] = ones
    return known[key]


def broadcast_shape(*tiles: Tile) -> tuple[int, ...]:
    """The common shape of tiles. Ranks are aligned at the partition dimension, sizes as in numpy."""
    rank = max(t.ndim for t in tiles)
    return broadcast_shapes(*((t.shape[0],) + (1,) * (rank - t.ndim) + t.shape[1:] for t in tiles))


# -- assignment ----------------------------------------------------------------------------------------------


def copy_into(dst: Tile, src: Tile) -> None:
    """dst = src on chip, with one conversion; only what `src` holds."""
    if not (dst.is_on_chip and src.is_on_chip):
        raise NkiValidationError(
            f"assigning {src!r} to {dst!r}",
            label="nki.memory", hint="nl.load to read HBM and nl.store to write it",
        )
    dst.require_tile("an assignment")
    valid = src.valid
    src = _fit(src, dst.shape)
    for box in valid if valid is not None else [full_box(dst.shape)]:
        source = read(src, box)
        nisa.tensor_copy(write(dst, box), source)


def _fit(src: Tile, shape: tuple[int, ...]) -> Tile:
    """src with the shape of an assignment's left side."""
    if src.shape == shape:
        return src
    if [n for n in src.shape if n != 1] == [n for n in shape if n != 1] and src.shape[0] == shape[0]:
        return src.with_ones(shape)
    return broadcast(src, shape)


def assign(dst: Tile, value: Any, temporary: bool) -> None:
    """`dst[...] = value`. `temporary`: nobody else holds `value`."""
    if isinstance(value, Tile):
        _assign_tile(dst, value, temporary)
        return
    if isinstance(value, (bool, int, float, np.generic)):
        flush()
        dst.require_tile("an assignment")
        if dst.region is PSUM and value == 0:
            base.psum_fill(dst.realised(), ZERO_PENDING)
        elif dst.is_on_chip:
            nisa.memset(write(dst), value.item() if isinstance(value, np.generic) else value)
        else:
            raise NkiValidationError(
                f"assigning {value!r} to {dst!r}", label="nki.memory", hint="nl.store to write HBM"
            )
        return
    raise NkiValidationError(
        f"{value!r} cannot be assigned to {dst!r}", label="nki.operand", hint="assign a tile or a number"
    )


def _assign_tile(dst: Tile, value: Tile, temporary: bool) -> None:
    session()
    work = value.deferred
    if work is None:
        if not dst.same_place(value):  # else t[i] += x: already done in place
            flush()
            copy_into(dst, value)
    elif work.reduce is not None:
        _assign_reduction(dst, value, work)
    elif base.can_write_directly(dst, work, temporary):
        base.drop_waiting()
        value.deferred = None
        target = dst if dst.shape == work.shape else dst.with_ones(work.shape)
        work.issue(target)
        value.become(target)
    else:
        value.realised()
        copy_into(dst, value)


# -- accumulation --------------------------------------------------------------------------------------------


def add_in_place(dst: Tile, value: Any, temporary: bool) -> Tile:
    """`dst += value`."""
    session()
    if isinstance(value, Tile) and value.deferred is not None and dst is not value:
        work = value.deferred
        if work.accumulate is not None and dst.deferred is None and dst.region is PSUM:
            if not work.boxes and temporary:
                base.drop_waiting()  # masked out
                return dst
            adds = _accumulates(dst, work) if work.boxes and dst.shape == work.shape else None
            if adds is not None:
                _accumulate(dst, value, adds, temporary)
                return dst
    flush()
    dst.realised().require_tile("+=")
    arithmetic.binary_into(dst, "add", dst, value)
    return dst


def _accumulate(dst: Tile, value: Tile, adds: bool, temporary: bool) -> None:
    work = value.deferred
    if temporary:
        base.drop_waiting()
        value.deferred = None
        work.accumulate(dst, adds)
        value.become(dst)
        return
    # `product = nc_matmul(...); psum += product` multiplies again: a copy that nobody reads later goes when the
    # program is compiled, and the sum stays in the Tensor engine, as published times of such kernels show.
    value.realised()
    work.accumulate(dst, adds)


def _accumulates(dst: Tile, work: Any) -> bool | None:
    """Whether one matmul into `dst` adds or overwrites; None when the region needs another way."""
    adds = {_adds(dst if is_full(box, dst.shape) else dst.sub(box)) for box in work.boxes}
    return adds.pop() if len(adds) == 1 else None


def _adds(part: Tile) -> bool | None:
    """Whether a matmul into `part` adds to what earlier ones left there; None when neither it nor overwriting
    is right for all of it."""
    state = base.psum_uniform(part)
    if state is None:  # nothing written yet, partly promised zeros
        states = elements_of(part, base.psum_elements(part))
        return None if np.isin(states, (MATMUL, OTHER)).any() else False
    return None if state == OTHER else state == MATMUL


def _assign_reduction(dst: Tile, value: Tile, work: Any) -> None:
    """`dst[...] = nl.loop_reduce(x, op, loops)`: dst = op(dst, x), or x where dst holds nothing yet."""
    operator, source = work.reduce
    dst.require_tile("an assignment")
    _fit(source, dst.shape)  # refuses what has another shape
    dst = dst if dst.shape == source.shape else dst.with_ones(source.shape)
    base.drop_waiting()
    value.deferred = None
    boxes = work.boxes
    if not dst.holds_something():
        for box in boxes:
            copy_into(dst.sub(box), source.sub(box))
    else:
        for box in boxes:
            arithmetic.binary_into(dst.sub(box), operator, dst.sub(box), source.sub(box))
    value.become(dst)


# -- who holds a result --------------------------------------------------------------------------------------


_kept: Any = None  # another holder, as the thread is of the waiting result


def _result() -> Any:
    global _kept
    _kept = object()
    return _kept


def _calibrate() -> tuple[int, int]:
    """Reference counts of a temporary in `t[k] = f()` and in `t += f()`; 0 where a name looks the same."""
    probe = base.Probe()
    probe[0] = _result()
    plain = base.probed()
    named = _result()
    probe[0] = named
    assignment = plain if base.probed() > plain else 0
    probe += _result()
    plain = base.probed()
    named = _result()
    probe += named
    return assignment, plain if base.probed() > plain else 0


base.set_temporary(*_calibrate())
base.configure(
    tile=Tile,
    tensor=Tensor,
    par_dim=ParDim,
    range=Range,
    dynamic_slice=DynamicSlice,
    indirect=Indirect,
    place=Place,
    sbuf=SBUF,
    psum=PSUM,
    on_chip=ON_CHIP,
    float32=_FP32,
    tile_dtype=tile_dtype,
    host_dtype=host_dtype,
    device_dtype=device_dtype,
    refuse_shape=refuse_shape,
    refuse_operand=refuse_operand,
    settle_zeros=settle_zeros,
    session=session,
    assign=assign,
    add_in_place=add_in_place,
    issuer=issuer,
    own_folder=OWN,
)

__all__ = [
    "defer",
    "device_dtype",
    "flush",
    "operand",
    "read",
    "regions",
    "session_or_none",
    "set_session",
    "write",
]

from opentrn.nki_legacy import arithmetic  # noqa: E402 -- it imports this module; both need each other when called
