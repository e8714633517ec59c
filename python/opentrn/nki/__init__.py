"""OpenTrn's `nki` package: the NKI kernel language, dialects 0.3 to 0.6.

    import opentrn; opentrn.activate()
    import nki, nki.language as nl, nki.isa as nisa

or import it as `opentrn.nki`. Kernels run on a simulated NeuronCore; see `_machine` for the backends.
"""

import sys as _sys

from opentrn.base import hooks as _hooks
from opentrn.nki import _x4 as _x4  # registers dtype names with numpy
from opentrn.nki import collectives, compiler, dtype, isa, language, tensor, typing
from opentrn.nki._kernel import Kernel, LaunchReport, cpu_simulate, jit, last_launch, simulate
from opentrn.nki._machine import NkiTensor
from opentrn.nki._machine import select as select_backend
from opentrn.nki._surface import register as _register


def __getattr__(name: str) -> object:
    if name == "run":  # an addition of OpenTrn's: opentrn.run
        return _hooks.ask("opentrn.run")
    raise AttributeError(f"module 'nki' has no attribute {name!r}")


_register(_sys.modules[__name__])

__version__ = "0.6.0"  # the NKI release whose names and semantics this package follows

__all__ = [
    "Kernel", "LaunchReport", "NkiTensor", "collectives", "compiler", "cpu_simulate", "dtype", "isa", "jit",
    "language", "last_launch", "select_backend", "simulate", "tensor", "typing",
]  # fmt: skip
