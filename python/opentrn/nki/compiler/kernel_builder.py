"""nki.compiler.kernel_builder: the official standalone compile call, present by name."""

from __future__ import annotations

from typing import Any

from opentrn.errors import NotModelled


def compile_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Raise NotModelled, naming what works instead."""
    name = getattr(kernel, "__name__", repr(kernel))
    raise NotModelled(
        f"compile_kernel({name}): OpenTrn does not write NEFF files",
        label="nki.compiler", hint="run the kernel with nki.simulate(kernel)(...)",
    )
