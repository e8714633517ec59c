"""How far a predicted time can be trusted is said with it: a band from evidence, and what it rests on."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

import opentrn
from opentrn.cli import main

MODEL = """func.func @main(%a: tensor<128x256xf32>) -> tensor<128x256xf32> {
  %0 = stablehlo.exponential %a : tensor<128x256xf32>
  return %0 : tensor<128x256xf32>
}
"""
KERNEL = """
import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(4):
        nisa.dma_copy(dst=tile, src=x)
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out, src=tile)
    return out
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    file = tmp_path_factory.mktemp("kernel") / "exponential_loop.py"
    file.write_text(KERNEL)
    spec = importlib.util.spec_from_file_location("exponential_loop", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def timed(kernel, target: str, **options):
    return opentrn.run(kernel, opentrn.ShapeOf((128, 256)), target=target, execute=False, **options).timing


def test_a_kernel_on_trainium2_has_a_band_around_its_time(kernel):
    timing = timed(kernel, "trn2")
    band = timing.band
    assert band["low_ns"] < timing.total_ns * 1.2 and timing.total_ns * 0.8 < band["high_ns"]
    assert band["kind"] == "NKI kernels on Trainium2" and band["runs"] >= 10
    profile = timing.profile()
    assert profile["band"] == band and profile["basis"] == timing.basis
    assert f"by {band['runs']} evidence runs of NKI kernels on Trainium2" in timing.text()
    assert timing.kind == "kernel.v3.nki"


def test_trainium3_says_that_nothing_was_measured_and_lists_what_is_assumed(kernel):
    timing = timed(kernel, "trn3")
    assert timing.band == {"unknown": "no measurement on Trainium3 is public"}
    basis = timing.basis
    assert len(basis["assumed_constants"]) > basis["constants"] / 2
    assert "timing.v4.instruction.activation" in basis["assumed_rules"]
    line = f"{len(basis['assumed_constants'])} of {basis['constants']} timing constants"
    assert line in timing.text() and "none was checked against a measurement" in timing.text()
    assert len(timed(kernel, "trn2").basis["assumed_constants"]) < len(basis["assumed_constants"])


def test_a_what_if_has_no_band(kernel):
    timing = timed(kernel, "trn2", overrides={"neuron_core.v3.dma_engine_gb_s": 10})
    assert "dma_engine_gb_s was overridden" in timing.band["unknown"]


def test_what_the_compiler_is_taken_to_do_can_be_overridden(kernel):
    shape = opentrn.ShapeOf((128, 256))
    options = {"target": "trn2", "execute": False}
    far = opentrn.run(kernel, shape, look_ahead=1, **options).time_us
    override = {"compiler_model.nki.look_ahead_instructions": 1}
    assert opentrn.run(kernel, shape, overrides=override, **options).time_us == far


def test_every_command_that_predicts_says_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    model, source = tmp_path / "m.mlir", tmp_path / "k.py"
    model.write_text(MODEL)
    source.write_text(KERNEL)
    np.save(tmp_path / "x.npy", np.zeros((128, 256), np.float32))
    for words in (
        ["run", f"{source}:kernel", "-i", f"x={tmp_path / 'x.npy'}"],
        ["profile", f"{source}:kernel", "-i", "x=128x256", "--no-execute"],
        ["compile", str(model), "--target", "trn1", "-o", str(tmp_path / "m.neuron")],
        ["run", str(model), "--target", "trn3"],
        ["compare", str(model), "--targets", "trn1,trn3"],
    ):
        assert main(words) == 0
        printed = capsys.readouterr().out
        assert "timing constants" in printed and ("% band" in printed or "error band unknown" in printed), (
            words
        )
    assert main(["compile", str(model), "--target", "trn1", "-o", str(tmp_path / "m.neuron"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (
        found["band"]["kind"] == "compiled models on Trainium and Inferentia2" and found["basis"]["constants"]
    )
