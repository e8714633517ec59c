"""What the options of the commands about models do; see option_cases.py."""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import tempfile
from pathlib import Path

import numpy as np
from option_cases import Entry, Form, does, fails, held, refused

from opentrn.cli import commands as cli

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from onnx_bytes import field, node, value_info  # noqa: E402

TABLES = "[timing.v3.constant]\nhbm_sustained_gb_s = 30\n"
DRAWS = """\
func.func @main(%x: tensor<128x64xf32>) -> (tensor<128x64xf32>, tensor<128x64xbf16>) {
  %a = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.constant dense<[128, 64]> : tensor<2xi64>
  %r = stablehlo.rng %a, %b, %s, distribution = UNIFORM
    : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<128x64xf32>
  %y = stablehlo.add %x, %r : tensor<128x64xf32>
  %h = stablehlo.convert %x : (tensor<128x64xf32>) -> tensor<128x64xbf16>
  return %y, %h : tensor<128x64xf32>, tensor<128x64xbf16>
}
"""
LOOP = """\
func.func @main(%x: tensor<128x64xf32>, %n: tensor<i32>) -> tensor<128x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<128x64xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %z = stablehlo.exponential %y : tensor<128x64xf32>
      stablehlo.return %j, %z : tensor<i32>, tensor<128x64xf32>
    }
  return %r#1 : tensor<128x64xf32>
}
"""
UNKNOWN = """\
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = stablehlo.custom_call @nobody_knows(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
"""


def _onnx() -> bytes:
    """exp(x) @ w, x: [batch, 128]; w: [128, 256] of 4 of 16 weights that are not zero, named."""
    weight = np.random.default_rng(0).standard_normal((128, 256)).astype(np.float32)
    body = field(1, node("Exp", ["x"], ["e"])) + field(1, node("MatMul", ["e", "w"], ["y"])) + field(2, "g")
    dims = b"".join(field(1, size) for size in weight.shape)
    body += field(5, dims + field(2, 1) + field(8, "w") + field(9, weight.tobytes()))
    body += field(11, value_info("x", ["batch", 128])) + field(12, value_info("y", ["batch", 256]))
    return field(1, 8) + field(7, body) + field(8, field(1, "") + field(2, 17))


@functools.cache
def _compiled() -> dict[str, bytes]:
    """The ONNX model for two sizes, and another model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "m.onnx").write_bytes(_onnx())
        (folder / "d.mlir").write_text(DRAWS)
        for words in (["m.onnx", "--dim", "batch=2,8", "-o", "m.neuron"], ["d.mlir", "-o", "d.neuron"]):
            named = [f"{folder}/{word}" if "." in word else word for word in words]
            with contextlib.redirect_stdout(io.StringIO()):
                assert cli.main(["compile", *named, "--no-cache"]) == 0
        return {path.name: path.read_bytes() for path in folder.glob("*.neuron")}


def write_files(folder: Path) -> None:
    """What the command lines below name."""
    (folder / "m.onnx").write_bytes(_onnx())
    for name, text in (("d.mlir", DRAWS), ("loop.mlir", LOOP), ("unknown.mlir", UNKNOWN), ("tables.toml", TABLES)):
        (folder / name).write_text(text)
    (folder / "cuts.txt").write_text("x=tp,-\n")
    np.save(folder / "n.npy", np.array(7, np.int32))
    np.save(folder / "three.npy", np.ones((3, 128), np.float32))
    for name, compiled in _compiled().items():
        (folder / name).write_bytes(compiled)


_LIBRARY = held("tests/compiler/test_custom_operators.py::test_the_commands_take_a_library")
_STRICT = held("tests/compiler/test_host_ops.py::test_the_commands")
_COMPILATION: dict[str, Entry] = {
    "--dim": does("--dim batch=4"),
    "--optlevel": does("-O 1"),
    "--auto-cast": does("--auto-cast all"),
    "--auto-cast-type": does("--auto-cast-type fp16", "--auto-cast all"),
    "--weight-dtype": does("--weight-dtype int8"),
    "--custom-ops": _LIBRARY,
    "--weight-sparsity": does("--weight-sparsity 4:16"),
    "--prune-weights": does("--prune-weights", "--weight-sparsity 4:16"),
}
_WITHOUT: dict[str, Entry] = {  # what they are of
    "--auto-cast-type": refused("--auto-cast-type fp16"),
    "--prune-weights": refused("--prune-weights"),
    "--shard": refused("--shard x=tp"),
    "--shardings": refused("--shardings cuts.txt"),
}
_SET: dict[str, Entry] = {
    "--set": does("--set timing.v3.constant.hbm_sustained_gb_s=30"),
    "--tables": does("--tables tables.toml"),
}
_MESH: dict[str, Entry] = {"--mesh": does("--mesh tp=2"), "--shard": does("--shard x=tp,-", "--mesh tp=2"),
                           "--shardings": does("--shardings cuts.txt", "--mesh tp=2")}  # fmt: skip
_OF_KERNELS: dict[str, Entry] = {
    "--grid": refused("--grid 2"),
    "--lnc": refused("--lnc 2"),
    "--ranks": refused("--ranks 2"),
    "--compiler": refused("--compiler nki"),
    "--disable-dge": refused("--disable-dge"),
    "--eager": refused("--eager"),
    "--uninitialised": refused("--uninitialised fill"),
}
_COMPILED: dict[str, Entry] = {
    "--target": refused("--target trn1"),
    "--optlevel": refused("-O 1"),
    "--auto-cast": refused("--auto-cast all"),
    "--weight-dtype": refused("--weight-dtype int8"),
    "--weight-sparsity": refused("--weight-sparsity 4:16"),
    "--no-cache": refused("--no-cache"),
}
_ONNX = "m.onnx --dim batch=2"

FORMS = [
    Form(
        "run",
        _ONNX,
        {
            **_COMPILATION,
            **_SET,
            **_MESH,
            **_OF_KERNELS,
            "--input": does("-i x=2x128:float32:randn(5)"),
            "--no-execute": does("--no-execute"),
            "--target": does("--target trn1"),
            "--deadline": does("--deadline 0.000001"),
            "--no-cache": does("--no-cache"),
            "--progress": does("--progress"),
            "--json": does("--json"),
            "--save-outputs": does("--save-outputs made"),
            "--no-time": does("--no-time"),
            "--save-program": refused("--save-program p.otrn"),
            "--pad": refused("--pad batch"),
        },
    ),
    Form("run", _ONNX, _WITHOUT),
    Form(
        "run",
        "m.onnx --dim batch=8,2 -i x=three.npy",
        {"--pad": held("tests/compiler/test_buckets.py::test_the_commands")},
    ),
    Form(
        "run",
        "d.mlir",
        {
            "--seed": held("tests/compiler/test_onnx_random.py::test_runs_differ_and_seeds_repeat_them"),
            "--enable-stochastic-rounding": does("--enable-stochastic-rounding"),
        },
    ),
    Form("run", "loop.mlir -i input1=n.npy", {"--loop-limit": does("--loop-limit 3")}),
    Form("run", "loop.mlir --no-execute", {"--loop-iterations": does("--loop-iterations 9")}),
    Form("run", "d.mlir", {"--strict": _STRICT}),
    Form("run", "unknown.mlir", {"--traceback": does("--traceback")}),
    Form("run", "m.neuron", {**_COMPILED, "--dim": does("--dim batch=2"), **_SET}),
    Form(
        "profile",
        _ONNX,
        {
            **_COMPILATION,
            **_SET,
            **_MESH,
            **_OF_KERNELS,
            "--target": does("--target trn1"),
            "--deadline": does("--deadline 0.000001"),
            "--no-cache": does("--no-cache"),
            "--progress": does("--progress"),
            "--html": does("--html page.html"),
            "--perfetto": does("--perfetto t.json"),
            "--json": does("--json p.json"),
            "--lines": does("--lines 1"),
            "--depth": held("tests/profile/test_model_report.py::test_text_fits_a_terminal"),
            "--input": refused("-i x=2x128"),
            "--loop-limit": refused("--loop-limit 3"),
        },
    ),
    Form("profile", _ONNX, _WITHOUT),
    Form("profile", "loop.mlir", {"--loop-iterations": does("--loop-iterations 9")}),
    Form("profile", "d.mlir", {"--strict": _STRICT}),
    Form("profile", "m.neuron", {**_COMPILED, "--dim": does("--dim batch=2"), **_SET}),
    Form(
        "disasm",
        _ONNX,
        {
            "--dim": does("--dim batch=4"),
            "--optlevel": does("-O 1"),
            "--auto-cast": does("--auto-cast all"),
            "--weight-dtype": does("--weight-dtype int8"),
            "--target": does("--target trn1"),
            "--deadline": does("--deadline 0.000001"),
            "--no-cache": does("--no-cache"),
            **_OF_KERNELS,
            "--mesh": refused("--mesh tp=2"),
            "--scheduled": refused("--scheduled"),
            "--input": refused("-i x=2x128"),
            "--set": refused("--set timing.v3.constant.hbm_sustained_gb_s=30"),
            "--tables": refused("--tables tables.toml"),
            "--loop-iterations": refused("--loop-iterations 3"),
            "--loop-limit": refused("--loop-limit 3"),
            "--progress": does("--progress"),
            "--custom-ops": _LIBRARY,
            "--auto-cast-type": does("--auto-cast-type fp16", "--auto-cast all"),
            "--weight-sparsity": does("--weight-sparsity 4:16"),
            "--prune-weights": does("--prune-weights", "--weight-sparsity 4:16"),
        },
    ),
    Form("disasm", _ONNX, _WITHOUT),
    Form("disasm", "d.mlir", {"--strict": _STRICT}),
    Form("disasm", "m.neuron", {**_COMPILED, "--dim": does("--dim batch=2")}),
    Form(
        "compile",
        _ONNX,
        {
            **_COMPILATION,
            **_SET,
            **_MESH,
            "--target": does("--target trn1"),
            "--deadline": does("--deadline 0.000001"),
            "--no-cache": does("--no-cache"),
            "--output": does("-o other.neuron"),
            "--weights": does("--weights reference"),
            "--report": does("--report"),
            "--json": does("--json"),
            "--progress": does("--progress"),
            "--enable-stochastic-rounding": does("--enable-stochastic-rounding"),
        },
    ),
    Form("compile", _ONNX, _WITHOUT),
    Form("compile", "loop.mlir", {"--loop-iterations": does("--loop-iterations 9")}),
    Form("compile", "d.mlir", {"--strict": _STRICT}),
    Form(
        "coverage",
        "m.onnx",
        {
            "--dim": does("--dim batch=4"),
            "--custom-ops": _LIBRARY,
            "--input": held(
                "tests/compiler/test_first_contact.py::test_coverage_looks_behind_a_branch_for_a_given_input"
            ),
            "--json": does("--json", "--dim batch=2"),
        },
    ),
    Form(
        "diff",
        _ONNX,
        {
            **_COMPILATION,
            "--optlevel": held("tests/compiler/test_diff.py"),
            "--weight-sparsity": fails("--weight-sparsity 5:3"),
            "--target": does("--target trn1"),
            "--input": does("-i x=2x128:float32:ones"),
            "--lines": does("--lines 1", "--auto-cast all"),
            "--json": does("--json"),
            "--progress": does("--progress"),
        },
    ),
    Form("diff", _ONNX, {name: _WITHOUT[name] for name in ("--auto-cast-type", "--prune-weights")}),
    Form(
        "compare",
        f"{_ONNX} --targets trn2",
        {
            **_COMPILATION,
            **_SET,
            "--targets": does("--targets trn1"),
            "--no-cache": does("--no-cache"),
            "--json": does("--json"),
            "--progress": does("--progress"),
            "--input": refused("-i x=2x128"),
        },
    ),
    Form(
        "compare", f"{_ONNX} --targets trn2", {name: _WITHOUT[name] for name in ("--auto-cast-type", "--prune-weights")}
    ),
    Form("compare", "loop.mlir --targets trn2", {"--loop-iterations": does("--loop-iterations 9")}),
    Form("cache", "ls", {"action": does("=clear"), "--json": does("--json")}),
    Form(
        "cache",
        "clear",
        {
            "--older-than": held(
                "tests/compiler/test_hostile_files.py::TestCache::test_interrupted_writers_rests_are_seen_and_swept"
            ),
            "--json": does("--json"),
        },
    ),
    Form("cache", "ls", {"--older-than": refused("--older-than 3")}),
]
