"""Launches that are not timed are checked as the backend checks timed ones: addresses, overlap, capacity."""

import numpy as np
import pytest

import opentrn
from opentrn import nki, nki_legacy
from opentrn.errors import CapacityExceeded, CapacityWarning, NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from opentrn.nki_legacy import language as legacy_nl

X = np.ones((128, 64), np.float32)


@nki.jit
def outside(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 300_000))
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


@nki.jit
def sharing_bytes(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    one = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 0))
    two = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=(0, 128))
    nisa.dma_copy(one, x)
    nisa.dma_copy(two, x)
    nisa.tensor_tensor(one, one, two, nl.add)
    nisa.dma_copy(out, one)
    return out


def held(space, count, columns):
    """`count` tiles of `space`, the last of which is read first, so that no order of the kernel holds fewer."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, columns), nl.float32, buffer=space) for _ in range(count)]
        total = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.memset(total, 0)
        for tile in tiles:
            nisa.memset(tile, 1.0)
        for tile in reversed(tiles):
            nisa.tensor_tensor(total, total, tile[:, 0:64], nl.add)
        nisa.dma_copy(out, total)
        return out

    return kernel


MISFITS = {
    "sbuf.address": outside,
    "sbuf.overlap": sharing_bytes,
    "sbuf.capacity": held(nl.sbuf, 6, 16_384),
    "psum.capacity": held(nl.psum, 10, 512),
}


@pytest.mark.parametrize("label", MISFITS)
@pytest.mark.parametrize("eager", ["", "1"])
def test_what_does_not_fit_is_refused_without_a_time(label, eager, monkeypatch):
    monkeypatch.setenv("OPENTRN_EAGER", eager)
    monkeypatch.setenv("OPENTRN_FIT", "error")
    kernel = MISFITS[label]
    with pytest.raises(NkiValidationError) as untimed:
        opentrn.run(kernel, X, time=False)
    with pytest.raises(NkiValidationError) as timed:
        opentrn.run(kernel, X)
    assert f"[{label}]" in str(untimed.value) and "test_fit.py" in str(untimed.value)
    assert str(untimed.value) == str(timed.value)
    assert isinstance(untimed.value, CapacityExceeded) == label.endswith("capacity")
    with pytest.raises(NkiValidationError, match=label):
        kernel(X)


def test_both_cores_of_a_launch_are_checked():
    with pytest.raises(NkiValidationError, match="sbuf.overlap"):
        sharing_bytes[2](X)


def test_sums_that_are_copied_out_last_are_timed():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((12, 128, 64), x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        sums = [nl.ndarray((128, 512), nl.float32, buffer=nl.psum) for _ in range(12)]
        for total in sums:
            nisa.nc_matmul(total[0:64, 0:64], tile, tile)
        for i, total in enumerate(sums):
            copied = nl.ndarray((64, 64), nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(copied, total[0:64, 0:64])
            nisa.dma_copy(out[i, 0:64], copied)
            nisa.dma_copy(out[i, 64:128], copied)
        return out

    result = opentrn.run(kernel, X)
    np.testing.assert_array_equal(result.outputs, 128)
    assert result.time_us > 0
    with pytest.warns(CapacityWarning, match="psum.capacity"):
        kernel(X)


@pytest.mark.parametrize("kernel", [held(nl.sbuf, 3, 16_384), held(nl.psum, 8, 512)])
def test_what_fits_is_not_refused(kernel):
    assert kernel(X).max() >= 3


@pytest.mark.parametrize("label", ["sbuf.capacity", "psum.capacity"])
def test_more_than_fits_is_a_warning_as_a_compiler_may_order_it_otherwise(label):
    with pytest.warns(CapacityWarning, match=rf"(?s){label}.*test_fit.py.*order of the kernel"):
        assert MISFITS[label](X).max() >= 6


def test_the_environment_switches_it_off(monkeypatch):
    monkeypatch.setenv("OPENTRN_FIT", "off")
    np.testing.assert_array_equal(outside(X), X)
    monkeypatch.setenv("OPENTRN_FIT", "maybe")
    with pytest.raises(ValueError, match="OPENTRN_FIT is 'warn', 'error' or 'off', not 'maybe'"):
        outside(X)


def test_a_larger_memory_by_what_if_is_the_backends_to_judge():
    settings = {"neuron_core.v3.sbuf_bytes_per_partition": 512 * 1024}
    np.testing.assert_array_equal(opentrn.run(outside, X, overrides=settings).outputs, X)


def test_neuronx_cc_spills():
    @nki_legacy.jit
    def kernel(x):
        out = legacy_nl.ndarray((128, 16_384), dtype=np.float32, buffer=legacy_nl.shared_hbm)
        tiles = [legacy_nl.load(x) for _ in range(4)]
        total = tiles[0]
        for tile in tiles[1:]:
            total = legacy_nl.add(total, tile)
        legacy_nl.store(out, total)
        return out

    x = np.ones((128, 16_384), np.float32)
    np.testing.assert_array_equal(kernel(x), 4 * x)
