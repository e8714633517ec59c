"""OpenTrn: an open AWS Trainium in software.

`opentrn.nki` is the NKI kernel language; `opentrn.activate()` makes it importable under the names existing
kernels use (`nki`, `neuronxcc.nki`, ...). `opentrn.run(kernel, ...)` gives values, predicted time and
profile. Importing `opentrn` itself loads nothing else.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = [
    "CompiledModel",
    "RunResult",
    "ShapeOf",
    "activate",
    "compare",
    "compile",
    "coverage",
    "load",
    "profile_program",
    "run",
    "__version__",
]


def __getattr__(name: str) -> object:
    """What needs the C++ machine is imported at first use."""
    if name in ("RunResult", "ShapeOf", "run"):
        from opentrn import _run

        return getattr(_run, name)
    if name in ("CompiledModel", "compile", "coverage", "load"):
        from opentrn import model

        return getattr(model, name)
    if name == "compare":
        from opentrn.comparison import compare

        return compare
    if name == "profile_program":
        from opentrn.program_profile import profile_program

        return profile_program
    raise AttributeError(f"module 'opentrn' has no attribute {name!r}")


def activate(names: tuple[str, ...] | None = None, *, force: bool = False) -> dict[str, str]:
    """Make the NKI packages importable under their usual names, for this process.

    `names` are top-level import names (default: all OpenTrn has a stand-in for). A name which an installed
    distribution already provides is left to it unless `force` is given. Returns a report: for each name,
    "opentrn" or the path of whoever provides it.
    """
    from opentrn._alias import install

    return install(names, force)
