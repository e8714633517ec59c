"""Models with open dimensions: several programs, picked by the inputs' sizes; padding only where it is proved."""

import json

import numpy as np
import pytest
from onnx_bytes import field, value_info

import opentrn
from opentrn import _core, graph
from opentrn.cli import commands as cli
from opentrn.model import compiled as model
from opentrn.model.buckets import BucketedModel

WEIGHT = np.random.default_rng(0).standard_normal((16, 24)).astype(np.float32)


def onnx_file(path, nodes, inputs, outputs, initializers=()):
    body = b"".join(field(1, node) for node in nodes) + field(2, "g")
    for name, array, kind in initializers:
        dims = b"".join(field(1, size) for size in array.shape)
        body += field(5, dims + field(2, kind) + field(8, name) + field(9, array.tobytes()))
    body += b"".join(field(11, value_info(*port)) for port in inputs)
    body += b"".join(field(12, value_info(*port)) for port in outputs)
    path.write_bytes(field(1, 8) + field(7, body) + field(8, field(1, "") + field(2, 17)))
    return path


def node(op, inputs, output, *attributes):
    names = b"".join(field(1, name) for name in inputs) + field(2, output)
    return names + field(3, output) + field(4, op) + b"".join(field(5, attribute) for attribute in attributes)


def integer(name, value):
    return field(1, name) + field(3, value) + field(20, 2)


@pytest.fixture()
def dense(tmp_path):
    """softmax(tanh(x) @ w), x: [batch, 16]."""
    return onnx_file(
        tmp_path / "dense.onnx",
        [node("Tanh", ["x"], "t"), node("MatMul", ["t", "w"], "m"), node("Softmax", ["m"], "y", integer("axis", 1))],
        [("x", ["batch", 16])], [("y", ["batch", 24])], [("w", WEIGHT, 1)],
    )  # fmt: skip


@pytest.fixture()
def centred(tmp_path):
    """x minus its mean over the batch: padding rows would change every row."""
    axes = np.array([0], np.int64)
    return onnx_file(
        tmp_path / "centred.onnx",
        [node("ReduceMean", ["x"], "m", field(1, "axes") + field(8, 0) + field(20, 7)), node("Sub", ["x", "m"], "y")],
        [("x", ["batch", 16])], [("y", ["batch", 16])], [("unused", axes, 7)],
    )  # fmt: skip


def dense_reference(x):
    m = np.tanh(x.astype(np.float64)) @ WEIGHT
    e = np.exp(m - m.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("batch", [1, 2, 5, 8, 9, 32])
def test_any_size_up_to_the_largest(dense, batch, tmp_path):
    compiled = opentrn.compile(dense, dimensions={"batch": [1, 8, 32]})
    assert isinstance(compiled, BucketedModel)
    (dimension,) = compiled.dimensions
    assert (dimension.inputs, dimension.results, dimension.mixing) == (((0, 0),), ((0, 0),), "")
    x = np.random.default_rng(batch).standard_normal((batch, 16)).astype(np.float32)
    bucket, _ = compiled.pick({"batch": batch})
    assert bucket == {"batch": 1 if batch == 1 else 8 if batch <= 8 else 32}
    for runs in (compiled, model.load(compiled.save(tmp_path / "b.neuron"))):
        (y,) = runs(x)
        assert y.shape == (batch, 24)
        np.testing.assert_allclose(y, dense_reference(x), rtol=0, atol=2e-6)


def test_padding_that_would_change_results_is_refused(centred):
    compiled = opentrn.compile(centred, dimensions={"batch": [4, 8]})
    assert "stablehlo.reduce" in compiled.dimensions[0].mixing
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    for exact in (4, 8):
        want = x[:exact] - x[:exact].mean(0)
        np.testing.assert_allclose(compiled(x[:exact])[0], want, rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="batch=5 would be padded to 8.*stablehlo.reduce"):
        compiled(x[:5])
    forced = compiled(x[:5], allow_padding=["batch"])[0]  # whoever says so gets zeros in the mean
    np.testing.assert_allclose(forced, x[:5] - x[:5].sum(0) / 8, rtol=0, atol=1e-6)


def test_sizes_that_no_program_holds(dense):
    compiled = opentrn.compile(dense, dimensions={"batch": [1, 8]})
    with pytest.raises(ValueError, match="no program for batch=9; compiled for batch=1; batch=8"):
        compiled(np.zeros((9, 16), np.float32))
    with pytest.raises(ValueError, match="'nothing' is not a dimension"):
        opentrn.compile(dense, dimensions={"batch": 4, "nothing": [1, 2]})
    with pytest.raises(ValueError, match="not a list of sizes"):
        opentrn.compile(dense, dimensions={"batch": [0, 4]})


def test_equal_weights_are_in_the_file_once(dense, tmp_path):
    one = opentrn.compile(dense, dimensions={"batch": 8}).save(tmp_path / "one.neuron").stat().st_size
    compiled = opentrn.compile(dense, dimensions={"batch": [8, 16, 24]})
    assert compiled.save(tmp_path / "b.neuron").stat().st_size < 3 * one - 2 * WEIGHT.nbytes + 200


# (program, argument axes that are padded, result axes or what mixes): every rule of src/compiler/analysis/padding.cc.
PROOFS = [
    ("tensor<4x6xf32>", "%r = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>",
     "tensor<6x4xf32>", 0, [(0, 1)]),
    ("tensor<4x6xf32>", "%r = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<4x2x3xf32>",
     "tensor<4x2x3xf32>", 0, [(0, 0)]),
    ("tensor<4x6xf32>", "%m = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<24xf32>\n"
     "%r = stablehlo.reshape %m : (tensor<24xf32>) -> tensor<4x3x2xf32>", "tensor<4x3x2xf32>", 0, [(0, 0)]),
    ("tensor<4x6xf32>", "%r = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<24xf32>",
     "tensor<24xf32>", 0, "result 0"),
    ("tensor<4x6xf32>", "%r = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<3x8xf32>",
     "tensor<3x8xf32>", 0, "reshape"),
    ("tensor<4x6xf32>", "%r = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1]"
     " : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x4xf32>", "tensor<4x4xf32>", 0, [(0, 0), (0, 1)]),
    ("tensor<4x6xf32>", "%r = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0]"
     " : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<6x6xf32>", "tensor<6x6xf32>", 0, "dot_general"),
    ("tensor<4x6x5xf32>", "%r = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [2] x [2]"
     " : (tensor<4x6x5xf32>, tensor<4x6x5xf32>) -> tensor<4x6x6xf32>", "tensor<4x6x6xf32>", 0, [(0, 0)]),
    ("tensor<4x6xf32>", "%r = stablehlo.reverse %x, dims = [0] : tensor<4x6xf32>", "tensor<4x6xf32>", 0, "reverse"),
    ("tensor<4x6xf32>", "%r = stablehlo.reverse %x, dims = [1] : tensor<4x6xf32>", "tensor<4x6xf32>", 0, [(0, 0)]),
    ("tensor<4x6xf32>", "%r = stablehlo.slice %x [1:3, 0:6] : (tensor<4x6xf32>) -> tensor<2x6xf32>",
     "tensor<2x6xf32>", 0, "slice"),
    ("tensor<4x6xf32>", "%r = stablehlo.concatenate %x, %x, dim = 1"
     " : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>", "tensor<4x12xf32>", 0, [(0, 0)]),
    ("tensor<4x6xf32>", "%r = stablehlo.concatenate %x, %x, dim = 0"
     " : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>", "tensor<8x6xf32>", 0, "concatenate"),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "body", "result", "axis", "expected"), PROOFS)
def test_proofs_are_what_the_evaluator_shows(argument, body, result, axis, expected):
    """Changing the padded rows of the input changes exactly the rows that are said to be cut."""
    text = f"func.func @main(%x: {argument}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    module = graph.parse(text)
    results, mixing = _core.prove_padding(module._raw, [(0, axis)])
    x = (
        np.random.default_rng(0)
        .standard_normal(module.functions["main"].arguments[0].shape)
        .astype(np.float32)
    )
    other = x.copy()
    keep = 2
    other[(slice(None),) * axis + (slice(keep, None),)] += 1
    before, after = module.evaluate(x)[0], module.evaluate(other)[0]
    if isinstance(expected, str):
        assert expected in mixing
        return
    assert not mixing and sorted(map(tuple, results)) == expected
    cut = tuple(slice(0, keep) if (0, at) in expected else slice(None) for at in range(before.ndim))
    np.testing.assert_array_equal(before[cut], after[cut])
    assert (before != after).any()


def test_a_constant_that_depends_on_the_size_is_no_padding():
    def text(size, numbers):
        return f"""func.func @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{
          %c = stablehlo.constant dense<{numbers}> : tensor<{size}xf32>
          %r = stablehlo.add %x, %c : tensor<{size}xf32>
          return %r : tensor<{size}xf32>
        }}"""

    def compare(a, b):
        return _core.difference_but_for_size(graph.parse(a)._raw, graph.parse(b)._raw)

    assert compare(text(2, "[1.0, 2.0]"), text(3, "[1.0, 2.0, 3.0]")) == ""
    assert "constant" in compare(text(2, "[2.0, 1.0]"), text(3, "[3.0, 2.0, 1.0]"))
    assert "constant" in compare(text(2, "0.5"), text(3, "0.25"))


def test_the_commands(dense, tmp_path, capsys):
    file = tmp_path / "b.neuron"
    words = ["compile", str(dense), "--dim", "batch=1,8", "-o", str(file)]
    assert cli.main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [row["dimensions"] for row in facts["programs"]] == [{"batch": 1}, {"batch": 8}]
    assert cli.main(words) == 0
    assert "program for batch=1" in capsys.readouterr().out
    np.save(tmp_path / "x.npy", np.ones((3, 16), np.float32))
    assert cli.main(["run", str(file), "--input", f"x={tmp_path / 'x.npy'}", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["outputs"][0]["shape"] == [3, 24]
    assert "batch=3 runs in the program for batch=8, padded" in captured.err
    assert cli.main(["run", str(file), "--dim", "batch=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] == [2, 24]
    assert cli.main(["profile", str(file), "--dim", "batch=1"]) == 0
    assert cli.main(["describe", str(file)]) == 0
    assert "program for batch=8" in capsys.readouterr().out
    assert cli.main(["coverage", str(dense), "--dim", "batch=1,8"]) == cli.INPUT
    assert cli.main(["compile", str(dense), "--dim", "batch=1,x"]) == cli.INPUT
