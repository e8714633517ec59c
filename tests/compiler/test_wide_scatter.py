"""Scatters of windows larger than the kernel holds, against NumPy: in bounds, partly and wholly outside.

A window that is partly outside is left out whole, as XLA has it and as the kernel of small windows does; StableHLO's
interpreter, and with it the graph's evaluator, leaves out the elements outside.
"""

from collections.abc import Callable

import numpy as np
import pytest

import opentrn

RNG = np.random.default_rng(7)
BLOCKS = "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1"
# form: operand, indices, updates, dimension numbers, and the windows of indices and updates as (start, window)
FORMS = {
    "blocks": ([150, 130], [3, 2], [3, 100, 90], BLOCKS, lambda i, u: list(zip(i, u, strict=True))),
    "one block": ([150, 130], [1, 2], [1, 100, 90], BLOCKS, lambda i, u: [(i[0], u[0])]),
    "components the other way": (
        [150, 130],
        [2, 2],
        [2, 100, 90],
        "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 0",
        lambda i, u: [((i[1, w], i[0, w]), u[w]) for w in range(2)],
    ),
    "slabs": (
        [5, 96, 100],
        [4, 1],
        [96, 4, 100],
        "update_window_dims = [0, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],"
        " index_vector_dim = 1",
        lambda i, u: [((i[w, 0], 0, 0), u[None, :, w]) for w in range(4)],
    ),
    "no indices": ([110, 100], [0], [110, 100], "update_window_dims = [0, 1]", lambda i, u: [((0, 0), u)]),
}
BODIES = {
    "set": ("%r = stablehlo.add %b, %b : tensor<ELEMENT>", lambda a, b: b + b),
    "add": ("%r = stablehlo.add %a, %b : tensor<ELEMENT>", lambda a, b: a + b),
    "two ops": (
        "%s = stablehlo.subtract %a, %b : tensor<ELEMENT>\n    %r = stablehlo.multiply %s, %b : tensor<ELEMENT>",
        lambda a, b: (a - b) * b,
    ),
}


def kind(dims: list[int], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, dims), element])}>"


def program(form: str, body: str, element: str) -> str:
    operand, indices, updates, numbers, _ = FORMS[form]
    x, i, u = kind(operand, element), kind(indices, "i32"), kind(updates, element)
    return f"""
func.func @main(%x: {x}, %i: {i}, %u: {u}) -> {x} {{
  %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}}> ({{
    ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
    {BODIES[body][0].replace("ELEMENT", element)}
    stablehlo.return %r : tensor<{element}>
  }}) : ({x}, {i}, {u}) -> {x}
  return %r : {x}
}}
"""


def drawn(element: str, dims: list[int]) -> np.ndarray:
    whole = RNG.integers(-9, 9, (2, *dims))  # exact whichever order sums are taken in
    if element == "complex<f32>":
        return (whole[0] + 1j * whole[1]).astype(np.complex64)
    return whole[0].astype({"f32": np.float32, "i32": np.int32}[element])


def scattered(x: np.ndarray, windows: list, combine: Callable) -> np.ndarray:
    result = x.copy()
    for start, window in windows:
        place = tuple(slice(at, at + size) for at, size in zip(start, window.shape, strict=True))
        if all(at.start >= 0 and at.stop <= size for at, size in zip(place, x.shape, strict=True)):
            result[place] = combine(result[place], window)
    return result


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("body", "element"), [("set", "f32"), ("add", "i32"), ("two ops", "f32"), ("add", "complex<f32>")]
)
def test_windows_larger_than_the_kernel_holds(form, body, element):
    operand, indices, updates, _, windows = FORMS[form]
    run = opentrn.compile(program(form, body, element), strict=True)
    # Places that fit, that begin before the operand, and that end behind it.
    for low, high in ((0, 5), (-2, 3), (0, 80)):
        x, u = drawn(element, operand), drawn(element, updates)
        i = RNG.integers(low, high, indices).astype(np.int32)
        (got,) = run(x, i, u)
        np.testing.assert_array_equal(got, scattered(x, windows(i, u), BODIES[body][1]))
