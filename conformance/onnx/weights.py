#!/usr/bin/env python3
"""Quantised ONNX models with constant weights, compiled for a NeuronCore, against ONNX Runtime.

    python -m conformance.onnx.weights [--target trn2]

Needs the packages of conformance/onnx/requirements.txt and onnxruntime. Each case is one product of 512 x 256
weights in int8 or uint8, written as DequantizeLinear and MatMul or Gemm, MatMulInteger, and QLinearMatMul; ONNX
Runtime runs it without its own graph optimisations, which round activations. The last line counts cases.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from conformance.common import distance

TERMS, CHANNELS, ROWS = 512, 256, 16
RNG = np.random.default_rng(3)


def _model(nodes: list[Any], constants: dict[str, np.ndarray], types: tuple[int, int]) -> Any:
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", types[0], [ROWS, TERMS])],
        [helper.make_tensor_value_info("y", types[1], [ROWS, CHANNELS])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def cases() -> Iterator[tuple[str, Any, np.ndarray]]:
    """(name, model, its input)."""
    from onnx import TensorProto, helper

    floats, bytes_in = (TensorProto.FLOAT, TensorProto.FLOAT), TensorProto.UINT8
    for dtype, zero in ((np.int8, 0), (np.uint8, 128), (np.uint8, 117)):
        info = np.iinfo(dtype)
        q = RNG.integers(info.min, info.max + 1, (TERMS, CHANNELS)).astype(dtype)
        x = RNG.standard_normal((ROWS, TERMS)).astype(np.float32)
        codes = RNG.integers(0, 256, (ROWS, TERMS)).astype(np.uint8)
        what = f"{np.dtype(dtype)} less {zero}"
        for shape in ((), (CHANNELS,)):
            scale = RNG.uniform(0.005, 0.02, shape).astype(np.float32)
            constants = {"q": q, "s": scale, "z": np.full(shape, zero, dtype)}
            nodes = [
                helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=1),
                helper.make_node("MatMul", ["x", "w"], ["y"]),
            ]
            yield (
                f"MatMul, {what}, {len(shape) and 'channels' or 'tensor'}",
                _model(nodes, constants, floats),
                x,
            )
        constants = {"q": q.T.copy(), "s": scale, "z": np.full(CHANNELS, zero, dtype)}
        constants["b"] = RNG.standard_normal(CHANNELS).astype(np.float32)
        nodes = [
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0),
            helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1),
        ]
        yield f"Gemm, {what}", _model(nodes, constants, floats), x
        points = {"q": q, "z": np.array(zero, dtype), "az": np.array(121, np.uint8)}
        nodes = [helper.make_node("MatMulInteger", ["x", "q", "az", "z"], ["y"])]
        yield f"MatMulInteger, {what}", _model(nodes, points, (bytes_in, TensorProto.INT32)), codes
        scales = {"as": np.float32(0.02), "s": np.float32(0.01), "ys": np.float32(0.4), "yz": np.uint8(100)}
        nodes = [helper.make_node("QLinearMatMul", ["x", "as", "az", "q", "s", "z", "ys", "yz"], ["y"])]
        yield f"QLinearMatMul, {what}", _model(nodes, points | scales, (bytes_in, bytes_in)), codes


def main() -> int:
    """Exit status 1 when a case fails."""
    import onnx
    import onnxruntime

    import opentrn

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", default="trn2")
    target = parser.parse_args().target
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    failed = passed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        for name, model, x in cases():
            onnx.save(model, path)
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            (want,) = session.run(None, {"x": x})
            compiled = opentrn.compile(path, target=target)
            (have,) = compiled(x)
            error = distance(want, have)
            good = error <= (2e-6 if want.dtype == np.float32 else 0.0)
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok' if good else 'FAILED':<7} {name:<42} {compiled.constant_bytes:>7} bytes of constants for "
                  f"{TERMS * CHANNELS} weights, largest error {error:.1e} of the largest result")  # fmt: skip
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
