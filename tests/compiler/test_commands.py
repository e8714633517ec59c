"""opentrn compile, coverage, run and profile on models, and the .neuron file."""

import json
from pathlib import Path

import numpy as np
import pytest

import opentrn
from opentrn.cli import commands as cli
from opentrn.model import compiled as model

MLP = Path(__file__).parents[2] / "examples" / "mlp.mlir"
# No NeuronCore stores the type in the middle.
FORMLESS = """func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %h = stablehlo.convert %x : (tensor<40xf32>) -> tensor<40xf8E4M3B11FNUZ>
  %r = stablehlo.convert %h : (tensor<40xf8E4M3B11FNUZ>) -> tensor<40xf32>
  return %r : tensor<40xf32>
}
"""
CONSTANTS = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %s = stablehlo.constant dense<0.5> : tensor<3xf32>
  %a = stablehlo.add %x, %c : tensor<3xf32>
  %r = stablehlo.multiply %a, %s : tensor<3xf32>
  return %r : tensor<3xf32>
}
"""


def mlp_reference(x, w1, b1, w2):
    r = x + np.maximum(x @ w1 + b1, 0) @ w2
    e = np.exp(r - r.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_compile_then_run_the_file(tmp_path, capsys):
    file = tmp_path / "mlp.neuron"
    assert cli.main(["compile", str(MLP), "-o", str(file), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["inputs"][0] == ["input0", "f32", [256, 128]] and facts["outputs"][0][0] == "output0"
    assert facts["time_us"] > 0 and facts["file_bytes"] == file.stat().st_size
    random = np.random.default_rng(3)
    arrays = [
        (random.standard_normal(port.shape) / 8).astype(np.float32) for port in opentrn.compile(MLP).inputs
    ]
    words = []
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"{number}.npy", array)
        words += ["--input", f"{number}={tmp_path / f'{number}.npy'}"]
    assert cli.main(["run", str(file), *words, "--save-outputs", str(tmp_path), "--json"]) == 0
    saved = json.loads(capsys.readouterr().out)["saved"]
    want = mlp_reference(*(array.astype(np.float64) for array in arrays))
    np.testing.assert_allclose(np.load(saved[0]), want, rtol=0, atol=2e-6)


def test_profile_and_disasm_take_models(capsys):
    assert cli.main(["profile", str(MLP)]) == 0
    assert "mlp.mlir:" in capsys.readouterr().out  # the hottest lines are the model's
    assert cli.main(["disasm", str(MLP)]) == 0
    assert "nc_matmul" in capsys.readouterr().out


def test_coverage_names_what_has_no_kernel(tmp_path, capsys):
    assert cli.main(["coverage", str(MLP)]) == 0
    source = tmp_path / "formless.mlir"
    source.write_text(FORMLESS)
    capsys.readouterr()
    assert cli.main(["coverage", str(source)]) == cli.NOT_MODELLED
    assert "stablehlo.convert" in capsys.readouterr().out
    assert cli.main(["coverage", str(source), "--json"]) == cli.NOT_MODELLED
    rows = {row["op"]: row["unsupported"] for row in json.loads(capsys.readouterr().out)["ops"]}
    assert rows["stablehlo.convert"] > 0
    assert cli.main(["run", str(source), "--strict"]) == cli.NOT_MODELLED


WIDE = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %i: tensor<8xi64>)
    -> (tensor<8x4xf32>, tensor<8xi64>) {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %t = stablehlo.tanh %h : tensor<8x4xf32>
  %j = stablehlo.add %i, %i : tensor<8xi64>
  return %t, %j : tensor<8x4xf32>, tensor<8xi64>
}
"""


def test_coverage_counts_flops_and_what_is_emulated(tmp_path, capsys):
    source = tmp_path / "wide.mlir"
    source.write_text(WIDE)
    assert cli.main(["coverage", str(source), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    rows = {row["op"]: row for row in facts["ops"]}
    assert rows["stablehlo.dot_general"]["flops"] == 2 * 8 * 16 * 4
    assert rows["stablehlo.tanh"]["flops"] == 8 * 4 and rows["stablehlo.add"]["flops"] == 8
    assert facts["flops"] == 2 * 8 * 16 * 4 + 8 * 4 + 8
    assert rows["stablehlo.add"]["emulated"] == 1 and rows["stablehlo.tanh"]["supported"] == 1
    assert (rows["stablehlo.add"]["line"], rows["stablehlo.dot_general"]["line"]) == (6, 3)
    assert cli.main(["coverage", str(source)]) == 0
    text = capsys.readouterr().out
    assert "wide.mlir:6" in text and "4 of 4 ops" not in text and max(map(len, text.splitlines())) <= 79
    assert "3 of 3 ops have a device kernel" in text


def test_a_saved_model_keeps_its_constants(tmp_path):
    compiled = opentrn.compile(CONSTANTS)
    again = model.load(compiled.save(tmp_path / "c.neuron"))
    x = np.array([5, 6, 7], np.float32)
    np.testing.assert_array_equal(again(x)[0], (x + [1, 2, 3]) * 0.5)
    assert again.constant_bytes == compiled.constant_bytes > 0


def test_a_damaged_file_is_an_input_error(tmp_path):
    path = opentrn.compile(CONSTANTS).save(tmp_path / "c.neuron")
    whole = path.read_bytes()
    damaged = tmp_path / "d.neuron"
    random = np.random.default_rng(0)
    refused = 0
    for trial in range(300):
        data = bytearray(whole)
        if trial % 3 == 0:
            del data[int(random.integers(len(data))) :]
        else:
            for _ in range(int(random.integers(1, 5))):
                data[int(random.integers(len(data)))] = int(random.integers(256))
        damaged.write_bytes(bytes(data))
        try:
            model.load(damaged)(np.zeros(3, np.float32))
        except ValueError:  # the file's fault, said so; anything else fails the test
            refused += 1
    assert refused > 150  # the rest is padding or the constants' own numbers


@pytest.mark.parametrize("words", [["--input", "nine=3"], ["--input", "7=x.npy"]])
def test_inputs_that_the_model_has_not(words, capsys):
    assert cli.main(["run", str(MLP), *words]) == cli.INPUT
    assert "the model's inputs: input0" in capsys.readouterr().err
