"""nki.language functions against numpy, each run through a launch."""

import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.errors import NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from opentrn.nki.language import _elementwise as elementwise


def run(function, *arrays, target="trn3", **kwargs):
    """Load the arrays into SBUF, call `function` on the tiles, return its result tile as numpy."""

    def kernel(*inputs):
        tile = function(*(nl.load(x) for x in inputs), **kwargs)
        if tile.buffer == nl.psum:
            tile = nl.copy(tile)
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return nki.simulate(kernel, target=target)(*arrays)


RNG = np.random.default_rng(7)
X = RNG.uniform(-4, 4, (128, 24)).astype(np.float32)
Y = RNG.uniform(0.5, 4, (128, 24)).astype(np.float32)
COLUMN = RNG.uniform(0.5, 4, (128, 1)).astype(np.float32)
ROW = RNG.uniform(0.5, 4, (1, 24)).astype(np.float32)
INTS = RNG.integers(0, 1 << 20, (128, 24)).astype(np.int32)


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (nl.add, np.add),
        (nl.subtract, np.subtract),
        (nl.multiply, np.multiply),
        (nl.divide, np.divide),
        (nl.maximum, np.maximum),
        (nl.minimum, np.minimum),
        (nl.mod, np.mod),
        (nl.fmod, np.fmod),
        (nl.less, np.less),
        (nl.greater_equal, np.greater_equal),
        (nl.equal, np.equal),
        (nl.not_equal, np.not_equal),
    ],
    ids=lambda f: f.__name__,
)
def test_two_operands(function, reference):
    for other in (Y, COLUMN, ROW):
        expected = reference(X, other).astype(np.float32)
        np.testing.assert_allclose(run(function, X, other), expected, rtol=1e-5, atol=2e-5)
    by_scalar = run(lambda x: function(x, 1.5), X)
    np.testing.assert_allclose(by_scalar, reference(X, np.float32(1.5)), rtol=1e-5, atol=2e-5)
    from_scalar = run(lambda y: function(1.5, y), Y)
    np.testing.assert_allclose(from_scalar, reference(np.float32(1.5), Y), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (nl.abs, np.abs),
        (nl.square, np.square),
        (nl.sign, np.sign),
        (nl.exp, np.exp),
        (nl.tanh, np.tanh),
        (nl.floor, np.floor),
        (nl.ceil, np.ceil),
        (nl.trunc, np.trunc),
        (nl.negative, np.negative),
        (nl.sin, np.sin),
        (nl.cos, np.cos),
        (nl.arctan, np.arctan),
        (nl.reciprocal, np.reciprocal),
        (nl.relu, lambda x: np.maximum(x, 0)),
        (nl.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
        (nl.silu, lambda x: x / (1 + np.exp(-x))),
        (nl.softplus, lambda x: np.log1p(np.exp(x))),
    ],
    ids=lambda f: f.__name__,
)
def test_one_operand(function, reference):
    np.testing.assert_allclose(run(function, X), reference(X), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("function", [nl.log, nl.sqrt, nl.rsqrt], ids=lambda f: f.__name__)
def test_positive_operand(function):
    reference = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}[function.__name__]
    np.testing.assert_allclose(run(function, Y), reference(Y), rtol=2e-5, atol=2e-6)


def test_sin_outside_the_engine_range():
    x = np.linspace(-60, 60, 128 * 8, dtype=np.float32).reshape(128, 8)
    np.testing.assert_allclose(run(nl.sin, x), np.sin(x), atol=2e-5)
    np.testing.assert_allclose(run(nl.tan, X), np.tan(X), rtol=2e-3)


def test_rounding_leaves_large_and_special_values():
    x = np.tile(np.float32([2.5, -2.5, 3e9, -3e9, 1e30, np.inf, -np.inf, np.nan]), (128, 1))
    np.testing.assert_array_equal(run(nl.floor, x), np.floor(x))
    np.testing.assert_array_equal(run(nl.ceil, x), np.ceil(x))


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (nl.bitwise_and, np.bitwise_and),
        (nl.bitwise_or, np.bitwise_or),
        (nl.bitwise_xor, np.bitwise_xor),
        (nl.left_shift, np.left_shift),
        (nl.right_shift, np.right_shift),
    ],
    ids=lambda f: f.__name__,
)
def test_integers(function, reference):
    assert np.array_equal(run(lambda x: function(x, 5), INTS), reference(INTS, 5))


def test_inversion_and_logic():
    assert np.array_equal(run(nl.invert, INTS), ~INTS)
    flags = (INTS & 1).astype(np.int32)
    assert np.array_equal(run(nl.logical_not, flags), 1 - flags)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("function", "reference"),
    [(nl.sum, np.sum), (nl.max, np.max), (nl.min, np.min), (nl.mean, np.mean)],
    ids=lambda f: f.__name__,
)
def test_reductions(function, reference, keepdims):
    x = X.reshape(128, 4, 6)
    for axis in (2, -1, (1, 2)):
        expected = reference(x, axis=axis, keepdims=keepdims)
        result = run(function, x, axis=axis, keepdims=keepdims)
        if expected.ndim == 1:  # a tile keeps a free dimension
            expected = expected[:, None]
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_product_variance_and_all():
    small = Y[:, :6]
    np.testing.assert_allclose(run(nl.prod, small, axis=1), small.prod(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(run(nl.var, X, axis=1), X.var(1, keepdims=True), rtol=1e-4)
    flags = (RNG.random((128, 3)) > 0.3).astype(np.float32)
    assert np.array_equal(run(nl.all, flags, axis=1), flags.all(1, keepdims=True).astype(np.float32))


def test_reduction_over_partitions_is_refused():
    with pytest.raises(NkiValidationError, match="partition"):
        run(nl.sum, X, axis=0)


def test_softmax_and_rms_norm():
    shifted = np.exp(X - X.max(1, keepdims=True))
    np.testing.assert_allclose(run(nl.softmax, X, axis=1), shifted / shifted.sum(1, keepdims=True), rtol=2e-5)
    scale = 1 / np.sqrt((X**2).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(run(nl.rms_norm, X, ROW, axis=1, n=24), X * scale * ROW, rtol=2e-5)


def test_where():
    condition = (X > 0).astype(np.float32)
    assert np.array_equal(run(nl.where, condition, X, Y), np.where(condition, X, Y))
    assert np.array_equal(run(lambda c, x: nl.where(c, x, 0.0), condition, X), np.where(condition, X, 0))


def test_matmul_and_transpose():
    a, b = X[:, :16].T.copy(), Y  # [16, 128] @ [128, 24]
    np.testing.assert_allclose(run(nl.matmul, a, b), a @ b, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(
        run(lambda x, y: nl.matmul(x, y, transpose_x=True), a.T.copy(), b), a @ b, rtol=1e-4, atol=1e-3
    )
    assert np.array_equal(run(nl.transpose, X), X.T)


def test_dtype_of_results():
    half = X.astype(np.float16)
    assert run(nl.add, half, X).dtype == np.float32
    assert run(lambda x: nl.add(x, 1.0), half).dtype == np.float16
    assert run(lambda x: nl.exp(x, dtype=nl.bfloat16), X).dtype.name == "bfloat16"


def test_creation():
    def kernel():
        outs = []
        for buffer in (nl.sbuf, nl.psum, nl.private_hbm):
            for tile in (
                nl.zeros((128, 8), nl.float32, buffer=buffer),
                nl.ones((128, 8), nl.float32, buffer=buffer),
                nl.full((128, 8), 2.5, nl.float32, buffer=buffer),
            ):
                out = nl.ndarray((128, 8), nl.float32, buffer=nl.shared_hbm)
                nisa.dma_copy(out, nl.copy(tile) if tile.buffer == nl.psum else tile)
                outs.append(out)
        return tuple(outs)

    for result, value in zip(nki.simulate(kernel)(), [0, 1, 2.5] * 3):
        assert np.array_equal(result, np.full((128, 8), value, np.float32))


def test_hbm_fill_of_odd_size():
    def kernel():
        return nl.full((3, 5, 4099), 7, nl.int32, buffer=nl.shared_hbm)

    assert (nki.simulate(kernel)() == 7).all()


def test_shared_constants():
    table = RNG.random((128, 6)).astype(np.float32)

    def kernel():
        out = nl.ndarray((128, 6), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load(nl.shared_constant(table)))
        eye = nl.ndarray((16, 16), nl.uint8, buffer=nl.shared_hbm)
        nl.store(eye, nl.shared_identity_matrix(16))
        return out, eye

    out, eye = nki.simulate(kernel)()
    assert np.array_equal(out, table) and np.array_equal(eye, np.eye(16, dtype=np.uint8))


def test_broadcast_to_and_load_transpose2d():
    assert np.array_equal(run(lambda r: nl.broadcast_to(r, (128, 24)), ROW), np.broadcast_to(ROW, (128, 24)))

    def kernel(x):
        out = nl.ndarray((24, 128), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(x))
        return out

    assert np.array_equal(nki.simulate(kernel)(X), X.T)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 96, 128])
def test_a_row_is_spread_by_one_call_as_by_its_instructions(count, monkeypatch):
    def kernel(row):
        wide = nl.broadcast_to(nl.load(row), (count, 24))
        out = nl.ndarray((count, 24), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, wide)
        return out

    def recorded():
        with opentrn.kernel.machine.observed_launches() as launches:
            assert np.array_equal(nki.simulate(kernel)(ROW), np.broadcast_to(ROW, (count, 24)))
        return launches[0][0].program_text()

    in_one_call = recorded()
    monkeypatch.setattr(elementwise, "machine", object)  # which has no spread_row()
    assert recorded() == in_one_call


def test_gather_flattened():
    indices = RNG.integers(0, 24, (128, 10)).astype(np.int32)
    expected = np.take_along_axis(X, indices, axis=1)
    assert np.array_equal(run(nl.gather_flattened, X, indices), expected)


def test_random_numbers_repeat_with_the_seed():
    def kernel():
        outs = []
        for _ in range(2):
            nl.random_seed(nl.full((1, 1), 42, nl.int32))
            out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
            nl.store(out, nl.rand((128, 64), nl.float32))
            outs.append(out)
        return tuple(outs)

    a, b = nki.simulate(kernel)()
    assert np.array_equal(a, b)
    assert a.min() >= 0 and a.max() < 1 and abs(a.mean() - 0.5) < 0.02


def test_names_that_are_operators_only():
    for name in (nl.prelu, nl.bypass, nl.average):
        with pytest.raises(TypeError, match="names"):
            name(1)


def test_tile_size_follows_the_target():
    def kernel(seen):
        sizes = nl.tile_size
        seen.append(
            (sizes.sbuf_fmax_bytes, sizes.sbuf_size_bytes, sizes.sbuf_fmax, sizes.total_available_sbuf_size)
        )

    seen = []
    for target in ("trn1", "trn2", "trn3"):
        nki.simulate(kernel, target=target)(seen)
    assert seen == [(kib * 1024, kib * 1024 * 128, kib * 256, kib * 1024) for kib in (192, 224, 256)]
    assert (nl.tile_size.pmax, nl.tile_size.psum_bank_fmax, nl.tile_size.gemm_moving_fmax) == (128, 512, 512)


@pytest.mark.parametrize(
    ("value", "banks"), [(None, (8, 8, 8)), ("0", (8, 8, 8)), ("1", (8, 7, 7)), ("true", (8, 7, 7))]
)
def test_a_bank_of_psum_is_kept_for_transposes_where_the_environment_says_so(monkeypatch, value, banks):
    if value is not None:
        monkeypatch.setenv("NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE", value)
    seen = []
    for target in ("trn1", "trn2", "trn3"):
        nki.simulate(lambda: seen.append(nl.tile_size.psum_num_banks), target=target)()
    assert tuple(seen) == banks


def test_device_print(capsys):
    def kernel(x):
        nl.device_print("tile is", nl.load(x))
        return x

    nki.simulate(kernel)(np.full((1, 2), 1.5, np.float32))
    assert "tile is" in capsys.readouterr().out


def words(capsys):
    return [line for line in capsys.readouterr().out.splitlines() if not line.startswith("[")]


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("eager", [False, True])
def test_device_print_comes_between_what_python_prints(lnc, eager, capsys):
    def kernel(x):
        tile = nl.load(x)
        print("before")
        nl.device_print("device", tile)
        print("after")
        nl.fori_loop(0, nisa.register_alloc(2), lambda i: nl.device_print("loop", tile))

    opentrn.run(kernel, np.ones((1, 2), np.float32), lnc=lnc, eager=eager, time=False)
    printed = words(capsys)
    if lnc == 1:
        assert printed == ["before", "device", "after", "loop", "loop"]
    assert sorted(printed) == sorted(lnc * ["before", "device", "after", "loop", "loop"])


def by_assertion(tile):
    raise AssertionError("the kernel ends here")


def by_fault(tile):
    nisa.tensor_copy(tile, nl.ndarray(tile.shape, tile.dtype))


def by_constraint(tile):
    nisa.tensor_copy(tile, nl.ndarray((2, 4), tile.dtype))


@pytest.mark.parametrize("end", [by_assertion, by_fault, by_constraint])
def test_what_a_kernel_printed_before_it_failed_appears_once(end, capsys):
    def kernel(x):
        tile = nl.load(x)
        nl.device_print("device", tile)
        nl.fori_loop(0, nisa.register_alloc(2), lambda i: nl.device_print("loop", tile))
        end(tile)
        nl.device_print("never", tile)

    with pytest.raises((AssertionError, NkiValidationError)):
        nki.simulate(kernel)(np.ones((1, 2), np.float32))
    assert words(capsys) == ["device", "loop", "loop"]


def test_a_fault_on_the_way_to_the_last_print_is_the_first_one():
    def kernel(x):
        tile = nl.ndarray((1, 2), nl.float32)
        nl.fori_loop(0, nisa.register_alloc(2), lambda i: nl.device_print("loop", tile))
        raise AssertionError("later")

    with pytest.raises(NkiValidationError, match="uninitialised_read") as failure:
        nki.simulate(kernel)(np.ones((1, 2), np.float32))
    assert "later" in str(failure.value.__cause__)


def test_a_kernel_without_values_prints_nothing(capsys):
    def kernel(x):
        out, tile = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.load(x)
        nl.device_print("device", tile)
        nisa.dma_copy(out, tile)
        return out

    opentrn.run(kernel, opentrn.ShapeOf((1, 2), "float32"), execute=False)
    assert capsys.readouterr().out == ""


def test_a_view_beyond_its_tensor_is_refused_where_it_is_used():
    """Kernels make such views in the last iteration of a loop and leave out what would use them."""

    def columns(tile, last):
        out = nl.ndarray((128, 24), dtype=tile.dtype, buffer=nl.sbuf)
        for i in range(4):
            view = tile.ap(pattern=[[24, 128], [1, 8]], offset=8 * i)
            if i < last:
                nisa.tensor_copy(dst=out[:, nl.ds(8 * min(i, 2), 8)], src=view)
        return out

    np.testing.assert_array_equal(run(lambda tile: columns(tile, 3), X), X)
    with pytest.raises(
        NkiValidationError, match=r"NkiTensor\.ap.*covers elements 24 to 3079 of a tensor that has 3072"
    ):
        run(lambda tile: columns(tile, 4), X)
