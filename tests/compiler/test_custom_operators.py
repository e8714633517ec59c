"""Custom operators as ops of a model: StableHLO's custom calls and nodes of ONNX models' own domains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import field, value_info

import opentrn
from opentrn import custom_op, graph
from opentrn.errors import NkiValidationError, NotModelled, UnwrittenOutputWarning
from tests.package import PYTHON

RNG = np.random.default_rng(0)
ROOT = Path(__file__).resolve().parents[2]

LIBRARY = r"""
#include <string.h>
#include "custom_op_abi.h"

/* Rows in another order, and their number: (float32 [r, c], int32 [r]) -> float32 [r, c], int32 []. */
static int reorder(const opentrn_tensor* out, int32_t outs, const opentrn_tensor* in, int32_t ins, char* message,
                   size_t size) {
  if (outs != 2 || ins != 2 || in[0].rank != 2 || in[1].rank != 1 || strcmp(in[1].dtype, "int32") != 0) {
    strncpy(message, "reorder takes a matrix and the order of its rows", size);
    return 1;
  }
  const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
  for (int64_t r = 0; r < rows; ++r)
    memcpy((float*)out[0].data + r * columns, (const float*)in[0].data + ((const int32_t*)in[1].data)[r] * columns,
           columns * sizeof(float));
  *(int32_t*)out[1].data = (int32_t)rows;
  return 0;
}

static const opentrn_custom_op_entry entries[] = {{"test.reorder", reorder}};
int32_t opentrn_custom_op_abi_version(void) { return OPENTRN_CUSTOM_OP_ABI_VERSION; }
const opentrn_custom_op_entry* opentrn_custom_ops(size_t* count) { return *count = 1, entries; }
void opentrn_custom_op_time(const char* name, double* ns, double* cycles_per_element) {
  *ns = 5000;
  *cycles_per_element = 0;
}
"""

REORDER = """
func.func @main(%x: tensor<5x7xf32>, %order: tensor<5xi32>) -> (tensor<5x7xf32>, tensor<i32>) {
  %y = stablehlo.exponential %x : tensor<5x7xf32>
  %k:2 = "stablehlo.custom_call"(%y, %order) {call_target_name = "test.reorder"}
      : (tensor<5x7xf32>, tensor<5xi32>) -> (tensor<5x7xf32>, tensor<i32>)
  %z = stablehlo.negate %k#0 : tensor<5x7xf32>
  return %z, %k#1 : tensor<5x7xf32>, tensor<i32>
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    (folder / "ops.c").write_text(LIBRARY)
    include = custom_op.ABI_HEADER.parent
    command = ["cc", "-shared", "-fPIC", f"-I{include}", "-o", f"{folder}/ops.so", f"{folder}/ops.c"]
    subprocess.run(command, check=True)
    return folder / "ops.so"


def reordered() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, order = RNG.standard_normal((5, 7), np.float32), RNG.permutation(5).astype(np.int32)
    return x, order, -np.exp(x[order].astype(np.float64))


def test_an_operator_of_a_library(library: Path):
    assert custom_op.load_library(library) == ["test.reorder"]
    x, order, expected = reordered()
    model = opentrn.compile(REORDER)
    for values, count in (model(x, order), graph.parse(REORDER).evaluate(x, order)):
        np.testing.assert_allclose(values, expected, rtol=3e-7)
        assert count == 5
    assert model.time().total_ns > 5000
    layers = model.time().profile()["model"]["layers"]["children"]
    assert any(row["name"].endswith("reorder") for row in layers)
    assert all(row.unsupported == 0 for row in opentrn.coverage(REORDER))


def cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opentrn", *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(PYTHON), **environment},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_the_commands_take_a_library(library: Path, tmp_path: Path):
    source, compiled = tmp_path / "model.mlir", tmp_path / "model.neuron"
    source.write_text(REORDER)
    without = cli("compile", str(source), "-o", str(compiled), "--no-cache")
    assert without.returncode == 4 and "test.reorder" in without.stderr and "--custom-ops" in without.stderr
    done = cli("compile", str(source), "-o", str(compiled), "--custom-ops", str(library))
    assert done.returncode == 0, done.stderr
    # The file names the operator; values need it in every process that runs the file.
    x, order, expected = reordered()
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "order.npy", order)
    inputs = ["-i", f"input0={tmp_path}/x.npy", "-i", f"input1={tmp_path}/order.npy"]
    unknown = cli("run", str(compiled), *inputs)
    assert unknown.returncode == 1 and "'test.reorder' is not registered in this process" in unknown.stderr
    for arguments, environment in (
        (["--custom-ops", str(library)], {}),
        ([], {"OPENTRN_CUSTOM_OPS": str(library)}),
    ):
        out = tmp_path / "out"
        ran = cli("run", str(compiled), *inputs, "--save-outputs", str(out), *arguments, **environment)
        assert ran.returncode == 0, ran.stderr
        np.testing.assert_allclose(np.load(sorted(out.glob("*0*.npy"))[0]), expected, rtol=3e-7)


def test_a_library_that_is_none_is_a_usage_error(tmp_path: Path):
    done = cli("coverage", str(ROOT / "examples/mlp.mlir"), "--custom-ops", str(tmp_path / "none.so"))
    assert done.returncode == 2 and "none.so" in done.stderr


def test_an_unknown_operator_is_refused_with_what_to_do():
    text = REORDER.replace("test.reorder", "test.nobody")
    with pytest.raises(NotModelled, match="(?s)test.nobody.*custom_op.load_library"):
        opentrn.compile(text)
    (row,) = [row for row in opentrn.coverage(text) if row.op == "stablehlo.custom_call"]
    assert row.unsupported == 1


def test_what_a_library_refuses_is_told(library: Path):
    custom_op.load_library(library)
    text = """
    func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
      %k = "stablehlo.custom_call"(%x) {call_target_name = "test.reorder"} : (tensor<5xf32>) -> tensor<5xf32>
      return %k : tensor<5xf32>
    }"""
    with pytest.raises(
        NkiValidationError, match=r"\[custom_op.failed\]: test.reorder returned 1: reorder takes a"
    ):
        opentrn.compile(text)(np.zeros(5, np.float32))


def test_a_type_that_no_device_has_is_refused():
    custom_op.register("test.angle")(lambda outputs, inputs: None)
    text = """
    func.func @main(%x: tensor<5xcomplex<f32>>) -> tensor<5xf32> {
      %k = "stablehlo.custom_call"(%x) {call_target_name = "test.angle"} : (tensor<5xcomplex<f32>>) -> tensor<5xf32>
      return %k : tensor<5xf32>
    }"""
    with pytest.raises(NotModelled, match=r"\[custom_op.type\]: .*complex"):
        graph.parse(text).evaluate(np.zeros(5, np.complex64))


def test_python_functions_any_rank_and_type():
    text = """
    func.func @main(%a: tensor<2x3x4xbf16>, %b: tensor<f32>, %c: tensor<3xi1>) -> (tensor<3xf32>, tensor<3xi1>) {
      %t = stablehlo.transpose %a, dims = [0, 1, 2] : (tensor<2x3x4xbf16>) -> tensor<2x3x4xbf16>
      %k:2 = "stablehlo.custom_call"(%t, %b, %c) {call_target_name = "test.any"}
          : (tensor<2x3x4xbf16>, tensor<f32>, tensor<3xi1>) -> (tensor<3xf32>, tensor<3xi1>)
      return %k#0, %k#1 : tensor<3xf32>, tensor<3xi1>
    }"""
    import ml_dtypes

    a = RNG.integers(-8, 8, (2, 3, 4)).astype(ml_dtypes.bfloat16)
    b, c = np.float32(0.5), np.array([True, False, True])

    # NumPy has bool's bits as bytes here: the operator sees uint8.
    @custom_op.register("test.any")
    def any_rank_of_bytes(outputs, inputs):
        a, b, c = inputs
        outputs[0][...] = a.astype(np.float32).sum(axis=(0, 2)) + b
        outputs[1][...] = 1 - c

    for sums, flipped in (opentrn.compile(text)(a, b, c), graph.parse(text).evaluate(a, b, c)):
        np.testing.assert_array_equal(sums, a.astype(np.float32).sum(axis=(0, 2)) + 0.5)
        np.testing.assert_array_equal(flipped, ~c)


def test_what_an_operator_raises_names_it():
    @custom_op.register("test.raises_in_a_model")
    def raises(outputs, inputs):
        raise RuntimeError("no such luck")

    text = REORDER.replace("test.reorder", "test.raises_in_a_model")
    with pytest.raises(Exception, match="test.raises_in_a_model raised RuntimeError: no such luck"):
        opentrn.compile(text)(np.zeros((5, 7), np.float32), np.zeros(5, np.int32))


def test_a_stated_time_is_part_of_the_caches_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    custom_op.register("test.timed_in_a_model", ns=100.0)(lambda outputs, inputs: None)
    path = tmp_path / "model.mlir"
    path.write_text(REORDER.replace("test.reorder", "test.timed_in_a_model"))
    quick = opentrn.compile(path, cache=True)
    custom_op.set_time("test.timed_in_a_model", ns=50_000.0)
    slow = opentrn.compile(path, cache=True)
    assert (quick.cached, slow.cached) == ("miss", "miss")
    assert slow.time().total_ns - quick.time().total_ns == pytest.approx(49_900, rel=0.05)


def onnx_model(with_type: bool = True) -> bytes:
    attribute = field(1, "factor") + b"\x15" + np.float32(2.5).tobytes() + field(20, 1)
    integers = field(1, "axes") + b"".join(field(8, axis) for axis in (1, 0)) + field(20, 7)
    node = b"".join(field(1, name) for name in ("x", "y")) + field(2, "t") + field(4, "Mix")
    node += field(5, attribute) + field(5, integers) + field(7, "my.ops")
    tanh = field(1, "t") + field(2, "out") + field(4, "Tanh")
    body = field(1, node) + field(1, tanh) + field(2, "graph")
    body += (
        field(11, value_info("x", [3, 4]))
        + field(11, value_info("y", [4]))
        + field(12, value_info("out", [3, 4]))
    )
    if with_type:
        body += field(13, value_info("t", [3, 4]))
    opsets = field(8, field(1, "") + field(2, 17)) + field(8, field(1, "my.ops") + field(2, 1))
    return field(1, 8) + field(7, body) + opsets


def test_a_node_of_an_onnx_models_own_domain(tmp_path: Path):
    seen = []

    @custom_op.register("Mix")
    def mix(outputs, inputs):
        x, y, axes, factor = inputs  # inputs, then attributes by name
        seen.append((axes.tolist(), float(factor)))
        outputs[0][...] = x * factor + y

    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_model())
    x, y = RNG.standard_normal((3, 4), np.float32), RNG.standard_normal(4).astype(np.float32)
    (out,) = opentrn.compile(path)(x, y)
    np.testing.assert_allclose(out, np.tanh(x * 2.5 + y), rtol=0, atol=2e-6)
    assert seen == [([1, 0], 2.5)]


def test_an_onnx_node_without_a_type_is_refused(tmp_path: Path):
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx_model(with_type=False))
    with pytest.raises(ValueError, match="(?s)the type of 't'.*my.ops.Mix.*value_info"):
        opentrn.compile(path)


def test_what_an_operator_leaves_unwritten_of_a_result_is_told(monkeypatch: pytest.MonkeyPatch):
    @custom_op.register("test.first_rows")
    def first_rows(outputs, inputs):
        outputs[0][:2] = inputs[0][:2]

    model = opentrn.compile("""
    func.func @main(%x: tensor<4x512xf32>) -> tensor<4x512xf32> {
      %y = "stablehlo.custom_call"(%x) {call_target_name = "test.first_rows"}
          : (tensor<4x512xf32>) -> tensor<4x512xf32>
      return %y : tensor<4x512xf32>
    }""")
    x = RNG.standard_normal((4, 512), np.float32)
    with pytest.warns(
        UnwrittenOutputWarning, match=r"(?s)1024 of the 2048.*first is \[2, 0\].*'test.first_rows'"
    ):
        (values,) = model(x)
    assert np.array_equal(values[:2], x[:2]) and np.isnan(values[2:]).all()
    monkeypatch.setenv("OPENTRN_UNWRITTEN", "error")
    with pytest.raises(NkiValidationError, match="nothing wrote 1024"):
        model(x)
