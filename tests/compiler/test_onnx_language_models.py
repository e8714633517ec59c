"""Operators that exporters of language models for ONNX Runtime write, against loops over tokens in float64.

What a loop says was compared with ONNX Runtime 1.32 once (decision 0236).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx_operator import compiled, run

import opentrn

RNG = np.random.default_rng(1)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=3e-5, atol=3e-5)


def turned(x: np.ndarray, position: int, cosine: np.ndarray, sine: np.ndarray) -> np.ndarray:
    """One head's vector at a position."""
    half = cosine.shape[1]
    a, b, c, s = x[:half], x[half : 2 * half], cosine[position], sine[position]
    return np.concatenate([a * c - b * s, a * s + b * c, x[2 * half :]])


def attention_by_loops(q, k, v, past, before, *, window=-1, cap=0.0, sinks=None, bias=None, angles=None):
    """q [B, S, N, H], k and v [B, S, K, H], past two of [B, K, P, H], before: tokens of each sequence before them."""
    batch, length, heads, size = q.shape
    group = heads // k.shape[2]
    result = np.zeros(q.shape)
    q, k = q.astype(np.float64), k.astype(np.float64)
    for b, n, s in np.ndindex(batch, heads, length):
        kept = n // group
        old = before[b]
        turn = (lambda x, at: turned(x, at, *angles)) if angles else (lambda x, at: x)
        keys = [*past[0][b, kept, :old], *(turn(k[b, t, kept], old + t) for t in range(s + 1))]
        values = [*past[1][b, kept, :old], *v[b, : s + 1, kept]]
        first = 0 if window < 0 else max(0, len(keys) - window)
        scores = np.array([turn(q[b, s, n], old + s) @ key for key in keys[first:]]) / math.sqrt(size)
        if cap:
            scores = np.tanh(scores / cap) * cap
        if bias is not None:
            scores = scores + bias[b, n, s, first : len(keys)]
        top = max(scores.max(), -np.inf if sinks is None else sinks[n])
        weights = np.exp(scores - top)
        total = weights.sum() + (0 if sinks is None else np.exp(sinks[n] - top))
        result[b, s, n] = weights @ np.array(values[first:]) / total
    return result.reshape(batch, length, -1)


def tables(size: int) -> tuple[np.ndarray, np.ndarray]:
    angles = np.arange(32)[:, None] * (100.0 ** (-np.arange(size // 2) / size))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def grouped(path, q, k, v, past, before, *, total=None, outputs=(0, 1, 2), variable=(0,), rest=(), **values):
    batch, length, heads, _ = q.shape
    lengths = np.array(before, np.int32) + length - 1
    total = int(max(lengths)) + 1 if total is None else total
    flat = [x.reshape(batch, length, -1) for x in (q, k, v)]
    given = [*flat, *past, lengths, np.array(total, np.int32), *rest]
    values = {"num_heads": heads, "kv_num_heads": k.shape[2], **values}
    return run(path, "GroupQueryAttention", given, outputs, variable, **values)


@pytest.mark.parametrize("rotates", [False, True])
@pytest.mark.parametrize("length, old", [(5, 0), (1, 7), (3, 4)])
def test_prompts_tokens_and_chunks_of_one_sequence(tmp_path, length, old, rotates):
    q, k, v = normal(1, length, 4, 8), normal(1, length, 2, 8), normal(1, length, 2, 8)
    past = [normal(1, 2, old, 8), normal(1, 2, old, 8)]
    angles = tables(8) if rotates else None
    options = {"rest": angles, "do_rotary": 1} if rotates else {}
    found = grouped(tmp_path / "m.onnx", q, k, v, past, [old], variable=(0, 1, 2, 5), **options)
    close(found[0], attention_by_loops(q, k, v, past, [old], angles=angles))
    close(found[2], np.concatenate([past[1], v.transpose(0, 2, 1, 3)], 2))


def test_sequences_of_several_lengths_and_buffers_with_room(tmp_path):
    q, k, v = normal(3, 1, 4, 8), normal(3, 1, 2, 8), normal(3, 1, 2, 8)
    before, angles = [7, 3, 5], tables(8)
    for rows in (7, 12):
        past = [normal(3, 2, rows, 8), normal(3, 2, rows, 8)]
        found = grouped(
            tmp_path / "m.onnx", q, k, v, past, before, variable=(0, 3, 4, 5), rest=angles, do_rotary=1
        )
        close(found[0], attention_by_loops(q, k, v, past, before, angles=angles))
        assert found[2].shape == (3, 2, max(rows, 8), 8)
        for b, old in enumerate(before):
            close(found[2][b, :, :old], past[1][b, :, :old])
            close(found[2][b, :, old], v[b, 0])


@pytest.mark.parametrize("window", [1, 2, 5])
def test_windows(tmp_path, window):
    q, k, v = normal(1, 4, 2, 8), normal(1, 4, 1, 8), normal(1, 4, 1, 8)
    past = [normal(1, 1, 3, 8), normal(1, 1, 3, 8)]
    found = grouped(tmp_path / "m.onnx", q, k, v, past, [3], outputs=(0,), local_window_size=window)
    close(found, attention_by_loops(q, k, v, past, [3], window=window))


@pytest.mark.parametrize("rows", [4, 7])
def test_caches_of_a_windows_size_drop_what_no_query_reads(tmp_path, rows):
    window, tokens = 4, 0
    q, k, v = normal(1, 16, 2, 8), normal(1, 16, 1, 8), normal(1, 16, 1, 8)
    nothing = [np.zeros((1, 1, 0, 8))] * 2
    wanted = attention_by_loops(q, k, v, nothing, [0], window=window)
    past = [np.zeros((1, 1, rows, 8), np.float32)] * 2
    for length in (5, 1, 1, 6, 1, 2):
        part = slice(tokens, tokens + length)
        options = {"local_window_size": window, "sliding_window_cache": 1}
        found = grouped(tmp_path / "m.onnx", q[:, part], k[:, part], v[:, part], past, [tokens], **options)
        close(found[0], wanted[:, part])
        tokens, past = tokens + length, found[1:]
        assert past[0].shape == (1, 1, rows, 8)


def test_caps_biases_and_sinks(tmp_path):
    q, k, v = normal(2, 3, 4, 8), normal(2, 3, 2, 8), normal(2, 3, 2, 8)
    past = [np.zeros((2, 2, 0, 8), np.float32)] * 2
    bias, sinks = normal(2, 4, 3, 3), normal(4)
    rest = [None, None, None, bias, sinks]
    found = grouped(tmp_path / "m.onnx", q, k, v, past, [0, 0], outputs=(0,), rest=rest, softcap=0.5)
    close(found, attention_by_loops(q, k, v, past, [0, 0], cap=0.5, bias=bias, sinks=sinks))
    found = grouped(tmp_path / "m.onnx", q, k, v, past, [0, 0], outputs=(0,), smooth_softmax=1)
    close(found, attention_by_loops(q, k, v, past, [0, 0], sinks=np.zeros(4)))


def test_packed_queries_keys_and_values(tmp_path):
    q, k, v = normal(1, 3, 4, 8), normal(1, 3, 2, 8), normal(1, 3, 2, 8)
    past = [normal(1, 2, 2, 8), normal(1, 2, 2, 8)]
    packed = np.concatenate([x.reshape(1, 3, -1) for x in (q, k, v)], 2)
    given = [packed, None, None, *past, np.array([4], np.int32), np.array(5, np.int32)]
    found = run(tmp_path / "m.onnx", "GroupQueryAttention", given, num_heads=4, kv_num_heads=2)
    close(found, attention_by_loops(q, k, v, past, [2]))
    heads = normal(2, 5, 3, 3, 8)
    found = run(tmp_path / "m.onnx", "MultiHeadAttention", [heads], num_heads=3)
    q, k, v = (heads[:, :, :, i].transpose(0, 2, 1, 3).astype(np.float64) for i in range(3))
    weights = np.exp(q @ k.swapaxes(2, 3) / math.sqrt(8))
    wanted = weights / weights.sum(-1, keepdims=True) @ v
    close(found, wanted.transpose(0, 2, 1, 3).reshape(2, 5, -1))


def test_what_grouped_attention_has_not_is_said(tmp_path):
    q, k, v = normal(1, 1, 4, 8), normal(1, 1, 2, 8), normal(1, 1, 2, 8)
    past = [normal(1, 2, 3, 8), normal(1, 2, 3, 8)]
    with pytest.raises(opentrn.errors.InputError, match="sliding_window_cache has 3 rows for a local_window_size of 4"):
        grouped(tmp_path / "m.onnx", q, k, v, past, [3], sliding_window_cache=1, local_window_size=4)
    with pytest.raises(opentrn.errors.NotModelled, match="keys and values in 8 or 4 bits"):
        grouped(tmp_path / "m.onnx", q, k, v, past, [3], k_quant_type="PER_TENSOR")
    with pytest.raises(opentrn.errors.InputError, match="total_sequence_length is 9 with 1 new tokens and 3 rows"):
        grouped(tmp_path / "m.onnx", q, k, v, past, [3], total=9)


@pytest.mark.parametrize("sinks", [None, np.array([0.5, -1, 2, 0], np.float32)])
@pytest.mark.parametrize("masks", [False, True])
def test_attention_is_one_kernel_and_rows_without_keys_are_zeros(tmp_path, masks, sinks):
    q, k, v = normal(2, 160, 4, 16), normal(2, 160, 2, 16), normal(2, 160, 2, 16)
    past = [np.zeros((2, 2, 0, 16), np.float32)] * 2
    bias = np.where(RNG.random((2, 4, 160, 160)) < 0.5, -np.inf, 0).astype(np.float32)
    bias[:, :, 7] = -np.inf
    flat = [x.reshape(2, 160, -1) for x in (q, k, v)]
    ends = [np.array([159, 159], np.int32), np.array(160, np.int32), None, None, None, bias if masks else None]
    given = [*flat, *past, *ends, *([] if sinks is None else [sinks])]
    made = compiled(tmp_path / "m.onnx", "GroupQueryAttention", given, variable=(0, 1, 2), num_heads=4, kv_num_heads=2)
    assert made.passes["attention"] == 1
    with np.errstate(invalid="ignore"):
        wanted = attention_by_loops(q, k, v, past, [0, 0], bias=bias if masks else None, sinks=sinks)
    empty = np.isneginf(np.where(np.tri(160), bias, -np.inf)).all(-1).transpose(0, 2, 1)
    wanted = np.where(np.repeat(empty & masks, 16, 2), 0, wanted)
    np.testing.assert_allclose(made(*flat)[0], wanted, rtol=2e-4, atol=2e-4)


def experts_by_loops(x, router, layers, k, activation, normalises):
    """layers: weights [E, columns, rows] and bias [E, columns] of fc1 and fc2."""
    (w1, b1), (w2, b2) = layers
    result = np.zeros((x.shape[0], w2.shape[1]))
    for t, row in enumerate(x.astype(np.float64)):
        likely = np.exp(router[t] - router[t].max())
        likely = likely / likely.sum()
        best = np.argsort(-likely, kind="stable")[:k]
        for expert in best:
            gate = likely[expert] / (likely[best].sum() if normalises else 1)
            result[t] += gate * (w2[expert] @ activation(w1[expert] @ row + b1[expert]) + b2[expert])
    return result


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": silu,
    "identity": lambda x: x,
    "swiglu": lambda x: silu(x[::2]) * x[1::2],
}


@pytest.mark.parametrize("k, normalises", [(1, 0), (2, 1), (3, 0)])
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_mixtures_of_experts(tmp_path, activation, k, normalises):
    columns = 48 if activation == "swiglu" else 24
    x, router = normal(5, 16), normal(5, 4)
    layers = [(normal(4, columns, 16), normal(4, columns)), (normal(4, 16, 24), normal(4, 16))]
    given = [x, router, *layers[0], *layers[1]]
    options = {"k": k, "activation_type": activation, "normalize_routing_weights": normalises}
    if activation == "swiglu":
        options["swiglu_fusion"] = 1
    found = run(tmp_path / "m.onnx", "MoE", given, variable=(0, 1), **options)
    wanted = experts_by_loops(x, router, layers, k, ACTIVATIONS[activation], normalises)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_experts_that_few_tokens_take_are_read_alone(tmp_path):
    x, router = normal(2, 16), normal(2, 24)
    layers = [(normal(24, 48, 16), normal(24, 48)), (normal(24, 16, 24), normal(24, 16))]
    options = {"k": 3, "activation_type": "swiglu", "swiglu_fusion": 1, "normalize_routing_weights": 1}
    made = compiled(tmp_path / "m.onnx", "MoE", [x, router, *layers[0], *layers[1]], variable=(0, 1), **options)
    wanted = experts_by_loops(x, router, layers, 3, ACTIVATIONS["swiglu"], True)
    np.testing.assert_allclose(made(x, router)[0], wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    each = 8 // bits
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % each)])
    parts = values.reshape(*values.shape[:-1], -1, each).astype(np.int64) << (bits * np.arange(each))
    return parts.sum(-1).astype(np.uint8)


@pytest.mark.parametrize("bits, block, has_zero", [(4, 16, False), (8, 0, False), (4, 16, True), (2, 32, True)])
def test_experts_of_few_bits(tmp_path, bits, block, has_zero):
    x, router = normal(5, 64), normal(5, 4)
    given, zeros, layers = [x, router], [], []
    for columns, rows in ((32, 64), (64, 32)):
        blocks = rows // block if block else 1
        numbers = RNG.integers(0, 1 << bits, (4, columns, rows), np.uint8)
        scales = (RNG.random((4, columns, blocks)) / 10).astype(np.float32)
        zero = np.full((4, columns, blocks), 1 << (bits - 1), np.uint8)
        if has_zero:
            zero = RNG.integers(0, 1 << bits, zero.shape, np.uint8)
        bias = normal(4, columns)
        given += [packed(numbers, bits), scales if block else scales[..., 0], bias]
        zeros.append(packed(zero, bits))
        spread = [np.repeat(part.astype(np.float64), rows // blocks, 2) for part in (zero, scales)]
        layers.append(((numbers - spread[0]) * spread[1], bias))
    given += [None, None, None, *zeros] if has_zero else []
    options = {"k": 2, "activation_type": "silu", "expert_weight_bits": bits, "normalize_routing_weights": 1}
    options |= {"block_size": block} if block else {}
    found = run(tmp_path / "m.onnx", "QMoE", given, variable=(0, 1), **options)
    wanted = experts_by_loops(x, router, layers, 2, silu, True)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("has_zero", [False, True])
def test_rows_of_tables_of_few_bits(tmp_path, bits, has_zero):
    numbers = RNG.integers(0, 1 << bits, (10, 64), np.uint8)
    zeros = RNG.integers(0, 1 << bits, (10, 4), np.uint8) if has_zero else np.full((10, 4), 1 << (bits - 1), np.uint8)
    scales, places = normal(10, 4), np.array([[3, 0, -1], [9, 3, 3]])
    given = [packed(numbers, bits), places, scales] + ([packed(zeros, bits)] if has_zero else [])
    options = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    found = run(tmp_path / "m.onnx", "GatherBlockQuantized", given, variable=(1,), **options)
    table = (numbers.astype(np.float32) - np.repeat(zeros, 16, 1)) * np.repeat(scales, 16, 1)
    close(found, table[places])


@pytest.mark.parametrize("entries", [1, 5])
def test_places_outside_of_a_table_of_few_bits_give_zeros(tmp_path, entries):
    numbers, scales = RNG.integers(0, 256, (entries, 32), np.uint8), normal(entries, 2)
    places = np.array([[0, entries - 1, -entries], [entries, -entries - 1, -1]])
    options = {"bits": 8, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    found = run(tmp_path / "m.onnx", "GatherBlockQuantized", [numbers, places, scales], variable=(1,), **options)
    table = (numbers.astype(np.float32) - 128) * np.repeat(scales, 16, 1)
    inside = (places >= -entries) & (places < entries)
    close(found, np.where(inside[..., None], table[np.where(inside, places, 0)], 0))


@pytest.mark.parametrize(
    "zeros, rows, said", [((4,), 10, "zero points of rank 1"), ((10, 4), 7, "7 rows of scales or zero points for 10")]
)
def test_tables_of_few_bits_whose_parts_do_not_go_together_are_refused(tmp_path, zeros, rows, said):
    """A zero point of one dimension and one place ended the process."""
    numbers, place = np.zeros((10, 32), np.uint8), np.array(3)
    given = [numbers, place, normal(rows, 4), np.zeros(zeros, np.uint8)]
    with pytest.raises(opentrn.errors.InputError, match=said):
        run(tmp_path / "m.onnx", "GatherBlockQuantized", given, variable=(1,), bits=4, block_size=16)


@pytest.mark.parametrize("queries, keys", [(5, 3), (3, 5)])
def test_a_causal_mask_of_other_numbers_of_queries_and_keys(tmp_path, queries, keys):
    """As ONNX Runtime 1.32 has it: the last query reads every key."""
    q, k = normal(1, queries, 8), normal(1, keys, 8)
    found = run(tmp_path / "m.onnx", "MultiHeadAttention", [q, k, k], num_heads=1, unidirectional=1)
    scores = q[0].astype(np.float64) @ k[0].T / math.sqrt(8)
    seen = np.tri(queries, keys, dtype=bool)
    seen[-1] = True
    weights = np.exp(np.where(seen, scores, -np.inf))
    close(found[0], weights / weights.sum(-1, keepdims=True) @ k[0])


@pytest.mark.parametrize(
    "op, attribute, given",
    [
        ("MoE", "swiglu_limit_after_activation", [normal(2, 8), normal(2, 4), normal(4, 8, 8), None, normal(4, 8, 8)]),
        ("LinearAttention", "state_window", [normal(1, 3, 8)] * 3),
    ],
)
def test_attributes_that_change_values_are_refused(tmp_path, op, attribute, given):
    options = {attribute: 1, "q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}
    with pytest.raises(opentrn.errors.NotModelled, match=attribute):
        run(tmp_path / "m.onnx", op, given, **options)


def test_numbers_of_16_bits_with_a_scale(tmp_path):
    x = RNG.integers(-(1 << 15), 1 << 15, (3, 4)).astype(np.int16)
    scale, zero = np.array([0.1, 0.2, 0.3], np.float32), np.array([3, -4, 5], np.int16)
    found = run(tmp_path / "m.onnx", "DequantizeLinear", [x, scale, zero], axis=0)
    close(found, ((x.astype(np.float32) - zero[:, None]) * scale[:, None]).astype(np.float32))


def test_operators_that_are_onnxs_own_under_another_domain(tmp_path):
    x = normal(3, 4)
    close(run(tmp_path / "m.onnx", "Trilu", [x, np.array(1, np.int64)], upper=0), np.tril(x, 1))
    close(run(tmp_path / "m.onnx", "GatherND", [x, np.array([[2, 1], [0, 3]])]), x[[2, 0], [1, 3]])
    y = normal(3, 5)
    close(run(tmp_path / "m.onnx", "TransposeMatMul", [x, y], transA=1), (x.astype(np.float64).T @ y))
