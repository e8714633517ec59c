"""What an instruction means in the NKI release that a kernel is written for."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

import opentrn
from opentrn import nki, strict
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from opentrn.types.dtypes import unpack_x4


@nki.jit
def quantize(x):
    source = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    packed = nl.ndarray((x.shape[0], x.shape[1] // 4), nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    scale = nl.ndarray((x.shape[0], x.shape[1] // 4), nl.uint8, buffer=nl.sbuf)
    nisa.memset(scale, 0)
    nisa.dma_copy(source, x)
    nisa.quantize_mx(packed, source, scale)
    data = nl.ndarray(packed.shape, packed.dtype, buffer=nl.shared_hbm)
    scales = nl.ndarray(scale.shape, scale.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(data, packed)
    nisa.dma_copy(scales, scale)
    return data, scales


@pytest.mark.parametrize("backend", ["core", "oracle"])
@pytest.mark.parametrize(("release", "reserve"), [("0.3", 0), ("0.4", 0), ("0.5", 1), ("0.6", 1), ("", 1)])
def test_the_scale_of_quantize_mx_doubled_in_0_5(monkeypatch, backend, release, reserve):
    x = np.random.default_rng(7).standard_normal((32, 8)).astype(bfloat16)
    x[0, 0] = 3.984375  # the largest of its group: 510 of at most 448 under the smaller scale
    monkeypatch.setenv(strict.RELEASE_ENV, release)
    data, scales = nki.simulate(quantize, backend=backend, target="trn3")(x)
    values = unpack_x4(np.asarray(data), "float8_e4m3fn_x4")
    groups = x.astype(np.float64).reshape(4, 8, 2, 4)
    exponent = np.floor(np.log2(np.abs(groups).max(axis=(1, 3)))) - (8 - reserve)
    np.testing.assert_array_equal(np.asarray(scales)[:4], exponent + 127)
    assert values[0, 0, 0] == (448 if reserve == 0 else 256)
    restored = values.reshape(4, 8, 2, 4) * 2.0 ** exponent[:, None, :, None]
    # Half a step of three mantissa bits; what saturates loses up to an eighth.
    np.testing.assert_allclose(restored, groups, rtol=2**-4 if reserve else 2**-3, atol=2.0**-11)


def test_a_strict_release_has_its_meaning(monkeypatch):
    monkeypatch.setenv(strict.RELEASE_ENV, "0.6")
    with strict.version("0.4"):
        assert strict.uses_ocp_scales()
    assert not strict.uses_ocp_scales()


def test_an_unknown_release_is_refused(monkeypatch):
    monkeypatch.setenv(strict.RELEASE_ENV, "0.9")
    with pytest.raises(ValueError, match=r"unknown NKI release '0\.9'\n    try: one of 0\.1, 0\.3"):
        nki.simulate(quantize, target="trn3")(np.zeros((32, 8), bfloat16))


@pytest.mark.parametrize(("release", "engine"), [("0.4", "scalar"), ("0.5", "gpsimd")])
def test_rsqrt_runs_on_gpsimd_since_0_5(monkeypatch, release, engine):
    """Migration guide of NKI 0.5.0: nl.rsqrt now runs on the GpSimd Engine."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.rsqrt(nl.load(x)))
        return out

    monkeypatch.setenv(strict.RELEASE_ENV, release)
    x = np.random.default_rng(7).uniform(0.5, 9, (128, 16)).astype(np.float32)
    result = opentrn.run(kernel, x)
    np.testing.assert_allclose(result.outputs, x.astype(np.float64) ** -0.5, rtol=2e-6)
    ran = {row["engine"] for row in result.timing.profile()["engines"] if row["instructions"]}
    assert ran == {engine, "sync"}
