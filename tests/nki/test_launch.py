"""Launching kernels: arrays in and out, grids, targets, nested kernels, refusals."""

import dataclasses
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import nki
from opentrn.errors import NkiValidationError, NotModelled
from opentrn.kernel import trace as kernel_call
from opentrn.nki import _machine
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from opentrn.nki import typing as nt
from tests.package import PYTHON


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.dma_copy(dst=out, src=nl.add(tile, tile))
    return out


@nki.jit
def increment_in_place(x):
    tile = nl.load(x)
    nisa.dma_copy(dst=x, src=nl.add(tile, 1.0))
    return x


@nki.jit
def halves(x):
    """Each core of a [2] launch doubles its half of the rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0] // nl.num_programs()
    mine = nl.ds(nl.program_id() * rows, rows)
    tile = nl.load(x[mine, :])
    nisa.dma_copy(dst=out[mine, :], src=nl.add(tile, tile))
    return out


def ramp(shape=(128, 16), dtype=np.float32):
    return (np.arange(np.prod(shape)) % 61).reshape(shape).astype(dtype)


def test_numpy_in_numpy_out():
    x = ramp()
    result = double(x)
    assert isinstance(result, np.ndarray) and result.dtype == np.float32
    assert np.array_equal(result, 2 * x)


def test_simulate_takes_plain_functions():
    def plain(x):
        return nl_copy_out(x)

    def nl_copy_out(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.load(x))
        return out

    assert np.array_equal(nki.simulate(plain)(ramp()), ramp())


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.float16])
def test_low_precision_numpy(dtype):
    x = ramp((128, 8)).astype(dtype)
    result = double(x)
    assert result.dtype == x.dtype
    assert np.array_equal(
        result.astype(np.float32), (x.astype(np.float32) * 2).astype(dtype).astype(np.float32)
    )


def test_torch_in_torch_out_shares_memory():
    torch = pytest.importorskip("torch")
    x = torch.arange(128 * 4, dtype=torch.float32).reshape(128, 4)
    expected = x + 1
    result = increment_in_place(x)
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, expected) and torch.equal(x, expected)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_low_precision(name):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    x = torch.ones(128, 4).to(dtype)
    result = double[1](x)
    assert result.dtype == dtype
    assert torch.equal(result.float(), torch.full((128, 4), 2.0))


def test_strided_input_is_written_back():
    base = ramp((128, 8))
    view = base[:, ::2]
    expected = view + 1
    increment_in_place(view)
    assert np.array_equal(view, expected)
    assert np.array_equal(base[:, 1::2], ramp((128, 8))[:, 1::2])


def test_read_only_input_is_not_written():
    x = np.broadcast_to(np.float32(3), (128, 4))
    assert np.array_equal(double(x), np.full((128, 4), 6, np.float32))


@pytest.mark.parametrize("lnc", [1, 2])
def test_lnc_grid(lnc):
    x = ramp()
    assert np.array_equal(halves[lnc](x), 2 * x)
    assert nki.last_launch().lnc == lnc


def test_trn1_has_no_logical_core_of_two():
    with pytest.raises(ValueError, match="a logical core of gen2 is 1 core, not 2"):
        halves[2].on_target("trn1")(ramp())
    with pytest.raises(ValueError, match="a logical core of gen2 is 1 core, not 2"):
        kernel_call.trace(halves[2], ramp(), target="trn1")
    with pytest.raises(ValueError, match="a logical core of inf2 is 1 core, not 2"):
        opentrn.run(halves, ramp(), target="inf2", lnc=2)


def test_program_identity():
    seen = []

    @nki.jit
    def identity(x):
        seen.append((nl.program_ndim(), nl.num_programs(axes=0), nl.program_id(axis=0)))
        return x

    identity(ramp())
    identity[1](ramp())
    identity[2](ramp())
    assert seen[:2] == [(0, 1, 0), (1, 1, 0)]
    assert sorted(seen[2:]) == [(1, 2, 0), (1, 2, 1)]


def test_programs_along_axes_of_a_grid():
    """num_programs(axes=) and program_id(axis=)."""
    seen = []

    @nki.jit
    def programs(x):
        seen.append((nl.num_programs(axes=None), nl.num_programs(axes=()), nl.program_id(axis=0)))
        with pytest.raises(NkiValidationError, match="the launch grid has 1 axes"):
            nl.program_id(axis=1)
        with pytest.raises(NkiValidationError, match="the launch grid has 1 axes"):
            nl.num_programs(axes=1)
        return x

    programs[2](ramp())
    assert sorted(seen) == [(2, 1, 0), (2, 1, 1)]


def test_grids_of_the_first_dialect_are_refused():
    with pytest.raises(NkiValidationError, match="0.1"):
        double[4, 2]
    with pytest.raises(NkiValidationError, match="logical NeuronCore"):
        double[3]


def test_nested_kernel_is_inlined():
    @nki.jit
    def outer(x):
        return double(x)

    assert np.array_equal(outer(ramp()), 2 * ramp())


def test_containers_and_objects_of_arrays():
    @dataclasses.dataclass
    class Config(nl.NKIObject):
        weights: object
        scale: float = 2.0

    @nki.jit
    def kernel(config, pair):
        tile = nl.multiply(nl.load(config.weights), config.scale)
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.add(tile, nl.load(pair["b"])))
        return {"out": out, "all": [out, (out,)]}

    config = Config(ramp())
    result = kernel(config, {"b": ramp()})
    assert np.array_equal(result["out"], 3 * ramp())
    assert np.array_equal(result["all"][1][0], 3 * ramp())
    assert isinstance(config.weights, np.ndarray)  # the caller's object is untouched


def test_must_alias_input_suffix_names_the_parameter():
    x = ramp()
    increment_in_place(**{"x.must_alias_input": x})
    assert np.array_equal(x, ramp() + 1)


def test_result_on_chip_is_refused():
    @nki.jit
    def kernel(x):
        return nl.load(x)

    with pytest.raises(NkiValidationError, match="shared_hbm"):
        kernel(ramp())


def test_unknown_array_dtype_is_refused_by_name():
    with pytest.raises(NkiValidationError, match="'x'.*complex64"):
        double(np.zeros((128, 2), np.complex64))


def test_target_of_the_environment(monkeypatch):
    seen = []

    @nki.jit
    def kernel(x):
        seen.append(nisa.get_nc_version())
        return x

    monkeypatch.delenv("NKI_NC_VERSION", raising=False)
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    kernel(ramp())
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    kernel(ramp())
    monkeypatch.setenv("NKI_NC_VERSION", "gen2")
    nki.cpu_simulate(kernel)[1](x=ramp())
    kernel.on_target("gen4")(ramp())
    gen = nisa.nc_version
    assert seen == [gen.gen4, gen.gen3, gen.gen2, gen.gen4]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    with pytest.raises(ValueError, match="trn9"):
        kernel(ramp())


def test_jit_arguments():
    with pytest.warns(DeprecationWarning, match="0.3"):
        kernel = nki.jit(mode="trace")(double.func)
    assert np.array_equal(kernel(ramp()), 2 * ramp())
    with pytest.raises(TypeError, match="unknown arguments"):
        nki.jit(double.func, turbo=True)
    scheduled = double.with_schedule([("b", "a"), ("c", ["a", "b"])])
    assert scheduled.schedule == (("b", ("a",)), ("c", ("a", "b")))
    with pytest.raises(TypeError, match="pairs"):
        double.with_schedule(["ab"])


def test_calls_outside_a_kernel_are_refused():
    with pytest.raises(NkiValidationError, match="inside a kernel"):
        nl.ndarray((128, 4), dtype=nl.float32)


def test_a_failing_core_fails_the_launch():
    @nki.jit
    def kernel(x):
        if nl.program_id() == 1:
            raise RuntimeError("core 1 stops here")
        nisa.core_barrier(x, (0, 1))
        return x

    with pytest.raises(RuntimeError, match="core 1 stops here"):
        kernel[2](ramp())


def test_backend_choice_is_reported_and_explicit():
    result = nki.simulate(double, backend="oracle")(ramp())
    assert np.array_equal(result, 2 * ramp())
    assert nki.last_launch().backend == "oracle"
    with pytest.raises(ValueError, match="one of core, oracle"):
        nki.select_backend("quantum")


@nki.jit
def two_branches(x):
    a, b, c = (nl.ndarray((128, 64), nl.float32) for _ in range(3))
    nisa.dma_copy(a, x)
    nisa.reciprocal(b, a, name="recip")
    nisa.activation(c, nl.exp, a, name="exp")
    nisa.tensor_tensor(c, b, c, nl.add)
    out = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, c)
    return out


def test_schedule_edges_by_name_bind_the_scheduler():
    x = np.ones((128, 64), np.float32)
    free = opentrn.run(two_branches, x)
    bound = opentrn.run(two_branches.with_schedule([("exp", "recip")]), x)
    assert np.array_equal(free.outputs, bound.outputs)
    assert "edge 2 after 1" in bound.program_text() and "edge" not in free.program_text()
    assert bound.time_us > free.time_us  # the two engines no longer overlap


def test_schedule_edges_that_make_no_sense_are_refused():
    x = np.ones((128, 64), np.float32)
    with pytest.raises(NkiValidationError, match=r"schedule.name.*no instruction is named 'nobody'"):
        two_branches.with_schedule([("exp", ["recip", "nobody"])])(x)
    with pytest.raises(NotModelled, match="schedule.order"):
        two_branches.with_schedule([("recip", "exp")])(x)
    for edges, cycle in (
        ([("exp", "recip"), ("recip", "exp")], "'exp' waits for 'recip', which waits for 'exp'"),
        ([("recip", "recip")], "'recip' waits for 'recip'"),
    ):
        with pytest.raises(NkiValidationError, match=f"schedule.cycle.*{cycle}"):
            two_branches.with_schedule(edges)(x)

    def out_of_a_loop(x):
        tile = nl.zeros((128, 64), nl.float32)
        inside = []
        nl.fori_loop(0, 2, lambda i: inside.append(nisa.memset(tile, 1.0)))
        nisa.memset(tile, 2.0).depends_on(inside[0])

    with pytest.raises(NkiValidationError, match="schedule.loop"):
        nki.simulate(out_of_a_loop)(x)


@pytest.mark.parametrize(
    "first", ["opentrn.kernel.machine", "opentrn.custom_op", "opentrn.kernel.run", "opentrn.strict", "opentrn.nki"]
)
def test_every_module_can_be_imported_first(first):
    code = f"import opentrn, importlib; importlib.import_module({first!r}); opentrn.run"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_breakpoints_see_values_in_eager_mode(monkeypatch):
    seen = []

    def hook(*args, **kwargs):
        scope = sys._getframe(1).f_locals
        seen.append((int(scope["_i"]), float(scope["tile"].numpy()[0, 0])))

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def kernel(x):
        tile = nl.ndarray((128, 8), x.dtype)
        nisa.dma_copy(tile, x)
        for _i in nl.dynamic_range(3):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            breakpoint()  # noqa: T100

    opentrn.run(kernel, np.zeros((128, 8), np.float32), eager=True, time=False)
    assert seen == [(0, 1.0), (1, 2.0), (2, 3.0)]


def test_an_eager_failure_stops_at_its_own_call():
    def kernel(x):
        reached.append("before")
        nisa.tensor_copy(nl.ndarray((128, 8), x.dtype), nl.ndarray((128, 8), x.dtype))
        reached.append("after")

    for eager, wanted in ((True, ["before"]), (False, ["before", "after"])):
        reached = []
        with pytest.raises(NkiValidationError, match="uninitialised_read"):
            opentrn.run(kernel, np.zeros((128, 8), np.float32), eager=eager, time=False)
        assert reached == wanted


@pytest.mark.parametrize("backend", ["core", "oracle"])
def test_a_slice_of_no_elements_is_refused_only_when_it_is_used(backend):
    """nki-library's cross_entropy makes t[nl.ds(0, 0)] on a core without work, and runs nothing on it."""
    seen = []

    def kernel(x, use, start):
        mine, tile = x[nl.ds(start, 0)], nl.load(x)
        seen.append((tuple(mine.shape), tuple(tile[:, nl.ds(4, 0)].shape)))
        if use:
            nisa.dma_copy(dst=tile[nl.ds(4, 0)], src=mine)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return out

    run = nki.simulate(nki.jit(kernel), backend=backend)
    assert np.array_equal(run(ramp(), False, 128), ramp())
    assert seen == [((0, 16), (128, 0))]
    with pytest.raises(NkiValidationError, match="no elements"):
        run(ramp(), True, 0)
    with pytest.raises(IndexError):
        run(ramp(), False, 129)


@pytest.mark.parametrize("backend", ["core", "oracle"])
def test_what_the_simulator_returns_of_memory_never_written(backend):
    """NaN for floats and 4 for integers: nki/guides/nki_simulator.rst, 'Uninitialized Memory Detection'."""

    @nki.jit
    def kernel(x):
        outputs = []
        for dtype in (nl.uint8, nl.int32, nl.float32):
            out = nl.ndarray((8, 4), dtype=dtype, buffer=nl.shared_hbm)
            tile = nl.ndarray((4, 4), dtype=dtype, buffer=nl.sbuf)
            nisa.memset(tile, 7)
            nisa.dma_copy(dst=out[0:4], src=tile)
            outputs.append(out)
        return tuple(outputs)

    previous = _machine.select(backend)
    try:
        outputs = [np.asarray(out) for out in nki.cpu_simulate(kernel)(ramp())]
    finally:
        _machine.select(previous)
    for out in outputs:
        assert (out[:4] == 7).all()
        assert (out[4:] == 4).all() if out.dtype.kind in "ui" else np.isnan(out[4:]).all()


class Taken:
    """Kernels whose arguments are declared, as AWS's migration guide declares them."""

    @staticmethod
    @nki.jit
    def shape(X: nt.tensor[128, 512], Y: nt.tensor[128, 512]):
        return Y

    @staticmethod
    @nki.jit
    def dtype(X: nt.tensor[[128, 512], nl.bfloat16]):
        return X

    @staticmethod
    @nki.jit
    def optional(X: nt.mutable_tensor[128, 512] | None = None, scale: nt.scalar = 1.0, Y: nt.tensor = None):
        return X


def test_declared_shapes_are_checked():
    x, small = np.ones((128, 512), np.float16), np.ones((128, 256), np.float16)
    assert np.array_equal(Taken.shape(x, x), x)
    assert np.array_equal(opentrn.run(Taken.shape, x, Y=x).outputs, x)
    with pytest.raises(
        NkiValidationError, match=r"'Y' of shape is float16\[128, 256\], declared nt.tensor\[128, 512\]"
    ):
        Taken.shape(x, Y=small)
    with pytest.raises(NkiValidationError, match=r"test_launch.py:\d+ in shape"):
        opentrn.run(Taken.shape, small, x)
    with pytest.raises(NkiValidationError, match="declared"):
        opentrn.run(Taken.shape, opentrn.ShapeOf((128, 512)), opentrn.ShapeOf((512, 128)), execute=False)
    with pytest.raises(NkiValidationError, match="is 3.0, declared"):
        Taken.shape(x, 3.0)


def test_declared_dtypes_and_alternatives_are_checked():
    x = np.ones((128, 512), ml_dtypes.bfloat16)
    assert np.array_equal(Taken.dtype(x), x)
    with pytest.raises(NkiValidationError, match=r"is float32\[128, 512\], declared .*bfloat16"):
        Taken.dtype(x.astype(np.float32))
    assert Taken.optional() is None
    assert np.array_equal(Taken.optional(x, Y=x[:4]), x)
    with pytest.raises(NkiValidationError, match="declared nt.mutable_tensor"):
        Taken.optional(x[:4])


def test_annotations_are_types():
    seen = []

    def kernel(x):
        seen.append(isinstance(x, nt.tensor))

    nki.simulate(kernel)(ramp())
    assert seen == [True] and not isinstance(ramp(), nt.tensor)
    assert repr(nt.tensor[128, 512]) == "nt.tensor[128, 512]" and repr(nt.tensor[8]) == "nt.tensor[8]"
    with pytest.raises(TypeError, match="positive ints"):
        nt.tensor["n", 2]
    with pytest.raises(TypeError, match="positive ints"):
        nt.tensor[0, 2]


def test_a_kernel_in_folders_named_like_ours_is_named_by_its_own_line(tmp_path):
    folder = tmp_path / "opentrn" / "nki"
    folder.mkdir(parents=True)
    file = folder / "core.py"
    file.write_text("def kernel(x, nisa, nl):\n    nisa.tensor_copy(nl.load(x), x)\n")
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)  # noqa: S102
    with pytest.raises(NkiValidationError, match=r"opentrn/nki/core\.py:2 in kernel"):
        nki.simulate(lambda x: scope["kernel"](x, nisa, nl))(ramp())


def test_the_interpreter_that_stands_in_for_the_extension_is_told():
    code = (
        "import sys; sys.modules['opentrn._core'] = None\n"  # as where it is not built
        "import opentrn.nki as nki; print(nki._machine.backend().name)"
    )

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if name != "OPENTRN_NKI_BACKEND"}
        environment = {**inherited, "PYTHONPATH": str(PYTHON), **variables}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    silent = run(OPENTRN_NKI_BACKEND="oracle")
    assert (silent.stdout, silent.stderr) == ("oracle\n", "")
    told = run()
    assert told.stdout == "oracle\n"
    assert told.stderr.count("\n") == 1 and "opentrn._core is not built for Python" in told.stderr, (
        told.stderr
    )
