"""Gathers and dynamic slices at constant places cost no instruction but a copy; values are NumPy's."""

import numpy as np
import pytest

import opentrn

X = np.random.default_rng(3).standard_normal((6, 5, 8)).astype(np.float32)


def listing(values: np.ndarray) -> str:
    return str(values.tolist())


def gather(indices: np.ndarray, dimensions: str, sizes: str, result: str) -> str:
    shape = "x".join(map(str, indices.shape)) + "x" if indices.ndim else ""
    return f"""
func.func @main(%x: tensor<6x5x8xf32>) -> tensor<{result}xf32> {{
  %i = stablehlo.constant dense<{listing(indices)}> : tensor<{shape}i64>
  %r = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<{dimensions}>,
    slice_sizes = array<i64: {sizes}>}}> : (tensor<6x5x8xf32>, tensor<{shape}i64>) -> tensor<{result}xf32>
  return %r : tensor<{result}xf32>
}}
"""


STEPS = np.arange(0, 6, 2)
PLANE = np.stack(np.meshgrid(np.arange(1, 4), np.arange(0, 8, 3), indexing="ij"), axis=-1)
CASES = {
    "one row": (np.array(4), "offset_dims = [0, 1], collapsed_slice_dims = [0], start_index_map = [0], "
                "index_vector_dim = 0", "1, 5, 8", "5x8", X[4]),
    "one column": (np.array(3), "offset_dims = [0, 1], collapsed_slice_dims = [1], start_index_map = [1], "
                   "index_vector_dim = 0", "6, 1, 8", "6x8", X[:, 3]),
    "every second row": (STEPS, "offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], "
                         "index_vector_dim = 1", "1, 5, 8", "3x5x8", X[::2]),
    "in the middle, in front": (STEPS, "offset_dims = [0, 2], collapsed_slice_dims = [2], start_index_map = [2], "
                                "index_vector_dim = 1", "6, 5, 1", "6x3x5", X[:, :, 0:6:2].transpose(0, 2, 1)),
    "two components": (PLANE, "offset_dims = [2], collapsed_slice_dims = [1, 2], start_index_map = [1, 2], "
                       "index_vector_dim = 2", "6, 1, 1", "3x3x6", X[:, 1:4, ::3].transpose(1, 2, 0)),
    "components swapped": (PLANE[..., ::-1] // [3, 1], "offset_dims = [2], collapsed_slice_dims = [0, 1], "
                           "start_index_map = [1, 0], index_vector_dim = 2", "1, 1, 8", "3x3x8", None),
    "repeated": (np.full((4,), 2), "offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], "
                 "index_vector_dim = 1", "1, 5, 8", "4x5x8", np.stack([X[2]] * 4)),
    "nearest neighbours": (np.repeat(np.arange(5), 2), "offset_dims = [0, 2], collapsed_slice_dims = [1], "
                           "start_index_map = [1], index_vector_dim = 1", "6, 1, 8", "6x10x8",
                           X.repeat(2, axis=1)),
    "repeats of a stride": (np.repeat(np.arange(1, 7, 2), 3), "offset_dims = [0, 1], collapsed_slice_dims = [2], "
                            "start_index_map = [2], index_vector_dim = 1", "6, 5, 1", "6x5x9",
                            X[:, :, 1:7:2].repeat(3, axis=2)),
    "clamped into the operand": (np.array(40), "offset_dims = [0, 1, 2], start_index_map = [0], "
                                 "index_vector_dim = 0", "4, 5, 8", "4x5x8", X[2:]),
    "a window kept": (np.array([2, 1]), "offset_dims = [0, 1, 2], start_index_map = [0, 2], "
                      "index_vector_dim = 0", "2, 5, 4", "2x5x4", X[2:4, :, 1:5]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gather_at_constant_places(name: str):
    indices, dimensions, sizes, result, expected = CASES[name]
    if expected is None:  # start_index_map = [1, 0]
        expected = X[indices[..., 1], indices[..., 0]]
    text = gather(indices, dimensions, sizes, result)
    model = opentrn.compile(text)
    np.testing.assert_array_equal(model(X)[0], expected)
    program = model.program_text()
    assert "indirect" not in program and program.count("dma_copy") == model.instruction_count


def test_batching_dimensions_follow_the_indices():
    text = gather(
        np.full((6, 1), 2), "offset_dims = [1], collapsed_slice_dims = [1], operand_batching_dims = [0], "
        "start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1", "1, 1, 8", "6x8",
    )  # fmt: skip
    np.testing.assert_array_equal(opentrn.compile(text)(X)[0], X[:, 2])


def test_a_diagonal_is_no_slice():
    """Rows 0, 1, 4 are not in equal steps: the row gather takes them."""
    rows = np.array([0, 1, 4])
    text = gather(rows, "offset_dims = [1, 2], collapsed_slice_dims = [0], start_index_map = [0], "
                  "index_vector_dim = 1", "1, 5, 8", "3x5x8")  # fmt: skip
    np.testing.assert_array_equal(opentrn.compile(text)(X)[0], X[rows])


def windows(height: int, width: int) -> np.ndarray:
    """Each place's and each other one's, relative to each other, as tables of attention's biases number them."""
    y, x = (each.reshape(-1) for each in np.mgrid[:height, :width])
    far = y[:, None] - y + height - 1, x[:, None] - x + width - 1
    return far[0] * (2 * width - 1) + far[1]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("height", "width", "heads"), [(14, 14, 12), (8, 8, 4), (3, 5, 2), (1, 40, 3)])
def test_tables_of_relative_places(height: int, width: int, heads: int, turned: bool):
    """The table an argument. [14, 14, 12]: 275 us before, 478 turned; [8, 8, 4]: 34 and 42."""
    places, n = windows(height, width), height * width
    rows = (2 * height - 1) * (2 * width - 1)
    found = f"{n}x{n}x{heads}"
    result = f"{heads}x{n}x{n}" if turned else found
    text = f"""
func.func @main(%t: tensor<{rows}x{heads}xf32>) -> tensor<{result}xf32> {{
  %i = stablehlo.constant dense<{listing(places.reshape(-1))}> : tensor<{n * n}xi32>
  %g = "stablehlo.gather"(%t, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, {heads}>}}>
    : (tensor<{rows}x{heads}xf32>, tensor<{n * n}xi32>) -> tensor<{n * n}x{heads}xf32>
  %w = stablehlo.reshape %g : (tensor<{n * n}x{heads}xf32>) -> tensor<{found}xf32>
  %p = stablehlo.transpose %w, dims = {[2, 0, 1] if turned else [0, 1, 2]}
    : (tensor<{found}xf32>) -> tensor<{result}xf32>
  %r = stablehlo.add %p, %p : tensor<{result}xf32>
  return %r : tensor<{result}xf32>
}}
"""
    table = np.random.default_rng(4).standard_normal((rows, heads)).astype(np.float32)
    model = opentrn.compile(text, target="trn2")
    expected = table[places] * 2
    np.testing.assert_array_equal(model(table)[0], expected.transpose(2, 0, 1) if turned else expected)
    assert "indirect" not in model.program_text()
    assert model.time().time_us <= (60 if n > 64 else 15)


@pytest.mark.parametrize("shifts", [(4, 4), (1, 0), (0, -3), (63, 17)])
def test_what_is_shifted_round(shifts: tuple[int, int]):
    """torch.roll as its decomposition has it. Both dimensions: 60 us before."""
    text, value = "func.func @main(%x0: tensor<64x64x96xf32>) -> tensor<64x64x96xf32> {\n", "x0"
    for dim, shift in enumerate(shifts):
        places = listing(np.roll(np.arange(64), shift))
        text += f"""
  %i{dim} = stablehlo.constant dense<{places}> : tensor<64xi32>
  %x{dim + 1} = "stablehlo.gather"(%{value}, %i{dim}) <{{dimension_numbers = #stablehlo.gather<
    offset_dims = {[1, 2] if dim == 0 else [0, 2]}, collapsed_slice_dims = [{dim}], start_index_map = [{dim}],
    index_vector_dim = 1>, slice_sizes = array<i64: {"1, 64, 96" if dim == 0 else "64, 1, 96"}>}}>
    : (tensor<64x64x96xf32>, tensor<64xi32>) -> tensor<64x64x96xf32>"""
        value = f"x{dim + 1}"
    text += f"""
  %r = stablehlo.add %{value}, %{value} : tensor<64x64x96xf32>
  return %r : tensor<64x64x96xf32>
}}
"""
    x = np.random.default_rng(5).standard_normal((64, 64, 96)).astype(np.float32)
    model = opentrn.compile(text, target="trn2")
    np.testing.assert_array_equal(model(x)[0], np.roll(x, shifts, (0, 1)) * 2)
    assert model.time().time_us <= 30


def test_dynamic_slice_at_a_constant_place():
    text = """
func.func @main(%x: tensor<6x5x8xf32>) -> tensor<2x5x4xf32> {
  %a = stablehlo.constant dense<3> : tensor<i32>
  %b = stablehlo.constant dense<-7> : tensor<i32>
  %c = stablehlo.constant dense<9> : tensor<i32>
  %r = stablehlo.dynamic_slice %x, %a, %b, %c, sizes = [2, 5, 4]
    : (tensor<6x5x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x5x4xf32>
  return %r : tensor<2x5x4xf32>
}
"""
    np.testing.assert_array_equal(opentrn.compile(text)(X)[0], X[3:5, :, 4:])


def test_a_model_without_source_lines_has_a_profile():
    text = opentrn.compile(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n return %x : tensor<4xf32>\n}\n"
    )
    assert "predicted" in text.time().text()
