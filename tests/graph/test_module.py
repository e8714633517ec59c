"""opentrn.graph: what users see of a module, and that every op of the table is tested here."""

from __future__ import annotations

import numpy as np
import pytest
import test_collectives
import test_elementwise
import test_movement
import test_whole_ops

from opentrn import graph

TEXT = """module @net {
  func.func public @main(%arg0: tensor<?x2xf32>, %arg1: tensor<2xbf16>) -> tensor<?x2xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<?x2xf32>
    return %0 : tensor<?x2xf32>
  }
}
"""
# Ops whose tests are functions of this folder (asynchronous ones: src/graph/eval/eval_test.cc), not cases.
IN_FUNCTIONS = {
    "stablehlo.after_all", "stablehlo.async_done", "stablehlo.async_start", "stablehlo.batch_norm_grad",
    "stablehlo.create_token", "stablehlo.custom_call", "stablehlo.infeed", "stablehlo.outfeed",
    "stablehlo.partition_id", "stablehlo.recv", "stablehlo.reduce_precision", "stablehlo.replica_id",
    "stablehlo.return", "stablehlo.rng_bit_generator", "stablehlo.send", "stablehlo.bitcast_convert",
    "stablehlo.convert",
}  # fmt: skip


def test_every_op_has_a_test():
    cases = [*test_elementwise.CASES, *test_movement.CASES, *test_whole_ops.CASES]
    tested = {case.op for case in cases} | {f"stablehlo.{op}" for op in test_collectives.TWO_PROCESSES}
    tested |= IN_FUNCTIONS
    assert {row.name for row in graph.ops()} == tested


def test_the_op_table_says_what_an_op_takes():
    (row,) = [row for row in graph.ops() if row.name == "stablehlo.gather"]
    assert row.operands == (2, 2)
    assert row.results == (1, 1)
    assert "slice_sizes" in row.attributes


def test_a_module_shows_its_signature_and_prints_itself():
    module = graph.parse(TEXT)
    module.verify()
    main = module.functions["main"]
    assert module.name == "net"
    assert module.entry == "main"
    assert [str(t) for t in main.arguments] == ["tensor<?x2xf32>", "tensor<2xbf16>"]
    assert main.arguments[0].shape == (-1, 2)
    again = graph.parse(str(module))
    assert str(again) == str(module)
    assert '"stablehlo.add"' in module.to_text(generic=True)


def test_sizes_of_dynamic_dimensions_come_with_the_arguments():
    module = graph.parse(TEXT)
    for rows in (0, 3):
        x = np.ones((rows, 2), np.float32)
        (y,) = module.evaluate(x, [1, 2])  # Python numbers take the parameter's type
        np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([np.ones((3, 2), np.float64), [1, 2]], r"eval\.arguments.*tensor<3x2xf64>"),
        ([np.ones((3, 4), np.float32), [1, 2]], r"eval\.arguments"),
        ([np.ones((3, 2), np.float32)], r"eval\.arguments.*takes 2 arguments"),
    ],
)
def test_arguments_of_other_types_are_refused(arguments: list, message: str):
    with pytest.raises(ValueError, match=message):
        graph.parse(TEXT).evaluate(*arguments)


def test_errors_name_file_and_line():
    with pytest.raises(ValueError, match=r"model\.mlir:3"):
        graph.parse(TEXT.replace("%arg0, %arg0", "%arg0, %arg9"), "model.mlir")


def test_a_run_time_error_names_the_line_of_its_op():
    text = """func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %0 = stablehlo.add %a, %b : tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""
    with pytest.raises(ValueError, match=r"(?s)different shapes.*model\.mlir:2"):
        graph.parse(text, "model.mlir").evaluate(np.ones(2, np.float32), np.ones(3, np.float32))


CUSTOM = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @their_relu(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


def test_custom_calls_go_to_the_handler_or_are_refused_by_name():
    module = graph.parse(CUSTOM)
    x = np.array([-1, 2], np.float32)
    with pytest.raises(NotImplementedError, match="their_relu"):
        module.evaluate(x)
    (y,) = module.evaluate(x, custom_call=lambda target, operands: [np.maximum(operands[0], 0)])
    np.testing.assert_array_equal(y, [0, 2])
    with pytest.raises(NotImplementedError, match="their_relu"):
        module.evaluate(x, custom_call=lambda target, operands: None)


def test_an_infeed_without_a_source_is_an_error():
    text = """func.func @main() -> tensor<2xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %r, %u = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
      return %r : tensor<2xf32>
    }"""
    with pytest.raises(ValueError, match="nothing feeds this run"):
        graph.parse(text).evaluate()


@pytest.mark.parametrize("element", sorted(graph.DTYPES))
def test_every_element_type_passes_through_unchanged(element: str):
    dtype = graph.DTYPES[element]
    x = np.array([0, 1, 1, 0]).astype(dtype)
    text = f"func.func @main(%a: tensor<4x{element}>) -> tensor<4x{element}> {{ return %a : tensor<4x{element}> }}"
    (y,) = graph.parse(text).evaluate(x)
    assert y.dtype == dtype
    assert y.tobytes() == x.tobytes()


def test_bytes_that_are_broken_bytecode_are_refused():
    with pytest.raises(ValueError, match=r"vhlo\.bytecode"):
        graph.parse(b"ML\xefR")
    with pytest.raises(ValueError, match=r"import\.format"):
        graph.parse(b"\x00\x01")
