"""nki.compiler.ncc_driver: the official NEFF driver, present by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from opentrn.errors import NotModelled


@dataclass(frozen=True)
class CompileOptions:
    """Options of a NEFF compilation, kept as given."""

    target: str = "trn2"
    lnc: int = 1
    output_path: str = ""
    artifacts_dir: str = ""
    neuronx_cc_args: tuple[str, ...] = ()
    backend_optimizations: bool = True

    def disable_backend_optimizations(self) -> CompileOptions:
        """The same options with the back end's optimisations off."""
        return replace(self, backend_optimizations=False)


class CompiledKernel:
    """A kernel compiled to a NEFF. OpenTrn makes none."""

    @classmethod
    def from_frontend(cls, result: Any, options: CompileOptions) -> CompiledKernel:
        """Raise NotModelled, naming what works instead."""
        raise NotModelled(
            "CompiledKernel.from_frontend: OpenTrn does not write NEFF files",
            label="nki.compiler", hint="run the kernel with nki.simulate(kernel)(...)",
        )
