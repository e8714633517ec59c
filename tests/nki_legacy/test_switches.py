"""Switches of AWS's compiler of NKI 0.1, and flags for it: they act on the predicted time, or say that they do not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import opentrn
import opentrn.nki_legacy as nki
import opentrn.nki_legacy.compiler as ncc
import opentrn.nki_legacy.isa as nisa
import opentrn.nki_legacy.language as nl
from opentrn.errors import NkiValidationError
from opentrn.nki import _machine
from opentrn.settings import compiler_flags as _compiler_flags

pytestmark = pytest.mark.skipif(_machine.backend().name != "core", reason="the oracle predicts no time")

X = np.ones((128, 512), np.float32)


def loads_twice(x):
    """The same rows loaded twice, which neuronx-cc loads once."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) + nl.load(x))
    return out


def load_count(kernel) -> int:
    listing = opentrn.run(kernel, X, target="trn2").program_text(scheduled=True)
    return sum(line.lstrip().startswith("dma_copy") for line in listing.splitlines())


def test_a_kernel_that_skips_the_middle_end_is_timed_as_written():
    plain = nki.jit(loads_twice)
    skipping = ncc.skip_middle_end_transformations(nki.jit(lambda x: loads_twice(x)))
    below = nki.jit(ncc.skip_middle_end_transformations(lambda x: loads_twice(x)))
    assert load_count(plain) + 1 == load_count(skipping) == load_count(below) == load_count(skipping[1])
    assert load_count(plain) + 1 == sum(
        line.lstrip().startswith("dma_copy")
        for line in opentrn.run(plain, X, target="trn2", compiler="nki").program_text(scheduled=True).splitlines()
    )
    for kernel, latency in ((plain, None), (skipping, None)):
        benchmarked = nki.benchmark(kernel)
        benchmarked(X)
        latency = benchmarked.benchmark_result.nc_latency.get_latency_percentile(50)
        assert latency == pytest.approx(opentrn.run(kernel, X, target="trn2").time_us + 8.5)


def test_instructions_inside_no_reorder_are_marked():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        before = nl.exp(tile)
        with ncc.no_reorder():
            first = nl.exp(before)
            with ncc.no_reorder():
                second = nl.exp(first)
            third = nl.exp(second)
        nl.store(out, nl.exp(third))
        return out

    listing = opentrn.run(kernel, X, target="trn2").program_text()
    marks = ["no_reorder" in line for line in listing.splitlines() if line.lstrip().startswith("activation")]
    assert marks == [False, True, True, True, False], listing


def test_the_mark_ends_with_the_block_whatever_happens():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        with pytest.raises(NkiValidationError), ncc.no_reorder():
            nisa.tensor_tensor(nl.load(x), nl.ndarray((64, 4), dtype=x.dtype, buffer=nl.sbuf), op=nl.add)
        nl.store(out, nl.load(x))
        return out

    listing = opentrn.run(kernel, X, target="trn2").program_text()
    assert "no_reorder" not in [line for line in listing.splitlines() if "dma_copy" in line][-1]


def placed(address: int):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=address))
        tile[...] = nl.load(x)
        nl.store(out, tile)
        return out

    return kernel


def test_force_auto_alloc_ignores_the_kernels_addresses():
    beyond = 10_000_000
    with pytest.raises(NkiValidationError, match=r"\[sbuf.address\]"):
        opentrn.run(nki.jit(placed(beyond)), X, target="trn2")
    run = opentrn.run(ncc.force_auto_alloc(nki.jit(placed(beyond))), X, target="trn2")
    np.testing.assert_array_equal(run.outputs, X)


@pytest.mark.parametrize("name", ["enable_stack_allocator", "allocation_scope", "multi_buffer"])
def test_what_has_no_effect_says_so_once(name, monkeypatch):
    monkeypatch.setattr(ncc, "_told", set())

    def use():
        switch = getattr(ncc, name)
        if name == "enable_stack_allocator":
            return switch(nki.jit(loads_twice))
        with switch():
            return nki.jit(loads_twice)

    with pytest.warns(UserWarning, match=f"nki.compiler.{name} has no effect on the predicted time"):
        np.testing.assert_array_equal(use()(X), 2 * X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use()


def test_flags_that_change_nothing_are_named_once(monkeypatch, capfd):
    monkeypatch.setattr(_compiler_flags, "_told", set())
    monkeypatch.setenv("NEURON_CC_FLAGS", "--model-type=transformer --disable-dge")
    kernel = nki.jit(loads_twice, additional_compile_opt="--internal-skip-backend-allocation-opt-nki -O1")
    for _ in range(2):
        opentrn.run(kernel, X, target="trn2")
    told = capfd.readouterr().err.splitlines()
    assert told == [
        f"opentrn: the compiler option {flag} has no effect on the predicted time of a kernel"
        for flag in ("--internal-skip-backend-allocation-opt-nki", "-O1", "--model-type")
    ]
