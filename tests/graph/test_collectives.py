"""Collectives, send and recv between processes in one run; what each process ends with."""

from __future__ import annotations

import numpy as np
import pytest

from opentrn import graph

_ADD = """({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %s = stablehlo.add %x, %y : tensor<i32>
      stablehlo.return %s : tensor<i32>
    })"""
A, B = np.array([1, 2], np.int32), np.array([10, 20], np.int32)
GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
PAIRS = "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>"
ZERO = np.zeros(2, np.int32)

# op -> (attributes and regions, result type, results of both processes)
TWO_PROCESSES = {
    "all_gather": (f"{{all_gather_dim = 0 : i64, {GROUPS}}}", "4xi32", [np.concatenate([A, B])] * 2),
    "all_reduce": (f"{_ADD} {{{GROUPS}}}", "2xi32", [A + B] * 2),
    "all_to_all": (
        f"{{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, {GROUPS}}}",
        "2xi32",
        [np.array([1, 10], np.int32), np.array([2, 20], np.int32)],
    ),
    "collective_broadcast": (f"{{{GROUPS}}}", "2xi32", [A, A]),
    "collective_permute": (f"{{{PAIRS}}}", "2xi32", [ZERO, A]),
    "collective_reduce": (f"{_ADD} {{{GROUPS}}}", "2xi32", [A + B, ZERO]),
    "reduce_scatter": (
        f"{_ADD} {{scatter_dimension = 0 : i64, {GROUPS}}}",
        "1xi32",
        [(A + B)[:1], (A + B)[1:]],
    ),
}


def program(op: str, details: str, result: str) -> str:
    return f"""func.func public @main(%a: tensor<2xi32>) -> tensor<{result}> {{
      %r = "stablehlo.{op}"(%a) {details} : (tensor<2xi32>) -> tensor<{result}>
      return %r : tensor<{result}>
    }}"""


@pytest.mark.parametrize("op", TWO_PROCESSES)
def test_two_replicas_end_with_what_the_op_says(op: str):
    details, result, expected = TWO_PROCESSES[op]
    module = graph.parse(program(op, details, result))
    module.verify()
    for actual, wanted in zip(
        module.evaluate_parallel([["main"], ["main"]], [[A], [B]]), expected, strict=True
    ):
        np.testing.assert_array_equal(actual[0], wanted)


def test_ids_are_the_place_in_the_grid():
    text = """func.func public @main() -> (tensor<ui32>, tensor<ui32>) {
      %r = stablehlo.replica_id : tensor<ui32>
      %p = stablehlo.partition_id : tensor<ui32>
      return %r, %p : tensor<ui32>, tensor<ui32>
    }"""
    results = graph.parse(text).evaluate_parallel([["main"] * 3, ["main"] * 3], [[]] * 6)
    assert [(int(r), int(p)) for r, p in results] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


SEND_RECV = """
func.func public @send(%a: tensor<2xi32>) -> tensor<2xi32> {
  %t = stablehlo.after_all : !stablehlo.token
  %u = stablehlo.create_token : !stablehlo.token
  %v = "stablehlo.after_all"(%t, %u) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
  %s = "stablehlo.send"(%a, %v) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>,
    is_host_transfer = true} : (tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
  %o = "stablehlo.outfeed"(%a, %s) : (tensor<2xi32>, !stablehlo.token) -> !stablehlo.token
  return %a : tensor<2xi32>
}
func.func public @recv(%a: tensor<2xi32>) -> tensor<2xi32> {
  %t = stablehlo.create_token : !stablehlo.token
  %r, %u = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>,
    is_host_transfer = true} : (!stablehlo.token) -> (tensor<2xi32>, !stablehlo.token)
  return %r : tensor<2xi32>
}
"""


def test_what_is_sent_is_received():
    results = graph.parse(SEND_RECV).evaluate_parallel([["recv"], ["send"]], [[ZERO], [B]])
    np.testing.assert_array_equal(results[0][0], B)


def test_waiting_for_what_nobody_sends_is_an_error():
    with pytest.raises(ValueError, match=r"eval\.deadlock"):
        graph.parse(SEND_RECV).evaluate_parallel([["recv"], ["recv"]], [[ZERO], [B]])


def test_a_process_that_fails_is_the_one_reported():
    text = (
        program("all_reduce", *TWO_PROCESSES["all_reduce"][:2])
        + """
    func.func public @broken(%a: tensor<2xi32>) -> tensor<2xi32> {
      %r = stablehlo.custom_call @theirs(%a) : (tensor<2xi32>) -> tensor<2xi32>
      return %r : tensor<2xi32>
    }"""
    )
    with pytest.raises(NotImplementedError, match="theirs"):
        graph.parse(text).evaluate_parallel([["main"], ["broken"]], [[A], [B]])
