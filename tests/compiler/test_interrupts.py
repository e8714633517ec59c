"""Signals end the compilation and the run of a model. docs/decisions/0034."""

from __future__ import annotations

import numpy as np
import pytest

import opentrn
from opentrn import graph
from opentrn.model import compiled as model
from tests import endless
from tests.alarms import longest_deafness, raises_soon

ENDLESS = endless.model()


def calls(depth: int) -> str:
    """Functions that each call the next one twice."""
    functions = [
        f"func.func private @f{i}(%x: tensor<f32>) -> tensor<f32> {{\n"
        f"  %a = func.call @f{i + 1}(%x) : (tensor<f32>) -> tensor<f32>\n"
        f"  %b = func.call @f{i + 1}(%a) : (tensor<f32>) -> tensor<f32>\n"
        "  return %b : tensor<f32>\n}"
        for i in range(depth)
    ]
    return "\n".join([
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {",
        "  %y = func.call @f0(%x) : (tensor<f32>) -> tensor<f32>", "  return %y : tensor<f32>", "}",
        *functions,
        f"func.func private @f{depth}(%x: tensor<f32>) -> tensor<f32> {{",
        "  %y = stablehlo.add %x, %x : tensor<f32>", "  return %y : tensor<f32>", "}",
    ])  # fmt: skip


def check_next_model() -> None:
    """What a model computes behind one that was interrupted."""
    compiled = model.compile(ENDLESS, cache=False)
    np.testing.assert_array_equal(compiled(np.int32(-9)), -1)


def test_run_ends() -> None:
    compiled = model.compile(ENDLESS, cache=False)
    with raises_soon():
        compiled(np.int32(0))
    np.testing.assert_array_equal(compiled(np.int32(-7)), -1)


def test_limit_of_the_environment(monkeypatch) -> None:
    compiled = model.compile(ENDLESS, cache=False)
    monkeypatch.setenv("OPENTRN_LOOP_LIMIT", "1000")
    with pytest.raises(opentrn.errors.NkiValidationError, match=r"sim\.while_iterations.*ran 1000 times"):
        compiled(np.int32(0))
    np.testing.assert_array_equal(compiled(np.int32(-99)), -1)


@pytest.mark.parametrize("text", [endless.products(), calls(16)], ids=["products", "calls"])
def test_compilation_ends(text: str) -> None:
    with raises_soon():
        model.compile(text, cache=False)
    check_next_model()


def test_a_compilation_listens_all_along() -> None:
    assert longest_deafness(lambda: model.compile(calls(17), cache=False)) < 0.3


def test_where_a_compilation_stood_is_told() -> None:
    with raises_soon(2.0) as where:
        model.compile(endless.products(), cache=False)
    assert where[0].startswith("compiling: ")


def test_timing_ends() -> None:
    compiled = model.compile(ENDLESS, cache=False)
    with raises_soon():
        for _ in range(1_000_000):
            compiled.time(loop_iterations=1000)


@pytest.mark.parametrize(
    "text",
    [
        ENDLESS,
        """func.func @main(%x: tensor<i32>) -> tensor<4096x4096xf32> {
             %a = stablehlo.iota dim = 0 : tensor<4096x4096xf32>
             %b = stablehlo.sine %a : tensor<4096x4096xf32>
             %c = stablehlo.cosine %b : tensor<4096x4096xf32>
             return %c : tensor<4096x4096xf32>
           }""",
        """func.func @main(%x: tensor<i32>) -> tensor<2048x2048xf32> {
             %a = stablehlo.iota dim = 0 : tensor<2048x2048xf32>
             %b = stablehlo.dot %a, %a : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
             %c = stablehlo.dot %b, %a : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
             return %c : tensor<2048x2048xf32>
           }""",
    ],
    ids=["loop", "elements", "product"],
)
def test_evaluation_ends(text: str) -> None:
    module = graph.parse(text)
    with raises_soon():
        for _ in range(100):
            module.evaluate(np.int32(0))


# -- loops that never end

INVARIANT = """
func.func @main(%x: tensor<i32>, %go: tensor<i1>) -> tensor<i32> {{
  %true = stablehlo.constant dense<true> : tensor<i1>
  %false = stablehlo.constant dense<false> : tensor<i1>
  %w:2 = stablehlo.while(%a = %x, %g = %go) : tensor<i32>, tensor<i1>
    cond {{
      {condition}
    }} do {{
      %b = stablehlo.add %a, %a : tensor<i32>
      stablehlo.return %b, {next} : tensor<i32>, tensor<i1>
    }} loc("model.py":12:1)
  return %w#0 : tensor<i32>
}}
"""


@pytest.mark.parametrize(
    "condition",
    [
        "stablehlo.return %true : tensor<i1>",
        "stablehlo.return %g : tensor<i1>",
        "%p = stablehlo.not %g : tensor<i1>\n stablehlo.return %p : tensor<i1>",
    ],
    ids=["true", "carried", "computed"],
)
@pytest.mark.parametrize("level", [1, 2])
def test_condition_that_nothing_changes_is_refused(condition: str, level: int) -> None:
    text = INVARIANT.format(condition=condition, next="%g")
    with pytest.raises(opentrn.errors.NkiValidationError, match=r"model\.endless_loop") as caught:
        model.compile(text, cache=False, optlevel=level)
    assert "model.py:12" in str(caught.value)
    assert "its condition reads nothing that the body changes" in str(caught.value)


@pytest.mark.parametrize(
    "condition, following, result",
    [
        ("stablehlo.return %g : tensor<i1>", "%false", 6),
        ("stablehlo.return %false : tensor<i1>", "%g", 3),
    ],
    ids=["ends", "never entered"],
)
def test_loops_that_end_are_not_refused(condition: str, following: str, result: int) -> None:
    compiled = model.compile(INVARIANT.format(condition=condition, next=following), cache=False)
    np.testing.assert_array_equal(compiled(np.int32(3), np.bool_(True)), result)
