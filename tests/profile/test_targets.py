"""Where a kernel or a model runs: names of targets, logical cores, and Inf1, whose missing facts users state."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn
import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl
from opentrn.cli import main
from opentrn.kernel import trace as kernel_call
from opentrn.types.isa_enums import nc_version, target_version

X = np.random.default_rng(0).standard_normal((128, 512), np.float32)
MODEL = """func.func @main(%x: tensor<128x256xf32>, %w: tensor<256x128xf32>) -> tensor<128x128xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<128x256xf32>, tensor<256x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}
"""


@nki.jit
def exponential(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.memset(tile, 0.0)
    nisa.dma_copy(tile, x)
    nisa.activation(tile, nl.exp, tile)
    nisa.dma_copy(out, tile)
    return out


# AWS: Trn1, Inf2: NeuronCore-v2; Trn2: v3; Trn3: v4 (about-neuron/arch/neuron-hardware).
NAMES = {
    nc_version.gen2: (
        "trn1",
        "trn1n",
        "inf2",
        "Inf2.48xlarge",
        "trn1.32xlarge",
        "Trainium",
        "v2",
        "NeuronCore-v2",
    ),
    nc_version.gen3: (
        "trn2",
        "trn2u",
        "trn2.48xlarge",
        "TRN2.3XLARGE",
        "Trainium2",
        "v3",
        "neuroncore-v3",
        "gen3",
    ),
    nc_version.gen4: ("trn3", "Trainium3", "v4", "gen4"),
}


@pytest.mark.parametrize(("version", "name"), [(v, name) for v, names in NAMES.items() for name in names])
def test_a_kernel_takes_every_name_of_a_target(version, name):
    assert target_version(name) is version
    result = opentrn.run(exponential, opentrn.ShapeOf(X.shape), target=name, execute=False)
    first = opentrn.run(exponential, opentrn.ShapeOf(X.shape), target=NAMES[version][0], execute=False)
    assert (result.target, result.time_us) == (name, first.time_us)
    assert kernel_call.trace(exponential, opentrn.ShapeOf(X.shape), target=name).target is version


def test_an_unknown_target_suggests_the_nearest(capsys):
    with pytest.raises(ValueError, match=r"(?s)'trn2.48xlagre' is not a target.*trn2.48xlarge"):
        opentrn.run(exponential, X, target="trn2.48xlagre")
    with pytest.raises(ValueError, match=r"(?s)'Trainum2'.*Trainium2"):
        nki.simulate(exponential, target="Trainum2")(X)


@pytest.mark.parametrize("target", ["trn1", "inf2.xlarge", "inf1"])
def test_logical_cores_exist_from_trainium2_on(target):
    with pytest.raises(ValueError, match=r"LNC 2.*NeuronCore-v3 \(Trainium2\)"):
        opentrn.run(exponential, X, target=target, lnc=2)
    with pytest.raises(ValueError, match="LNC 2"):
        nki.simulate(exponential, target=target, backend="oracle")[2](X)


def test_a_kernel_runs_on_inf1_by_the_rules_of_trn1():
    result = opentrn.run(exponential, X, target="inf1.xlarge")
    np.testing.assert_array_equal(result.outputs, opentrn.run(exponential, X, target="trn1").outputs)
    assert result.timing.profile()["neuron_core"] == "NeuronCore-v1"
    # 256 KiB in and out at 13.42 GB/s, a quarter of the chip's 50 GiB/s (inferentia.rst).
    assert result.time_us > 2 * X.nbytes / 13.42e3
    shape = opentrn.ShapeOf(X.shape)
    slower = {"neuron_core.v1.scalar_clock_ghz": 0.1}
    assert (
        opentrn.run(exponential, shape, target="inf1", overrides=slower, execute=False).time_us
        > result.time_us
    )
    assert len(result.timing.assumptions) == 1 and "NeuronCore-v2" in result.timing.assumptions[0]
    assert result.timing.profile()["assumptions"] == result.timing.assumptions
    assert "rests on an assumption" in result.timing.text()
    assert opentrn.run(exponential, shape, target="trn1", execute=False).timing.assumptions == []


def test_a_model_runs_on_inf1(tmp_path, capsys):
    model = opentrn.compile(MODEL, target="inf1")
    assert model.time().assumptions and model.time().time_us > opentrn.compile(MODEL, target="trn1").time().time_us
    x, w = X[:, :256], X.reshape(-1)[: 256 * 128].reshape(256, 128)
    np.testing.assert_array_equal(model(x, w)[0], opentrn.compile(MODEL, target="trn1")(x, w)[0])
    file = tmp_path / "model.mlir"
    file.write_text(MODEL)
    for command in ("run", "profile"):
        for cache in ([], ["--no-cache"]):
            assert main([command, str(file), "--target", "inf1", *cache]) == 0
            assert "rests on an assumption: instructions" in capsys.readouterr().out


# dot(w^T, x) + b per row, and its positive part: either engine can evict the sums.
BIASED = """
func.func @main(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>, %b: tensor<512xf32>) -> tensor<512x512xf32> {
  %0 = stablehlo.dot_general %w, %x, contracting_dims = [0] x [0]
    : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<512xf32>) -> tensor<512x512xf32>
  %2 = stablehlo.add %0, %1 : tensor<512x512xf32>
  %3 = stablehlo.constant dense<0.0> : tensor<512x512xf32>
  %4 = stablehlo.maximum %2, %3 : tensor<512x512xf32>
  return %4 : tensor<512x512xf32>
}"""


def test_engines_of_inf1_share_work_by_its_own_rates():
    """Its Vector engine is a tenth as fast as that of trn1, its Scalar engine a third."""

    def on_scalar(target):
        profile = opentrn.compile(BIASED, target=target).time().profile()
        return sum(row["count"] for row in profile["opcodes"] if row["opcode"] == "activation")

    assert on_scalar("inf1") > on_scalar("trn1")


def test_inf1_has_no_gpsimd():
    @nki.jit
    def on_gpsimd(x):
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.memset(tile, 0.0, engine=nisa.engine.gpsimd)
        nisa.dma_copy(x, tile)

    with pytest.raises(opentrn.errors.NotModelled, match="GpSimd engine, which NeuronCore-v1 does not have"):
        opentrn.run(on_gpsimd, X.copy(), target="inf1")
