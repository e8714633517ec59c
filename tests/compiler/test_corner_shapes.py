"""Shapes and types at the edge: no elements, constants where tensors are expected, mixed floats, wrapping."""

import ml_dtypes
import numpy as np
import pytest

import opentrn
from opentrn import graph

REDUCE_NOTHING = """
func.func @main(%x: tensor<0x3xf32>, %n: tensor<2x0xi32>)
    -> (tensor<3xf32>, tensor<3xf32>, tensor<2xi32>, tensor<0x3xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %seven = stablehlo.constant dense<7> : tensor<i32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0]
      : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>
  %e = stablehlo.exponential %s : tensor<3xf32>
  %a = stablehlo.add %m, %e : tensor<3xf32>
  %i = stablehlo.reduce(%n init: %seven) applies stablehlo.add across dimensions = [1]
      : (tensor<2x0xi32>, tensor<i32>) -> tensor<2xi32>
  %b = stablehlo.broadcast_in_dim %e, dims = [1] : (tensor<3xf32>) -> tensor<0x3xf32>
  %d = stablehlo.subtract %x, %b : tensor<0x3xf32>
  return %a, %e, %i, %d : tensor<3xf32>, tensor<3xf32>, tensor<2xi32>, tensor<0x3xf32>
}
"""


def test_reductions_of_nothing_give_their_initial_values():
    arrays = np.zeros((0, 3), np.float32), np.zeros((2, 0), np.int32)
    got = opentrn.compile(REDUCE_NOTHING)(*arrays)
    np.testing.assert_array_equal(got[0], np.full(3, -np.inf, np.float32))
    np.testing.assert_array_equal(got[1], np.ones(3, np.float32))
    np.testing.assert_array_equal(got[2], np.full(2, 7, np.int32))
    assert got[3].shape == (0, 3)


def test_a_constant_is_reduced():
    text = """
    func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<i1>) {
      %c = stablehlo.constant dense<2.0> : tensor<3x5xf32>
      %t = stablehlo.constant dense<[true, true, false]> : tensor<3xi1>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %true = stablehlo.constant dense<true> : tensor<i1>
      %s = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [1]
          : (tensor<3x5xf32>, tensor<f32>) -> tensor<3xf32>
      %y = stablehlo.add %x, %s : tensor<3xf32>
      %all = stablehlo.reduce(%t init: %true) applies stablehlo.and across dimensions = [0]
          : (tensor<3xi1>, tensor<i1>) -> tensor<i1>
      return %y, %all : tensor<3xf32>, tensor<i1>
    }
    """
    for level in (1, 2):
        got = opentrn.compile(text, optlevel=level)(np.arange(3, dtype=np.float32))
        np.testing.assert_array_equal(got[0], [10.0, 11.0, 12.0])
        assert not got[1]


@pytest.mark.parametrize("to", ["i8", "ui8", "i16", "ui16", "i32", "ui32"])
@pytest.mark.parametrize("source", ["i32", "ui32", "i8", "ui16"])
def test_conversions_of_integers_wrap(source: str, to: str):
    text = f"""
    func.func @main(%x: tensor<6x{source}>) -> tensor<6x{to}> {{
      %y = stablehlo.convert %x : (tensor<6x{source}>) -> tensor<6x{to}>
      return %y : tensor<6x{to}>
    }}
    """
    dtype = np.dtype(source.replace("ui", "uint") if "u" in source else source.replace("i", "int"))
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 1, info.max // 2 + 1, info.max - 1], dtype)
    wanted = x.astype(to.replace("ui", "uint") if "u" in to else to.replace("i", "int"))
    got = opentrn.compile(text)(x)
    np.testing.assert_array_equal(got[0] if isinstance(got, (list, tuple)) else got, wanted)


def test_a_product_of_two_float_types():
    text = """
    func.func @main(%a: tensor<4x6xf32>, %b: tensor<6x5xbf16>) -> tensor<4x5xf32> {
      %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
          : (tensor<4x6xf32>, tensor<6x5xbf16>) -> tensor<4x5xf32>
      return %c : tensor<4x5xf32>
    }
    """
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 6)).astype(np.float32)
    b = rng.standard_normal((6, 5)).astype(ml_dtypes.bfloat16)
    got = opentrn.compile(text)(a, b)
    got = got[0] if isinstance(got, (list, tuple)) else got
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(graph.parse(text).evaluate(a, b)[0], got, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["i4", "ui4", "i2", "ui2"])
def test_narrow_integers_keep_their_sign(name: str):
    text = f"""
    func.func @main(%x: tensor<4x{name}>) -> tensor<4xi32> {{
      %y = stablehlo.convert %x : (tensor<4x{name}>) -> tensor<4xi32>
      return %y : tensor<4xi32>
    }}
    """
    dtype = np.dtype(
        getattr(ml_dtypes, name.replace("ui", "uint") if "u" in name else name.replace("i", "int"))
    )
    info = ml_dtypes.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1], np.int32)
    got = opentrn.compile(text)(values.astype(dtype))
    np.testing.assert_array_equal(got[0] if isinstance(got, (list, tuple)) else got, values)
