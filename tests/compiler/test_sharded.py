"""Models on several simulated NeuronCores: `opentrn.compile(..., mesh=...)` and the commands with --mesh.

Values are those of the model on one core, and of PyTorch or NumPy; src/spmd/partition_test.cc has random graphs.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import field, node, value_info

import opentrn
from opentrn.cli.commands import INPUT, main
from opentrn.model.model import Model

MLP = """module { func.func public @main(%x: tensor<8x32xf32> {onnx.name = "x"},
    %w1: tensor<32x48xf32> {onnx.name = "w1"}, %w2: tensor<48x32xf32> {onnx.name = "w2"})
    -> (tensor<8x32xf32> {onnx.name = "y"}) {
  %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
    : (tensor<8x32xf32>, tensor<32x48xf32>) -> tensor<8x48xf32>
  %t = stablehlo.tanh %h : tensor<8x48xf32>
  %y = stablehlo.dot_general %t, %w2, contracting_dims = [1] x [0]
    : (tensor<8x48xf32>, tensor<48x32xf32>) -> tensor<8x32xf32>
  return %y : tensor<8x32xf32> } }
"""
COUNT = """module { func.func public @main(%x: tensor<6x10xi32>) -> tensor<6xi32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<6x10xi32>, tensor<i32>) -> tensor<6xi32>
  return %s : tensor<6xi32> } }
"""


def _inputs() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(np.float32) for shape in ((8, 32), (32, 48), (48, 32))]


@pytest.mark.parametrize(
    ("mesh", "shardings", "collectives"),
    [
        ("tp=4", {"w1": "-,tp", "w2": "tp"}, ["all_reduce"]),  # columns, then rows
        ({"dp": 2, "tp": 2}, {"x": ["dp"], "w1": [None, "tp"]}, ["all_reduce"]),
        ("tp=5", "w1=-,tp", ["all_reduce"]),  # 48 = 5 * 9.6
        ("dp=2,tp=2", "x=dp+tp", []),
        ("tp=2", ["w1=tp", "w2=-,tp", "y="], ["all_gather", "all_reduce"]),
    ],
)
def test_a_model_gives_the_values_of_one_core(mesh, shardings, collectives):
    inputs = _inputs()
    model = opentrn.compile(MLP, mesh=mesh, shardings=shardings)
    assert isinstance(model, Model) and model.program_for({}) is model and model.programs == []
    (found,) = model(*inputs)
    (one,) = opentrn.compile(MLP)(*inputs)
    x, w1, w2 = (array.astype(np.float64) for array in inputs)
    exact = np.tanh(x @ w1) @ w2
    assert np.abs(found - exact).max() <= 1.5 * np.abs(one - exact).max() + 1e-6
    assert [name for name, *_ in model.collectives] == collectives
    timing = model.time()
    assert timing.time_us > 0 and timing.compute_us > 0
    assert (timing.collectives_us > 0) == bool(collectives)
    assert timing.exposed_us <= timing.collectives_us


@pytest.mark.parametrize("shard", ["input0=x", "input0=-,x", "input0=-,x+y", "input0=y,x", "output0=y"])
def test_whole_numbers_are_exact_also_where_devices_do_not_divide(shard):
    x = np.arange(60, dtype=np.int32).reshape(6, 10) * 1_000_003 % 1_000
    model = opentrn.compile(COUNT, mesh="x=4,y=3", shardings=shard)
    assert model(x)[0].tolist() == x.sum(1).tolist()


def _onnx(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """Softmax(Gemm(x, w)) with the weight as an initializer."""
    weight = np.random.default_rng(1).standard_normal((12, 20)).astype(np.float32)
    tensor = field(1, 12) + field(1, 20) + field(2, 1) + field(8, "layer.weight") + field(9, weight.tobytes())
    graph = field(1, node("MatMul", ["x", "layer.weight"], ["h"])) + field(1, node("Softmax", ["h"], ["y"]))
    graph += field(2, "g") + field(5, tensor)
    graph += field(11, value_info("x", [7, 12])) + field(12, value_info("y", [7, 20]))
    path = tmp_path / "model.onnx"
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
    return path, weight


def test_an_onnx_model_on_the_command_line(tmp_path, capsys, monkeypatch):
    path, weight = _onnx(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    x = np.random.default_rng(2).standard_normal((7, 12)).astype(np.float32)
    np.save("x.npy", x)
    logits = x @ weight
    exact = np.exp(logits - logits.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    Path("cuts.txt").write_text("# columns\nlayer.*=-,tp\n")
    words = [str(path), "--mesh", "tp=4", "--shardings", "cuts.txt"]
    assert main(["run", *words, "-i", "x=x.npy", "--save-outputs", "out", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["shardings"]["layer.weight"] == "-,tp"
    # The softmax is over a dimension that is cut: its largest value and its sum are exchanged.
    assert facts["program_collectives"] == [{"name": "all_reduce", "count": 2, "bytes": 2 * 7 * 4}]
    np.testing.assert_allclose(np.load("out/model.0.npy"), exact, rtol=1e-5, atol=1e-6)
    assert main(["profile", *words, "--html", "page.html", "--json", "profile.json"]) == 0
    assert "exposed" in capsys.readouterr().out
    profile = json.loads(Path("profile.json").read_text())
    assert profile["traffic"]["collectives"] and "all_reduce" in Path("page.html").read_text()
    assert main(["compile", *words]) == 0
    assert "layer.weight" in capsys.readouterr().out


def test_an_exported_program_is_named_as_in_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16)).eval()
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    program = torch.export.export(module, (x,))
    model = opentrn.compile(program, mesh="tp=2", shardings={"0.weight": "tp", "2.weight": "-,tp"})
    assert model.shardings["0.bias"] == "tp"
    assert [name for name, *_ in model.collectives] == ["all_reduce"]
    np.testing.assert_allclose(model(x.numpy())[0], module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_a_weight_lies_as_it_is_stated_also_where_an_op_takes_it_whole():
    torch = pytest.importorskip("torch")
    module = torch.nn.Embedding(24, 8)
    ids = torch.tensor([[3, 23, 0], [7, 7, 12]])
    model = opentrn.compile(torch.export.export(module, (ids,)), mesh="tp=4", shardings={"weight": "tp"})
    assert model.shardings["weight"] == "tp,-"
    assert [name for name, *_ in model.collectives] == ["all_gather"]
    np.testing.assert_array_equal(model(ids.numpy())[0], module(ids).detach().numpy())


@pytest.mark.parametrize(
    ("mesh", "shardings", "label", "says"),
    [
        ("tp=4", {"w3": "tp"}, "spmd.tensor", "did you mean 'w1'"),
        ("tp=4", {"w1": "tpp"}, "spmd.axis", "did you mean 'tp'"),
        ("tp=4", {"w1": "-,-,tp"}, "spmd.rank", "tensor<32x48xf32>"),
        ("tp=4", {"w1": "tp,tp"}, "spmd.axis_twice", "tp"),
        ("tp=four", None, "spmd.mesh", "tp=four"),
        ("tp=4", ["w1"], "spmd.annotation", "NAME=AXES"),
        ("tp=5", None, "spmd.devices", "trn2.3xlarge has 4"),
        (None, {"w1": "tp"}, "spmd.mesh", "without a mesh"),
        (5, None, "spmd.mesh", "mesh is 5"),
        ("tp=4", [1], "spmd.annotation", "shardings is [1]"),
        ("tp=4", {"w1": 5}, "spmd.annotation", "shardings is {'w1': 5}"),
    ],
)
def test_wrong_annotations_are_refused_by_name(mesh, shardings, label, says):
    with pytest.raises(ValueError) as caught:
        opentrn.compile(MLP, target="trn2.3xlarge", mesh=mesh, shardings=shardings)
    assert caught.value.label == label
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--shard", "x=tp"],
        ["run", "--mesh", "tp=2", "--set", "timing.v3.constant.hbm_sustained_gb_s=1"],
        ["compile", "--mesh", "tp=2", "--weights", "reference"],
        ["disasm", "--mesh", "tp=2"],
    ],
)
def test_options_that_a_mesh_does_not_have_are_refused(words, tmp_path, capsys):
    path = tmp_path / "mlp.mlir"
    path.write_text(MLP)
    assert main([words[0], str(path), *words[1:]]) == INPUT
    assert "--" in capsys.readouterr().err


def test_logical_cores_are_those_of_the_environment(monkeypatch):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert opentrn.compile(MLP, target="trn2.3xlarge", mesh="tp=8", shardings={"w1": "-,tp"}).devices == 8


def _product(rows: int, inner: int, columns: int, element: str = "bf16") -> str:
    x, w, y = (f"tensor<{a}x{b}x{element}>" for a, b in ((rows, inner), (inner, columns), (rows, columns)))
    return f"""module {{ func.func public @main(%x: {x}, %w: {w}) -> {y} {{
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {y}
  return %y : {y} }} }}
"""


def test_both_cores_of_a_logical_one_share_a_program_and_its_memory():
    """A product that waits for memory: cores that do the same slow each other, cores that share it take half."""
    text = _product(1, 2048, 8192)
    alone = opentrn.compile(text, target="trn2").time().time_us
    copies = opentrn.compile(text, target="trn2", mesh="core=2").time()
    both = opentrn.compile(text, target="trn2", mesh="core=2", shardings="auto")
    assert both.choice in ("results by dim 1", "products by columns")
    assert both.collectives == []
    of_weights_us = 2 * 2048 * 8192 / 725e3  # what the stack gives at most: 725 GB/s (timing_v3.toml)
    assert max(of_weights_us, 0.45 * alone) < both.time().time_us < 0.75 * alone
    assert 1.005 * alone < copies.time_us < 1.5 * alone


def test_auto_takes_the_fastest_of_its_ways_with_the_values_of_one_core():
    large = """module { func.func public @main(%x: tensor<256x512xf32>, %w1: tensor<512x2048xf32> {onnx.name = "w1"},
    %w2: tensor<2048x512xf32>) -> (tensor<256x512xf32> {onnx.name = "y"}) {
  %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
    : (tensor<256x512xf32>, tensor<512x2048xf32>) -> tensor<256x2048xf32>
  %t = stablehlo.tanh %h : tensor<256x2048xf32>
  %y = stablehlo.dot_general %t, %w2, contracting_dims = [1] x [0]
    : (tensor<256x2048xf32>, tensor<2048x512xf32>) -> tensor<256x512xf32>
  return %y : tensor<256x512xf32> } }
"""
    random = np.random.default_rng(3)
    inputs = [
        random.standard_normal(shape).astype(np.float32) / 16 for shape in ((256, 512), (512, 2048), (2048, 512))
    ]
    model = opentrn.compile(large, target="trn2", mesh="tp=2,core=2", shardings="auto")
    times = {
        words: opentrn.compile(large, target="trn2", mesh="tp=2,core=2", shardings=words).time().time_us
        for words in ("y=tp+core", "w1=-,tp+core")
    }
    assert model.choice in ("results by dim 0", "results by dim 1", "products by rows", "products by columns",
                            "batch and columns")  # fmt: skip
    assert model.time().time_us <= min(times.values())
    assert model.time().time_us < 0.5 * opentrn.compile(large, target="trn2").time().time_us
    exact = np.tanh(inputs[0].astype(np.float64) @ inputs[1]) @ inputs[2]
    assert np.abs(model(*inputs)[0] - exact).max() < 1e-3


@pytest.mark.parametrize(
    ("target", "mesh", "shardings", "label", "says"),
    [
        ("trn2", "core=2,tp=2", "auto", "spmd.mesh", "physical cores of a logical one"),
        ("trn2", "core=4", "auto", "spmd.mesh", "core of 4"),
        ("trn1", "core=2", "auto", "spmd.mesh", "on v2"),
        ("trn2", "tp=2", ["auto", "w1=-,tp"], "spmd.annotation", "auto alone"),
    ],
)
def test_the_axis_of_cores_and_auto_are_refused_where_they_mean_nothing(target, mesh, shardings, label, says):
    with pytest.raises(ValueError) as refused:
        opentrn.compile(MLP, target=target, mesh=mesh, shardings=shardings)
    assert refused.value.label == label
    assert says in str(refused.value)
