"""ONNX sequences and optional values of tensors: they are known while importing, and leave plain tensor programs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_bytes import field, value_info
from test_stages import BOOL, INT64, check, graph_of, mixed, node, onnx_file

import opentrn
from opentrn.errors import NotModelled
from opentrn.model.stages import StagedModel


def compiled(tmp_path, *parts):
    return opentrn.compile(onnx_file(tmp_path / "sequence.onnx", *parts), strict=True)


def test_elements_go_in_and_out_by_place(tmp_path):
    model = compiled(
        tmp_path,
        [
            node("SequenceConstruct", ["a", "b", "a"], ["s"]), node("SequenceInsert", ["s", "b", "zero"], ["t"]),
            node("SequenceInsert", ["t", "c"], ["u"]), node("SequenceErase", ["u", "two"], ["v"]),
            node("SequenceErase", ["v"], ["w"]), node("SequenceAt", ["w", "last"], ["y"]),
            node("SequenceLength", ["w"], ["n"]), node("Identity", ["w"], ["same"]),
            node("ConcatFromSequence", ["same"], ["all"], axis=0),
        ],
        [("a", [2, 3]), ("b", [2, 3]), ("c", [2, 3])], [("y", [2, 3]), ("n", [], INT64), ("all", [6, 3])],
        [("zero", np.array(0)), ("two", np.array(2)), ("last", np.array(-1))],
    )  # fmt: skip
    a, b, c = mixed((2, 3)), mixed((2, 3)), mixed((2, 3))
    w = [b, a, a]  # [a, b, a], [b, a, b, a], [b, a, b, a, c], [b, a, a, c], [b, a, a]
    y, n, everything = model(a, b, c)
    np.testing.assert_array_equal(y, a)
    assert n == 3
    np.testing.assert_array_equal(everything, np.concatenate(w))


@pytest.mark.parametrize(
    ("sizes", "keepdims", "parts"),
    [(None, 1, [1] * 6), (None, 0, [1] * 6), (np.array(4), 1, [4, 2]), (np.array([1, 3, 2]), 1, [1, 3, 2])],
)
def test_parts_of_a_tensor_and_their_stack(tmp_path, sizes, keepdims, parts):
    inputs = ["x"] if sizes is None else ["x", "sizes"]
    axis_attribute = field(5, field(1, "axis") + field(3, (1 << 64) - 1) + field(20, 2))
    split = node("SplitToSequence", inputs, ["s"], keepdims=keepdims) + axis_attribute
    stacked = keepdims == 0
    join = node("ConcatFromSequence", ["s"], ["y"], axis=1, new_axis=int(stacked))
    at = node("SequenceAt", ["s", "one"], ["second"])
    constants = [("one", np.array(1))] + ([] if sizes is None else [("sizes", sizes)])
    model = compiled(tmp_path, [split, join, at], [("x", [5, 6])], [("y", []), ("second", [])], constants)
    x = mixed((5, 6))
    y, second = model(x)
    np.testing.assert_array_equal(y, x)
    begin = parts[0]
    np.testing.assert_array_equal(second, x[:, begin] if stacked else x[:, begin : begin + parts[1]])


def test_a_map_does_its_body_for_each_element(tmp_path):
    body = graph_of(
        [node("Mul", ["e", "k"], ["p"]), node("Add", ["p", "outer"], ["q"]), node("Shape", ["e"], ["shape"])],
        [("e", []), ("k", [])], [("q", []), ("shape", [], INT64)],
    )  # fmt: skip
    model = compiled(
        tmp_path,
        [
            node("SequenceConstruct", ["a", "b"], ["s"]), node("SequenceMap", ["s", "k"], ["t", "shapes"], body=body),
            node("ConcatFromSequence", ["t"], ["y"], axis=0), node("ConcatFromSequence", ["shapes"], ["z"], axis=0),
        ],
        [("a", [2]), ("b", [3]), ("k", []), ("outer", [])], [("y", [5]), ("z", [2], INT64)],
    )  # fmt: skip
    a, b = mixed((2,)), mixed((3,))
    y, z = model(a, b, np.float32(3), np.float32(0.5))
    np.testing.assert_allclose(y, np.concatenate([a, b]) * 3 + 0.5, rtol=1e-6)
    np.testing.assert_array_equal(z, [2, 3])


def test_a_loop_collects_a_sequence(tmp_path):
    """As TorchScript's exporter writes a list that a loop appends to."""
    body = graph_of(
        [
            node("Gather", ["x", "i"], ["row"], axis=0), node("Mul", ["row", "row"], ["square"]),
            node("SequenceInsert", ["list", "square"], ["longer"]), node("Identity", ["go"], ["more"]),
        ],
        [("i", [], INT64), ("go", [], BOOL)], [("more", [], BOOL)],
    )  # fmt: skip
    sequence = field(2, field(4, field(1, field(1, field(1, 1)))))  # a sequence of float tensors
    body += field(11, field(1, "list") + sequence) + field(12, field(1, "longer") + sequence)
    model = compiled(
        tmp_path,
        [
            node("SequenceEmpty", [], ["none"]), node("Loop", ["trips", "", "none"], ["list"], body=body),
            node("ConcatFromSequence", ["list"], ["y"], axis=0, new_axis=1),
        ],
        [("x", [4, 3])], [("y", [4, 3])], [("trips", np.array(4))],
    )  # fmt: skip
    x = mixed((4, 3))
    np.testing.assert_allclose(model(x)[0], x * x, rtol=1e-6)


def test_a_branch_returns_a_sequence_when_its_condition_is_read(tmp_path):
    branches = [
        graph_of([node("SequenceConstruct", elements, ["out"])], [], []) + field(12, value_info("out", []))
        for elements in (["x"], ["x", "x", "x"])
    ]
    staged = compiled(
        tmp_path,
        [
            node("If", ["c"], ["s"], then_branch=branches[0], else_branch=branches[1]),
            node("SequenceLength", ["s"], ["n"]), node("ConcatFromSequence", ["s"], ["y"], axis=0),
        ],
        [("x", [2]), ("c", [], BOOL)], [("n", [], INT64), ("y", ["rows"])],
    )  # fmt: skip
    assert isinstance(staged, StagedModel)
    x = mixed((2,))
    for c, count in ((True, 1), (False, 3)):
        check(staged, [x, np.array(c)], [np.array(count, np.int64), np.tile(x, count)])


def test_elements_whose_shapes_depend_on_data_pass_the_cut(tmp_path):
    staged = compiled(
        tmp_path,
        [
            node("Greater", ["x", "zero"], ["mask"]), node("Compress", ["x", "mask"], ["kept"]),
            node("Neg", ["x"], ["negative"]), node("SequenceConstruct", ["negative", "kept"], ["s"]),
            node("SequenceAt", ["s", "one"], ["again"]), node("SequenceAt", ["s", "none"], ["first"]),
            node("Concat", ["again", "first"], ["y"], axis=0),
        ],
        [("x", [7])], [("y", ["n"])],
        [("zero", np.float32(0)), ("one", np.array(1)), ("none", np.array(0))],
    )  # fmt: skip
    x = mixed((7,))
    check(staged, [x], [np.concatenate([x[x > 0], -x])])


def test_optional_values_hold_something_or_not(tmp_path):
    model = compiled(
        tmp_path,
        [
            node("Optional", ["x"], ["full"]), node("Optional", [], ["empty"]),
            node("OptionalHasElement", ["full"], ["a"]), node("OptionalHasElement", ["empty"], ["b"]),
            node("OptionalGetElement", ["full"], ["y"]), node("Clip", ["y", "empty", "zero"], ["clipped"]),
        ],
        [("x", [3])], [("a", [], BOOL), ("b", [], BOOL), ("y", [3]), ("clipped", [3])], [("zero", np.float32(0))],
    )  # fmt: skip
    x = mixed((3,))
    a, b, y, clipped = model(x)
    assert a and not b
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(clipped, np.minimum(x, 0))


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([node("SequenceConstruct", ["x"], ["y"])], NotModelled, "'y' is a sequence or an optional value"),
        ([node("SequenceAt", ["x", "one"], ["y"])], ValueError, "input 0 is not a sequence"),
        ([node("SequenceConstruct", ["x"], ["s"]), node("SequenceAt", ["s", "one"], ["y"])], ValueError,
         "no element 1 of 1"),
        ([node("SequenceConstruct", ["x"], ["s"]), node("Add", ["s", "x"], ["y"])], ValueError, "input 0 is missing"),
        ([node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)], ValueError,
         "without elements"),
        ([node("SequenceConstruct", ["nobody"], ["s"]), node("SequenceLength", ["s"], ["y"])], ValueError,
         "'nobody' is made by no node"),
        ([node("Optional", [], ["o"]), node("OptionalGetElement", ["o"], ["y"])], ValueError, "there is no element"),
        ([node("SplitToSequence", ["x", "one"], ["s"], axis=3), node("SequenceLength", ["s"], ["y"])], ValueError,
         "axis 3 of rank 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path, nodes, error, message):
    with pytest.raises(error, match=message):
        compiled(tmp_path, nodes, [("x", [3])], [("y", [])], [("one", np.array(1))])
