"""neuron_dtypes, packed dtypes, the compiler's stand-ins and single-rank collectives."""

import ml_dtypes
import numpy as np
import pytest

from opentrn import nki
from opentrn.compat.standins import neuron_dtypes as ndt
from opentrn.errors import NotModelled
from opentrn.nki import collectives
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from opentrn.nki.compiler import frontend, ncc_driver


@pytest.mark.parametrize("dtype", [nl.bfloat16, "bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)])
def test_static_cast_accepts_every_spelling(dtype):
    assert ndt.static_cast(np.float32([1.5, 2.25]), dtype).dtype == ml_dtypes.bfloat16
    assert ndt.sizeinbytes(dtype) == 2 and ndt.is_float_type(dtype)


def test_static_cast_rounds_to_nearest_even():
    x = np.float32([1 + 2**-9, 1 + 3 * 2**-9])
    assert ndt.static_cast(x, nl.bfloat16).astype(np.float32).tolist() == [1.0, 1 + 2**-7]
    tf32 = ndt.static_cast(np.float32([1 + 2**-11, 1 + 3 * 2**-11, np.inf]), nl.tfloat32)
    assert tf32.tolist() == [1.0, 1 + 2**-9, np.inf]


@pytest.mark.parametrize("source", [ndt.bfloat16, ndt.float16, ndt.float8_e4m3, ndt.float8_e5m2, np.int8])
@pytest.mark.parametrize("target", [ndt.float32, ndt.float8_e4m3, ndt.bfloat16, np.int16])
def test_a_cast_of_a_large_array_gives_what_ml_dtypes_gives(source, target, monkeypatch):
    size = np.dtype(source).itemsize
    patterns = np.tile(np.arange(256**size, dtype=f"u{size}"), (3, 2)).view(source)[:, ::2]
    with np.errstate(all="ignore"):
        expected = patterns.astype(target)
    monkeypatch.setattr(ndt, "_TABLE_FROM", 1)
    got = ndt.static_cast(patterns, target)
    assert got.dtype == expected.dtype and got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4])
def test_packed_types(dtype):
    values = np.float32([[0, 0.5, 1, -1.5, 2, 3, -4, 6]])
    packed = ndt.static_cast(values, dtype)
    assert packed.shape == (1, 2) and str(packed.dtype) == dtype
    assert packed.dtype == dtype and dtype == packed.dtype
    assert np.array_equal(ndt.static_cast(packed, np.float32), values)
    assert np.zeros((2, 2), dtype=dtype).dtype == packed.dtype
    with pytest.raises(TypeError):
        packed.astype(np.float32)
    with pytest.raises(ValueError, match="by 4"):
        ndt.static_cast(values[:, :7], dtype)


def test_packed_arrays_through_a_launch():
    values = np.tile(np.float32([0, 0.5, 1, -1.5]), (128, 4))
    packed = ndt.static_cast(values, nl.float8_e4m3fn_x4)

    def kernel(x):
        assert x.dtype == nl.float8_e4m3fn_x4 and x.shape == (128, 4)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.load(x))
        return out

    result = nki.simulate(kernel, target="trn3")(packed)
    assert result.dtype == packed.dtype
    assert np.array_equal(result.view(np.uint32), packed.view(np.uint32))


def test_limits():
    assert float(ndt.finfo(nl.float8_e4m3).max) == 240
    assert float(ndt.finfo(nl.float8_e4m3fn_x4).max) == 448
    assert not ndt.is_float_type(np.int32) and ndt.is_integer_type(np.int32)


def test_frontend_traces_and_the_driver_refuses():
    def kernel(x):
        mine = x[nl.program_id(0) * 64 : (nl.program_id(0) + 1) * 64]
        nisa.dma_copy(mine, nl.add(nl.load(mine), 1.0))
        return x

    x = np.zeros((128, 2), np.float32)
    result = frontend.ParserFrontend().compile(kernel, inputs={"x": x}, target="trn2", lnc=2)
    assert (result.lnc, result.target) == (2, nisa.nc_version.gen3)
    assert not x.any()
    with pytest.raises(NotModelled, match="NEFF"):
        ncc_driver.CompiledKernel.from_frontend(result, ncc_driver.CompileOptions())


def test_collectives_of_one_rank():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        collectives.all_reduce([x], [out], collectives.ReplicaGroup([[0]]), nl.add)
        assert int(collectives.rank_id()) == 0
        return out

    x = np.ones((4, 4), np.float32)
    assert np.array_equal(nki.simulate(kernel)(x), x)


def test_packed_arrays_behave_as_storage(tmp_path):
    bits = np.arange(6, dtype=np.uint32).reshape(2, 3)
    packed = bits.view(nl.float8_e4m3fn_x4)
    for moved, expected in (
        (packed.T.copy(), bits.T),
        (np.ascontiguousarray(packed[:, ::2]), bits[:, ::2]),
        (np.concatenate([packed, packed]), np.concatenate([bits, bits])),
        (packed.reshape(3, 2).copy(), bits.reshape(3, 2)),
    ):
        assert moved.dtype == packed.dtype and np.array_equal(moved.view(np.uint32), expected)
    packed.tofile(tmp_path / "packed")
    assert np.array_equal(
        np.fromfile(tmp_path / "packed", dtype=packed.dtype).view(np.uint32), bits.reshape(-1)
    )
    assert packed[1, 2] == 5  # an element is its bits
    assert not np.issubdtype(packed.dtype, np.floating)
