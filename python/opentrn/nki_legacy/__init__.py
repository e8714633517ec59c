"""NKI 0.1 (`neuronxcc.nki`): the dialect in which instructions return tiles.

A thin layer over the instruction set of `opentrn.nki.isa`: index expressions and masks become access patterns
(index.py, tile.py), results find their destination (emit.py), and every value is computed by an
instruction of the machine. Specification: the documents of SDK 2.26, aws-neuron-sdk at 1db4d74e.
"""

from __future__ import annotations

from opentrn.nki_legacy import compiler, isa, language, typing
from opentrn.nki_legacy.kernel import baremetal, benchmark, jit, profile, simulate_kernel, trace
from opentrn.nki_legacy.tile import Tile as tensor
from opentrn.strict import surface as _surface
from opentrn.strict.rules import ISA as _ISA
from opentrn.strict.rules import LANGUAGE as _LANGUAGE

_surface.register_modules(True, {_ISA: isa, _LANGUAGE: language})

__all__ = [
    "baremetal",
    "benchmark",
    "compiler",
    "isa",
    "jit",
    "language",
    "profile",
    "simulate_kernel",
    "tensor",
    "trace",
    "typing",
]
