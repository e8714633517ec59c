"""Tensor engine against float64 products, and PSUM accumulation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import custom_op
from opentrn.errors import NkiValidationError, UndefinedBehavior
from opentrn.nki import isa as nki_isa
from opentrn.nki import language as nl
from opentrn.oracle import isa as nisa
from opentrn.oracle.machine import Machine
from opentrn.types.dtypes import pack_x4, unpack_x4
from opentrn.types.isa_enums import matmul_perf_mode

BF16 = ml_dtypes.bfloat16
# Sums of 128 float32 products of order 1: a few hundred roundings of 2^-24.
CLOSE = {"rtol": 1e-5, "atol": 1e-4}


def operands(rng, k=128, m=64, n=96, dtype=BF16):
    return rng.standard_normal((k, m)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)


def wide(a):
    return a.astype(np.float64)


@pytest.mark.parametrize(
    "dtype", [np.float32, BF16, np.float16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3]
)
def test_product(tiles, rng, dtype):
    a, b = operands(rng, dtype=dtype)
    psum = tiles.empty((64, 96), buffer="psum")
    nisa.nc_matmul(psum, tiles.of(a), tiles.of(b))
    np.testing.assert_allclose(psum.numpy(), wide(a).T @ wide(b), **CLOSE)


def test_accumulate_none_overwrites_first_and_adds_after(tiles, rng):
    a, b = operands(rng)
    product = wide(a).T @ wide(b)
    psum = tiles.empty((64, 96), buffer="psum")
    for count in (1, 2, 3):
        nisa.nc_matmul(psum, tiles.of(a), tiles.of(b))
        np.testing.assert_allclose(psum.numpy(), count * product, rtol=1e-4, atol=1e-3)


def test_accumulation_is_tracked_per_element(tiles, rng):
    a, b = operands(rng, n=40)
    product = wide(a).T @ wide(b)
    psum = tiles.empty((64, 80), buffer="psum")
    nisa.nc_matmul(psum[:, 0:40], tiles.of(a), tiles.of(b))
    nisa.nc_matmul(psum[:, 20:60], tiles.of(a), tiles.of(b))
    expected = np.zeros((64, 60))
    expected[:, :40] += product
    expected[:, 20:] += product
    np.testing.assert_allclose(psum.numpy()[:, :60], expected, rtol=1e-4, atol=1e-3)


def test_accumulate_false_overwrites_and_true_adds(tiles, rng):
    a, b = operands(rng)
    psum = tiles.empty((64, 96), buffer="psum")
    with pytest.raises(UndefinedBehavior):
        nisa.nc_matmul(psum, tiles.of(a), tiles.of(b), accumulate=True)
    for _ in range(2):
        nisa.nc_matmul(psum, tiles.of(a), tiles.of(b), accumulate=False)
    np.testing.assert_allclose(psum.numpy(), wide(a).T @ wide(b), **CLOSE)
    nisa.nc_matmul(psum, tiles.of(a), tiles.of(b), accumulate=True)
    np.testing.assert_allclose(psum.numpy(), 2 * (wide(a).T @ wide(b)), rtol=1e-4, atol=1e-3)


def test_psum_set_by_another_engine_is_overwritten_before_v4_and_kept_on_v4(rng):
    for target, start in (("trn2", 0.0), ("trn3", 5.0)):
        with Machine(target) as machine:
            one = machine.ndarray((1, 1), "bfloat16")
            nisa.memset(one, 1.0)
            psum = machine.ndarray((1, 1), "float32", "psum")
            nisa.memset(psum, 5.0)
            nisa.nc_matmul(psum, one, one)
            assert psum.numpy()[0, 0] == start + 1


def test_sequential_mode_sums_row_by_row(rng):
    a, b = operands(rng, k=16, m=3, n=2, dtype=np.float32)
    with Machine(sequential_matmul=True) as machine:
        psum = machine.ndarray((3, 2), "float32", "psum")
        sa, sb = machine.ndarray((16, 3), "float32"), machine.ndarray((16, 2), "float32")
        sa.numpy()[...], sb.numpy()[...] = a, b
        nisa.nc_matmul(psum, sa, sb)
    total = np.zeros((3, 2), np.float32)
    for k in range(16):
        total = total + a[k][:, None] * b[k][None, :]
    np.testing.assert_array_equal(psum.numpy(), total)


def test_double_row_contracts_the_pair_dimension_too(tiles, rng):
    a = rng.standard_normal((128, 2, 32)).astype(ml_dtypes.float8_e4m3)
    b = rng.standard_normal((128, 2, 48)).astype(ml_dtypes.float8_e5m2)
    psum = tiles.empty((32, 48), buffer="psum")
    nisa.nc_matmul(psum, tiles.of(a), tiles.of(b), perf_mode=matmul_perf_mode.double_row)
    np.testing.assert_allclose(psum.numpy(), np.einsum("kjm,kjn->mn", wide(a), wide(b)), **CLOSE)


def test_bfloat16_psum_rounds_each_addition(tiles_v4, rng):
    a, b = operands(rng)
    psum = tiles_v4.empty((64, 96), "bfloat16", "psum")
    nisa.nc_matmul(psum, tiles_v4.of(a), tiles_v4.of(b))
    first = psum.numpy().astype(np.float32).copy()
    nisa.nc_matmul(psum, tiles_v4.of(a), tiles_v4.of(b))
    product = a.astype(np.float32).T @ b.astype(np.float32)
    np.testing.assert_array_equal(psum.numpy(), (first + product).astype(BF16))


def test_operands_have_their_places(tiles, rng):
    a, b = operands(rng)
    psum = tiles.empty((64, 96), buffer="psum")
    with pytest.raises(NkiValidationError, match="PSUM"):
        nisa.nc_matmul(tiles.empty((64, 96)), tiles.of(a), tiles.of(b))
    with pytest.raises(NkiValidationError, match="SBUF"):
        nisa.nc_matmul(psum, tiles.of(a, buffer="psum"), tiles.of(b))
    with pytest.raises(NkiValidationError, match="float32"):
        nisa.nc_matmul(psum, tiles.of(a), tiles.of(b, "float32"))
    with pytest.raises(NkiValidationError, match="partitions"):
        nisa.nc_matmul(psum, tiles.of(a[:64]), tiles.of(b))


def test_transpose_keeps_bits(tiles, rng):
    bits = rng.integers(0, 2**32, (48, 20), np.uint32)
    data = tiles.of(bits).view("float32")  # NaNs with payloads among them
    psum = tiles.empty((20, 48), buffer="psum")
    nisa.nc_transpose(psum, data)
    np.testing.assert_array_equal(psum.numpy().view(np.uint32), bits.T)
    identity = tiles.of(np.eye(48, dtype=np.float32))
    again = tiles.empty((20, 48), buffer="psum")
    nisa.nc_matmul(again, data, identity, is_transpose=True)
    np.testing.assert_array_equal(again.numpy().view(np.uint32), bits.T)


def test_transpose_flattens_free_dimensions_and_checks_sizes(tiles):
    data = np.arange(4 * 6, dtype=np.float32).reshape(4, 2, 3)
    dst = tiles.empty((6, 4))
    nisa.nc_transpose(dst, tiles.of(data), engine=nisa.engine.vector)
    np.testing.assert_array_equal(dst.numpy(), data.reshape(4, 6).T)
    with pytest.raises(NkiValidationError, match="at most 32"):
        nisa.nc_transpose(tiles.empty((40, 4)), tiles.empty((4, 40)), engine=nisa.engine.vector)
    with pytest.raises(NkiValidationError, match="at most 128"):
        nisa.nc_transpose(tiles.empty((128, 4)), tiles.empty((4, 129)))


def mx_tile(tiles, rng, partitions, width, dtype):
    """Packed data, a scale tile with one row per 8 partitions, and the float64 matrix they mean."""
    values = rng.standard_normal((partitions, width, 4)).astype(np.float32)
    packed = pack_x4(values, dtype)
    codes = rng.integers(120, 134, (partitions // 8, width)).astype(np.uint8)
    scale = np.zeros((partitions, width), np.uint8)
    for group in range(partitions // 8):
        scale[group // 4 * 32 + group % 4] = codes[group]
    factor = np.repeat(2.0 ** (codes.astype(np.float64) - 127), 8, axis=0)
    meaning = unpack_x4(packed, dtype).astype(np.float64) * factor[:, :, None]
    return tiles.of(packed, dtype), tiles.of(scale), meaning.transpose(0, 2, 1).reshape(-1, width)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"])
@pytest.mark.parametrize("partitions", [32, 128])
def test_mx_product(tiles_v4, rng, dtype, partitions):
    stationary, stationary_scale, a = mx_tile(tiles_v4, rng, partitions, 16, dtype)
    moving, moving_scale, b = mx_tile(tiles_v4, rng, partitions, 24, "float8_e5m2_x4")
    psum = tiles_v4.empty((16, 24), buffer="psum")
    nisa.nc_matmul_mx(psum, stationary, moving, stationary_scale, moving_scale)
    np.testing.assert_allclose(psum.numpy(), a.T @ b, rtol=1e-4, atol=1e-4 * np.abs(a.T @ b).max())


def test_mx_needs_the_fourth_generation(tiles, rng):
    stationary, scale, _ = mx_tile(tiles, rng, 32, 4, "float8_e5m2_x4")
    with pytest.raises(NkiValidationError, match="v4"):
        nisa.nc_matmul_mx(tiles.empty((4, 4), buffer="psum"), stationary, stationary, scale, scale)


@pytest.mark.parametrize(("dtype", "exponent_max"), [("float8_e4m3fn_x4", 8), ("float8_e5m2_x4", 15)])
def test_quantize_mx_follows_the_documented_scale(tiles_v4, rng, dtype, exponent_max):
    source = (rng.standard_normal((64, 8)) * 10.0 ** rng.integers(-5, 5, (64, 8))).astype(BF16)
    source[0:8, 0:4] = 0
    dst, scale = tiles_v4.empty((64, 2), dtype), tiles_v4.empty((64, 2), "uint8")
    nisa.quantize_mx(dst, tiles_v4.of(source), scale)
    values = unpack_x4(dst.numpy(), dtype)
    for group in range(8):
        for column in range(2):
            block = source[8 * group : 8 * group + 8, 4 * column : 4 * column + 4].astype(np.float64)
            largest = np.abs(block).max()
            exponent = -127 if largest == 0 else int(np.floor(np.log2(largest))) - (exponent_max - 1)
            assert scale.numpy()[group // 4 * 32 + group % 4, column] == exponent + 127
            # Half a step of a format with at least 2 mantissa bits, and its smallest subnormal.
            np.testing.assert_allclose(
                values[8 * group : 8 * group + 8, column] * 2.0**exponent,
                block,
                rtol=2**-3,
                atol=2.0 ** (exponent - 9),
            )


def test_quantize_then_multiply(tiles_v4, rng):
    source = rng.standard_normal((128, 64)).astype(BF16)
    data, scale = tiles_v4.empty((128, 16), "float8_e4m3fn_x4"), tiles_v4.empty((128, 16), "float8_e8m0fnu")
    nisa.quantize_mx(data, tiles_v4.of(source), scale)
    psum = tiles_v4.empty((16, 16), buffer="psum")
    nisa.nc_matmul_mx(psum, data, data, scale, scale)
    exact = source.astype(np.float64).reshape(128, 16, 4).transpose(0, 2, 1).reshape(512, 16)
    # Relative error of an e4m3 value is at most 2^-4; errors of 512 products mostly cancel.
    np.testing.assert_allclose(psum.numpy(), exact.T @ exact, atol=0.02 * 512)


SPARSITY_PATTERNS = ("4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2")


class Sparse:
    """A random stationary matrix that keeps M of N values, with the tags of their places, and a moving one."""

    def __init__(self, rng, pattern: str, k=32, m=64, n=48, dtype=BF16):
        self.kept, self.group = (int(part) for part in pattern.split(":"))
        self.ratio = self.group // self.kept
        self.code = 100 * self.kept + self.group
        self.weights = rng.standard_normal((k, m)).astype(dtype)
        places = rng.permuted(np.tile(np.arange(self.group), (k // self.kept, m, 1)), axis=2)
        self.tags = places[:, :, : self.kept].transpose(0, 2, 1).reshape(k, m)
        self.moving = rng.standard_normal((k, self.ratio, n)).astype(dtype)

    @property
    def packed(self) -> np.ndarray:
        nibbles = self.tags.reshape(self.tags.shape[0], -1, 4).astype(np.uint16)
        return (nibbles << np.arange(0, 16, 4, dtype=np.uint16)).sum(axis=2).astype(np.uint16)

    @property
    def dense(self) -> np.ndarray:
        k, m = self.weights.shape
        dense = np.zeros((k // self.kept, self.group, m))
        group, column = np.arange(k)[:, None] // self.kept, np.arange(m)[None, :]
        dense[group, self.tags, column] = wide(self.weights)
        return dense.reshape(-1, m)

    def run(self, tiles, accumulate=None, psum=None):
        if psum is None:
            psum = tiles.empty((self.weights.shape[1], self.moving.shape[2]), buffer="psum")
        nisa.nc_matmul_sparse(
            psum, tiles.of(self.weights), tiles.of(self.moving), tiles.of(self.packed), self.code, accumulate
        )
        return psum


@pytest.mark.parametrize("pattern", SPARSITY_PATTERNS)
def test_a_sparse_product_is_the_dense_one(tiles, rng, pattern):
    sparse = Sparse(rng, pattern)
    expected = sparse.dense.T @ wide(sparse.moving).reshape(sparse.dense.shape[0], -1)
    psum = sparse.run(tiles)
    np.testing.assert_allclose(psum.numpy(), expected, **CLOSE)
    np.testing.assert_allclose(sparse.run(tiles, True, psum).numpy(), 2 * expected, **CLOSE)


def test_a_sparse_product_by_hand(tiles):
    """2:4: 3 stands at place 1 of its group, 5 at place 2, where moving has 10, 20 and 30, 40."""
    psum = tiles.empty((4, 1), buffer="psum")
    tags = np.array([[0x0001], [0x0002]], np.uint16)  # the other three columns have weight 0 at places 0 ...
    tags |= np.array([[0x0000], [0x1110]], np.uint16)  # ... and 1
    weights = np.array([[3, 0, 0, 0], [5, 0, 0, 0]], np.float32)
    moving = np.array([[[10], [20]], [[30], [40]]], np.float32)
    nisa.nc_matmul_sparse(psum, tiles.of(weights), tiles.of(moving), tiles.of(tags), 204)
    assert psum.numpy().tolist() == [[3 * 20 + 5 * 30], [0], [0], [0]]


def test_a_sparse_product_does_not_read_what_no_tag_chooses(tiles, rng):
    sparse = Sparse(rng, "1:4", k=8, m=4, n=4)
    sparse.tags[...] = 2
    sparse.moving[:, [0, 1, 3]] = np.inf
    assert np.isfinite(sparse.run(tiles).numpy()).all()


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda s: setattr(s, "code", 307), "no pattern 3:7"),
        (lambda s: s.tags.__setitem__((0, 0), 12), "a tag of 12 or more"),
        (lambda s: s.tags.__setitem__((1, 0), s.tags[0, 0]), "a tag twice"),
    ],
)
def test_a_sparse_product_refuses(tiles, rng, change, finding):
    sparse = Sparse(rng, "4:12")
    change(sparse)
    with pytest.raises(NkiValidationError, match=finding):
        sparse.run(tiles)


@pytest.mark.parametrize("pattern", SPARSITY_PATTERNS)
def test_the_core_computes_the_sparse_product_of_the_reference(tiles, rng, pattern):
    sparse = Sparse(rng, pattern)
    k, m = sparse.weights.shape

    def kernel(weights, moving, packed):
        a, b, t = (nl.ndarray(h.shape, h.dtype) for h in (weights, moving, packed))
        for tile, host in ((a, weights), (b, moving), (t, packed)):
            nki_isa.dma_copy(tile, host)
        psum = nl.ndarray((m, moving.shape[2]), nl.float32, buffer=nl.psum)
        custom_op.nc_matmul_sparse(psum, a, b, t, pattern)
        copy = nl.ndarray(psum.shape, nl.float32)
        nki_isa.tensor_copy(copy, psum)
        out = nl.ndarray(psum.shape, nl.float32, buffer=nl.shared_hbm)
        nki_isa.dma_copy(out, copy)
        return out

    found = opentrn.run(kernel, sparse.weights, sparse.moving, sparse.packed, time=False).outputs
    np.testing.assert_allclose(found, sparse.run(tiles).numpy(), **CLOSE)
