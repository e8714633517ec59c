"""Shardy's passes on a program that JAX hands to the plugin: how its arrays are spread, and what one device runs.

The plugin starts this file as a child process (Shardy ends its process on what it does not support) and keeps it:
`python shardy.py` reads requests on stdin and answers on stdout. All numbers are 8 bytes, little-endian.

    request:  size, a module in StableHLO's portable bytecode with sdy ops and attributes in it
    answer:   frames of 1 byte kind, size, content; the last one is `d`
              s   a line per argument and result of main: `in` or `out`, a space, its #sdy.sharding or nothing
              l   the module of one device, in StableHLO's portable bytecode: local shapes, collectives
              e   why the next frame that one would expect is missing
              d   done

Needs jaxlib only, whose MLIR has the passes. Source of the pass names: shardy/dialect/sdy/transforms.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from typing import BinaryIO

# StableHLO's version of what goes back: the reader takes up to 1.20.
VERSION = "1.16.0"
PROPAGATE = ("sdy-propagation-pipeline",)
TO_LOCAL = (
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "func.func(sdy-reshard-to-collectives)",
    "sdy-convert-global-to-local",
    "sdy-drop-sharding-and-mesh",
    "inline",
)


class Shardy:
    """An MLIR context with everything that JAX's programs are made of."""

    def __init__(self) -> None:
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import sdy, stablehlo

        self._ir, self._passmanager, self._stablehlo = ir, passmanager, stablehlo
        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)  # and the passes with them
        self.context = ir.Context()
        self.context.append_dialect_registry(registry)
        self.context.load_all_available_dialects()
        sdy.register_dialect(self.context)
        stablehlo.register_dialect(self.context)

    def read(self, code: bytes):
        """The module. ValueError where it is none."""
        return self._stablehlo.deserialize_portable_artifact(self.context, code)

    def apply(self, module, *passes: str) -> None:
        """Runs passes in place. jaxlib's MLIRError with Shardy's message where one fails."""
        with self.context:
            for name in passes:
                self._passmanager.PassManager.parse(f"builtin.module({name})").run(module.operation)

    def shardings(self, module) -> str:
        """A line per argument and result of main, the mesh written out."""
        with self.context:
            copy = self._ir.Module.parse(module.operation.get_asm(binary=False, enable_debug_info=False))
        self.apply(copy, "sdy-inline-meshes")
        main = next(
            op for op in copy.body.operations if op.operation.name == "func.func" and op.name.value == "main"
        )
        lines = []
        for kind, attributes in (("in", main.arguments), ("out", main.type.results)):
            field = "arg_attrs" if kind == "in" else "res_attrs"
            given = main.attributes[field] if field in main.attributes else [{}] * len(attributes)
            for each in given:
                has_one = "sdy.sharding" in each  # a DictAttr has no get()
                lines.append(f"{kind} {each['sdy.sharding']}" if has_one else f"{kind} ")
        return "\n".join(lines)

    def write(self, module) -> bytes:
        return self._stablehlo.serialize_portable_artifact(module, VERSION)


def send(to: BinaryIO, kind: bytes, content: bytes = b"") -> None:
    to.write(kind + struct.pack("<Q", len(content)) + content)
    to.flush()


def answer(shardy: Shardy, code: bytes, to: BinaryIO) -> None:
    """One request. What is known goes out at once: a later pass may end the process."""
    try:
        module = shardy.read(code)
        shardy.apply(module, *PROPAGATE)
        send(to, b"s", shardy.shardings(module).encode())
        shardy.apply(module, *TO_LOCAL)
        send(to, b"l", shardy.write(module))
    except Exception as error:  # whatever it is, the caller is told and goes on without
        send(to, b"e", str(error).encode())
    send(to, b"d")


def serve(requests: BinaryIO, to: BinaryIO) -> None:
    shardy = Shardy()
    while len(size := requests.read(8)) == 8:
        (count,) = struct.unpack("<Q", size)
        answer(shardy, requests.read(count), to)


def main() -> None:
    # What MLIR prints goes to stderr; the pipe on stdout carries frames only.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as to, contextlib.redirect_stdout(sys.stderr):
        os.dup2(sys.stderr.fileno(), 1)
        serve(sys.stdin.buffer, to)


if __name__ == "__main__":
    main()
