"""Operators of ONNX Runtime's domain com.microsoft on the device, against what their documentation says in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx_operator import run

import opentrn

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def close(a: np.ndarray, b: np.ndarray) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype.newbyteorder("=")
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def heads(x: np.ndarray, count: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def attended(q, k, v, added=0.0) -> np.ndarray:
    y = softmax(q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3]) + added) @ v
    return y.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)


def test_gelus(tmp_path):
    x, bias = normal(2, 3, 8), normal(8)
    erf = np.vectorize(math.erf, otypes=[np.float32])
    exact = lambda v: v * (1 + erf(v / math.sqrt(2))) / 2  # noqa: E731
    by_tanh = lambda v: v / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))  # noqa: E731
    path = tmp_path / "m.onnx"
    close(run(path, "Gelu", [x]), exact(x))
    close(run(path, "BiasGelu", [x, bias]), exact(x + bias))
    close(run(path, "FastGelu", [x, bias]), by_tanh(x + bias).astype(np.float32))
    close(run(path, "QuickGelu", [x], alpha=1.5), x / (1 + np.exp(-1.5 * x)))


@pytest.mark.parametrize("centres", [True, False])
def test_norms_behind_a_sum_give_the_sum_too(tmp_path, centres):
    x, skip, gamma, beta, bias = normal(2, 3, 8), normal(3, 8), normal(8), normal(8), normal(8)
    total = x + skip + bias
    part = total - total.mean(-1, keepdims=True) * centres
    wanted = part / np.sqrt((part**2).mean(-1, keepdims=True) + np.float32(1e-3)) * gamma + beta * centres
    op = "SkipLayerNormalization" if centres else "SkipSimplifiedLayerNormalization"
    found = run(tmp_path / "m.onnx", op, [x, skip, gamma, *([beta] if centres else []), bias], (0, 3), epsilon=1e-3)
    close(found[0], wanted)
    close(found[1], total)


def test_attention_of_packed_weights_and_of_heads(tmp_path):
    x, weights, bias = normal(2, 5, 8), normal(8, 24) / 3, normal(24)
    mask = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], np.int32)
    q, k, v = (heads(part, 2) for part in np.split(x @ weights + bias, 3, axis=2))
    added = np.where(mask, 0, -10000.0)[:, None, None].astype(np.float32)
    path = tmp_path / "m.onnx"
    close(run(path, "Attention", [x, weights, bias, mask], num_heads=2), attended(q, k, v, added))
    lengths = np.array([3, 5], np.int32)
    short = np.where(np.arange(5) < lengths[:, None], 0, -10000.0)[:, None, None].astype(np.float32)
    close(run(path, "Attention", [x, weights, bias, lengths], num_heads=2), attended(q, k, v, short))
    causal = np.where(np.tri(5), 0, -np.inf).astype(np.float32)
    close(run(path, "Attention", [x, weights, bias], num_heads=2, unidirectional=1), attended(q, k, v, causal))
    key, value, past = normal(2, 3, 8), normal(2, 3, 8), normal(2, 2, 4, 4)
    found = run(path, "MultiHeadAttention", [x, key, value, None, None, None, past, past], (0, 1, 2), num_heads=2)
    wide = [np.concatenate([past, heads(part, 2)], 2) for part in (key, value)]
    close(found[0], attended(heads(x, 2), *wide))
    close(found[2], wide[1])


@pytest.mark.parametrize("places", [np.array([2]), np.array([[0, 3, 1], [4, 4, 2]])])
def test_rotations_by_positions(tmp_path, places):
    x, angles = normal(2, 3, 8), normal(6, 2)
    turned = angles[places if places.ndim == 2 else places + np.arange(3)[None]]
    c, s = np.cos(turned)[:, :, None], np.sin(turned)[:, :, None]
    a, b = np.split(x.reshape(2, 3, 2, 4), 2, axis=3)
    wanted = np.concatenate([a * c - b * s, a * s + b * c], 3).reshape(x.shape)
    close(run(tmp_path / "m.onnx", "RotaryEmbedding", [x, places, np.cos(angles), np.sin(angles)]), wanted)


@pytest.mark.parametrize("bits, columns, has_zero", [(4, 64, True), (4, 40, False), (8, 32, True), (2, 48, True)])
def test_products_with_weights_of_few_bits(tmp_path, bits, columns, has_zero):
    rows, block, blocks = 5, 16, -(-columns // 16)
    numbers = RNG.integers(0, 1 << bits, (rows, blocks, block), np.uint8)
    zeros = RNG.integers(0, 1 << bits, (rows, blocks), np.uint8)
    if not has_zero:
        zeros[:] = 1 << (bits - 1)
    scales = (RNG.random((rows, blocks)) / 10).astype(np.float32)

    def packed(values: np.ndarray) -> np.ndarray:
        each = 8 // bits
        values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % each)])
        parts = values.reshape(*values.shape[:-1], -1, each).astype(np.int64) << (bits * np.arange(each))
        return parts.sum(-1).astype(np.uint8)

    weights = ((numbers.astype(np.float32) - zeros[..., None]) * scales[..., None]).reshape(rows, -1)[:, :columns]
    x, bias = normal(3, columns), normal(rows)
    given = [x, packed(numbers), scales.ravel(), packed(zeros).ravel() if has_zero else None, None, bias]
    found = run(tmp_path / "m.onnx", "MatMulNBits", given, K=columns, N=rows, bits=bits, block_size=block)
    close(found, (x @ weights.T.astype(np.float32) + bias).astype(np.float32))


def whole(dtype: type, *shape: int) -> np.ndarray:
    return RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_whole_numbers_with_a_scale(tmp_path, dtype):
    a, b, path = whole(dtype, 3, 4), whole(dtype, 4), tmp_path / "m.onnx"
    scales, zeros = np.array([0.03, 0.05, 0.09], np.float32), np.array([3, 100, 7], dtype)
    pairs = [part for i in range(3) for part in (scales[i], zeros[i])]
    pairs = [np.asarray(part) for part in pairs]
    real = [(x.astype(np.float32) - zero) * scale for x, zero, scale in zip((a, b), zeros.astype(np.float32), scales)]

    def kept(y: np.ndarray, scale: np.float32, zero: int) -> np.ndarray:
        limits = np.iinfo(dtype)
        return np.clip(np.rint(y / scale) + zero, limits.min, limits.max).astype(dtype)

    for op, wanted in (("QLinearAdd", real[0] + real[1]), ("QLinearMul", real[0] * real[1])):
        found = run(path, op, [a, *pairs[:2], b, *pairs[2:4], *pairs[4:]])
        assert np.abs(found.astype(int) - kept(wanted, scales[2], int(zeros[2]))).max() <= 1  # ties
    found = run(path, "QLinearLeakyRelu", [a, *pairs[:2], *pairs[4:]], alpha=0.25)
    wanted = kept(np.where(real[0] < 0, real[0] * 0.25, real[0]), scales[2], int(zeros[2]))
    assert np.abs(found.astype(int) - wanted).max() <= 1
    found = run(path, "MatMulIntegerToFloat", [a, whole(np.int8, 4, 5), pairs[0], pairs[2], pairs[1]])
    assert found.shape == (3, 5)
    weights = whole(np.int8, 4, 5)
    found = run(path, "QGemm", [a, *pairs[:2], weights, pairs[2], np.asarray(np.int8(2))], alpha=1.0)
    close(found, (real[0] @ ((weights.astype(np.float32) - 2) * scales[1])).astype(np.float32))


def test_what_is_not_imported_is_refused_by_its_name(tmp_path):
    with pytest.raises(opentrn.errors.NotModelled, match="transBatchA"):
        run(tmp_path / "m.onnx", "FusedMatMul", [normal(3, 2, 4), normal(2, 4, 5)], transBatchA=1)
