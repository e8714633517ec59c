"""ONNX's quantised models: constant weights in eight bits stay so, and values are those of the integers."""

from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import field

import opentrn
from opentrn.model.diff import diff

RNG = np.random.default_rng(43)
K, N, M = 300, 132, 9  # more than kWeightElements weights
TYPES = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int8): 3, np.dtype(np.int32): 6}


def tensor(name: str, value: np.ndarray) -> bytes:
    value = np.ascontiguousarray(value)
    dims = b"".join(field(1, size) for size in value.shape)
    return dims + field(2, TYPES[value.dtype]) + field(8, name) + field(9, value.tobytes())


def port(name: str, dtype: type, dims: tuple[int, ...]) -> bytes:
    shape = b"".join(field(1, field(1, size)) for size in dims)
    return field(1, name) + field(2, field(1, field(1, TYPES[np.dtype(dtype)]) + field(2, shape)))


def node(op: str, inputs: list[str], output: str, **attributes: int) -> bytes:
    listed = b"".join(
        field(5, field(1, key) + field(3, value) + field(20, 2)) for key, value in attributes.items()
    )
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op) + listed


def model(
    path: Path, nodes: list[bytes], constants: dict[str, np.ndarray], x: np.ndarray, result: type
) -> Path:
    graph = b"".join(field(1, each) for each in nodes) + field(2, "g")
    graph += b"".join(field(5, tensor(name, np.asarray(value))) for name, value in constants.items())
    graph += field(11, port("x", x.dtype, x.shape)) + field(12, port("y", result, (M, N)))
    file = path / "model.onnx"
    file.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
    return file


# Type of the weights, and a zero point that leaves them within eight bits.
KINDS = {"int8": (np.int8, 0), "uint8": (np.uint8, 128), "uint8 from 0": (np.uint8, 0)}


def weights(kind: str) -> tuple[np.ndarray, int]:
    dtype, zero = KINDS[kind]
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, (K, N)).astype(dtype), zero


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_dequantised_weights_stay_in_eight_bits(
    tmp_path: Path, kind: str, per_channel: bool, transposed: bool
):
    q, zero = weights(kind)
    scale = RNG.uniform(0.5, 2, N if per_channel else ()).astype(np.float32)
    x = RNG.standard_normal((M, K)).astype(np.float32)
    constants = {"q": q.T if transposed else q, "s": scale, "z": np.full(scale.shape, zero, q.dtype)}
    nodes = [node("DequantizeLinear", ["q", "s", "z"], "w", axis=0 if transposed else 1)]
    if transposed:
        nodes.append(node("Gemm", ["x", "w"], "y", transB=1))
    else:
        nodes.append(node("MatMul", ["x", "w"], "y"))
    file = model(tmp_path, nodes, constants, x, np.float32)
    compiled = opentrn.compile(file)
    held = (q.astype(np.float64) - zero) * scale
    bound = 1e-6 * np.sqrt(K) * (np.abs(x).astype(np.float64) @ np.abs(held))
    assert np.all(np.abs(compiled(x)[0] - x.astype(np.float64) @ held) <= bound)
    assert compiled.passes["integer_weights"] == 1
    assert compiled.constant_bytes <= K * N + 4 * N
    assert diff(file, x).is_clean


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_integers_are_exact_and_narrow(tmp_path: Path, kind: str):
    q, zero = weights(kind)
    x = RNG.integers(0, 256, (M, K)).astype(np.uint8)
    constants = {"q": q, "z": np.array(zero, q.dtype), "az": np.array(121, np.uint8)}
    file = model(tmp_path, [node("MatMulInteger", ["x", "q", "az", "z"], "y")], constants, x, np.int32)
    compiled = opentrn.compile(file)
    want = (x.astype(np.int64) - 121) @ (q.astype(np.int64) - zero)
    np.testing.assert_array_equal(compiled(x)[0], want)
    assert compiled.passes["integer_weights"] == 1 and compiled.constant_bytes <= K * N + 8


def test_qlinear_matmul(tmp_path: Path):
    q, zero = weights("uint8")
    x = RNG.integers(0, 256, (M, K)).astype(np.uint8)
    scales = {"as": np.float32(0.25), "s": np.float32(0.5), "ys": np.float32(512)}
    constants = {
        "q": q,
        "z": np.array(zero, q.dtype),
        "az": np.array(121, np.uint8),
        "yz": np.array(100, np.uint8),
    }
    inputs = ["x", "as", "az", "q", "s", "z", "ys", "yz"]
    file = model(tmp_path, [node("QLinearMatMul", inputs, "y")], constants | scales, x, np.uint8)
    compiled = opentrn.compile(file)
    exact = (x.astype(np.int64) - 121) @ (q.astype(np.int64) - zero)
    # Powers of two: nothing but the last step rounds.
    want = np.clip(np.rint(exact * (0.25 * 0.5 / 512)) + 100, 0, 255)
    np.testing.assert_array_equal(compiled(x)[0], want)
    assert compiled.constant_bytes <= K * N + 64


@pytest.mark.parametrize("reason", ["zero point", "scale along the contraction"])
def test_what_does_not_fit_is_computed_all_the_same(tmp_path: Path, reason: str):
    q = RNG.integers(0, 256, (K, N)).astype(np.uint8)
    q[:2, 0] = 0, 255
    along = reason.startswith("scale")
    zero, scale = (128, RNG.uniform(0.5, 2, K)) if along else (117, np.array(0.5))
    x = RNG.standard_normal((M, K)).astype(np.float32)
    constants = {"q": q, "s": scale.astype(np.float32), "z": np.full(scale.shape, zero, np.uint8)}
    nodes = [node("DequantizeLinear", ["q", "s", "z"], "w", axis=0), node("MatMul", ["x", "w"], "y")]
    compiled = opentrn.compile(model(tmp_path, nodes, constants, x, np.float32))
    held = (q.astype(np.float64) - zero) * (scale.astype(np.float32)[:, None] if along else scale)
    bound = 1e-6 * np.sqrt(K) * (np.abs(x).astype(np.float64) @ np.abs(held))
    assert np.all(np.abs(compiled(x)[0] - x.astype(np.float64) @ held) <= bound)
    assert compiled.passes["integer_weights"] == 0
