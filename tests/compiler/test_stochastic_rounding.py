"""Stochastic rounding of compiled models: unbiased, seeded, another draw for every run, kept in the file."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn.cli import commands as cli
from opentrn.model import compiled as model

RNG = np.random.default_rng(41)

# y = bf16(x): one rounding for each of many equal elements.
CONVERT = """func.func @main(%x: tensor<128x1024xf32>) -> tensor<128x1024xbf16> {
  %y = stablehlo.convert %x : (tensor<128x1024xf32>) -> tensor<128x1024xbf16>
  return %y : tensor<128x1024xbf16>
}
"""
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f8E5M2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_roundings_are_to_neighbours_and_unbiased(target: str, element: str):
    compiled = opentrn.compile(
        CONVERT.replace("bf16", element), target=target, enable_stochastic_rounding=True
    )
    value = np.float32(RNG.uniform(1, 2))
    (have,) = compiled(np.full((128, 1024), value))
    have = have.astype(np.float64)
    step = float(ml_dtypes.finfo(DTYPES[element]).eps)
    below = np.floor(value / step) * step
    assert set(np.unique(have)) <= {below, below + step}
    share = (value - below) / step
    # Six standard deviations of the mean of 131072 draws.
    assert abs(have.mean() - value) <= 6 * step * np.sqrt(share * (1 - share) / have.size)


def test_seed_and_number_of_the_run_decide():
    compiled = opentrn.compile(CONVERT)
    x = RNG.standard_normal((128, 1024)).astype(np.float32)
    nearest = compiled(x)[0]
    np.testing.assert_array_equal(nearest, x.astype(ml_dtypes.bfloat16))

    def runs(seed: int | None) -> list[bytes]:
        compiled.round_stochastically(seed)
        return [compiled(x)[0].tobytes() for _ in range(3)]

    first = runs(5)
    assert first == runs(5) and len(set(first)) == 3
    assert not set(first) & set(runs(6))
    assert set(runs(None)) == {nearest.tobytes()}


SUM = """func.func @main(%x: tensor<256x256xbf16>) -> tensor<bf16> {
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %n = stablehlo.constant dense<512> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %small = stablehlo.constant dense<1.0> : tensor<bf16>
  %r:2 = stablehlo.while(%i = %none, %s = %zero) : tensor<i32>, tensor<bf16>
    cond {
      %go = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %t = stablehlo.add %s, %small : tensor<bf16>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %t : tensor<i32>, tensor<bf16>
    }
  return %r#1 : tensor<bf16>
}
"""


def test_iterations_of_a_loop_draw_apart():
    """A sum in bf16 stops at 256 where 1 is half a unit; stochastically it goes on."""
    text = SUM.replace("%x: tensor<256x256xbf16>", "%x: tensor<1xbf16>")
    x = np.zeros(1, ml_dtypes.bfloat16)
    compiled = opentrn.compile(text)
    assert float(compiled(x)[0]) == 256
    sums = []
    for seed in range(32):
        compiled.round_stochastically(seed)
        sums.append(float(compiled(x)[0]))
    # 256 fair coins of 2 each, 32 times.
    assert abs(np.mean(sums) - 512) <= 6 * 2 * np.sqrt(256 / 4 / 32)


def test_the_file_and_the_environment_say_so(tmp_path: Path, monkeypatch, capsys):
    source, file = tmp_path / "convert.mlir", tmp_path / "convert.neuron"
    source.write_text(CONVERT)
    np.save(tmp_path / "x.npy", RNG.standard_normal((128, 1024)).astype(np.float32))
    assert (
        cli.main(["compile", str(source), "--enable-stochastic-rounding", "-o", str(file), "--no-cache"]) == 0
    )
    assert model.load(file).rounds_stochastically

    def run(what: Path, *options: str) -> bytes:
        arguments = [
            "run",
            str(what),
            "--input",
            f"input0={tmp_path / 'x.npy'}",
            "--save-outputs",
            str(tmp_path),
        ]
        cached = [] if what == file else ["--no-cache"]
        assert cli.main([*arguments, "--no-time", *cached, *options]) == 0
        capsys.readouterr()
        return (tmp_path / "convert.0.npy").read_bytes()

    nearest, stochastic = run(source), run(file)
    assert nearest != stochastic == run(source, "--enable-stochastic-rounding")
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "3")
    assert run(source) == nearest
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "1")
    assert run(source) not in (nearest, stochastic)
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "0")
    assert run(file) == nearest
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "yes")
    assert cli.main(["run", str(source), "--no-cache"]) == 2
