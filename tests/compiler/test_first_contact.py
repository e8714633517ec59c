"""ONNX models as strangers bring them: open dimensions, unknown operators, inputs that choose branches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import field, integer, node, scalar, subgraph, value_info

import opentrn
from opentrn.cli import main
from opentrn.errors import NotModelled

INT64, FLOAT = 7, 1
MINUS_ONE = 2**64 - 1  # as protocol buffers write -1


def onnx_file(path: Path, nodes, inputs, outputs, constants=(), domains=()) -> Path:
    """inputs, outputs: value_info()s; constants: TensorProtos; domains: others than ONNX's own."""
    graph = b"".join(field(1, each) for each in nodes) + field(2, "g")
    graph += b"".join(field(5, each) for each in constants)
    graph += b"".join(field(11, each) for each in inputs) + b"".join(field(12, each) for each in outputs)
    data = field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))
    data += b"".join(field(8, field(1, domain) + field(2, 1)) for domain in domains)
    path.write_bytes(data)
    return path


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    """y = relu(x), z = relu(w); x [batch, seq], w [?, 3]."""
    return onnx_file(
        tmp_path / "open.onnx",
        [node("Relu", ["x"], ["y"]), node("Relu", ["w"], ["z"])],
        [value_info("x", ["batch", "seq"]), value_info("w", ["", 3])],
        [value_info("y", []), value_info("z", [])],
    )


def fails(capsys, *words: str) -> str:
    assert main(list(words)) != 0
    return capsys.readouterr().err


def test_all_dimensions_without_a_size_are_named_at_once(open_model, capsys, tmp_path):
    with pytest.raises(ValueError) as raised:
        opentrn.compile(open_model)
    text = str(raised.value)
    assert "3 dimensions of the model's inputs have no size" in text
    assert "'batch' (dimension 0 of input 'x')" in text and "'w.0' (dimension 0 of input 'w')" in text
    assert "dimensions={'batch': 1, 'seq': 128, 'w.0': 1}" in text
    said = fails(capsys, "compile", str(open_model), "-o", str(tmp_path / "o.neuron"))
    assert "--dim batch=1 --dim seq=128 --dim w.0=1" in said and "dimensions=" not in said


def test_the_sizes_that_an_error_proposes_are_taken(open_model):
    compiled = opentrn.compile(open_model, dimensions={"batch": 1, "seq": 128, "w.0": 1})
    assert [port.shape for port in compiled.inputs] == [(1, 128), (1, 3)]


def test_a_size_of_no_dimension_is_refused_with_the_nearest_name(open_model, capsys, tmp_path):
    sizes = {"batch": 1, "seq": 4, "w.0": 1}
    with pytest.raises(ValueError, match=r"'btach' is not a dimension.*(\n.*)*did you mean 'batch'"):
        opentrn.compile(open_model, dimensions=sizes | {"btach": 7})
    words = [f"--dim={name}={size}" for name, size in sizes.items()]
    said = fails(
        capsys, "compile", str(open_model), *words, "--dim=btach=7", "-o", str(tmp_path / "o.neuron")
    )
    assert "did you mean 'batch'" in said
    assert "'btach' is not a dimension" in fails(capsys, "coverage", str(open_model), *words, "--dim=btach=7")


def test_a_size_for_a_model_whose_shapes_are_stated_is_refused(tmp_path, capsys):
    path = tmp_path / "stated.mlir"
    path.write_text("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n")
    assert "'batch' is not a dimension" in fails(capsys, "coverage", str(path), "--dim", "batch=2")


def test_a_negative_size_is_an_open_dimension(tmp_path):
    path = onnx_file(
        tmp_path / "m.onnx",
        [node("Relu", ["x"], ["y"])], [value_info("x", [MINUS_ONE, 3])], [value_info("y", [MINUS_ONE, 3])],
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"dimensions=\{'x.0': 1\}"):
        opentrn.compile(path)
    assert opentrn.compile(path, dimensions={"x.0": 5}).inputs[0].shape == (5, 3)


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    """Two nodes of one unknown operator, one inside a branch, one refused operator and two known ones."""
    branch = field(1, node("Mystery", ["x"], ["inside"]) + field(7, "com.microsoft"))
    branch += field(2, "then") + field(12, value_info("inside", []))
    other = field(1, node("Relu", ["x"], ["other"])) + field(2, "else") + field(12, value_info("other", []))
    return onnx_file(
        tmp_path / "unknown.onnx",
        [
            node("Mystery", ["x"], ["a"]) + field(7, "com.microsoft"),
            node("If", ["p"], ["b"], subgraph("then_branch", branch) + subgraph("else_branch", other)),
            node("StringConcat", ["a", "b"], ["c"]),
        ],
        [value_info("x", [2]), value_info("p", [], 9)],
        [value_info("c", [])],
        domains=["com.microsoft"],
    )


def test_coverage_lists_every_operator_that_is_not_imported(unknown, capsys):
    assert main(["coverage", str(unknown)]) == 4
    said = capsys.readouterr().out
    assert "com.microsoft.Mystery" in said and "40.0 %" in said and "first at Mystery_a" in said
    assert "StringConcat" in said and "no tensors of strings" in said
    assert "3 of 5 nodes" in said and "Relu" not in said
    assert main(["coverage", str(unknown), "--json"]) == 4
    facts = json.loads(capsys.readouterr().out)
    assert [(row["op"], row["count"]) for row in facts["not_imported"]] == [
        ("com.microsoft.Mystery", 2),
        ("StringConcat", 1),
    ]
    assert (facts["nodes"], facts["nodes_not_imported"]) == (5, 3)


def branches(path: Path, second: bytes) -> Path:
    """y = x + x if rate == 16000, else what `second`, a node that makes `other` of x, gives."""
    first = (
        field(1, node("Add", ["x", "x"], ["twice"])) + field(2, "then") + field(12, value_info("twice", []))
    )
    other = field(1, second) + field(2, "else") + field(12, value_info("other", []))
    rate = scalar("wanted", INT64, (16000).to_bytes(8, "little"))
    return onnx_file(
        path,
        [
            node("Equal", ["rate", "wanted"], ["p"]),
            node("If", ["p"], ["y"], subgraph("then_branch", first) + subgraph("else_branch", other)),
        ],
        [value_info("x", [2, 4]), value_info("rate", [], INT64)],
        [value_info("y", [])],
        [rate],
    )  # fmt: skip


def test_a_drawn_input_that_chooses_a_branch_is_named(tmp_path, capsys):
    path = branches(tmp_path / "same.onnx", node("Relu", ["x"], ["other"]))
    assert main(["run", str(path), "--no-cache"]) == 0
    said = capsys.readouterr().err
    assert "for x, rate" in said and "rate=1 decide" in said and "-i rate=VALUE" in said
    assert main(["run", str(path), "--no-cache", "-i", "rate=16000"]) == 0
    said = capsys.readouterr().err
    assert "for x " in said and "decide" not in said
    assert main(["run", str(path), "--no-cache", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["inputs_drawn"] == ["x", "rate"] and facts["inputs_deciding"] == {"rate": "1"}
    assert main(["diff", str(path)]) == 0
    assert "rate=1 decide" in capsys.readouterr().err


def test_the_place_of_a_lookup_chooses_no_branch(tmp_path, capsys):
    table = field(1, 5) + field(1, 4) + field(2, 1) + field(8, "table") + field(9, bytes(80))
    path = onnx_file(
        tmp_path / "lookup.onnx",
        [node("Gather", ["table", "token"], ["y"])],
        [value_info("token", [1], INT64)],
        [value_info("y", [])],
        [table],
    )
    assert main(["run", str(path), "--no-cache"]) == 0
    said = capsys.readouterr().err
    assert "for token" in said and "decide" not in said


def test_a_file_knows_which_inputs_choose_branches(tmp_path, capsys):
    path = branches(tmp_path / "same.onnx", node("Relu", ["x"], ["other"]))
    assert opentrn.compile(path).control_inputs == [1]
    saved = opentrn.compile(path).save(tmp_path / "same.neuron")
    assert opentrn.load(saved).control_inputs == [1]


def test_an_error_in_a_drawn_branch_says_who_chose_it(tmp_path, capsys):
    path = branches(tmp_path / "broken.onnx", node("Transpose", ["x"], ["other"]))
    assert opentrn.compile(path)(np.ones((2, 4), np.float32), np.int64(16000))[0].tolist() == [[2] * 4] * 2
    broken = branches(
        tmp_path / "broken.onnx", node("LSTM", ["x", "x", "x"], ["other"], integer("hidden_size", 2))
    )
    said = fails(capsys, "run", str(broken), "--no-cache")
    assert "rate=1 was drawn at random and chose the branch" in said and "try: -i rate=VALUE" in said
    assert main(["run", str(broken), "--no-cache", "-i", "rate=16000"]) == 0
    assert "was drawn" not in capsys.readouterr().err
    said = fails(capsys, "compare", str(broken), "--no-cache", "--targets", "trn2")
    assert "rate=1 was drawn at random" in said


def test_coverage_takes_sizes_and_values(open_model, tmp_path):
    assert opentrn.coverage(open_model, dimensions={"batch": 1, "seq": 128, "w.0": 1})
    with pytest.raises(ValueError, match="2 dimensions of the model's inputs have no size"):
        opentrn.coverage(open_model, dimensions={"batch": 1})
    path = branches(tmp_path / "two.onnx", node("Transpose", ["x"], ["other"]))
    unseen, seen = opentrn.coverage(path), opentrn.coverage(path, inputs={"rate": np.int64(16000)})
    assert "stablehlo.add" in {row.op for row in seen} - {row.op for row in unseen}


def test_coverage_looks_behind_a_branch_for_a_given_input(tmp_path, capsys):
    path = branches(tmp_path / "two.onnx", node("Transpose", ["x"], ["other"]))
    assert main(["coverage", str(path)]) == 0
    said = capsys.readouterr().out
    assert "are not looked at" in said and "-i rate=VALUE" in said and "stablehlo.add" not in said
    assert "ops that were looked at have a device kernel" in said
    assert main(["coverage", str(path), "-i", "rate=16000"]) == 0
    said = capsys.readouterr().out
    assert "not looked at" not in said and "stablehlo.add" in said
    assert main(["coverage", str(path), "-i", "rate=8000"]) == 0
    assert "stablehlo.transpose" in capsys.readouterr().out
    assert "no input 'rat'" in fails(capsys, "coverage", str(path), "-i", "rat=8000")


def test_an_operator_that_is_refused_still_raises_by_name(unknown):
    with pytest.raises(NotModelled, match=r"com\.microsoft\.?Mystery"):
        opentrn.compile(unknown)


def test_a_profile_names_nodes_where_there_are_no_source_lines(tmp_path):
    path = onnx_file(
        tmp_path / "m.onnx",
        [node("MatMul", ["x", "w"], ["h"]), node("Softmax", ["h"], ["y"])],
        [value_info("x", [128, 256]), value_info("w", [256, 128])],
        [value_info("y", [])],
    )
    timing = opentrn.compile(path).time()
    text = timing.text()
    assert "Hottest nodes of the model" in text and "MatMul_h" in text and "(no source line)" not in text
    profile = timing.profile()
    assert {line["function"] for line in profile["lines"]} == {"MatMul_h", "Softmax_y"}
    assert all(wait[side]["function"] for wait in profile["waits"] for side in ("waiting", "waited_for"))


def test_weights_of_one_value_are_told(tmp_path, capsys):
    sizes = field(1, 2) + field(2, INT64) + field(8, "sizes") + field(9, np.array([2048, 2048]).tobytes())
    path = onnx_file(
        tmp_path / "light.onnx",
        [node("ConstantOfShape", ["sizes"], ["w"]), node("MatMul", ["x", "w"], ["y"])],
        [value_info("x", [1, 2048])],
        [value_info("y", [])],
        [sizes],
    )
    compiled = opentrn.compile(path)
    assert compiled.splat_bytes == 2048 * 2048 * 4
    assert "constants of 16 MiB are one value each" in capsys.readouterr().err
    opentrn.load(compiled.save(tmp_path / "light.neuron"))
    assert opentrn.load(tmp_path / "light.neuron").splat_bytes == compiled.splat_bytes


def test_numbers_of_large_arrays_are_no_weights(tmp_path):
    sizes = field(1, 2) + field(2, INT64) + field(8, "sizes") + field(9, np.array([2048, 2048]).tobytes())
    path = onnx_file(
        tmp_path / "sum.onnx",
        [node("ConstantOfShape", ["sizes"], ["w"]), node("Mul", ["x", "w"], ["y"])],
        [value_info("x", [2048, 2048])],
        [value_info("y", [])],
        [sizes],
    )
    assert opentrn.compile(path).splat_bytes == 0
