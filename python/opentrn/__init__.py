"""OpenTrn: an open AWS Trainium in software.

`opentrn.nki` is the NKI kernel language; `opentrn.activate()` makes it importable under the names existing
kernels use (`nki`, `neuronxcc.nki`, ...). `opentrn.run(kernel, ...)` gives values, predicted time and
profile. Importing `opentrn` itself loads nothing else.
"""

from __future__ import annotations

from opentrn.base import hooks as _hooks

__version__ = "0.2.0"

__all__ = [
    "CompiledModel",
    "RunResult",
    "ShapeOf",
    "activate",
    "claims",
    "compare",
    "compile",
    "coverage",
    "goodput",
    "load",
    "plan",
    "profile_program",
    "run",
    "__version__",
]


def __getattr__(name: str) -> object:
    """What needs the C++ machine is imported at first use."""
    if name in ("RunResult", "ShapeOf", "run"):
        from opentrn.kernel import run as _run

        return getattr(_run, name)
    if name in ("CompiledModel", "compile", "coverage", "load"):
        from opentrn.model import compiled as model

        return getattr(model, name)
    if name in ("claims", "goodput", "plan"):
        from opentrn import planning

        return getattr(planning, name)
    if name == "compare":
        from opentrn.model.comparison import compare

        return compare
    if name == "profile_program":
        from opentrn.program_profile import profile_program

        return profile_program
    raise AttributeError(f"module 'opentrn' has no attribute {name!r}")


def _torch_export() -> object:
    """Turns programs of torch.export into graphs; for opentrn.model."""
    from opentrn.torch import export

    return export


def _jax_call() -> object:
    """Makes a kernel that is called with JAX's tracers a custom call; for opentrn.nki and opentrn.nki_legacy."""
    from opentrn.kernel import jax_call

    return jax_call


_hooks.provide("opentrn.run", lambda: __getattr__("run"))
_hooks.provide("torch.export", _torch_export)
_hooks.provide("jax_call", _jax_call)


def activate(names: tuple[str, ...] | None = None, *, force: bool = False) -> dict[str, str]:
    """Make the NKI packages importable under their usual names, for this process.

    `names` are top-level import names (default: all OpenTrn has a stand-in for). A name which an installed
    distribution already provides is left to it unless `force` is given. Returns a report: for each name,
    "opentrn" or the path of whoever provides it. Packages of AWS that have no stand-in (torch_neuronx, torch_xla) say
    on import what to use instead, unless they are installed.
    """
    from opentrn import compat

    return compat.activate(names, force)
