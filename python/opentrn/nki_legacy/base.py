"""What tensors, views and waiting instructions of the dialect are made of: the C++ form, or the plain one.

`opentrn._core.tiles` does what recording a kernel does many times per instruction; plain.py does the same in
Python. The C++ form is used where the extension is built. OPENTRN_NKI01_PLAIN=1 asks for the plain one, which
the tests compare it with.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from opentrn.errors import InputError
from opentrn.nki._machine import core_available

PLAIN_ENV = "OPENTRN_NKI01_PLAIN"


def _chosen() -> Any:
    asked = os.environ.get(PLAIN_ENV, "")
    if asked not in ("", "0", "1"):
        raise InputError(f"{PLAIN_ENV} is {asked!r}", label="environment", hint="1, or unset it")
    if asked == "1" or not core_available():
        return importlib.import_module("opentrn.nki_legacy.plain")
    importlib.import_module("opentrn.kernel.machine")  # tells the extension about dtypes and errors
    return importlib.import_module("opentrn._core").tiles


_base = _chosen()
IS_PLAIN = _base.__name__.endswith("plain")

if TYPE_CHECKING:
    from opentrn.nki_legacy.plain import IndexExpr, Probe  # the C++ classes have the same members

    Tensor: TypeAlias = Any  # of one of two modules; what makes a Tile makes one of tile.Tile
    Tile: TypeAlias = Any
else:
    IndexExpr = _base.IndexExpr
    Tensor = _base.Tensor
    Tile = _base.Tile
    Probe = _base.Probe
configure = _base.configure
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
