"""Stand-in for `nki_cpu_simulator`: `nki_cpu_simulator.nki` is `opentrn.nki`."""

from opentrn import nki

__all__ = ["nki"]
