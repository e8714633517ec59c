"""ONNX operators at the edges of their definitions: signs, ends of ranges, float32 factors; on the device, against
NumPy or what the specification says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_bytes as ob
import pytest

import opentrn

KINDS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}


def tensor(name: str, array: np.ndarray) -> bytes:
    dims = b"".join(ob.field(1, size) for size in array.shape)
    return dims + ob.field(2, KINDS[array.dtype.name]) + ob.field(8, name) + ob.field(9, array.tobytes())


def run(
    path: Path, op: str, x: np.ndarray, constants: dict[str, np.ndarray], attributes: bytes = b"", opset: int = 13
) -> np.ndarray:
    """The first result of one operator, strictly on the device."""
    names = ["x", *constants]
    graph = ob.field(1, ob.node(op, names, ["y"], attributes)) + ob.field(2, "g")
    graph += b"".join(ob.field(5, tensor(name, array)) for name, array in constants.items() if name)
    graph += ob.field(11, ob.value_info("x", list(x.shape), KINDS[x.dtype.name])) + ob.field(12, ob.value_info("y", []))
    path.write_bytes(ob.field(1, 8) + ob.field(7, graph) + ob.field(8, ob.field(1, "") + ob.field(2, opset)))
    return opentrn.compile(path, strict=True)(x)[0]


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_places_of_extremes_of_64_bit_numbers(tmp_path, op, last):
    """Numbers of one sign: a search starts from an end of the 64-bit range, which a core does not hold."""
    random = np.random.default_rng(0)
    for shape, axis, sign in [((4, 3, 5), 1, -1), ((7, 9), 0, 1), ((6,), 0, -1), ((2, 130), 1, -1)]:
        x = sign * random.integers(1, 6, shape)
        along = ob.integer("axis", axis) + ob.integer("keepdims", 0) + ob.integer("select_last_index", last)
        found = run(tmp_path / "m.onnx", op, x, {}, along)
        extreme = np.argmax if op == "ArgMax" else np.argmin
        wanted = x.shape[axis] - 1 - extreme(np.flip(x, axis), axis) if last else extreme(x, axis)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("factor", [(7, 3), (9, 5), (10, 3), (11, 9), (13, 7), (2, 3)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_factor_in_float32_gives_the_size_that_it_was_made_of(tmp_path, mode, factor):
    to, size = factor
    x = np.arange(size, dtype=np.float32)[None, None]
    scales = np.array([1, 1, np.float32(to) / np.float32(size)], np.float32)
    y = run(tmp_path / "m.onnx", "Resize", x, {"": np.zeros(0, np.float32), "scales": scales},
            ob.field(5, ob.field(1, "mode") + ob.field(4, mode) + ob.field(20, 3)))  # fmt: skip
    assert y.shape == (1, 1, to)
    assert (np.diff(y[0, 0]) >= 0).all() and y.max() <= size - 1


@pytest.mark.parametrize(
    "start, end, step, wanted",
    [
        (-9, -20, -1, [0]), (-5, -(2**63), -2, [0]), (9, -20, -2, [3, 1]),
        (-1, 0, -1, [3, 2, 1]), (2, 2**63 - 1, 1, [2, 3]),
    ],  # fmt: skip
)
def test_starts_in_front_of_a_dimension_begin_at_its_first_element(tmp_path, start, end, step, wanted):
    x = np.arange(4, dtype=np.float32)
    given = {"starts": start, "ends": end, "axes": 0, "steps": step}
    places = {name: np.array([value]) for name, value in given.items()}
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", "Slice", x, places), wanted)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_logarithms_of_sums_of_whole_numbers_are_cut_to_whole_numbers(tmp_path, dtype):
    x = np.array([[1, 2, 30], [4, 5, 6]], dtype)
    along = ob.integers("axes", [1]) + ob.integer("keepdims", 0)
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", "ReduceLogSum", x, {}, along), [3, 2])
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", "ReduceLogSumExp", x, {}, along), [30, 6])


def test_whole_numbers_between_whole_numbers_are_cut_as_they_are_upsampled(tmp_path):
    """The numbers of ONNX Runtime 1.32, whose weights lie at the first of two neighbours; it was an internal error."""
    x = np.array([[[[0, 3, -5], [10, -7, 100]]]], np.int32)
    mode = ob.field(5, ob.field(1, "mode") + ob.field(4, "linear") + ob.field(20, 3))
    scales = {"scales": np.array([1, 1, 2, 2], np.float32)}
    found = run(tmp_path / "m.onnx", "Upsample", x, scales, mode, opset=9)
    wanted = [[0, 1, 3, -1, -5, -5], [5, 1, -2, 22, 47, 47], [10, 1, -7, 46, 100, 100], [10, 1, -7, 46, 100, 100]]
    np.testing.assert_array_equal(found, [[wanted]])
