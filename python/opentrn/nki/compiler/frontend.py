"""nki.compiler.frontend: the official Python-to-MLIR front ends, under their names.

`compile` traces: it runs the kernel on a simulated NeuronCore with copies of the inputs, under every check
of the machine, and returns what it produces. There is no MLIR module behind the result; `ncc_driver`
refuses to go on to a NEFF.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentrn.errors import NotModelled
from opentrn.types.isa_enums import nc_version


@dataclass(frozen=True)
class TraceResult:
    """What tracing a kernel gave: its outputs, as numpy arrays, for the example inputs."""

    kernel_name: str
    target: nc_version
    lnc: int
    outputs: Any

    @property
    def module(self) -> Any:
        """The official front end's MLIR module, which OpenTrn does not have."""
        raise NotModelled(
            f"kernel {self.kernel_name!r}: OpenTrn traces without MLIR, there is no module to read",
            label="nki.compiler",
        )


class NKIFrontend:
    """Base of the front ends. OpenTrn traces by running the kernel's Python, whichever is asked for."""

    def compile(
        self,
        kernel: Any,
        inputs: dict[str, Any] | None = None,
        target: str | nc_version | None = None,
        lnc: int = 1,
        **options: Any,
    ) -> TraceResult:
        """Run `kernel(**inputs)` on `target` over `lnc` cores. The caller's arrays are not written."""
        from opentrn.nki import _arrays, _kernel
        from opentrn.nki._target import resolve_target

        func = kernel.func if isinstance(kernel, _kernel.Kernel) else kernel
        copies = {
            name: value.copy() if _arrays.is_array(value) and hasattr(value, "copy") else value
            for name, value in (inputs or {}).items()
        }
        version = resolve_target(target)
        outputs = _kernel.launch(func, (int(lnc),), version, (), copies)
        return TraceResult(getattr(func, "__name__", repr(func)), version, int(lnc), outputs)


class ParserFrontend(NKIFrontend):
    """The syntax-tree front end of NKI 0.2-0.6."""


class TracerFrontend(NKIFrontend):
    """The tracing front end of NKI 0.6."""
