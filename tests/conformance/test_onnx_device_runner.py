"""The device runner of ONNX's node tests: what is a difference, and what its table explains."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance.onnx import device  # noqa: E402
from conformance.onnx.run import Outcome  # noqa: E402


def test_values_within_the_tolerance_or_the_format_pass():
    want = np.array([1.0, -1000.0], np.float32)
    assert device.differs(want, want + np.float32(0.01), 0, 0) == ""  # 2e-5 of the largest
    assert device.differs(want, want * np.float32(1.0005), 1e-3, 0) == ""


def test_wrong_values_shapes_and_types_do_not():
    want = np.array([1.0, 2.0], np.float32)
    assert "1 of 2 values differ; at (1,)" in device.differs(want, np.array([1.0, 2.1], np.float32), 1e-3, 0)
    assert device.differs(want, want.reshape(1, 2), 1e-3, 0)
    assert device.differs(want, want.astype(np.float64), 1e-3, 0)
    assert device.differs(want, np.array([1.0, np.nan], np.float32), 1e-3, 0)
    assert device.differs(np.array([1, 2]), np.array([1, 3]), 0, 0)
    assert device.differs(np.array([1 + 1j]), np.array([1 - 1j]), 1e-3, 0)


def test_whole_numbers_that_32_bits_do_not_hold():
    assert device.beyond_32_bits([np.array([2**31])])
    assert device.beyond_32_bits([np.array([2**32], np.uint64)])
    assert not device.beyond_32_bits([np.array([2**31 - 1, -(2**31)]), np.array([2**32 - 1], np.uint64)])
    assert not device.beyond_32_bits([np.array([], np.int64)])


def test_only_listed_failures_are_explained():
    known = device.Known(types={}, failing={"test_a": "why"}, without_kernel={"stablehlo.sort"})
    assert known.explains(Outcome("test_b", "passed"))
    assert known.explains(Outcome("test_a", "failed", "wrong value"))
    assert not known.explains(Outcome("test_a", "passed"))
    assert known.explains(Outcome("test_c", "failed", "no kernel: stablehlo.sort (tensor<9xf32>)"))
    assert not known.explains(Outcome("test_c", "failed", "no kernel: stablehlo.while"))
    assert not known.explains(Outcome("test_c", "failed", "wrong value: output 0"))


def test_the_committed_table_gives_a_reason_for_every_row():
    known = device.Known.read()
    assert all(known.types.values()) and all(known.failing.values())
