"""Files of models on a mesh: `opentrn compile --mesh`, `opentrn run FILE`, opentrn.load, and the cache.

What is no such file, or is one of another program: src/spmd/run/sharded_file_test.cc.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_sharded import MLP, _inputs, _onnx

import opentrn
from opentrn.cli.commands import INPUT, main
from opentrn.model import cache


@pytest.mark.parametrize(
    ("mesh", "shardings"),
    [("tp=2", {"w1": "-,tp", "w2": "tp"}), ("dp=2,tp=2", {"x": "dp", "w1": "-,tp"}), ("tp=5", "w1=-,tp")],
)
def test_a_file_gives_the_bits_of_the_model(tmp_path, mesh, shardings):
    model = opentrn.compile(MLP, mesh=mesh, shardings=shardings)
    loaded = opentrn.load(model.save(tmp_path / "m.neuron"))
    assert type(loaded) is type(model) and loaded.is_sharded
    assert model(*_inputs())[0].tobytes() == loaded(*_inputs())[0].tobytes()
    for name in ("target", "mesh", "devices", "shardings", "collectives", "argument_bytes", "inputs", "outputs"):
        assert getattr(model, name) == getattr(loaded, name), name
    assert model.time().profile() == loaded.time().profile()
    assert model.program_text() == loaded.program_text()


def test_a_file_is_made_and_used_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    path, _ = _onnx(tmp_path)
    np.save("x.npy", np.random.default_rng(2).standard_normal((7, 12)).astype(np.float32))
    words = [str(path), "--mesh", "tp=4", "--shard", "layer.*=-,tp"]
    assert main(["compile", *words, "-o", "made.neuron", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["cache"], made["file"]) == ("miss", "made.neuron")
    assert made["file_bytes"] == Path("made.neuron").stat().st_size
    assert main(["compile", *words]) == 0  # under the model's name
    text = capsys.readouterr().out
    assert "taken from the cache" in text and "wrote model.neuron" in text
    assert Path("model.neuron").read_bytes() == Path("made.neuron").read_bytes()
    times = []
    for source in (words, ["made.neuron"]):
        folder = str(len(times))
        assert main(["run", *source, "-i", "x=x.npy", "--save-outputs", folder, "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        times.append((facts["time_us"], facts["program_collectives"], facts["shardings"]))
    assert times[0] == times[1] and times[0][0] > 0
    assert Path("0/model.0.npy").read_bytes() == Path("1/made.0.npy").read_bytes()
    assert main(["profile", "made.neuron", "--html", "page.html"]) == 0
    assert "all_reduce" in capsys.readouterr().out and "all_reduce" in Path("page.html").read_text()
    assert main(["describe", "made.neuron"]) == 0
    assert "mesh     tp=4" in (text := capsys.readouterr().out) and "each of 4 devices" in text
    assert main(["describe", "made.neuron", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["weights"] == [["layer.weight", "f32", [12, 20], "-,tp"]]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--mesh", "tp=2"], "compiled for one NeuronCore"),
        (["run", "--shard", "x=tp"], "--shard"),
        (["run", "--target", "trn1"], "--target"),
        (["run", "-O", "1"], "--optlevel"),
        (["run", "--dim", "n=2"], "--dim"),
        (["disasm"], "one NeuronCore"),
        (["coverage"], "m.neuron"),
    ],
)
def test_what_a_file_does_not_have_is_refused(tmp_path, capsys, words, says):
    opentrn.compile(MLP, mesh="tp=2").save(tmp_path / "m.neuron")
    assert main([words[0], str(tmp_path / "m.neuron"), *words[1:]]) == INPUT
    assert says in capsys.readouterr().err


def test_a_file_of_one_core_is_of_no_mesh(tmp_path, capsys):
    opentrn.compile(MLP).save(tmp_path / "m.neuron")
    assert main(["run", str(tmp_path / "m.neuron"), "--shard", "x=tp"]) == INPUT
    assert "--shard" in capsys.readouterr().err


def test_the_cache_keeps_models_of_a_mesh(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path))
    how = {"mesh": "tp=2", "shardings": {"w1": "-,tp"}, "target": "trn2", "cache": True}
    made = opentrn.compile(MLP, **how)
    found = opentrn.compile(MLP, **how)
    assert (made.cached, found.cached) == ("miss", "hit")
    assert made(*_inputs())[0].tobytes() == found(*_inputs())[0].tobytes()
    # What the program depends on is part of its key.
    for other in ({"mesh": "tp=4"}, {"shardings": {"w1": "tp"}}, {"optlevel": 1}):
        assert opentrn.compile(MLP, **how | other).cached == "miss"
    assert opentrn.compile(MLP, target="trn2", cache=True).cached == "miss"
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert opentrn.compile(MLP, **how).cached == "miss"
    assert len(cache.entries()) == 6


def test_a_damaged_entry_of_the_cache_is_compiled_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path))
    how = {"mesh": "tp=2", "shardings": {"w1": "-,tp"}, "cache": True}
    opentrn.compile(MLP, **how)
    (entry,) = cache.entries()
    content = bytearray(entry.path.read_bytes())
    content[-9] ^= 1
    entry.path.write_bytes(bytes(content))
    assert opentrn.compile(MLP, **how).cached == "miss"
    assert "compiled again" in capsys.readouterr().err
    assert opentrn.compile(MLP, **how).cached == "hit"


def test_a_loop_runs_as_often_as_in_the_last_call(tmp_path):
    text = """module { func.func public @main(%x: tensor<8x8xf32>, %n: tensor<i32>) -> tensor<8x8xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8x8xf32>
        cond { %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %c : tensor<i1> }
        do { %y = stablehlo.dot_general %v, %v, contracting_dims = [1] x [0]
               : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
             %t = stablehlo.tanh %y : tensor<8x8xf32>
             %k = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %k, %t : tensor<i32>, tensor<8x8xf32> }
      return %0#1 : tensor<8x8xf32> } }
    """
    model = opentrn.compile(text, mesh="tp=2", shardings="input0=tp")
    loaded = opentrn.load(model.save(tmp_path / "m.neuron"))
    assert loaded.control_inputs == model.control_inputs == [1]
    assert loaded.time().time_us is None  # before it has run
    x = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    for trips in (1, 3):
        inputs = (x, np.array(trips, np.int32))
        assert model(*inputs)[0].tobytes() == loaded(*inputs)[0].tobytes()
        assert model.time().time_us == loaded.time().time_us is not None
