"""The commands of C++, without the rest of the C++ core: registering its types takes as long as many a command."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as typing's
if TYPE_CHECKING:
    from typing import Any

NAME = "opentrn._cli"


def module() -> Any:
    """`opentrn._core` where it is loaded already, else `opentrn._cli`: the same library with its commands alone."""
    loaded = sys.modules.get("opentrn._core") or sys.modules.get(NAME)
    return loaded or _loaded() or __import__("opentrn._core", fromlist=["run_cli"])


def _loaded() -> Any:
    """The module `opentrn._cli`; None where another finder than Python's own has `opentrn._core`."""
    from _frozen_importlib import ModuleSpec
    from _frozen_importlib_external import (
        ExtensionFileLoader,
        PathFinder,
    )  # importlib.machinery's, imported already

    library = PathFinder.find_spec("opentrn._core", sys.modules["opentrn"].__path__)
    if library is None or library.origin is None:
        return None
    loader = ExtensionFileLoader(NAME, library.origin)
    made = loader.create_module(ModuleSpec(NAME, loader, origin=library.origin))
    loader.exec_module(made)
    sys.modules[NAME] = made
    return made
