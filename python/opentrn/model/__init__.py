"""Compiled models: compile, buckets, stages, files, cache, comparison of targets and with float64.

`compiled` holds the model of one program and what users call; its public names are those of this package too.
"""

from __future__ import annotations

__all__ = ["CompiledModel", "compile", "coverage", "load", "prepare"]


def __getattr__(name: str) -> object:
    """Importing the package loads nothing; a name of it loads `compiled`."""
    if name not in __all__:
        raise AttributeError(f"module 'opentrn.model' has no attribute {name!r}")
    from opentrn.model import compiled

    return getattr(compiled, name)
