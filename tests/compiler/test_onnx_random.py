"""ONNX operators that draw random numbers: how they are distributed, and which runs draw the same.

The distributions are held to their formulas (Kolmogorov-Smirnov and chi-squared at one in a thousand; the numbers are
seeded, so a run repeats itself).
"""

from __future__ import annotations

import math

import numpy as np
import onnx_bytes as ob
import pytest

import opentrn

FLOAT, INT32, INT64, BOOL, HALF = 1, 6, 7, 9, 10
KS_LIMIT = 1.95  # of sqrt(n) times the largest distance, at one in a thousand


def model_file(tmp_path, nodes, inputs, outputs, opset=22, constants=b""):
    """inputs, outputs: {name: (dims, element)}."""
    graph = b"".join(ob.field(1, each) for each in nodes) + ob.field(2, "g") + constants
    for number, ports in ((11, inputs), (12, outputs)):
        for name, (dims, element) in ports.items():
            graph += ob.field(number, ob.value_info(name, list(dims), element))
    path = tmp_path / "random.onnx"
    path.write_bytes(ob.field(1, 8) + ob.field(7, graph) + ob.field(8, ob.field(1, "") + ob.field(2, opset)))
    return path


def constant(name, element, values):
    data = np.asarray(values)
    dims = b"".join(ob.field(1, size) for size in data.shape)
    return ob.field(5, dims + ob.field(2, element) + ob.field(8, name) + ob.field(9, data.tobytes()))


def draws(tmp_path, op, attributes, count=20000, element=FLOAT):
    shape = ob.integers("shape", [count])
    node = ob.node(op, [], ["y"], shape + attributes)
    return opentrn.compile(model_file(tmp_path, [node], {}, {"y": ((count,), element)}))


def distance(values, distribution):
    """Kolmogorov-Smirnov: sqrt(n) times the largest distance of the values' distribution from the formula."""
    ordered = np.sort(values.astype(np.float64))
    expected = np.array([distribution(value) for value in ordered])
    steps = np.arange(len(ordered) + 1) / len(ordered)
    largest = max(np.max(steps[1:] - expected), np.max(expected - steps[:-1]))
    return math.sqrt(len(ordered)) * largest


def test_uniform_numbers_are_uniform(tmp_path):
    (y,) = draws(tmp_path, "RandomUniform", ob.real("low", -2.0) + ob.real("high", 6.0))()
    assert y.dtype == np.float32 and y.min() >= -2 and y.max() < 6
    assert distance(y, lambda value: (value + 2) / 8) < KS_LIMIT
    assert abs(np.corrcoef(y[:-1], y[1:])[0, 1]) < 4 / math.sqrt(len(y))


def test_normal_numbers_are_normal(tmp_path):
    (y,) = draws(tmp_path, "RandomNormal", ob.real("mean", 3.0) + ob.real("scale", 0.5))()
    assert np.isfinite(y).all()
    assert distance(y, lambda value: (1 + math.erf((value - 3) / 0.5 / math.sqrt(2))) / 2) < KS_LIMIT
    assert abs(np.corrcoef(y[:-1], y[1:])[0, 1]) < 4 / math.sqrt(len(y))


def test_halves_stay_below_the_upper_end(tmp_path):
    (y,) = draws(tmp_path, "RandomUniform", ob.integer("dtype", HALF), element=HALF)()
    assert y.dtype == np.float16 and y.min() >= 0 and y.max() < 1


def test_runs_differ_and_seeds_repeat_them(tmp_path):
    model = draws(tmp_path, "RandomNormal", b"", 1000)
    assert model.inputs == [] and model.draws_random_numbers
    (first,), (second,) = model(), model()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.15
    model.seed(0)
    np.testing.assert_array_equal(model()[0], first)
    np.testing.assert_array_equal(model()[0], second)
    model.seed(1)
    assert abs(np.corrcoef(model()[0], first)[0, 1]) < 0.15
    model.save(tmp_path / "random.neuron")
    np.testing.assert_array_equal(opentrn.load(tmp_path / "random.neuron")()[0], first)
    with pytest.raises(ValueError, match="32 bits"):
        model.seed(-1)


def test_a_seed_of_the_nodes_own_gives_the_same_in_every_run(tmp_path):
    def node(output, seed):
        return ob.node("RandomUniform", [], [output], ob.integers("shape", [500]) + ob.real("seed", seed))

    outputs = dict.fromkeys("abc", ((500,), FLOAT))
    path = model_file(tmp_path, [node("a", 1.5), node("b", 1.5), node("c", 2.5)], {}, outputs)
    model = opentrn.compile(path)
    assert not model.draws_random_numbers
    a, b, c = model()
    np.testing.assert_array_equal(a, b)
    assert abs(np.corrcoef(a, c)[0, 1]) < 0.2
    np.testing.assert_array_equal(model()[0], a)


def test_like_operators_take_shape_and_type(tmp_path):
    nodes = [ob.node("RandomUniformLike", ["x"], ["a"]), ob.node("RandomNormalLike", ["x"], ["b"])]
    outputs = {"a": ((40, 50), HALF), "b": ((40, 50), HALF)}
    model = opentrn.compile(model_file(tmp_path, nodes, {"x": ((40, 50), HALF)}, outputs))
    assert [port.name for port in model.inputs] == ["x"]
    a, b = model(np.zeros((40, 50), np.float16))
    assert a.dtype == b.dtype == np.float16 and a.shape == b.shape == (40, 50)
    assert abs(a.mean() - 0.5) < 0.03 and abs(b.astype(np.float32).std() - 1) < 0.1
    assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.1


def test_bernoulli_draws_with_each_elements_chance(tmp_path):
    node = ob.node("Bernoulli", ["x"], ["y"], ob.integer("dtype", BOOL))
    path = model_file(tmp_path, [node], {"x": ((5, 4000), FLOAT)}, {"y": ((5, 4000), BOOL)})
    chances = np.array([0, 0.1, 0.5, 0.9, 1], np.float32)
    (y,) = opentrn.compile(path)(np.repeat(chances[:, None], 4000, 1))
    assert y.dtype == np.bool_
    share = y.mean(1)
    assert share[0] == 0 and share[-1] == 1
    limit = 4 * np.sqrt(chances * (1 - chances) / 4000)
    assert (np.abs(share - chances) <= limit).all()


@pytest.mark.parametrize("element", [INT32, INT64])
def test_multinomial_draws_from_the_softmax(tmp_path, element):
    samples = 4000
    attributes = ob.integer("sample_size", samples) + ob.integer("dtype", element)
    node = ob.node("Multinomial", ["x"], ["y"], attributes)
    path = model_file(tmp_path, [node], {"x": ((2, 6), FLOAT)}, {"y": ((2, samples), element)})
    logits = np.array([[0, 1, 2, -1, 0.5, -np.inf], [-np.inf, 3, 3, 3, 3, 3]], np.float32)
    (y,) = opentrn.compile(path)(logits)
    assert y.dtype == (np.int32 if element == INT32 else np.int64) and y.shape == (2, samples)
    for row, weights in zip(y, np.exp(logits.astype(np.float64))):
        expected = weights / weights.sum() * samples
        counts = np.bincount(row, minlength=6)
        assert counts.sum() == samples and (counts[expected == 0] == 0).all()
        held = expected > 0
        assert ((counts[held] - expected[held]) ** 2 / expected[held]).sum() < 18.5  # 4 degrees of freedom


def dropout(tmp_path, ratio, training, opset=22):
    node = ob.node("Dropout", ["x", "ratio", "training"], ["y", "mask"])
    constants = constant("ratio", FLOAT, np.float32(ratio)) + constant("training", BOOL, np.bool_(training))
    ports = {"y": ((64, 100), FLOAT), "mask": ((64, 100), BOOL)}
    return model_file(tmp_path, [node], {"x": ((64, 100), FLOAT)}, ports, opset, constants)


def test_dropout_in_training_drops_and_scales(tmp_path):
    model = opentrn.compile(dropout(tmp_path, 0.25, True))
    x = np.random.default_rng(0).standard_normal((64, 100)).astype(np.float32)
    y, mask = model(x)
    np.testing.assert_allclose(y, np.where(mask, x / np.float32(0.75), 0), rtol=1e-6)
    assert abs(mask.mean() - 0.75) < 4 * math.sqrt(0.75 * 0.25 / mask.size)
    assert (model(x)[1] != mask).mean() > 0.3  # another mask in every run: 2 * 0.75 * 0.25 of it differs


@pytest.mark.parametrize(("ratio", "training"), [(0.25, False), (0.0, True)])
def test_dropout_without_a_part_to_drop_is_a_copy(tmp_path, ratio, training):
    model = opentrn.compile(dropout(tmp_path, ratio, training))
    assert not model.draws_random_numbers
    x = np.random.default_rng(0).standard_normal((64, 100)).astype(np.float32)
    y, mask = model(x)
    np.testing.assert_array_equal(y, x)
    assert mask.all()


def test_iterations_of_a_loop_draw_anew(tmp_path):
    draw = ob.node("RandomNormalLike", ["state"], ["noise"])
    add = ob.node("Add", ["state", "noise"], ["next"])
    same = ob.node("Identity", ["go"], ["more"])
    body = b"".join(ob.field(1, each) for each in (draw, add, same)) + ob.field(2, "body")
    for number, name, dims, element in [
        (11, "i", [], INT64), (11, "go", [], BOOL), (11, "state", [300], FLOAT),
        (12, "more", [], BOOL), (12, "next", [300], FLOAT), (12, "noise", [300], FLOAT),
    ]:  # fmt: skip
        body += ob.field(number, ob.value_info(name, dims, element))
    loop = ob.node("Loop", ["trips", "", "x"], ["y", "all"], ob.subgraph("body", body))
    path = model_file(
        tmp_path, [loop], {"x": ((300,), FLOAT)}, {"y": ((300,), FLOAT), "all": ((7, 300), FLOAT)},
        constants=constant("trips", INT64, np.int64(7)),
    )  # fmt: skip
    y, noise = opentrn.compile(path)(np.zeros(300, np.float32))
    np.testing.assert_allclose(y, noise.sum(0), rtol=1e-5, atol=1e-5)
    correlation = np.corrcoef(noise) - np.eye(7)
    assert np.abs(correlation).max() < 0.25


def test_models_in_stages_draw_behind_the_cut_too(tmp_path):
    nodes = [
        ob.node("RandomNormalLike", ["x"], ["a"]),
        ob.node("NonZero", ["x"], ["places"]),
        ob.node("Cast", ["places"], ["floats"], ob.integer("to", FLOAT)),
        ob.node("RandomNormalLike", ["floats"], ["b"]),
    ]
    outputs = {"a": ((400,), FLOAT), "b": ((1, "n"), FLOAT)}
    model = opentrn.compile(model_file(tmp_path, nodes, {"x": ((400,), FLOAT)}, outputs))
    assert [port.name for port in model.inputs] == ["x"]
    x = np.ones(400, np.float32)
    a, b = model(x)
    assert b.shape == (1, 400) and abs(np.corrcoef(a, b[0])[0, 1]) < 0.2
    again_a, again_b = model(x)
    assert (again_a != a).mean() > 0.99 and (again_b != b).mean() > 0.99
    model.seed(0)
    for mine, earlier in zip(model(x), (a, b)):
        np.testing.assert_array_equal(mine, earlier)


def test_programs_of_several_sizes_count_runs_together(tmp_path):
    node = ob.node("RandomNormalLike", ["x"], ["y"])
    path = model_file(tmp_path, [node], {"x": (("n", 300), FLOAT)}, {"y": (("n", 300), FLOAT)})
    model = opentrn.compile(path, dimensions={"n": [1, 2]})
    one, two = model(np.zeros((1, 300), np.float32))[0], model(np.zeros((2, 300), np.float32))[0]
    assert abs(np.corrcoef(one[0], two[0])[0, 1]) < 0.25


def test_the_diff_of_a_drawing_model_is_clean(tmp_path):
    from opentrn.model import diff

    nodes = [ob.node("RandomNormalLike", ["x"], ["noise"]), ob.node("Add", ["x", "noise"], ["y"])]
    path = model_file(tmp_path, nodes, {"x": ((64, 100), FLOAT)}, {"y": ((64, 100), FLOAT)})
    assert diff.diff(path, np.ones((64, 100), np.float32)).is_clean


def test_coverage_agrees_with_strict_compilation(tmp_path):
    path = model_file(
        tmp_path, [ob.node("RandomNormalLike", ["x"], ["y"])], {"x": ((8, 8), FLOAT)}, {"y": ((8, 8), FLOAT)}
    )
    opentrn.compile(path, strict=True)
    rows = {row.op: row for row in opentrn.coverage(path)}
    assert all(row.unsupported == 0 for row in rows.values())
    assert (
        rows["stablehlo.bitcast_convert"].emulated == 1 and rows["stablehlo.rng_bit_generator"].emulated == 1
    )


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("RandomNormal", ob.integer("dtype", INT64) + ob.integers("shape", [4]), "dtype is i64"),
        ("RandomUniform", b"", "no shape"),
        ("RandomUniform", ob.integers("shape", [4]) + ob.real("low", 2.0), "low 2 is above high 1"),
        ("RandomNormal", ob.integers("shape", [4]) + ob.real("scale", -1.0), "scale is -1"),
    ],
)
def test_wrong_attributes_are_faults_of_the_model(tmp_path, op, attributes, message):
    path = model_file(tmp_path, [ob.node(op, [], ["y"], attributes)], {}, {"y": ((4,), FLOAT)})
    with pytest.raises(ValueError, match=message):
        opentrn.compile(path)


def test_the_ratio_of_dropout_is_below_one(tmp_path):
    with pytest.raises(ValueError, match=r"ratio is 1, not in \[0, 1\)"):
        opentrn.compile(dropout(tmp_path, 1.0, True))
