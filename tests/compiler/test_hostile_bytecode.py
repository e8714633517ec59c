"""Bytecode of StableHLO whose regions nest too deep, or announce more values than the file can hold."""

from __future__ import annotations

import resource
import struct
import time
from pathlib import Path

import pytest

import opentrn
from opentrn.errors import InputError

DEPTH_MAX = 200  # src/import/vhlo/reader.cc; the function's own region is one of them


def nested(depth: int, results: int = 0) -> str:
    """StableHLO text of that many cases, one inside the other, each with a call of so many results before the next."""
    lines = [
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {",
        "%i = stablehlo.constant dense<0> : tensor<i32>",
    ]
    many = ", ".join(["tensor<f32>"] * results)
    for level in range(depth):
        lines.append(f'%r{level} = "stablehlo.case"(%i) ({{')
        if results:
            lines.append(f'%c{level}:{results} = "stablehlo.custom_call"() {{call_target_name = "f"}} : () -> ({many})')
    last = "%x"
    for level in reversed(range(depth)):
        lines += [f"stablehlo.return {last} : tensor<f32>", "}) : (tensor<i32>) -> tensor<f32>"]
        last = f"%r{level}"
    return "\n".join([*lines, f"return {last} : tensor<f32>", "}"])


def bytecode(text: str) -> bytes:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    with mlir.make_ir_context():
        return stablehlo.serialize_portable_artifact(ir.Module.parse(text), stablehlo.get_minimum_version())


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def refused(path: Path) -> InputError:
    """The error of reading the file, which comes soon and takes little memory."""
    begin, peak = time.process_time(), peak_kib()
    with pytest.raises(InputError) as caught:
        opentrn.compile(path, cache=False)
    assert time.process_time() - begin < 2.0
    assert peak_kib() - peak < 1 << 18
    return caught.value


@pytest.mark.parametrize("depth", [DEPTH_MAX, 2000])
def test_regions_that_nest_too_deep_are_refused(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "deep.mlirbc"
    path.write_bytes(bytecode(nested(depth)))
    error = refused(path)
    assert error.label == "vhlo.bytecode"
    assert f"regions nest deeper than {DEPTH_MAX} levels" in str(error)


def test_regions_as_deep_as_the_limit_compile(tmp_path: Path) -> None:
    path = tmp_path / "deep.mlirbc"
    path.write_bytes(bytecode(nested(DEPTH_MAX - 2)))
    opentrn.compile(path, cache=False)


def test_regions_that_announce_more_values_than_the_file_holds_are_refused(tmp_path: Path) -> None:
    """Each region announces less than there are bytes behind it; all of them together many times as many."""
    code = bytecode(nested(190, results=130))
    assert code.count(head(131)) == 189  # the innermost one holds another number of ops
    path = tmp_path / "wide.mlirbc"
    # The inner ones stay: behind them there are fewer bytes than values would be announced.
    path.write_bytes(code.replace(head(131), head(8191), 120))
    error = refused(path)
    assert error.label == "vhlo.bytecode"
    assert "8191 values announced at offset" in str(error)


def head(values: int) -> bytes:
    """A region of one block, of so many values, whose block has three ops: varints of one, two and one byte."""
    return b"\x03" + struct.pack("<H", values << 2 | 2) + b"\x0d"
