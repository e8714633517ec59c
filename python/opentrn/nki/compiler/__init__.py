"""nki.compiler: entry points of the official compiler that kernels and their tests import.

OpenTrn executes kernels directly; producing a NEFF for real hardware is the official compiler's job.
Importing these names works, asking them to compile is refused by name.
"""

from opentrn.nki.compiler import frontend, kernel_builder, ncc_driver

__all__ = ["frontend", "kernel_builder", "ncc_driver"]
