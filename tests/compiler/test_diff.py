"""opentrn diff: rounding is told from bugs, and the first bug is found."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from opentrn.cli import commands as cli
from opentrn.model.diff import diff

MLP = Path(__file__).parents[2] / "examples" / "mlp.mlir"

BLOCK = """func.func @main(%x: tensor<64x96xf32>, %w: tensor<96x80xf32>) -> tensor<64x80xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %scale = stablehlo.constant dense<0.125> : tensor<64x80xf32>
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x96xf32>, tensor<96x80xf32>) -> tensor<64x80xf32>
  %k = stablehlo.multiply %h, %scale : tensor<64x80xf32>
  %t = stablehlo.tanh %k : tensor<64x80xf32>
  %m = stablehlo.reduce(%t init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<64x80xf32>, tensor<f32>) -> tensor<64xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<64xf32>) -> tensor<64x80xf32>
  %d = stablehlo.subtract %t, %b : tensor<64x80xf32>
  %s = stablehlo.reduce(%d init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x80xf32>, tensor<f32>) -> tensor<64xf32>
  %c = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<64xf32>) -> tensor<64x80xf32>
  %r = stablehlo.add %d, %c : tensor<64x80xf32>
  return %r : tensor<64x80xf32>
}
"""

# What is changed in the device's model, and the op that diff must name first.
ERRORS = {
    "wrong op": ("subtract %t, %b", "add %t, %b", "stablehlo.subtract"),
    "4 units in the last place": ("dense<0.125>", "dense<0.12500006>", "stablehlo.multiply"),
    "another function": ("stablehlo.tanh %k", "stablehlo.logistic %k", "stablehlo.tanh"),
    "region of a reduction": ("applies stablehlo.maximum", "applies stablehlo.minimum", "stablehlo.reduce"),
    "a view": (
        "%b = stablehlo.broadcast_in_dim %m",
        "%b = stablehlo.broadcast_in_dim %zm",
        "stablehlo.subtract",
    ),
}


def inputs():
    random = np.random.default_rng(5)
    return [random.standard_normal(shape).astype(np.float32) for shape in ((64, 96), (96, 80))]


def test_a_right_program_has_no_bug_and_its_errors_are_float64s():
    x, w = inputs()
    report = diff(BLOCK, x, w)
    assert report.is_clean and report.first_bug is None
    assert [row.op.rpartition(".")[2] for row in report.ops] == [
        "dot_general", "multiply", "tanh", "reduce", "subtract", "reduce", "add"
    ]  # fmt: skip
    t = np.tanh(x.astype(np.float64) @ w.astype(np.float64) * 0.125)
    d = t - t.max(1, keepdims=True)
    truth = d + d.sum(1, keepdims=True)
    import opentrn

    error = np.abs(opentrn.compile(BLOCK)(x, w)[0] - truth).max()
    assert report.results[0]["max_abs"] == pytest.approx(error, rel=1e-9)
    assert report.results[0]["max_rel"] == pytest.approx(error / np.abs(truth).max(), rel=1e-9)
    verdicts = {row.op: row.verdict for row in report.ops}
    assert verdicts["stablehlo.multiply"] == "exact"  # by a power of two
    assert verdicts["stablehlo.tanh"] == "rounding"


def test_numbers_that_are_none_on_both_sides_are_no_bug():
    """Sums over them have no limit: of equal values none is asked for."""
    x, w = inputs()
    x[3, 4], x[5, 6] = np.nan, np.inf
    report = diff(BLOCK, x, w)
    assert report.is_clean, report.text()
    assert report.ops[0].own_ulp > 0 and report.ops[0].of_limit < 1  # of the others


@pytest.mark.parametrize("name", ERRORS)
def test_a_deliberate_error_is_found_where_it_is(name):
    right, wrong, op = ERRORS[name]
    mutated = BLOCK.replace(right, wrong)
    if "%zm" in mutated:  # the maximum of a neighbour row, which only a view can get wrong
        mutated = mutated.replace(
            "  %b =", "  %zm = stablehlo.reverse %m, dims = [0] : tensor<64xf32>\n  %b ="
        )
    assert mutated != BLOCK
    report = diff(BLOCK, *inputs(), device_source=mutated)
    assert report.first_bug is not None and report.first_bug.op == op and report.first_bug.line > 0
    assert not report.is_clean
    assert f"first bug: op {report.first_bug.number}, {op}" in report.text()
    # Ops behind the error have wrong values, but no error of their own.
    wrong_ops = [row for row in report.ops if row.verdict == "bug"]
    assert len(wrong_ops) == 1
    assert report.ops[-1].max_rel > 1e-7 or name == "4 units in the last place"


@pytest.mark.parametrize("cast", ["bf16", "fp16", "tf32"])
def test_auto_cast_is_rounding(cast):
    report = diff(BLOCK, *inputs(), auto_cast="all", auto_cast_type=cast)
    assert report.is_clean, report.text(rows_max=50)
    assert report.results[0]["max_rel"] > 1e-5  # the narrow type is seen in the accumulated error


def test_bf16_models_and_integers():
    text = """func.func @main(%x: tensor<32x48xbf16>, %i: tensor<32x48xi32>)
        -> (tensor<32x48xbf16>, tensor<32x48xi32>) {
      %e = stablehlo.exponential %x : tensor<32x48xbf16>
      %p = stablehlo.add %e, %x : tensor<32x48xbf16>
      %j = stablehlo.multiply %i, %i : tensor<32x48xi32>
      return %p, %j : tensor<32x48xbf16>, tensor<32x48xi32>
    }"""
    random = np.random.default_rng(0)
    x = random.standard_normal((32, 48)).astype(ml_dtypes.bfloat16)
    i = random.integers(-1000, 1000, (32, 48)).astype(np.int32)
    report = diff(text, x, i)
    assert report.is_clean, report.text()
    assert [row.verdict for row in report.ops] == ["rounding", "rounding", "exact"]
    broken = diff(text, x, i, device_source=text.replace("multiply %i, %i", "add %i, %i"))
    assert broken.first_bug.op == "stablehlo.multiply" and broken.first_bug.own_ulp > 1000  # elements


def test_what_is_recognised_as_one_function_is_judged_op_by_op():
    """SiLU is one activation in the program as compiled, which rounds once; the graph rounds twice."""
    text = """func.func @main(%x: tensor<64x96xf32>) -> tensor<64x96xf32> {
      %l = stablehlo.logistic %x : tensor<64x96xf32>
      %r = stablehlo.multiply %x, %l : tensor<64x96xf32>
      return %r : tensor<64x96xf32>
    }"""
    x = np.random.default_rng(2).standard_normal((64, 96)).astype(np.float32) * 4
    report = diff(text, x)
    assert report.is_clean, report.text()
    assert [row.verdict for row in report.ops] == ["rounding", "rounding"]
    assert not report.results[0]["same_bits"] and report.results[0]["verdict"] == "rounding"


def test_the_device_model_must_have_the_same_values():
    with pytest.raises(ValueError, match="other values"):
        diff(BLOCK, *inputs(), device_source=BLOCK.replace("  %r = stablehlo.add %d, %c", "  %q = stablehlo.sine %d : tensor<64x80xf32>\n  %r = stablehlo.add %q, %c"))  # fmt: skip  # noqa: E501


def test_the_command(capsys, tmp_path):
    assert cli.main(["diff", str(MLP)]) == 0
    text = capsys.readouterr().out
    assert "every judged op's error is what rounding explains" in text
    assert max(map(len, text.splitlines())) <= 79
    assert cli.main(["diff", str(MLP), "--auto-cast", "matmult", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["is_clean"] and facts["first_bug"] is None and len(facts["ops"]) > 10
    assert all(row["line"] > 0 for row in facts["ops"] if row["op"] == "stablehlo.dot_general")


REDUCE = (
    "stablehlo.reduce(%x init: %o) applies {} across dimensions = [0]"
    " : (tensor<4xi64>, tensor<i64>) -> tensor<i64>"
)
WIDE = {
    "sum": ("i64", "tensor<i64>", REDUCE.format("stablehlo.add"), 2**30),
    "product": ("i64", "tensor<i64>", REDUCE.format("stablehlo.multiply"), 2**10),
    "float": ("f64", "tensor<4xf64>", "stablehlo.multiply %x, %x : tensor<4xf64>", 1e30),
}


@pytest.mark.parametrize("name", WIDE)
def test_what_64_bits_hold_and_32_do_not_is_a_bug(name, tmp_path):
    element, result, op, value = WIDE[name]
    model = tmp_path / "wide.mlir"
    model.write_text(
        f"func.func @main(%x: tensor<4x{element}>) -> {result} {{\n"
        f"  %o = stablehlo.constant dense<1> : tensor<i64>\n  %r = {op}\n  return %r : {result}\n}}\n"
    )
    dtype = np.int64 if element == "i64" else np.float64
    assert diff(model, np.full(4, 2, dtype)).is_clean
    report = diff(model, np.full(4, value, dtype))
    assert report.first_bug is not None and report.first_bug.type == result
    assert "the device keeps 64-bit numbers in 32 bits" in report.text()
