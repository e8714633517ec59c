"""Rules that write ATen's ops as StableHLO; importing this package registers all of them.

Most are C++ (src/import/aten). Those here run graphs that an op holds, or ask torch.
"""

from opentrn.torch.ops import (  # noqa: F401
    comparison,
    control,
    effects,
    flex,
    grouped,
    interpolation,
)
from opentrn.torch.ops import random as _random  # noqa: F401
from opentrn.torch.registry import register_written

register_written()
