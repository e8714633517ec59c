# ruff: noqa: E501  (programs in a table, one op each)
"""Ops that move elements, dynamic ops, gather and scatter, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from cases import Case, floats, ints

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
M = np.arange(12, dtype=np.int32).reshape(3, 4)


def _add(name: str) -> str:
    return f"""({{
    ^bb0(%x: tensor<{name}>, %y: tensor<{name}>):
      %s = stablehlo.add %x, %y : tensor<{name}>
      stablehlo.return %s : tensor<{name}>
    }})"""


PADDED = np.full((4, 9), -1, np.int32)
PADDED[1:, 1:9:2] = M
SCATTERED = M.copy()
SCATTERED[[0, 2]] += 100
TAKEN = X[:, [2, 0], :]
BATCH_TAKEN = np.stack([M[0, [3, 0]], M[1, [1, 1]], M[2, [0, 2]]])

CASES = [
    Case("stablehlo.broadcast", '%r = "stablehlo.broadcast"(%a) {broadcast_sizes = array<i64: 2>} : ({A}) -> {R}', [M],
         np.broadcast_to(M, (2, 3, 4)).copy()),
    Case("stablehlo.broadcast_in_dim", "%r = stablehlo.broadcast_in_dim %a, dims = [1] : ({A}) -> {R}", [ints(1, 2, 3)],
         np.array([[1, 2, 3]] * 2, np.int32)),
    Case("stablehlo.broadcast_in_dim", "%r = stablehlo.broadcast_in_dim %a, dims = [0, 1] : ({A}) -> {R}",
         [ints([[1], [2]])], np.array([[1] * 3, [2] * 3], np.int32)),
    Case("stablehlo.concatenate", "%r = stablehlo.concatenate %a, %b, dim = 1 : ({A}, {B}) -> {R}", [X, X[:, :1]],
         np.concatenate([X, X[:, :1]], axis=1)),
    Case("stablehlo.constant", "%r = stablehlo.constant dense<[1.0, -2.5]> : {R}", [], floats(1.0, -2.5)),
    Case("stablehlo.iota", "%r = stablehlo.iota dim = 1 : {R}", [], np.array([[0, 1, 2]] * 2, np.int32)),
    Case("stablehlo.pad", "%r = stablehlo.pad %a, %b, low = [1, 1], high = [0, 1], interior = [0, 1] : ({A}, {B}) -> {R}",
         [M, ints(-1).reshape(())], PADDED),
    Case("stablehlo.pad", "%r = stablehlo.pad %a, %b, low = [-1, 0], high = [0, -2], interior = [0, 0] : ({A}, {B}) -> {R}",
         [M, ints(-1).reshape(())], M[1:, :2].copy()),
    Case("stablehlo.reshape", "%r = stablehlo.reshape %a : ({A}) -> {R}", [X], X.reshape(6, 4)),
    Case("stablehlo.reverse", "%r = stablehlo.reverse %a, dims = [0, 2] : {A}", [X], X[::-1, :, ::-1].copy()),
    Case("stablehlo.slice", "%r = stablehlo.slice %a [0:2, 1:3, 0:4:3] : ({A}) -> {R}", [X], X[0:2, 1:3, 0:4:3].copy()),
    Case("stablehlo.transpose", "%r = stablehlo.transpose %a, dims = [2, 0, 1] : ({A}) -> {R}", [X],
         X.transpose(2, 0, 1).copy()),
    Case("stablehlo.get_dimension_size", "%r = stablehlo.get_dimension_size %a, dim = 1 : ({A}) -> {R}", [X],
         ints(3).reshape(())),
    Case("stablehlo.set_dimension_size", """%d = stablehlo.set_dimension_size %a, %b, dim = 1
           : ({A}, {B}) -> tensor<3x?xi32, #stablehlo.bounds<?, 4>>
         %s = stablehlo.get_dimension_size %d, dim = 1 : (tensor<3x?xi32, #stablehlo.bounds<?, 4>>) -> {R}
         %r = stablehlo.add %s, %s : {R}""", [M, ints(2).reshape(())], ints(4).reshape(())),
    Case("stablehlo.dynamic_broadcast_in_dim", "%r = stablehlo.dynamic_broadcast_in_dim %a, %b, dims = [1] : ({A}, {B}) -> {R}",
         [ints(1, 2, 3), ints(2, 3)], np.array([[1, 2, 3]] * 2, np.int32)),
    Case("stablehlo.dynamic_iota", "%r = stablehlo.dynamic_iota %a, dim = 0 : ({A}) -> {R}", [ints(2, 3)],
         np.array([[0] * 3, [1] * 3], np.int32)),
    Case("stablehlo.dynamic_pad", "%r = stablehlo.dynamic_pad %a, %b, %c, %d, %e : ({A}, {B}, {C}, {D}, {E}) -> {R}",
         [M, ints(-1).reshape(()), ints(1, 1), ints(0, 1), ints(0, 1)], PADDED),
    Case("stablehlo.dynamic_reshape", "%r = stablehlo.dynamic_reshape %a, %b : ({A}, {B}) -> {R}", [X, ints(6, 4)],
         X.reshape(6, 4)),
    Case("stablehlo.dynamic_slice", "%r = stablehlo.dynamic_slice %a, %b, %c, sizes = [2, 2] : ({A}, {B}, {C}) -> {R}",
         [M, ints(9).reshape(()), ints(-3).reshape(())], M[1:3, 0:2].copy()),
    Case("stablehlo.dynamic_update_slice", "%r = stablehlo.dynamic_update_slice %a, %b, %c, %d : ({A}, {B}, {C}, {D}) -> {A}",
         [M, ints([[-1, -2]]), ints(7).reshape(()), ints(1).reshape(())],
         np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, -1, -2, 11]], np.int32)),
    Case("stablehlo.real_dynamic_slice", '%r = "stablehlo.real_dynamic_slice"(%a, %b, %c, %d) : ({A}, {B}, {C}, {D}) -> {R}',
         [M, ints(1, 0), ints(3, 4), ints(1, 3)], M[1:3, 0:4:3].copy()),
    # X[:, idx, :]; the second index is clamped.
    Case("stablehlo.gather", """%r = "stablehlo.gather"(%a, %b) {dimension_numbers = #stablehlo.gather<offset_dims = [0, 2],
           collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 2, 1, 4>}
           : ({A}, {B}) -> {R}""", [X, ints(9, -4)], TAKEN),
    Case("stablehlo.dynamic_gather", """%r = "stablehlo.dynamic_gather"(%a, %b, %c) {dimension_numbers = #stablehlo.gather<
           offset_dims = [0, 2], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>}
           : ({A}, {B}, {C}) -> {R}""", [X, ints(2, 0), ints(2, 1, 4)], TAKEN),
    # take_along_axis by a batching dimension.
    Case("stablehlo.gather", """%r = "stablehlo.gather"(%a, %b) {dimension_numbers = #stablehlo.gather<
           collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
           start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>} : ({A}, {B}) -> {R}""",
         [M, ints([[3, 0], [1, 1], [0, 2]])], BATCH_TAKEN),
    Case("stablehlo.torch_index_select", """%r = "stablehlo.torch_index_select"(%a, %b) {dim = 1 : i64, batch_dims = 0 : i64}
           : ({A}, {B}) -> {R}""", [X, ints(2, 0)], TAKEN),
    Case("stablehlo.torch_index_select", """%r = "stablehlo.torch_index_select"(%a, %b) {dim = 1 : i64, batch_dims = 1 : i64}
           : ({A}, {B}) -> {R}""", [M, ints([[3, 0], [1, 1], [0, 2]])], BATCH_TAKEN),
    # Rows 0, 2 and 7: the last lies outside and is dropped.
    Case("stablehlo.scatter", f"""%r = "stablehlo.scatter"(%a, %b, %c) {_add("i32")} {{scatter_dimension_numbers =
           #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
           index_vector_dim = 1>}} : ({{A}}, {{B}}, {{C}}) -> {{A}}""",
         [M, ints(0, 2, 7), np.full((3, 4), 100, np.int32)], SCATTERED),
    # Windows of two rows from rows 0, 2 and -1: of the last two a part lies outside, and all of each is dropped.
    Case("stablehlo.scatter", f"""%r = "stablehlo.scatter"(%a, %b, %c) {_add("i32")} {{scatter_dimension_numbers =
           #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0],
           index_vector_dim = 1>}} : ({{A}}, {{B}}, {{C}}) -> {{A}}""",
         [M, ints(0, 2, -1), np.full((3, 2, 4), 100, np.int32)], M + ints([[100], [100], [0]])),
    Case("stablehlo.scatter", """%r = "stablehlo.scatter"(%a, %b, %c) ({
           ^bb0(%x: tensor<i32>, %y: tensor<i32>):
             stablehlo.return %y : tensor<i32>
           }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
           scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : ({A}, {B}, {C}) -> {A}""",
         [ints(1, 2, 3, 4), ints([[3], [0]]), ints(-7, -8)], ints(-8, 2, 3, -7)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_moving_op_agrees_with_numpy(case: Case):
    case.run()
