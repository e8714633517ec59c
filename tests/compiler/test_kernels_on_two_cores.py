"""kernel[2], on both cores of a logical one (LNC 2), in a model: values and time are those of the launch by itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import opentrn
from opentrn import graph, nki
from opentrn.kernel import trace as kernel_call
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

RNG = np.random.default_rng(0)
MEETING_US = 1.3  # src/arch/tables/timing_v2.toml, core_rendezvous_ns


@nki.jit
def sums_of_the_other(x):
    """Each core takes half of the rows, and adds what the other one's rows sum to."""
    core, rows = nl.program_id(0), x.shape[0] // 2
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, x.shape[1]), x.dtype)
    total, theirs = nl.ndarray((rows, 1), x.dtype), nl.ndarray((rows, 1), x.dtype)
    nisa.dma_copy(tile, x[core * rows : (core + 1) * rows])
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    nisa.sendrecv(src=total, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.tensor_scalar(tile, tile, nl.add, theirs)
    nisa.dma_copy(out[core * rows : (core + 1) * rows], tile)
    return out


@nki.jit
def halves_of_the_other(x):
    """Each core halves its rows in a device loop; after a barrier each reads what the other one wrote."""
    core, rows, width = nl.program_id(0), x.shape[0] // 2, x.shape[1] // 4
    made = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile, whole = nl.ndarray((rows, width), x.dtype), nl.ndarray((rows, x.shape[1]), x.dtype)
    for i in nl.dynamic_range(0, 4):
        nisa.dma_copy(tile, x[core * rows : (core + 1) * rows, nl.ds(i * width, width)])
        nisa.tensor_scalar(tile, tile, nl.multiply, 0.5)
        nisa.dma_copy(made[core * rows : (core + 1) * rows, nl.ds(i * width, width)], tile)
    nisa.core_barrier(made, (0, 1))
    other = 1 - core
    nisa.dma_copy(whole, made[other * rows : (other + 1) * rows])
    nisa.dma_copy(out[core * rows : (core + 1) * rows], whole)
    return out


@nki.jit
def fills_both_sbufs(x):
    """160 KiB of each core's 192 KiB per partition, live while the cores meet."""
    core, rows = nl.program_id(0), x.shape[0] // 2
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, x.shape[1]), x.dtype)
    nisa.dma_copy(tile, x[core * rows : (core + 1) * rows])
    nisa.core_barrier(out, (0, 1))
    nisa.dma_copy(out[core * rows : (core + 1) * rows], tile)
    return out


@nki.jit
def meets_too_late(x):
    """As halves_of_the_other, but the cores meet when they have read."""
    core, rows = nl.program_id(0), x.shape[0] // 2
    made = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="made")
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, x.shape[1]), x.dtype)
    nisa.dma_copy(tile, x[core * rows : (core + 1) * rows])
    nisa.dma_copy(made[core * rows : (core + 1) * rows], tile)
    nisa.dma_copy(tile, made[:rows])
    nisa.core_barrier(made, (0, 1))
    nisa.dma_copy(out[core * rows : (core + 1) * rows], tile)
    return out


@nki.jit
def disagree_on_the_last_row(x):
    """The cores' rows overlap by one, in which they leave different values."""
    core, rows = nl.program_id(0), x.shape[0] // 2
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray((rows, x.shape[1]), x.dtype)
    nisa.dma_copy(tile, x[core * rows : (core + 1) * rows])
    nisa.dma_copy(out[core * rows : (core + 1) * rows], tile)
    nisa.dma_copy(out[rows : rows + 1], tile[0:1])
    return out


def model_of(kernel: Any, x: np.ndarray, before: str = "", after: str = "", launches: int = 1) -> str:
    """`launches` launches one after the other, with an op of StableHLO before the first and after the last."""
    call, kind = kernel_call.trace(kernel[2], x), f"tensor<{x.shape[0]}x{x.shape[1]}xf32>"
    lines = [f"%v0 = stablehlo.{before} %x : {kind}"] if before else []
    last = "v0" if before else "x"
    for i in range(launches):
        lines.append(
            f'%k{i} = stablehlo.custom_call @{kernel_call.TARGET}(%{last}) {{backend_config = "{call.payload}"}} '
            f": ({kind}) -> {kind}"
        )
        last = f"k{i}"
    if after:
        lines.append(f"%w = stablehlo.{after} %{last} : {kind}")
        last = "w"
    body = "\n  ".join(lines)
    return f"func.func @main(%x: {kind}) -> {kind} {{\n  {body}\n  return %{last} : {kind}\n}}\n"


def time_us(text: str) -> float:
    return opentrn.compile(text, target="trn2").time().time_us


@pytest.mark.parametrize("kernel", [sums_of_the_other, halves_of_the_other], ids=lambda k: k.__name__)
def test_a_launch_takes_the_time_it_takes_by_itself(kernel: Any):
    x = RNG.standard_normal((256, 512), np.float32)
    alone = opentrn.run(kernel[2], x, target="trn2")
    text = model_of(kernel, x)
    model = opentrn.compile(text, target="trn2")
    np.testing.assert_array_equal(model(x)[0], alone.outputs)
    np.testing.assert_array_equal(graph.parse(text).evaluate(x)[0], alone.outputs)
    assert model.time().time_us == pytest.approx(alone.time_us, rel=1e-3)


@pytest.mark.parametrize("kernel", [sums_of_the_other, halves_of_the_other], ids=lambda k: k.__name__)
def test_ops_around_a_launch_add_their_time_and_two_meetings(kernel: Any):
    x = RNG.standard_normal((256, 512), np.float32)
    alone = opentrn.run(kernel[2], -x, target="trn2")
    text = model_of(kernel, x, before="negate", after="negate")
    np.testing.assert_array_equal(opentrn.compile(text, target="trn2")(x)[0], -alone.outputs)
    kind = "tensor<256x512xf32>"
    op = time_us(
        f"func.func @main(%x: {kind}) -> {kind} {{\n  %y = stablehlo.negate %x : {kind}\n  return %y : {kind}\n}}\n"
    )
    # Ops may overlap with the first core's part; nothing of the launch is counted twice.
    assert (
        alone.time_us < time_us(text) < alone.time_us + 2 * op + 2 * MEETING_US + 3
    )  # completions of transfers


def test_launches_follow_one_another():
    x = RNG.standard_normal((256, 512), np.float32)
    one, three = (time_us(model_of(halves_of_the_other, x, launches=n)) for n in (1, 3))
    assert 2 * one < three < 3 * one + 4 * MEETING_US + 1
    expected = x / 8
    expected[:128], expected[128:] = x[128:] / 8, x[:128] / 8  # swapped three times
    model = opentrn.compile(model_of(halves_of_the_other, x, launches=3), target="trn2")
    np.testing.assert_array_equal(model(x)[0], expected)


def test_each_core_has_its_own_sbuf():
    x = RNG.standard_normal((256, 40960), np.float32)
    alone = opentrn.run(fills_both_sbufs[2], x, target="trn2")
    model = opentrn.compile(model_of(fills_both_sbufs, x), target="trn2")
    np.testing.assert_array_equal(model(x)[0], x)
    assert model.time().time_us == pytest.approx(alone.time_us, rel=1e-3)


def test_reports_count_both_cores():
    x = RNG.standard_normal((256, 512), np.float32)
    timing = opentrn.compile(model_of(sums_of_the_other, x, after="tanh"), target="trn2").time()
    report = json.loads(timing.json())["model"]
    whole = report["layers"]
    launch = next(layer for layer in whole["children"] if "sums_of_the_other" in layer["name"])
    single = opentrn.run(sums_of_the_other[2], x, target="trn2").timing
    assert launch["hbm_bytes_written"] == x.nbytes
    assert launch["instructions"] >= single.instruction_count - 4  # transfers are not counted as instructions
    assert sum(layer["critical_ns"] for layer in whole["children"]) == pytest.approx(
        timing.total_ns, rel=0.02
    )


def test_a_launch_in_a_loop_of_the_model():
    x = RNG.standard_normal((256, 512), np.float32)
    call, kind = kernel_call.trace(sums_of_the_other[2], x), "tensor<256x512xf32>"
    text = f"""func.func @main(%x: {kind}) -> {kind} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, {kind}
  cond {{
    %n = stablehlo.constant dense<3> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %k = stablehlo.custom_call @{kernel_call.TARGET}(%a) {{backend_config = "{call.payload}"}} : ({kind}) -> {kind}
    %t = stablehlo.tanh %k : {kind}
    stablehlo.return %j, %t : tensor<i32>, {kind}
  }}
  return %r#1 : {kind}
}}
"""
    expected = x
    for _ in range(3):
        expected = np.tanh(opentrn.run(sums_of_the_other[2], expected, target="trn2").outputs)
    model = opentrn.compile(text, target="trn2")
    np.testing.assert_allclose(model(x)[0], expected, rtol=0, atol=1e-5)
    alone = opentrn.run(sums_of_the_other[2], x, target="trn2").time_us
    assert 3 * alone < model.time().time_us < 3 * (alone + 25)


@pytest.mark.parametrize("around", ["", "negate"])
@pytest.mark.parametrize(
    ("kernel", "where"),
    [(meets_too_late, "element [0, 0] of 'made'"), (disagree_on_the_last_row, "element [128, 0] of")],
    ids=["made", "out"],
)
def test_a_race_of_the_cores_is_found_in_a_model(
    kernel: Any, where: str, around: str, monkeypatch: pytest.MonkeyPatch
):
    x = RNG.standard_normal((256, 512), np.float32)
    model = opentrn.compile(model_of(kernel, x, before=around, after=around), target="trn2")
    with pytest.raises(Exception, match=r"\[sim\.core_race\]") as raised:
        model(x)
    assert where in str(raised.value) and str(raised.value).count("test_kernels_on_two_cores.py") >= 2
    monkeypatch.setenv("OPENTRN_CORE_RACES", "off")
    model(x)
