"""Tensors, their memories, constants and random values."""

from __future__ import annotations

from typing import Any

import numpy as np

from opentrn.base.notices import tell_once
from opentrn.errors import ArgumentError, NkiValidationError, NotModelled
from opentrn.nki import _machine
from opentrn.nki import isa as machine
from opentrn.nki import language as machine_nl
from opentrn.nki_legacy import emit
from opentrn.nki_legacy.box import whole
from opentrn.nki_legacy.dtypes import device_dtype, host_dtype
from opentrn.nki_legacy.emit import session, write
from opentrn.nki_legacy.isa._common import no_options
from opentrn.nki_legacy.tile import ParDim, Place, Tensor, Tile
from opentrn.types.isa_enums import MemoryRegion


class Buffer:
    """A memory that tensors are created in; `nl.sbuf` and what `nki.compiler.sbuf.alloc` returns."""

    def __init__(self, region: MemoryRegion, address: Any = None):
        self.place = Place(region, address)
        self.region = region

    def __repr__(self) -> str:
        return self.region.value + (" (allocated)" if self.place.address else "")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Buffer):
            return self.region is other.region
        return self.region == other

    def __hash__(self) -> int:
        return hash(self.region)


sbuf = Buffer(MemoryRegion.sbuf)
psum = Buffer(MemoryRegion.psum)
hbm = private_hbm = Buffer(MemoryRegion.private_hbm)
shared_hbm = Buffer(MemoryRegion.shared_hbm)
_BY_NAME = {"sbuf": sbuf, "psum": psum, "hbm": hbm, "private_hbm": private_hbm, "shared_hbm": shared_hbm}


def par_dim(size: int) -> ParDim:
    """Marks a dimension as the partition dimension."""
    return ParDim(size)


def _buffer(value: Any, default: Buffer = sbuf) -> Buffer:
    if value is None:
        return default
    if isinstance(value, Buffer):
        return value
    if isinstance(value, MemoryRegion):
        return _BY_NAME[value.value]
    name = getattr(value, "__name__", value)  # nki.compiler.sbuf itself
    name = name.rsplit(".", 1)[-1] if isinstance(name, str) else name
    if name in _BY_NAME:
        return _BY_NAME[name]
    raise NkiValidationError(
        f"buffer={value!r} is not a memory", label="nki.memory", hint="nl.sbuf, nl.psum or nl.shared_hbm"
    )


def _check_options(what: str, extra: dict[str, Any]) -> None:
    if unknown := set(extra) - {"lazy_initialization"}:
        raise ArgumentError(f"nl.{what} got unknown arguments {sorted(unknown)}", label="nki.arguments")
    if extra.get("lazy_initialization"):
        tell_once(f"nl.{what}(lazy_initialization=) has no effect: zeros are written where something reads them")


def _new(shape: Any, dtype: Any, buffer: Any, name: str, default: Buffer = sbuf) -> Tensor:
    place = _buffer(buffer, default).place
    if place.address is not None:
        place = session().traced.body.place(place)
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    sizes = tuple(whole(s, "a shape") if isinstance(s, float) else s for s in sizes)
    if place.region is not MemoryRegion.shared_hbm:
        return Tensor(sizes, dtype, place, name)
    # Every program of the grid creates the same shared tensors in the same order, and gets the same memory.
    current = session()
    number = current.shared_made
    current.shared_made += 1
    if number == len(current.shared):
        current.shared.append(Tensor(sizes, dtype, place, name))
    found = current.shared[number]
    if found.shape != tuple(int(s) for s in sizes) or found.dtype != host_dtype(dtype):
        raise NkiValidationError(
            f"shared_hbm tensor number {number} is {found!r} in the first program of the grid, and "
            f"{host_dtype(dtype).name}{list(sizes)} in another",
            label="ndarray.shared_hbm",
        )
    return found


def ndarray(shape, dtype, *, buffer=None, name="", **extra) -> Tile:
    """An uninitialised tensor. Dimensions before `nl.par_dim` make blocks of their own."""
    _check_options("ndarray", extra)
    emit.flush()
    return _new(shape, dtype, buffer, name).tile()


def full(shape, fill_value, dtype, *, buffer=None, name="", **extra) -> Tile:
    """A tensor filled with one value. Zeros in PSUM are written when something other than a matmul needs
    them."""
    _check_options("full", extra)
    emit.flush()
    value = fill_value.item() if isinstance(fill_value, np.generic) else fill_value
    tensor = _new(shape, dtype, buffer, name)
    tensor.zero_filled = tensor.written = True
    if not tensor.region.is_on_chip:
        filled = machine_nl.full(tensor.shape, value, device_dtype(tensor.dtype), tensor.region, name)
        if tensor._storage:
            raise NkiValidationError(
                f"{tensor!r} is shared",
                label="ndarray.shared_hbm", hint="fill it with nl.store from one program",
            )
        tensor._storage[()] = filled
        return tensor.tile()
    if tensor.region is MemoryRegion.psum and value == 0:
        return tensor.tile()
    for block in tensor.block_indices():
        whole = Tensor.tile(tensor)
        machine.memset(write(whole[block] if block else whole), value)
    return tensor.tile()


def zeros(shape, dtype, *, buffer=None, name="", **extra) -> Tile:
    """A tensor of zeros."""
    return full(shape, 0, dtype, buffer=buffer, name=name, **extra)


def ones(shape, dtype, *, buffer=None, name="", **extra) -> Tile:
    """A tensor of ones."""
    return full(shape, 1, dtype, buffer=buffer, name=name, **extra)


def _shape_of(a: Tile) -> tuple[int, ...]:
    tensor = a.tensor
    if tensor.region.is_on_chip and a.block_ranges:
        at = len(a.block_ranges)
        return a.shape[:at] + (ParDim(a.shape[at]),) + a.shape[at + 1 :]
    return a.shape


def zeros_like(a, dtype=None, *, buffer=None, name="", **extra) -> Tile:
    """Zeros in the shape of `a`; dtype and memory of `a` unless given."""
    return zeros(_shape_of(a), dtype or a.dtype, buffer=buffer or a.region, name=name, **extra)


def empty_like(a, dtype=None, *, buffer=None, name="", **extra) -> Tile:
    """An uninitialised tensor in the shape of `a`."""
    return ndarray(_shape_of(a), dtype or a.dtype, buffer=buffer or a.region, name=name, **extra)


def rand(shape, dtype=np.float32, **extra) -> Tile:
    """A tile of uniform random values in [0, 1)."""
    _check_options("rand", extra)
    emit.flush()
    sizes = tuple(int(s) for s in shape)
    return emit.wrap(machine_nl.rand((sizes[0], int(np.prod(sizes[1:]))), device_dtype(dtype)), sizes)


def random_seed(seed, *, mask=None, **extra) -> None:
    """Seed the generator that nl.rand and nl.dropout draw from: a number or a tile with one value."""
    emit.flush()
    no_options("nl.random_seed", extra)
    if mask is False:
        return
    if mask is not None and mask is not True:
        raise NotModelled("nl.random_seed: a mask over part of one value", label="nki.mask")
    if isinstance(seed, Tile):
        tile = emit.operand(seed, "nl.random_seed")
        if tile.dtype.itemsize != 4:
            copied = emit.fresh(tile.shape, np.int32)
            emit.copy_into(copied, tile)
            tile = copied
        machine.set_rng_seed(emit.read(tile))
        return
    filled = emit.fresh((1, 1), np.int32)
    machine.memset(write(filled), int(seed))
    machine.set_rng_seed(emit.read(filled))


def shared_constant(constant, dtype=None, **extra) -> Tile:
    """An HBM tensor holding a numpy array."""
    emit.flush()
    no_options("nl.shared_constant", extra)
    array = np.asarray(constant)
    if dtype is not None:
        array = array.astype(host_dtype(dtype))
    return constant_tensor(array).tile()


def constant_tensor(array: np.ndarray) -> Tensor:
    """An HBM tensor over a copy of `array`."""
    array = np.array(array, order="C")
    dtype = array.dtype
    storage_array = array.view(np.uint8) if dtype == np.bool_ else array
    raw = _machine.backend().from_array(storage_array, "", MemoryRegion.shared_hbm, device_dtype(dtype))
    tensor = Tensor(array.shape, dtype, Place(MemoryRegion.shared_hbm), "constant", raw)
    tensor.written = True
    return tensor


def shared_identity_matrix(n, dtype=np.uint8, **extra) -> Tile:
    """The n x n identity in HBM, one per dtype."""
    emit.flush()
    no_options("nl.shared_identity_matrix", extra)
    key = (int(n), str(host_dtype(dtype)))
    known = session().identities
    if key not in known:
        known[key] = constant_tensor(np.eye(int(n)).astype(host_dtype(dtype)))
    return known[key].tile()
