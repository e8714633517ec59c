"""NKI kernels as ops of a model: values, time, faults, files and the cache."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opentrn
from opentrn import ShapeOf, graph, nki
from opentrn.errors import NkiValidationError, NotModelled
from opentrn.kernel import trace as kernel_call
from opentrn.model.compiled import load
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

RNG = np.random.default_rng(0)
ELEMENTS = {"float32": "f32", "bfloat16": "bf16", "int32": "i32", "uint8": "ui8", "float16": "f16"}


@nki.jit
def scaled_product(a, b, factor=2.0):
    """a^T b * factor, of one tile."""
    left, right = nl.ndarray(a.shape, a.dtype), nl.ndarray(b.shape, b.dtype)
    nisa.dma_copy(left, a)
    nisa.dma_copy(right, b)
    made = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(made, left, right)
    kept = nl.ndarray((a.shape[1], b.shape[1]), nl.float32)
    nisa.tensor_scalar(kept, made, nl.multiply, factor)
    out = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, kept)
    return out


@nki.jit
def halves_in_a_loop(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((x.shape[0], 4), x.dtype)
    for i in nl.dynamic_range(0, x.shape[1] // 4):
        nisa.dma_copy(tile, x[:, nl.ds(i * 4, 4)])
        nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
        nisa.dma_copy(out[:, nl.ds(i * 4, 4)], tile)
    return out


@nki.jit
def adds_in_place(x, y):
    """Writes its operand x, and returns it twice."""
    left, right = nl.ndarray(x.shape, x.dtype), nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(left, x)
    nisa.dma_copy(right, y)
    nisa.tensor_tensor(left, left, right, nl.add)
    nisa.dma_copy(x, left)
    return x, x


@nki.jit
def reads_what_nobody_wrote(x):
    tile = nl.ndarray(x.shape, x.dtype)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)  # here
    return out


@nki.jit
def returns_a_part(x):
    out = nl.ndarray((x.shape[0], 8), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out[:, :4]


def type_of(value: ShapeOf) -> str:
    return f"tensor<{'x'.join(map(str, value.shape))}x{ELEMENTS[value.dtype]}>"


def called(call: kernel_call.KernelCall) -> str:
    """The custom call of %0, %1, ... as an op of StableHLO."""
    operands = ", ".join(f"%a{i}" for i in range(len(call.operands)))
    types = ", ".join(map(type_of, call.operands)), ", ".join(map(type_of, call.results))
    count = f":{len(call.results)}" if len(call.results) > 1 else ""
    return (
        f'%k{count} = "stablehlo.custom_call"({operands}) {{call_target_name = "{kernel_call.TARGET}", '
        f'backend_config = "{call.payload}"}} : ({types[0]}) -> ({types[1]})'
    )


def model_of(call: kernel_call.KernelCall, body: str = "return %k", results: str | None = None) -> str:
    arguments = ", ".join(f"%a{i}: {type_of(t)}" for i, t in enumerate(call.operands))
    results = results or ", ".join(map(type_of, call.results))
    return f"func.func @main({arguments}) -> ({results}) {{\n  {called(call)}\n  {body} : {results}\n}}\n"


def product_call(**kwargs) -> kernel_call.KernelCall:
    return kernel_call.trace(scaled_product, ShapeOf((64, 32)), ShapeOf((64, 48)), **kwargs)


def product_model(**kwargs) -> str:
    call = product_call(**kwargs)
    body = "%t = stablehlo.tanh %k : tensor<32x48xf32>\n  return %t"
    return model_of(call, body)


def product_inputs() -> list[np.ndarray]:
    return [RNG.standard_normal(shape, np.float32) / 8 for shape in ((64, 32), (64, 48))]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_kernel_among_other_ops(target: str):
    a, b = product_inputs()
    text = product_model(target=target, factor=3.0)
    expected = np.tanh(a.T.astype(np.float64) @ b * 3.0)
    (ours,) = opentrn.compile(text, target=target)(a, b)
    (evaluated,) = graph.parse(text).evaluate(a, b)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-6)
    np.testing.assert_allclose(evaluated, expected, rtol=0, atol=2e-6)
    # The kernel's part of both is the same program.
    call = product_call(target=target, factor=3.0)
    np.testing.assert_array_equal(call.run([a, b])[0], kernel_call.run(call.payload, [a, b])[0])


def test_the_payload_does_not_depend_on_the_process_and_says_what_it_is():
    first, second = product_call(), product_call()
    assert first.payload == second.payload != product_call(factor=1.0).payload
    assert first.payload.startswith("opentrn-kernel-1 scaled_product ")
    assert first.results == (ShapeOf((32, 48), "float32"),)


def test_device_loops_and_two_calls_of_one_kernel():
    x = RNG.standard_normal((128, 32), np.float32)
    call = kernel_call.trace(halves_in_a_loop, x)
    again = called(call).replace("%a0", "%k").replace("%k =", "%l =")
    text = model_of(call, f"{again}\n  return %l")
    np.testing.assert_array_equal(opentrn.compile(text)(x)[0], x / 4)


def test_an_operand_that_is_written_keeps_its_value_in_the_model():
    x, y = RNG.standard_normal((2, 64, 8), np.float32)
    call = kernel_call.trace(adds_in_place, x, y)
    kind = type_of(call.results[0])
    text = model_of(call, "return %k#0, %k#1, %a0", f"{kind}, {kind}, {kind}")
    for first, second, before in (opentrn.compile(text)(x, y), graph.parse(text).evaluate(x, y)):
        np.testing.assert_array_equal(first, x + y)
        np.testing.assert_array_equal(second, x + y)
        np.testing.assert_array_equal(before, x)
    assert isinstance(call.unflatten([1, 2]), tuple)


def test_the_profile_and_the_layers_name_the_kernel():
    model = opentrn.compile(product_model())
    timing = model.time()
    profile = timing.profile()
    lines = {Path(row["file"]).name for row in profile["lines"]}
    assert Path(__file__).name in lines
    layers = profile["model"]["layers"]["children"]
    kernel = next(row for row in layers if row["name"].endswith("kernel scaled_product"))
    assert kernel["model_flops"] == kernel["tensor_flops"] == 2 * 64 * 32 * 48 and kernel["critical_ns"] > 0


def test_a_fault_names_the_line_of_the_kernel():
    call = kernel_call.trace(reads_what_nobody_wrote, ShapeOf((128, 4)))
    model = opentrn.compile(model_of(call))
    line = next(
        i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# here")
    )
    with pytest.raises(Exception, match=rf"test_kernel_calls\.py:{line}"):
        model(np.zeros((128, 4), np.float32))


def test_file_and_cache_hold_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    a, b = product_inputs()
    path = tmp_path / "model.mlir"
    path.write_text(product_model())
    first = opentrn.compile(path, cache=True)
    assert (first.cached, opentrn.compile(path, cache=True).cached) == ("miss", "hit")
    saved = load(first.save(tmp_path / "model.neuron"))
    np.testing.assert_array_equal(saved(a, b)[0], first(a, b)[0])
    # Another kernel of the same name and types.
    path.write_text(product_model(factor=5.0))
    other = opentrn.compile(path, cache=True)
    assert other.cached == "miss"
    np.testing.assert_allclose(other(a, b)[0], np.tanh(a.T @ b * 5), atol=2e-6)


def test_coverage_counts_it_as_supported():
    rows = {row.op: row for row in opentrn.coverage(product_model())}
    row = rows["stablehlo.custom_call"]
    assert (row.supported, row.unsupported, row.flops) == (1, 0, 2 * 64 * 32 * 48)


def test_the_kernel_of_another_target_is_refused():
    with pytest.raises(ValueError, match=r"traced for NeuronCore-v4; the model is compiled for v3"):
        opentrn.compile(product_model(target="trn3"), target="trn2")


def test_types_of_the_call_must_be_the_kernels():
    text = product_model().replace("64x32xf32", "64x32xi32")
    with pytest.raises(ValueError, match=r"operand 0 of NKI kernel scaled_product is float32\[64, 32\]"):
        opentrn.compile(text)


def test_a_call_of_another_toolchain_says_so():
    text = re.sub(
        r'backend_config = "[^"]*"', 'backend_config = "eyJrZXJuZWxfdmVyc2lvbiI6IDF9"', product_model()
    )
    with pytest.raises(ValueError, match="written by another toolchain"):
        opentrn.compile(text)
    (row,) = [row for row in opentrn.coverage(text) if row.op == "stablehlo.custom_call"]
    assert row.unsupported == 1


def test_a_damaged_payload_is_an_input_error():
    text = product_model()
    at = text.index("scaled_product ") + 200
    with pytest.raises(ValueError):
        opentrn.compile(text[:at] + "!" + text[at + 1 :])


def test_results_must_be_whole_tensors():
    with pytest.raises(NkiValidationError, match="not a whole tensor in HBM"):
        kernel_call.trace(returns_a_part, ShapeOf((128, 8)))


def test_cores_that_meet_in_a_device_loop_are_refused():
    @nki.jit
    def meets(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for _ in nl.dynamic_range(0, 2):
            nisa.core_barrier(out, (0, 1))
        return out

    with pytest.raises(NotModelled, match="inside a device loop"):
        kernel_call.trace(meets[2], ShapeOf((128, 8)))


def test_a_kernel_of_the_older_dialect():
    import opentrn.nki_legacy as old
    import opentrn.nki_legacy.language as oldl

    @old.jit
    def add_tiles(a, b):
        out = oldl.ndarray(a.shape, dtype=a.dtype, buffer=oldl.shared_hbm)
        rows = oldl.program_id(0) * 128 + oldl.arange(128)[:, None]
        columns = oldl.arange(64)[None, :]
        oldl.store(out[rows, columns], oldl.load(a[rows, columns]) + oldl.load(b[rows, columns]))
        return out

    a, b = RNG.standard_normal((2, 256, 64), np.float32)
    call = kernel_call.trace(add_tiles[2], a, b)
    assert call.results == (ShapeOf((256, 64), "float32"),)
    np.testing.assert_array_equal(opentrn.compile(model_of(call))(a, b)[0], a + b)
