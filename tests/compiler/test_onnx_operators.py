"""ONNX operators against what their specification says, in Python loops, on the evaluator and on the device."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import field, integer, integers, node, value_info, varint

import opentrn
from opentrn import _core, graph
from opentrn.errors import NotModelled

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7
RNG = np.random.default_rng(0)
KINDS = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int32": INT32, "int64": INT64}


def text(name: str, value: str) -> bytes:
    return field(5, field(1, name) + field(4, value) + field(20, 3))


def reals(name: str, values: list[float]) -> bytes:
    data = b"".join(varint(7 << 3 | 5) + struct.pack("<f", value) for value in values)
    return field(5, field(1, name) + data + field(20, 6))


def tensor(name: str, array: np.ndarray) -> bytes:
    dims = b"".join(field(1, size) for size in array.shape)
    return dims + field(2, KINDS[array.dtype.name]) + field(8, name) + field(9, array.tobytes())


def tensor_attribute(name: str, array: np.ndarray) -> bytes:
    return field(5, field(1, name) + field(5, tensor("", array)) + field(20, 4))


def run(
    path: Path, one: bytes, arrays: dict[str, np.ndarray], outputs=("y",), constants=None, domain: str = ""
):
    """Results of a model of one node, on the device; the evaluator's are the same but for rounding."""
    body = field(1, one + (field(7, domain) if domain else b"")) + field(2, "g")
    body += b"".join(field(5, tensor(name, array)) for name, array in (constants or {}).items())
    for name, array in arrays.items():
        body += field(11, value_info(name, list(array.shape), KINDS[array.dtype.name]))
    body += b"".join(field(12, value_info(name, [])) for name in outputs)
    data = field(1, 8) + field(7, body) + field(8, field(1, "") + field(2, 17))
    if domain:
        data += field(8, field(1, domain) + field(2, 5 if domain.startswith("ai.") else 1))
    path.write_bytes(data)
    got = opentrn.compile(path, strict=True)(*arrays.values())
    wanted = graph.Module(_core.graph.import_onnx_file(str(path))).evaluate(*arrays.values())
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(b).max(initial=0.0)))
    return got


@pytest.mark.parametrize("rank", [2, 3])
def test_stft_of_a_signal_without_a_dimension_of_parts(tmp_path, rank):
    signal = RNG.standard_normal((2, 64), np.float32)
    window = np.hanning(16).astype(np.float32)
    constants = {"step": np.array(8), "window": window}
    x = signal if rank == 2 else signal[..., None]
    (y,) = run(
        tmp_path / "m.onnx", node("STFT", ["x", "step", "window"], ["y"]), {"x": x}, constants=constants
    )
    frames = np.stack([signal[:, i : i + 16] * window for i in range(0, 49, 8)], 1)
    wanted = np.fft.rfft(frames, axis=-1)
    np.testing.assert_allclose(y, np.stack([wanted.real, wanted.imag], -1), atol=1e-5)


def test_frames_of_an_stft_are_slices(tmp_path):
    """Whatever the frames' number, they overlap in a few slices, and one product transforms them."""
    path = tmp_path / "m.onnx"
    signal, window = RNG.standard_normal((1, 8000), np.float32), np.hanning(400).astype(np.float32)
    constants = {"step": np.array(160), "window": window}
    (y,) = run(path, node("STFT", ["x", "step", "window"], ["y"]), {"x": signal}, constants=constants)
    frames = np.stack([signal[:, i : i + 400] * window for i in range(0, 7601, 160)], 1)
    wanted = np.fft.rfft(frames, axis=-1)
    np.testing.assert_allclose(y, np.stack([wanted.real, wanted.imag], -1), atol=1e-4)
    program = opentrn.compile(path).program_text()
    assert "vector" not in program, "gathered element by element"
    assert program.count("nc_matmul") < 40


def counted(rows, grams, columns, longest, shortest, skips, mode):
    """The columns' scores: every place, every distance; one number alone counts at distance 1."""
    y = np.zeros((len(rows), columns), np.float32)
    for number, row in enumerate(rows.tolist()):
        for length, distance in itertools.product(range(shortest, longest + 1), range(1, skips + 2)):
            if length == 1 and distance > 1:
                continue
            for place in range(len(row) - (length - 1) * distance):
                found = grams.get(tuple(row[place : place + length * distance : distance][:length]))
                if found is None:
                    continue
                column, weight = found
                if mode == "IDF":
                    y[number, column] = weight
                else:
                    y[number, column] += weight if mode == "TFIDF" else 1
    return y


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("shortest", "longest", "skips"), [(1, 1, 3), (2, 2, 0), (1, 2, 5), (2, 3, 1)])
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_n_grams_are_counted(tmp_path, dtype, shortest, longest, skips, mode):
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 1, 2, 3]  # three numbers, five pairs... the last is a triple
    # Two of the pairs share a column, but where one of them would have to give way to the other.
    counts, columns = [0, 4, 10], [0, 3, 2, 1, 4, 7 if mode == "IDF" else 4, 6, 5]
    weights = [0.5 * i + 2 for i in range(8)]
    lists = (
        [pool[i : i + 1] for i in range(4)] + [pool[4 + 2 * i : 6 + 2 * i] for i in range(3)] + [pool[10:]]
    )
    grams = {tuple(each): (columns[i], weights[i]) for i, each in enumerate(lists)}
    attributes = text("mode", mode) + integers("pool_int64s", pool) + integers("ngram_counts", counts)
    attributes += integers("ngram_indexes", columns) + reals("weights", weights)
    attributes += integer("min_gram_length", shortest) + integer("max_gram_length", longest)
    attributes += integer("max_skip_count", skips)
    x = RNG.integers(1, 9, (3, 12)).astype(dtype)
    wanted = counted(x, grams, max(columns) + 1, longest, shortest, skips, mode)
    (y,) = run(tmp_path / "m.onnx", node("TfIdfVectorizer", ["x"], ["y"], attributes), {"x": x})
    np.testing.assert_array_equal(y, wanted)
    (y,) = run(tmp_path / "m.onnx", node("TfIdfVectorizer", ["x"], ["y"], attributes), {"x": x[0]})
    np.testing.assert_array_equal(y, wanted[0])


def test_a_pool_of_strings_is_refused_with_what_to_do(tmp_path):
    words = field(5, field(1, "pool_strings") + field(9, "a") + field(20, 8))
    attributes = text("mode", "TF") + words + integers("ngram_counts", [0]) + integers("ngram_indexes", [0])
    with pytest.raises(NotModelled, match=r"pool is of strings(.*\n)*.*pool_int64s"):
        run(
            tmp_path / "m.onnx",
            node("TfIdfVectorizer", ["x"], ["y"], attributes),
            {"x": np.zeros(3, np.int64)},
        )


def test_skips_that_would_fill_the_graph_are_refused(tmp_path):
    attributes = text("mode", "TF") + integers("pool_int64s", [1, 2]) + integers("ngram_counts", [0, 0])
    attributes += (
        integers("ngram_indexes", [0]) + integer("max_gram_length", 2) + integer("max_skip_count", 60000)
    )
    with pytest.raises(ValueError, match="more than 16384 compares"):
        run(
            tmp_path / "m.onnx",
            node("TfIdfVectorizer", ["x"], ["y"], attributes),
            {"x": np.zeros(1 << 16, np.int64)},
        )


def test_a_tree_that_comes_back_to_a_node_is_refused(tmp_path):
    one = np.zeros(1, np.float32)
    attributes = tensor_attribute("nodes_modes", np.zeros(1, np.uint8)) + tensor_attribute(
        "nodes_splits", one
    )
    attributes += tensor_attribute("leaf_weights", one)
    for name in (
        "nodes_featureids", "nodes_truenodeids", "nodes_trueleafs", "nodes_falsenodeids", "nodes_falseleafs",
        "leaf_targetids", "tree_roots",
    ):  # fmt: skip
        attributes += integers(name, [0])
    with pytest.raises(ValueError, match="round in a circle"):
        run(
            tmp_path / "m.onnx", node("TreeEnsemble", ["x"], ["y"], attributes), {"x": np.zeros((2, 1), np.float32)},
            domain="ai.onnx.ml",
        )  # fmt: skip


LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_rows_walk_down_the_trees(tmp_path, aggregate):
    # Node 0 is the root of the first tree, 4 of the second; leaves are 0 to 5.
    modes = np.array([LEQ, GT, MEMBER, NEQ, GTE], np.uint8)
    splits = np.array([0.5, 1.0, 0.0, 2.0, -1.0], np.float32)
    features, tracks = [0, 1, 2, 1, 2], [1, 0, 0, 1, 0]
    true_to, true_leaf = [1, 0, 2, 3, 4], [0, 1, 1, 1, 1]
    false_to, false_leaf = [2, 1, 3, 4, 5], [0, 1, 0, 1, 1]
    sets = np.array([1, 3, np.nan], np.float32)
    weights, targets = np.array([1, 2, 4, 8, 16, 32], np.float32), [0, 1, 2, 0, 1, 2]
    attributes = tensor_attribute("nodes_modes", modes) + tensor_attribute("nodes_splits", splits)
    attributes += tensor_attribute("membership_values", sets) + tensor_attribute("leaf_weights", weights)
    for name, values in {
        "nodes_featureids": features, "nodes_truenodeids": true_to, "nodes_trueleafs": true_leaf,
        "nodes_falsenodeids": false_to, "nodes_falseleafs": false_leaf, "leaf_targetids": targets,
        "tree_roots": [0, 4], "nodes_missing_value_tracks_true": tracks,
    }.items():  # fmt: skip
        attributes += integers(name, values)
    attributes += integer("n_targets", 3) + integer("aggregate_function", aggregate)

    def holds(number: int, value: float) -> bool:
        split = splits[number]
        tests = {
            LEQ: value <= split, GT: value > split, GTE: value >= split, NEQ: value != split, MEMBER: value in (1, 3),
        }  # fmt: skip
        return bool(tests[int(modes[number])]) or bool(tracks[number] and np.isnan(value))

    def leaf(row: np.ndarray, number: int, is_leaf: int) -> int:
        if is_leaf:
            return number
        side = holds(number, row[features[number]])
        return leaf(
            row, *((true_to[number], true_leaf[number]) if side else (false_to[number], false_leaf[number]))
        )

    x = RNG.choice(np.array([-2, 0, 0.5, 1, 2, 3, np.nan], np.float32), (40, 3))
    wanted = np.zeros((40, 3), np.float32)
    reached = np.zeros((40, 3), bool)
    combine = {2: min, 3: max}.get(aggregate, lambda a, b: a + b)
    for number, row in enumerate(x):
        for root in (0, 4):
            found = leaf(row, root, 0)
            weight = weights[found] / 2 if aggregate == 0 else weights[found]
            place = number, targets[found]
            wanted[place] = combine(wanted[place], weight) if reached[place] else weight
            reached[place] = True
    (y,) = run(
        tmp_path / "m.onnx", node("TreeEnsemble", ["x"], ["y"], attributes), {"x": x}, domain="ai.onnx.ml"
    )
    np.testing.assert_array_equal(y, wanted)


def quantised(x: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """Codes less the zero point, and the scale; as ONNX Runtime's DynamicQuantizeLinear."""
    high, low = max(x.max(), np.float32(0)), min(x.min(), np.float32(0))
    scale = np.float32(1) if high == low else np.float32((high - low) / np.float32(255))
    zero = np.round(np.clip(-low / scale, 0, 255))
    return np.clip(np.round(x / scale) + zero, 0, 255).astype(np.int64) - int(zero), scale


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_an_lstm_whose_products_are_of_whole_numbers(tmp_path, per_channel, kind):
    steps, batch, width, hidden = 4, 2, 6, 5
    info = np.iinfo(kind)
    x = RNG.standard_normal((steps, batch, width), np.float32)
    w = RNG.integers(info.min, info.max + 1, (2, width, 4 * hidden)).astype(kind)
    r = RNG.integers(info.min, info.max + 1, (2, hidden, 4 * hidden)).astype(kind)
    bias = RNG.standard_normal((2, 8 * hidden), np.float32)
    shape = (2, 4 * hidden) if per_channel else (2,)
    scales = [RNG.uniform(0.002, 0.01, shape).astype(np.float32) for _ in range(2)]
    zeros = [RNG.integers(0, 9, shape).astype(kind) for _ in range(2)]
    constants = {"w": w, "r": r, "b": bias, "ws": scales[0], "wz": zeros[0], "rs": scales[1], "rz": zeros[1]}
    names = ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    attributes = integer("hidden_size", hidden) + text("direction", "bidirectional")
    results = run(
        tmp_path / "m.onnx", node("DynamicQuantizeLSTM", names, ["y", "h", "c"], attributes), {"x": x},
        ("y", "h", "c"), constants, domain="com.microsoft",
    )  # fmt: skip

    def product(values, weights, zero, scale):
        codes, own = quantised(values)
        whole = codes @ (weights.astype(np.int64) - zero.astype(np.int64))
        return whole.astype(np.float32) * (own * scale)

    y = np.zeros((steps, 2, batch, hidden), np.float32)
    last = [np.zeros((2, batch, hidden), np.float32) for _ in range(2)]
    for d in range(2):
        h = c = np.zeros((batch, hidden), np.float32)
        inputs = product(x, w[d], zeros[0][d], scales[0][d]) + bias[d, : 4 * hidden] + bias[d, 4 * hidden :]
        for t in reversed(range(steps)) if d else range(steps):
            gates = inputs[t] + product(h, r[d], zeros[1][d], scales[1][d])
            i, o, f, g = np.split(gates, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            y[t, d] = h
        last[0][d], last[1][d] = h, c
    # A code of h may fall to the other side of a half: one step of its scale times a weight.
    for got, wanted in zip(results, [y, *last], strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-3)


def test_zeros_have_a_scale(tmp_path):
    y, scale, zero = run(
        tmp_path / "m.onnx", node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"]),
        {"x": np.zeros((2, 3), np.float32)}, ("y", "s", "z"),
    )  # fmt: skip
    assert not y.any() and scale == 1 and zero == 0
