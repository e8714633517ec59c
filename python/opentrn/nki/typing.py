"""nki.typing: names for annotating kernel arguments. They only document; nothing is checked against them."""

from __future__ import annotations

from typing import Any

from opentrn.nki._machine import NkiTensor as tensor

__all__ = ["mutable_tensor", "scalar", "tensor"]


class mutable_tensor(tensor):
    """Annotates an input tensor that the kernel writes. Every HBM input may be written, annotated or not."""

    def __class_getitem__(cls, item: Any) -> Any:
        return cls


scalar = int | float
