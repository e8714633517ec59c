"""The .neuron file: weights by copy or reference, and what `opentrn describe` says of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import field, value_info

import opentrn
from opentrn.cli import commands as cli
from opentrn.model import cache
from opentrn.model import compiled as model

MLP = Path(__file__).parents[2] / "examples" / "mlp.mlir"


def external_model(folder: Path, weight: np.ndarray) -> Path:
    """x @ w as ONNX, opset 17, with w in a file of its own, 64 bytes from its begin."""
    (folder / "weights.bin").write_bytes(bytes(64) + weight.tobytes())
    place = b"".join(
        field(13, field(1, key) + field(2, text))
        for key, text in (("location", "weights.bin"), ("offset", "64"), ("length", str(weight.nbytes)))
    )
    dims = b"".join(field(1, size) for size in weight.shape)
    initializer = dims + field(2, 1) + field(8, "w") + place + field(14, 1)
    product = field(1, "x") + field(1, "w") + field(2, "y") + field(3, "product") + field(4, "MatMul")
    graph = (
        field(1, product) + field(2, "g") + field(5, initializer)
        + field(11, value_info("x", [8, weight.shape[0]])) + field(12, value_info("y", [8, weight.shape[1]]))
    )  # fmt: skip
    path = folder / "model.onnx"
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
    return path


@pytest.fixture()
def weight():
    return np.random.default_rng(0).standard_normal((256, 384)).astype(np.float32)


def test_referenced_weights_are_not_copied(tmp_path, weight):
    x = np.random.default_rng(1).standard_normal((8, 256)).astype(np.float32)
    compiled = opentrn.compile(external_model(tmp_path, weight))
    copied = compiled.save(tmp_path / "copied.neuron")
    small = compiled.save(tmp_path / "small.neuron", weights="reference")
    assert copied.stat().st_size > weight.nbytes > 10 * small.stat().st_size
    for file in (copied, small):
        np.testing.assert_allclose(model.load(file)(x)[0], x @ weight, rtol=1e-4, atol=1e-4)
    again = model.load(small).save(tmp_path / "again.neuron", weights="reference")
    assert again.stat().st_size == small.stat().st_size
    os.utime(tmp_path / "weights.bin", (0, 0))
    with pytest.raises(ValueError, match="weights.bin, which has changed since"):
        model.load(small)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ValueError, match="weights.bin, which is gone"):
        model.load(small)
    np.testing.assert_allclose(model.load(copied)(x)[0], x @ weight, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="copy or reference"):
        compiled.save(small, weights="zip")


def test_the_cache_sees_the_weights_beside_a_model(tmp_path, weight, monkeypatch):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    x = np.ones((8, 256), np.float32)
    path = external_model(tmp_path, weight)
    assert opentrn.compile(path, cache=True).cached == "miss"
    assert opentrn.compile(path, cache=True).cached == "hit"
    (entry,) = cache.entries()
    assert entry.bytes < weight.nbytes / 10
    external_model(tmp_path, 2 * weight)  # the model's own bytes are the same
    changed = opentrn.compile(path, cache=True)
    assert changed.cached == "miss"
    np.testing.assert_allclose(changed(x)[0], x @ (2 * weight), rtol=1e-4, atol=1e-4)
    external_model(
        tmp_path, weight
    )  # as at first, but written since: what the entry refers to is not trusted
    back = opentrn.compile(path, cache=True)
    np.testing.assert_allclose(back(x)[0], x @ weight, rtol=1e-4, atol=1e-4)
    assert back.cached == "miss" and opentrn.compile(path, cache=True).cached == "hit"


def test_describe(tmp_path, weight, capsys):
    file = opentrn.compile(external_model(tmp_path, weight)).save(tmp_path / "m.neuron", weights="reference")
    assert cli.main(["describe", str(file)]) == 0
    text = capsys.readouterr().out
    assert "384.0 KiB in" in text or "384 KiB in" in text
    assert "input    x " in text and "f32 [8, 256]" in text and f"opentrn {opentrn.__version__}" in text
    assert cli.main(["describe", str(file), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    (program,) = facts["programs"]
    assert program["outputs"] == [["y", "f32", [8, 384]]] and program["constant_bytes"] == weight.nbytes
    assert facts["facts"]["target"] == "trn2" and json.loads(facts["facts"]["options"])["optlevel"] == 2
    rows = program["memory_map"]
    assert {row["role"] for row in rows} >= {"input", "constant", "output"}
    # HBM tensors lie end to end, none on another.
    for before, after in zip(rows, rows[1:]):
        assert before["offset"] + before["bytes"] <= after["offset"]
    assert cli.main(["describe", "trn2.48xlarge"]) == 0  # the machines stay the C++ core's


def test_describe_of_a_damaged_file(tmp_path, capsys):
    file = opentrn.compile(MLP).save(tmp_path / "m.neuron")
    file.write_bytes(file.read_bytes()[:200])
    assert cli.main(["describe", str(file)]) == cli.INPUT
    assert "m.neuron" in capsys.readouterr().err


def test_describe_imports_neither_numpy_nor_argparse(tmp_path):
    file = opentrn.compile(MLP).save(tmp_path / "m.neuron")
    asked = f"import sys; from opentrn.cli import main; main(['describe', {str(file)!r}]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    text, _, modules = done.stdout.rstrip().rpartition("\n")
    assert "instructions" in text and "opentrn._core" in modules.split()
    assert not {"numpy", "argparse", "opentrn.model.compiled", "opentrn.cli.models"} & set(modules.split())


@pytest.mark.parametrize("count", [1, 3])
def test_models_of_complex_numbers_are_read_back(tmp_path, count):
    kind = f"tensor<{count}xcomplex<f32>>"
    text = f"func.func @main(%a: {kind}) -> {kind} {{\n  %r = stablehlo.add %a, %a : {kind}\n  return %r : {kind}\n}}\n"
    path = opentrn.compile(text).save(tmp_path / "complex.neuron")
    x = np.array([1 + 2j, 3 - 1j, -2j][:count], np.complex64)
    np.testing.assert_array_equal(opentrn.load(path)(x)[0], 2 * x)
