"""Launching 0.1 kernels: modes, grids, output arguments, targets, allocation."""

import importlib
import re

import numpy as np
import pytest

import opentrn
import opentrn.nki_legacy as nki
import opentrn.nki_legacy.compiler as ncc
import opentrn.nki_legacy.isa as nisa
import opentrn.nki_legacy.language as nl
from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki import _machine
from opentrn.nki_legacy.dtypes import promote, scalar_dtype


@nki.jit
def doubled(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0)
    nl.store(out[i], nl.load(a[i]) * 2.0)
    return out


def test_programs_of_a_grid_share_their_output():
    a = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    np.testing.assert_array_equal(doubled[3](a), 2 * a)


@pytest.mark.parametrize("grid", [0, -1, (2, 0)])
def test_a_grid_without_programs_is_refused(grid):
    with pytest.raises(NkiValidationError, match=r"\[nki.grid\].*must be positive"):
        doubled[grid](np.ones((3, 2, 4), np.float32))


def test_grid_dimensions_over_cores_multiply():
    a = np.ones((4, 2, 4), np.float32)
    np.testing.assert_array_equal(doubled[nl.nc(2) * 2](a), 2 * a)
    np.testing.assert_array_equal(doubled[nl.spmd_dim(2, nl.nc(2))](a), 2 * a)


def test_output_argument_is_written_in_place():
    @nki.trace
    def kernel(a, out):
        nl.store(out, nl.exp(nl.load(a)))

    a, out = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    assert nki.simulate_kernel(kernel, a, out) is None
    np.testing.assert_allclose(out, np.exp(a), rtol=1e-6)


def test_kernel_called_by_a_kernel_is_inlined():
    @nki.jit(mode="trace")
    def inner(tile):
        return nl.square(tile)

    @nki.jit(mode="simulation")
    def outer(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, inner(nl.load(a)))
        return out

    a = np.full((4, 4), 3, np.float32)
    np.testing.assert_array_equal(outer(a), a * a)


def test_target_is_trn2_unless_said_otherwise(monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    monkeypatch.delenv("NKI_NC_VERSION", raising=False)
    versions = []

    def kernel():
        versions.append(nisa.get_nc_version())

    nki.jit(kernel)()
    nki.jit(kernel, platform_target="trn1")()
    assert versions == [nisa.nc_version.gen3, nisa.nc_version.gen2]


def test_transpose_on_trn1_gives_float32():
    found = []

    def kernel(a):
        found.append(nisa.nc_transpose(nl.load(a)).dtype)

    for target in ("trn1", "trn2"):
        nki.jit(kernel, platform_target=target)(np.zeros((4, 4), nl.bfloat16))
    assert found == [np.float32, nl.bfloat16]


# timing_v3.toml, nc_latency_extra_ns
TIMED_EXTRA_US = 8.5


def test_benchmark_gives_values_and_a_predicted_latency():
    kernel = nki.benchmark(warmup=1, iters=2)(doubled)[1]
    np.testing.assert_array_equal(kernel(np.ones((1, 2, 2), np.float32)), np.full((1, 2, 2), 2))
    if _machine.backend().name != "core":
        with pytest.raises(NotModelled, match="only the core backend predicts time"):
            kernel.benchmark_result.nc_latency  # noqa: B018
        return
    latency = kernel.benchmark_result.nc_latency
    predicted = opentrn.run(doubled[1], np.ones((1, 2, 2), np.float32), target="trn2").time_us
    assert latency.get_latency_percentile(50) == pytest.approx(predicted + TIMED_EXTRA_US) and predicted > 0
    with pytest.raises(ValueError, match="percentile 51"):
        latency.get_latency_percentile(51)


def many_loads(a):
    out = nl.ndarray((128, 64), dtype=a.dtype, buffer=nl.shared_hbm)
    tiles = [nl.load(a[:, nl.ds(8 * i, 8)]) for i in range(8)]
    for i, tile in enumerate(tiles):
        nl.store(out[:, nl.ds(8 * i, 8)], tile)
    return out


@pytest.mark.skipif(_machine.backend().name != "core", reason="the oracle predicts no time")
def test_descriptors_are_prepared_where_the_compilers_flags_say_so(monkeypatch):
    monkeypatch.delenv("NEURON_CC_FLAGS", raising=False)
    x = np.ones((128, 64), np.float32)

    def latency(**options):
        kernel = nki.benchmark(many_loads, **options)
        kernel(x)
        return kernel.benchmark_result.nc_latency.get_latency_percentile(99)

    generated, prepared = latency(), latency(additional_compile_opt="-O1 --disable-dge")
    assert prepared != generated

    def run(dge, **options):
        return opentrn.run(nki.jit(many_loads, **options), x, dge=dge).time_us + TIMED_EXTRA_US

    assert run(dge=False) == pytest.approx(prepared)
    assert run(dge=True, additional_compile_opt="--disable-dge") == pytest.approx(generated)
    monkeypatch.setenv("NEURON_CC_FLAGS", "--disable-dge --model-type 'transformer'")
    assert latency() == prepared
    monkeypatch.setenv("NEURON_CC_FLAGS", "--model-type 'transformer")
    with pytest.raises(ValueError, match="NEURON_CC_FLAGS ends inside"):
        latency()


def test_the_logging_level_of_the_official_package_is_there():
    import logging

    importlib.import_module("opentrn.compat.standins.neuronxcc")
    assert logging.OFF > logging.CRITICAL


def test_latency_before_a_call_is_refused():
    with pytest.raises((NkiValidationError, NotModelled)):
        nki.benchmark(doubled).benchmark_result.nc_latency  # noqa: B018


def test_profile_is_refused_by_name():
    with pytest.raises(NotModelled, match="nki.profile"):
        nki.profile(working_directory="unused")(doubled)(np.ones((1, 2, 2), np.float32))


def test_call_outside_a_kernel_is_refused():
    with pytest.raises(NkiValidationError, match="inside a kernel only"):
        nl.ndarray((4, 4), dtype=nl.float32)


def test_unknown_option_is_refused():
    with pytest.raises(TypeError, match="unknown arguments"):
        nki.jit(lambda: None, optimise=True)


def test_modulo_allocation_addresses():
    place = ncc.psum.mod_alloc(base_bank=1, num_bank_tiles=(2,)).place
    assert [place.address((i,), 128, 2048) for i in range(3)] == [(0, 2048), (0, 4096), (0, 2048)]
    place = ncc.sbuf.mod_alloc(base_addr=64, num_free_tiles=(2,)).place
    assert [place.address((i,), 128, 256) for i in range(3)] == [(0, 64), (0, 320), (0, 64)]


def test_allocation_past_the_end_of_a_bank_is_refused():
    with pytest.raises(NkiValidationError, match="cross the end of a bank"):
        ncc.psum.mod_alloc(base_bank=0).place.address((), 128, 4096)


def test_an_address_counted_up_in_a_loop_is_that_of_its_first_iteration():
    """As where the loop is traced once; nki-samples' allocated attention counts so, beyond the end of SBUF."""

    @nki.jit(platform_target="trn1")
    def kernel(x):
        out = nl.ndarray((6, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        at = 1024
        for i in nl.affine_range(3):
            one = nl.ndarray((128, 64), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=at))
            at += 8192
            for j in nl.sequential_range(2):
                two = nl.ndarray((128, 64), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=at))
                at += 8192
                one[...] = nl.load(x)
                two[...] = nl.copy(one)
                nl.store(out[i * 2 + j], two)
        return out

    result = opentrn.run(kernel, np.ones((128, 64), np.float32), target="trn1")
    np.testing.assert_array_equal(result.outputs, 1)
    placed = re.findall(r" sbuf .* at (\S+) @", result.program_text())
    assert placed.count("0:1024") == 3 and placed.count("0:9216") == 6 == len(placed) - 3


def test_a_loop_that_the_compiler_unrolls_counts_on():
    @nki.jit(platform_target="trn1")
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = []
        for i in nl.static_range(3):
            tiles.append(nl.ndarray((128, 64), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=256 * i)))
            tiles[i][...] = nl.load(x)
        nl.store(out, tiles[0] + tiles[1] + tiles[2])
        return out

    np.testing.assert_array_equal(kernel(np.ones((128, 64), np.float32)), 3)


def test_loops_outside_a_kernel_count():
    for loop in (nl.affine_range, nl.sequential_range, nl.static_range):
        assert list(loop(2, 8, 3)) == [2, 5]


def test_torch_arguments_give_torch_results():
    torch = pytest.importorskip("torch")
    result = doubled[1](torch.ones((1, 2, 4), dtype=torch.bfloat16))
    assert result.dtype == torch.bfloat16 and bool((result == 2).all())


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (np.int32, np.float16, np.float16),
        (np.uint16, nl.tfloat32, nl.tfloat32),
        (np.float32, nl.bfloat16, np.float32),
        (np.float16, nl.bfloat16, np.float32),
        (nl.float8_e4m3, np.float16, np.float16),
        (nl.float8_e4m3, nl.float8_e5m2, nl.bfloat16),
        (np.uint16, np.int32, np.int32),
        (np.int8, np.uint8, np.int16),
        (np.int8, np.uint16, np.int32),
        (np.int32, np.uint32, np.float32),
    ],
)
def test_type_promotion_as_documented(a, b, result):
    assert promote(a, b) == np.dtype(result) == promote(b, a)


def test_weak_scalars_are_wide():
    assert [scalar_dtype(v) for v in (True, 2, 1.5, np.float16(1))] == [
        np.uint8,
        np.int32,
        np.float32,
        np.float16,
    ]


@nki.jit
def squared_in_bfloat16(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nisa.activation(op=np.square, data=nl.load(a), dtype=nl.bfloat16))
    return out


def test_custom_dtypes_round_unless_the_simulator_of_0_1_is_asked_for(monkeypatch):
    a = np.linspace(1, 2, 32, dtype=np.float32).reshape(4, 8)
    rounded = np.square(a).astype(nl.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(squared_in_bfloat16(a), rounded)
    monkeypatch.setenv("OPENTRN_NKI01_CUSTOM_DTYPES", "fp32")
    np.testing.assert_allclose(squared_in_bfloat16(a), np.square(a), rtol=1e-6)
    monkeypatch.setenv("OPENTRN_NKI01_CUSTOM_DTYPES", "fp64")
    with pytest.raises(NkiValidationError, match="fp32, or unset it"):
        squared_in_bfloat16(a)


def test_a_kernel_that_prints_has_a_time_without_values(capsys):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        nl.device_print("tile", tile)
        nl.store(out, tile)
        return out

    assert opentrn.run(kernel, opentrn.ShapeOf((4, 4), "float32"), execute=False).time_us > 0
    assert capsys.readouterr().out == ""


def test_num_programs_along_axes():
    seen = set()

    @nki.jit
    def kernel(a):
        seen.add((nl.num_programs(), nl.num_programs(axes=1), nl.num_programs(axes=(1, 0))))
        with pytest.raises(NkiValidationError, match="axis 2 of a launch grid"):
            nl.num_programs(axes=2)
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a))
        return out

    kernel[2, 3](np.ones((4, 8), np.float32))
    assert seen == {((2, 3), 3, (3, 2))}
