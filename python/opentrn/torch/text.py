"""What C++ writes torch's graphs with (src/import/aten), in Python's names.

Text is what carries a graph to the compiler: reading it costs it a fraction of what making it costs, and it is the
file that `opentrn compile` takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from opentrn import _core
from opentrn.torch import types  # noqa: F401  (tells C++ of torch's types)

aten = _core.aten  # said by _core, where a build has none

Shape = tuple[int, ...]
# A tensor of the program, and a function or region being written.
Value: TypeAlias = aten.Value
Body: TypeAlias = aten.Body
numbers, type_text = aten.numbers, aten.type_text


@dataclass(frozen=True)
class Spec:
    """Shape, type and strides (in elements) of a tensor."""

    shape: Shape
    dtype: torch.dtype
    stride: Shape = ()
