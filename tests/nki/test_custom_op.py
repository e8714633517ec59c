"""Instructions beyond nki.isa: custom operators (docs/custom_operators.md runs a library) and sparse matmul."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opentrn
from opentrn import custom_op
from opentrn.errors import NkiValidationError, NotModelled
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from opentrn.types import dtypes
from tests.package import PYTHON

X = np.random.default_rng(3).standard_normal((128, 64)).astype(np.float32)


def calling(name, *inputs):
    def kernel(x):
        tile, result = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        custom_op.call(name, outputs=[result], inputs=[tile, *inputs])
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, result)
        return out

    return kernel


def zero(outputs, inputs):
    outputs[0][...] = 0


def test_a_python_function_is_an_operator():
    @custom_op.register("test.rank")
    def rank(outputs, inputs):
        outputs[0][...] = np.argsort(np.argsort(inputs[0], axis=1), axis=1) + float(inputs[1])

    got = opentrn.run(calling("test.rank", 0.5), X, time=False).outputs
    assert np.array_equal(got, np.argsort(np.argsort(X, axis=1), axis=1) + np.float32(0.5))


def test_what_the_function_raises_fails_the_kernel():
    @custom_op.register("test.raises")
    def raises(outputs, inputs):
        raise RuntimeError("no such luck")

    with pytest.raises(
        NkiValidationError, match=r"\[custom_op.raised\]: test.raises raised RuntimeError: no such"
    ):
        opentrn.run(calling("test.raises"), X, time=False)


def test_its_time_is_unknown_and_said_to_be():
    custom_op.register("test.untimed")(zero)
    with pytest.raises(NotModelled, match="custom_op"):
        opentrn.run(calling("test.untimed"), X)


def test_its_time_is_what_its_author_states():
    def predicted_ns(*args, **kwargs):
        custom_op.register("test.timed", *args, **kwargs)(zero)
        return 1000 * opentrn.run(calling("test.timed"), X).time_us

    free, fixed, streamed = (
        predicted_ns(ns=0),
        predicted_ns(250),
        predicted_ns(ns=250, cycles_per_element=14),
    )
    assert fixed - free == pytest.approx(250, abs=1)
    gpsimd_ghz = 1.2  # trainium2_arch.rst
    assert streamed - fixed == pytest.approx(14 * X.shape[1] / gpsimd_ghz, abs=1)
    with pytest.raises(ValueError, match="-1; a time is finite"):
        custom_op.set_time("test.timed", ns=-1)
    custom_op.set_time("test.timed")
    with pytest.raises(NotModelled, match="cycles_per_element"):
        opentrn.run(calling("test.timed"), X)


def test_unknown_operators_and_libraries():
    with pytest.raises(ValueError, match="no custom operator 'test.unknown'"):
        opentrn.run(calling("test.unknown"), X, time=False)
    with pytest.raises(ValueError, match="custom_op.library"):
        custom_op.load_library("/no/such/library.so")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
def test_what_an_operator_leaves_out_is_unwritten(dtype):
    @custom_op.register("test.part")
    def part(outputs, inputs):
        outputs[0][:, 16:] = inputs[0][:, 16:]

    def kernel(x, first):
        tile, result = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
        out = nl.ndarray((128, 64 - first), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(tile, x)
        nisa.memset(result, 0)
        custom_op.call("test.part", outputs=[result], inputs=[tile])
        nisa.dma_copy(out, result[:, first:])
        return out

    x = np.arange(128 * 64).reshape(128, 64).astype(dtypes.to_numpy_dtype(dtype))
    written = opentrn.run(kernel, x, 16, time=False).outputs
    assert np.array_equal(written, x[:, 16:])
    with pytest.raises(NkiValidationError) as raised:
        opentrn.run(kernel, x, 8, time=False)
    text = str(raised.value)
    assert "sim.uninitialised_read" in text and "custom operator 'test.part' left it unwritten at" in text
    assert line_of(kernel, "custom_op.call").removesuffix(" in kernel") in text
    assert line_of(kernel, "first:]") in text


def test_an_operator_that_writes_nothing_gives_nothing():
    custom_op.register("test.nothing")(lambda outputs, inputs: None)
    with pytest.raises(NkiValidationError, match="custom operator 'test.nothing' left it unwritten"):
        opentrn.run(calling("test.nothing"), X, time=False)


@pytest.mark.filterwarnings("ignore::opentrn.errors.NanOriginWarning")
@pytest.mark.parametrize(("dtype", "value"), [("int32", -1), ("uint8", 255), ("float32", np.nan)])
def test_bits_of_ones_are_written_values(dtype, value):
    @custom_op.register("test.ones")
    def ones(outputs, inputs):
        outputs[0][...] = value

    out = opentrn.run(calling("test.ones"), X.astype(dtype), time=False).outputs
    assert np.array_equal(out, np.full(X.shape, value, dtype), equal_nan=dtype == "float32")


def line_of(function, text):
    """file:line in this file of the line of `function` that holds `text`."""
    lines, first = inspect.getsourcelines(function)
    return f"{__file__}:{first + next(n for n, line in enumerate(lines) if text in line)} in kernel"


def test_the_line_of_the_kernel_is_named():
    custom_op.register("test.where")(lambda outputs, inputs: 1 / 0)
    kernel = calling("test.where")
    with pytest.raises(NkiValidationError) as raised:
        opentrn.run(kernel, X, time=False)
    assert f"at {line_of(kernel, 'custom_op.call')}" in str(raised.value)

    def kernel(x):
        tags = nl.ndarray((32, 3), nl.uint16)
        custom_op.nc_matmul_sparse(x, x, x, tags, "3:7")

    with pytest.raises(NkiValidationError) as raised:
        opentrn.run(kernel, X, time=False)
    assert f"at {line_of(kernel, 'nc_matmul_sparse')}" in str(raised.value)


LIBRARY = r"""
#include <string.h>
#include "custom_op_abi.h"
static int copy(const opentrn_tensor* out, int32_t outs, const opentrn_tensor* in, int32_t ins, char* m, size_t n) {
  return memcpy(out->data, in->data, in->shape[0] * in->shape[1] * in->element_bytes), 0;
}
static const opentrn_custom_op_entry entries[] = {{"copy", copy}};
int32_t opentrn_custom_op_abi_version(void) { return OPENTRN_CUSTOM_OP_ABI_VERSION; }
const opentrn_custom_op_entry* opentrn_custom_ops(size_t* count) { return *count = 1, entries; }
"""
KERNEL = """
import nki, nki.isa as nisa, nki.language as nl
from opentrn import custom_op
{first}
@nki.jit
def kernel(x):
    tile, result = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf), nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(tile, x)
    custom_op.call("copy", outputs=[result], inputs=[tile])
    nisa.dma_copy(out, result)
    return out
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("library")
    (folder / "ops.c").write_text(LIBRARY)
    command = [
        "cc",
        "-shared",
        "-fPIC",
        f"-I{custom_op.ABI_HEADER.parent}",
        "-o",
        f"{folder}/ops.so",
        f"{folder}/ops.c",
    ]
    subprocess.run(command, check=True)
    return f"{folder}/ops.so"


def run_with(paths: str, folder: Path, first: str = "", *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "kernel.py").write_text(KERNEL.format(first=first))
    return subprocess.run(
        [sys.executable, "-m", "opentrn", "run", str(folder / "kernel.py"), "-i", "x=128x8:float32:ones", *arguments],
        env={**os.environ, "PYTHONPATH": str(PYTHON), "OPENTRN_CUSTOM_OPS": paths},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_the_environment_loads_libraries_for_kernels(library: str, tmp_path: Path):
    done = run_with(library, tmp_path, "", "--no-time")
    assert done.returncode == 0 and "mean 1" in done.stdout, done.stderr
    untimed = run_with(library, tmp_path)
    assert untimed.returncode == 4 and "'copy'" in untimed.stderr
    assert "custom_op.set_time()" in untimed.stderr and "opentrn_custom_op_time()" in untimed.stderr


def test_what_the_kernels_file_says_replaces_the_environments(library: str, tmp_path: Path):
    doubles = "custom_op.register('copy', ns=7)(lambda o, i: o[0].__setitem__(..., 2 * i[0]))"
    done = run_with(library, tmp_path, doubles)
    assert done.returncode == 0 and "mean 2" in done.stdout, done.stderr
    timed = run_with(library, tmp_path, "custom_op.set_time('copy', ns=7)")
    assert timed.returncode == 0 and "predicted" in timed.stdout, timed.stderr


def test_a_path_of_the_environment_that_is_none_is_an_error(tmp_path: Path):
    done = run_with("/no/such/library.so", tmp_path, "", "--no-time")
    assert done.returncode == 2 and "/no/such/library.so" in done.stderr, done.stderr
    assert "OPENTRN_CUSTOM_OPS" in done.stderr


@pytest.mark.parametrize("pattern", ["4:8", "4:12", "4:16", "2:8", "2:4", "1:4", "1:2"])
def test_sparse_matmul_against_the_dense_product(pattern):
    """A dense [K N/M, m] matrix with M of N values per column, compressed; the product is that of the dense one."""
    kept, group = (int(n) for n in pattern.split(":"))
    ratio, k, m, n = group // kept, 32, 64, 48
    random = np.random.default_rng(5)
    dense = np.zeros((k * ratio, m), np.float32)
    values, tags = np.zeros((k, m), np.float32), np.zeros((k, m), np.uint16)
    for column in range(m):
        for first in range(0, k, kept):
            chosen = np.sort(random.choice(group, kept, replace=False))
            numbers = random.integers(-4, 5, kept).astype(np.float32)
            dense[first * ratio + chosen, column] = numbers
            values[first : first + kept, column], tags[first : first + kept, column] = numbers, chosen
    packed = (tags.reshape(k, m // 4, 4) << (4 * np.arange(4, dtype=np.uint16))).sum(axis=2).astype(np.uint16)
    moving = random.integers(-4, 5, (k * ratio, n)).astype(np.float32)

    def kernel(values, moving, packed):
        a, b, t = (nl.ndarray(h.shape, h.dtype) for h in (values, moving, packed))
        for tile, host in ((a, values), (b, moving), (t, packed)):
            nisa.dma_copy(tile, host)
        product = nl.ndarray((m, n), nl.float32, buffer=nl.psum)
        custom_op.nc_matmul_sparse(product, a, b, t, pattern)
        copy = nl.ndarray((m, n), nl.float32)
        nisa.tensor_copy(copy, product)
        out = nl.ndarray((m, n), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, copy)
        return out

    result = opentrn.run(kernel, values, moving.reshape(k, ratio, n), packed, time=False)
    assert np.array_equal(result.outputs, dense.T @ moving)
