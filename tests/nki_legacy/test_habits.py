"""What neuronx-cc does with kernels of NKI 0.1: its choice of engines and of instructions, and that values stay."""

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import nki_legacy as nki
from opentrn.nki_legacy import isa as nisa
from opentrn.nki_legacy import language as nl


def _kernel(engine=None):
    named = {} if engine is None else {"engine": engine}

    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 256), dtype=np.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        product = nl.matmul(tile[:, 0:128], tile[:, 128:384], transpose_x=True)
        copied = nisa.tensor_copy(product, **named)
        column = nisa.tensor_reduce(np.max, copied, axis=[1])
        scaled = nisa.tensor_scalar(copied, np.multiply, column, **named)
        halved = nisa.tensor_scalar(scaled, np.multiply, 0.5, **named)
        nl.store(out, nl.add(nisa.reciprocal(halved), nisa.reciprocal(column)))
        return out

    return kernel


def _expected(x):
    product = x[:, :128].T.astype(np.float64) @ x[:, 128:]
    column = product.max(axis=1, keepdims=True)
    return 1 / (product * column * 0.5) + 1 / column


@pytest.mark.parametrize(("target", "compiler", "engine", "on_scalar"), [
    ("trn1", None, None, {"tensor_copy": 1, "tensor_scalar": 2, "reciprocal": 1}),  # the wide reciprocal only
    ("trn1", None, nisa.vector_engine, {"reciprocal": 1}),  # which can name no engine
    ("trn1", "nki", None, {}),  # later compilers leave the choice to the author
    ("trn2", None, nisa.vector_engine, None),  # the rule is of NeuronCore-v2; the backend shares work out
])  # fmt: skip
def test_scalar_engine_takes_copies_from_psum_products_and_wide_reciprocals(target, compiler, engine, on_scalar):
    x = (np.abs(np.random.default_rng(3).standard_normal((128, 384))) + 0.5).astype(np.float32)
    result = opentrn.run(_kernel(engine), x, target=target, compiler=compiler)
    np.testing.assert_allclose(result.outputs, _expected(x), rtol=2e-5)
    assert "activation" not in result.program_text()  # the program is what the kernel says; engines are the compiler's
    opcodes = result.timing.profile()["opcodes"]
    found = {row["opcode"]: row["count"] for row in opcodes if row["engine"] == "scalar"}
    assert "reciprocal" not in found if on_scalar is None else found == on_scalar


def test_activations_that_do_not_reduce_may_change_places():
    """One activation waits for a long load; those written behind it need not wait with it."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 8192), dtype=np.float32, buffer=nl.shared_hbm)
        ready = nl.full((128, 8192), 0.5, dtype=np.float32)
        late = nl.exp(nl.load(x))
        for _ in nl.affine_range(4):
            ready[...] = nl.exp(ready)
        nl.store(out, nl.add(late, ready))
        return out

    shape = opentrn.ShapeOf((128, 8192), "float32")
    written, reordered = (
        opentrn.run(kernel, shape, target="trn1", execute=False, **order).time_us
        for order in ({"look_ahead": 0}, {})
    )
    assert reordered < written - 5


def test_masked_matmuls_accumulate_in_psum(issued):
    """What the mask leaves out of the tile is no reason to add on the Vector engine."""

    @nki.jit(platform_target="trn1")
    def kernel(x):
        out = nl.ndarray((128, 96), dtype=np.float32, buffer=nl.shared_hbm)
        total = nl.zeros((128, 128), dtype=np.float32, buffer=nl.psum)
        tile = nl.load(x)
        i, j = nl.arange(128)[:, None], nl.arange(128)[None, :]
        for _ in nl.affine_range(3):
            total[i, j] += nisa.nc_matmul(tile[i, j], tile[i, j], mask=j < 96)
        nl.store(out, nl.copy(total[0:128, 0:96]))
        return out

    x = np.random.default_rng(4).standard_normal((128, 128)).astype(np.float32)
    np.testing.assert_allclose(kernel(x), 3 * (x.T @ x)[:, :96], rtol=1e-4, atol=1e-3)
    assert issued.count("tensor_tensor") == 0
    assert issued.count("nc_matmul") == 3


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize(("loaded", "wanted", "on_tensor"), [
    (np.float32, None, True),
    (np.float32, ml_dtypes.bfloat16, True),
    (ml_dtypes.bfloat16, None, True),
    (np.float16, np.float32, True),
    (np.int32, None, False),
])  # fmt: skip
def test_load_transpose2d_turns_on_the_tensor_engine_and_keeps_values(
    issued, target, loaded, wanted, on_tensor
):
    @nki.jit(platform_target=target)
    def kernel(x):
        out = nl.ndarray((96, 200), dtype=wanted or x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(x, dtype=wanted))
        return out

    x = np.random.default_rng(5).integers(-100, 100, (200, 96)).astype(loaded)
    if on_tensor and target != "trn1":  # there the engine multiplies by an identity, and 0 * inf is nan
        x[3, 5:8], x[150, 9] = (np.inf, -np.inf, np.nan), np.nan
    turned = kernel(x)
    assert turned.dtype == (wanted or loaded)
    np.testing.assert_array_equal(turned.astype(np.float32), x.T.astype(np.float32))
    assert issued.count("nc_transpose") == (2 if on_tensor else 0)  # 128 and 72 rows


def test_load_transpose2d_goes_where_the_kernel_keeps_it(issued):
    @nki.jit(platform_target="trn1")
    def kernel(x):
        out = nl.ndarray((4, 64, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        turned = nl.ndarray((4, nl.par_dim(64), 128), dtype=x.dtype)
        for i in nl.affine_range(4):
            turned[i] = nl.load_transpose2d(x[i]) * 2.0
        for i in nl.affine_range(4):
            nl.store(out[i], turned[i])
        return out

    x = np.random.default_rng(6).standard_normal((4, 128, 64)).astype(np.float32)
    np.testing.assert_array_equal(kernel(x), 2 * x.transpose(0, 2, 1))
    assert issued.count("nc_transpose") == 4
