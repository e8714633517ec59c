"""Ops without a device kernel: the host does them between the device's kernels, and says so; strict refuses them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_custom_operators import cli

import opentrn
from opentrn import graph
from opentrn.errors import NotModelled
from opentrn.model.compiled import load

RNG = np.random.default_rng(0)

# No NeuronCore stores f8E4M3B11FNUZ: the converts to and from it go together.
ROUNDED = """
func.func @main(%x: tensor<6x5xf32>, %w: tensor<5x4xf32>) -> (tensor<6x4xf32>, tensor<5x6xf32>) {
  %a = stablehlo.add %x, %x : tensor<6x5xf32>
  %b = stablehlo.convert %a : (tensor<6x5xf32>) -> tensor<6x5xf8E4M3B11FNUZ>
  %t = stablehlo.transpose %b, dims = [1, 0] : (tensor<6x5xf8E4M3B11FNUZ>) -> tensor<5x6xf8E4M3B11FNUZ>
  %c = stablehlo.convert %t : (tensor<5x6xf8E4M3B11FNUZ>) -> tensor<5x6xf32>
  %d = stablehlo.dot_general %c, %w, contracting_dims = [0] x [0]
    : (tensor<5x6xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
  return %d, %c : tensor<6x4xf32>, tensor<5x6xf32>
}
"""

# As above, in a loop that counts, and in a branch.
IN_A_LOOP = """
func.func @main(%x: tensor<4x3xf32>, %n: tensor<i32>, %p: tensor<i1>) -> tensor<4x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<4x3xf32>
    cond {
      %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %h = stablehlo.convert %s : (tensor<4x3xf32>) -> tensor<4x3xf8E4M3B11FNUZ>
      %k = stablehlo.convert %h : (tensor<4x3xf8E4M3B11FNUZ>) -> tensor<4x3xf32>
      %l = stablehlo.add %k, %x : tensor<4x3xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %l : tensor<i32>, tensor<4x3xf32>
    }
  %y = "stablehlo.if"(%p) ({
    %h = stablehlo.convert %r#1 : (tensor<4x3xf32>) -> tensor<4x3xf8E4M3B11FNUZ>
    %k = stablehlo.convert %h : (tensor<4x3xf8E4M3B11FNUZ>) -> tensor<4x3xf32>
    stablehlo.return %k : tensor<4x3xf32>
  }, {
    stablehlo.return %r#1 : tensor<4x3xf32>
  }) : (tensor<i1>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}
"""

NOT_THE_HOSTS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "stablehlo.custom_call"(%x) {call_target_name = "somebody's"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def compare(text: str, *inputs: np.ndarray, tolerance: float = 2e-6) -> opentrn.CompiledModel:
    model = opentrn.compile(text)
    for ours, expected in zip(model(*inputs), graph.parse(text).evaluate(*inputs), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance)
    return model


def test_a_cluster_between_kernels(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    x, w = RNG.uniform(-2, 2, (6, 5)).astype(np.float32), RNG.standard_normal((5, 4), np.float32)
    model = compare(ROUNDED, x, w)
    (call,) = model.host_ops.calls
    assert call.ops == "convert, transpose, convert" and call.line == 4
    assert call.bytes == 2 * 6 * 5 * 4  # there and back
    assert 0 < model.host_ops.bytes_share < 1 and model.host_ops.flops_share == 0
    said = capfd.readouterr().err
    assert "no device kernel takes" in said and "--strict refuses them" in said
    again = load(model.save(tmp_path / "model.neuron"))
    assert again.host_ops == model.host_ops
    np.testing.assert_array_equal(again(x, w)[0], model(x, w)[0])
    assert model.time().total_ns > 0


@pytest.mark.parametrize("taken", [True, False])
def test_inside_loops_and_branches(taken: bool):
    x = RNG.uniform(-2, 2, (4, 3)).astype(np.float32)
    model = compare(IN_A_LOOP, x, np.int32(3), np.bool_(taken))
    assert [call.ops for call in model.host_ops.calls] == ["convert, convert", "convert, convert"]


def test_strict_refuses_with_op_place_and_remedy():
    with pytest.raises(
        NotModelled, match=r"(?s)convert.*f8E4M3B11FNUZ.*has no device kernel.*without --strict"
    ):
        opentrn.compile(ROUNDED, strict=True)


def test_coverage_agrees():
    rows = {row.op: row for row in opentrn.coverage(ROUNDED)}
    assert rows["stablehlo.convert"].unsupported == 2 and rows["stablehlo.transpose"].unsupported == 1
    assert rows["stablehlo.dot_general"].unsupported == 0


def test_what_the_host_cannot_do_either_is_refused():
    with pytest.raises(NotModelled, match="somebody's"):
        opentrn.compile(NOT_THE_HOSTS)


def test_the_commands(tmp_path: Path):
    source, compiled = tmp_path / "model.mlir", tmp_path / "model.neuron"
    source.write_text(ROUNDED)
    done = cli("compile", str(source), "-o", str(compiled), "--no-cache", "--json")
    assert done.returncode == 0, done.stderr
    assert "opentrn: 1 of the model's kernels are the host's" in done.stderr
    assert json.loads(done.stdout)["host_ops"]["calls"][0]["ops"].startswith("convert")
    for command in ("run", "profile"):
        done = cli(command, str(compiled))
        assert done.returncode == 0 and "the host's" in done.stderr, done.stderr
    for command in (["compile"], ["run"]):
        done = cli(*command, str(source), "--no-cache", "--strict")
        assert done.returncode == 4 and "no device kernel" in done.stderr, done.stderr


def test_the_profile_states_what_the_host_adds(tmp_path: Path):
    """Bytes and their transfer; the host's computing is unknown, and said to be."""
    source, page, facts = tmp_path / "model.mlir", tmp_path / "page.html", tmp_path / "facts.json"
    source.write_text(ROUNDED)
    done = cli("profile", str(source), "--no-cache", "--html", str(page), "--json", str(facts))
    assert done.returncode == 0, done.stderr
    host = json.loads(facts.read_text())["model"]["host"]
    (call,) = host["calls"]
    assert call["op"] == "host.convert, transpose, convert" and call["line"] == 4
    assert call["bytes"] == 2 * 6 * 5 * 4 and call["compute_us"] is None
    described = cli("describe", "runtime", "--json")
    rate = next(
        fact["value"]
        for fact in json.loads(described.stdout)["facts"]
        if fact["key"] == "runtime.host_transfer_gb_s"
    )
    assert call["transfer_us"] == pytest.approx(call["bytes"] / rate / 1e3) == host["transfer_us"]
    text = " ".join(done.stdout.split())
    assert "Ops without a device kernel" in text and "is unknown" in text and "an upper bound" in text
    assert "Ops on the host" in page.read_text()


def test_a_profile_without_host_ops_does_not_mention_them():
    model = opentrn.compile("""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.tanh %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
""")
    timing = model.time()
    assert timing.profile()["model"]["host"]["calls"] == []
    assert "without a device kernel" not in timing.model_text()


def test_diff_judges_a_model_with_host_ops(tmp_path: Path):
    source = tmp_path / "model.mlir"
    source.write_text(ROUNDED)
    done = cli("diff", str(source), "--json")
    assert done.returncode == 0, done.stderr
    judged = json.loads(done.stdout)
    assert not judged.get("bugs"), judged
    assert "the host's" in done.stderr
