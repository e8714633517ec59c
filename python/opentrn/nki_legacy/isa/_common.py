"""What the instruction functions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opentrn.base.notices import tell_once
from opentrn.errors import ArgumentError, NkiValidationError, NotModelled
from opentrn.nki_legacy import emit
from opentrn.nki_legacy.box import Box, Range
from opentrn.nki_legacy.emit import SBUF, operand, read, write
from opentrn.nki_legacy.index import regions
from opentrn.nki_legacy.isa.constants import engine, reduce_cmd
from opentrn.nki_legacy.tile import Tile
from opentrn.types.isa_enums import MemoryRegion
from opentrn.types.isa_enums import engine as device_engine
from opentrn.types.isa_enums import reduce_cmd as device_reduce_cmd

ONE = Range(0, 1, 1)


def options(what: str, extra: dict[str, Any]) -> MemoryRegion:
    """Keywords that kernels pass beside the documented ones: `buffer`, the memory of a fresh result, and `name`."""
    if not extra:
        return SBUF
    _check(what, extra)
    buffer = extra.get("buffer")
    if buffer is None:
        return SBUF
    return buffer.region if hasattr(buffer, "region") else MemoryRegion(buffer)


def no_options(what: str, extra: dict[str, Any]) -> None:
    """The same keywords of a function whose result lies where its arguments or its engine say."""
    if not extra:
        return
    _check(what, extra)
    if extra.get("buffer") is not None:
        tell_once(f"{what}(buffer=) has no effect: it does not choose the memory of its result")


def _check(what: str, extra: dict[str, Any]) -> None:
    if unknown := set(extra) - {"name", "buffer"}:
        raise ArgumentError(f"{what} got unknown arguments {sorted(unknown)}", label="nki.arguments")
    if extra.get("name"):
        tell_once(f"{what}(name=) has no effect: instructions of NKI 0.1 have the names of their lines")


def plain(value: Any) -> Any:
    """numpy scalars as Python's."""
    return value.item() if isinstance(value, np.generic) else value


class PerPartition:
    """A scalar operand: a number, or a tile with one value per partition of `data`."""

    __slots__ = ("tile", "value")

    def __init__(self, value: Any, data: Tile, what: str):
        self.tile: Tile | None = None
        self.value = value
        if value is None or type(value) is float:
            return
        self.value = plain(value)
        if isinstance(value, Tile):
            tile = emit.operand(value, what)
            if tile.size == 1 and data.shape[0] != 1:
                tile = emit.broadcast(tile.column(1, what), (data.shape[0], 1))
            self.tile = tile.column(data.shape[0], what)
        elif not isinstance(value, (bool, int, float, np.generic)):
            raise NkiValidationError(f"{what}: {value!r} is neither a number nor a tile", label="nki.operand")

    @property
    def sources(self) -> list[Tile]:
        return [] if self.tile is None else [self.tile]

    def in_float32(self) -> None:
        """Tiles of other types are converted by an instruction of their own, as the compiler of NKI 0.1 does."""
        if self.tile is not None and self.tile.dtype != np.float32:
            self.tile = emit.converted(self.tile, np.float32)

    def at(self, box: Box) -> Any:
        """The operand for the rows of `box`."""
        return self.value if self.tile is None else read(self.tile, (box[0], ONE))


def row_result(tile: Any, data: Tile, what: str) -> Tile | None:
    """A [partitions, 1] destination that an instruction writes besides its result."""
    if tile is None:
        return None
    if not isinstance(tile, Tile):
        raise NkiValidationError(f"{what} must be a tile, got {tile!r}", label="nki.operand")
    return tile.realised().column(data.shape[0], what)


def elementwise(
    what: str,
    data: Tile,
    dtype: Any,
    mask: Any,
    extra: dict[str, Any],
    call: Callable[[Any, Box], None],
    sources: Sequence[Tile] = (),
    *,
    shape: tuple[int, ...] | None = None,
    in_place: bool = True,
) -> Tile:
    """A deferred instruction with a result of data's shape: `call(destination, box)` once per box."""
    shape = data.shape if shape is None else shape
    boxes = regions(mask, shape, what)

    def issue(dst: Tile) -> None:
        for box in boxes:
            call(dst, box)

    return emit.defer(
        shape,
        data.dtype if dtype is None else dtype,
        issue,
        boxes=boxes,
        sources=[data, *sources],
        region=options(what, extra),
        in_place=in_place,
    )


def predicate(value: Any, what: str) -> Tile:
    """A tile of truth values, its bits seen as unsigned integers, which is what the instructions take."""
    tile = operand(value, what, "predicate")
    if tile.dtype.kind in "bi":
        tile = tile.view(np.dtype(f"u{tile.dtype.itemsize}"))
    return tile


def rows_of(boxes: list[Box], what: str) -> list[Box]:
    """Boxes of an instruction whose result has one group of values per partition: at most one per row."""
    seen: set[int] = set()
    for box in boxes:
        rows = range(box[0].start, box[0].start + box[0].step * box[0].count, box[0].step)
        if seen.intersection(rows):
            raise NotModelled(
                f"{what}: the mask leaves several separate parts of a partition, which one instruction cannot "
                "take together",
                label="nki.mask", hint="a mask that is a range per row",
            )
        seen.update(rows)
    return boxes


_ENGINES = {member: device_engine[member.name] for member in engine}
_COMMANDS = {member: device_reduce_cmd[member.name] for member in reduce_cmd}


def to_engine(value: Any) -> device_engine:
    """The machine's engine of a 0.1 (or later) engine member."""
    if value is None:
        return device_engine.unknown
    return _ENGINES[value] if isinstance(value, engine) else device_engine(value)


def to_command(value: Any) -> device_reduce_cmd:
    return _COMMANDS[value] if isinstance(value, reduce_cmd) else device_reduce_cmd(value)


__all__ = [
    "ONE",
    "PerPartition",
    "elementwise",
    "no_options",
    "operand",
    "options",
    "plain",
    "predicate",
    "read",
    "row_result",
    "rows_of",
    "to_command",
    "to_engine",
    "write",
]
