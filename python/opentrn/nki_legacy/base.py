"""What tensors, views and waiting instructions of the dialect are made of: the C++ form, or the plain one.

`opentrn._core.tiles` has them, and index expressions and masks. OPENTRN_NKI01_PLAIN=1 asks for tensors and views in
Python (oracle/nki_legacy), which the tests compare them with.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from opentrn._core import tiles
from opentrn.errors import InputError

importlib.import_module("opentrn.kernel.machine")  # tells the extension about dtypes and errors

PLAIN_ENV = "OPENTRN_NKI01_PLAIN"


def _chosen() -> Any:
    asked = os.environ.get(PLAIN_ENV, "")
    if asked not in ("", "0", "1"):
        raise InputError(f"{PLAIN_ENV} is {asked!r}", label="environment", hint="1, or unset it")
    return importlib.import_module("opentrn.oracle.nki_legacy") if asked == "1" else tiles


_base = _chosen()


def configure(**objects: Any) -> None:
    """Classes and functions of the dialect, see the call in emit.py."""
    tiles.configure(**objects)
    _base.configure(**objects)


if TYPE_CHECKING:
    Tensor: TypeAlias = Any  # of one of two modules; what makes a Tile makes one of tile.Tile
    Tile: TypeAlias = Any
    Probe: TypeAlias = Any
else:
    Tensor = _base.Tensor
    Tile = _base.Tile
    Probe = _base.Probe
set_session = _base.set_session
session_or_none = _base.session_or_none
waiting = _base.waiting
drop_waiting = _base.drop_waiting
flush = _base.flush
defer = _base.defer
read = _base.read
write = _base.write
operand = _base.operand
can_write_directly = _base.can_write_directly
psum_uniform = _base.psum_uniform
psum_fill = _base.psum_fill
psum_elements = _base.psum_elements
probed = _base.probed
set_temporary = _base.set_temporary
