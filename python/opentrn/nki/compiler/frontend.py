"""nki.compiler.frontend: the official Python-to-MLIR front ends, present by name."""

from __future__ import annotations

from typing import Any

from opentrn.errors import NotModelled


class NKIFrontend:
    """Base of the front ends. `compile` is refused: OpenTrn has no MLIR module to hand out."""

    def compile(self, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        """Raise NotModelled, naming what works instead."""
        name = getattr(kernel, "__name__", repr(kernel))
        raise NotModelled(
            f"{type(self).__name__}.compile({name}): OpenTrn does not produce the official compiler's MLIR; "
            "run the kernel with nki.simulate(kernel)(...)"
        )


class ParserFrontend(NKIFrontend):
    """The syntax-tree front end of NKI 0.2-0.6."""


class TracerFrontend(NKIFrontend):
    """The tracing front end of NKI 0.6."""
