"""A step by a number, and the tensor or the function behind it, are one instruction, with every bit of two."""

import numpy as np
import pytest

import opentrn

ROWS, COLUMNS = 130, 70
TYPE = f"tensor<{ROWS}x{COLUMNS}xf32>"
HEAD = f"""
func.func @main(%x: {TYPE}, %y: {TYPE}, %c: tensor<{ROWS}xf32>) -> {TYPE} {{
  %three = stablehlo.constant dense<3.0> : {TYPE}
  %column = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<{ROWS}xf32>) -> {TYPE}
"""
# Body, and what NumPy makes in float32, step by step.
FORMS = {
    "product and sum": ("%s = multiply %x, %three\n%r = add %s, %y", lambda x, y, c: x * 3 + y),
    "sum and product": ("%s = add %three, %x\n%r = multiply %y, %s", lambda x, y, c: y * (x + 3)),
    "taken away": ("%s = multiply %x, %three\n%r = subtract %y, %s", lambda x, y, c: y - x * 3),
    "taken from": ("%s = multiply %x, %three\n%r = subtract %s, %y", lambda x, y, c: x * 3 - y),
    "column": ("%s = subtract %x, %column\n%r = multiply %s, %y", lambda x, y, c: (x - c[:, None]) * y),
    "two steps": (
        "%s = multiply %x, %three\n%t = add %y, %three\n%r = maximum %s, %t",
        lambda x, y, c: np.maximum(x * 3, y + 3),
    ),
}  # fmt: skip


def compiled(body: str) -> opentrn.CompiledModel:
    lines = [f"{line} : {TYPE}".replace("= ", "= stablehlo.") for line in body.split("\n")]
    return opentrn.compile(HEAD + "\n".join(lines) + f"\n  return %r : {TYPE}\n}}\n", target="trn2")


def arguments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((2, ROWS, COLUMNS)).astype(np.float32)
    x[0, :4] = [np.inf, -np.inf, -0.0, np.float32(3e38)]
    return x, y, rng.standard_normal(ROWS).astype(np.float32)


@pytest.mark.parametrize("form", FORMS)
def test_a_step_and_a_tensor_are_one_instruction(form: str):
    body, wanted = FORMS[form]
    model, given = compiled(body), arguments()
    text = model.program_text()
    tiles = text.count("scalar_tensor_tensor ")
    assert tiles > 0 and text.count("\ntensor_tensor ") == 0, text
    assert text.count("\ntensor_scalar ") == (tiles if form == "two steps" else 0), text
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(model(*given)[0].view(np.int32), wanted(*given).view(np.int32))


def test_a_column_is_taken_away_by_the_function():
    model = compiled("%s = subtract %x, %column\n%r = exponential %s")
    apart = compiled("%s = subtract %x, %column\n%u = abs %s\n%r = negate %u")
    x, y, c = arguments()
    text = model.program_text()
    activations = text.count(" bias=")  # one more loads the table of the function early
    assert activations > 0
    # Each has one element in a row: the column's negation.
    assert text.count("\ntensor_scalar ") == activations, text
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(model(x, y, c)[0], np.exp(x - c[:, None]), rtol=3e-6)
        np.testing.assert_array_equal(apart(x, y, c)[0], -np.abs(x - c[:, None]))


def test_another_shape_of_a_result_is_not_copied():
    texts = [
        opentrn.compile(
            f"func.func @main(%x: {TYPE}) -> {shape} {{\n%e = stablehlo.exponential %x : {TYPE}\n"
            f"%r = stablehlo.reshape %e : ({TYPE}) -> {shape}\nreturn %r : {shape}\n}}", target="trn2",
        )
        for shape in (TYPE, f"tensor<{ROWS // 2}x2x{COLUMNS}xf32>")
    ]  # fmt: skip
    x = arguments()[0] / 100
    assert texts[0].program_text().count("dma_copy") == texts[1].program_text().count("dma_copy")
    assert texts[1](x)[0].shape == (ROWS // 2, 2, COLUMNS)
    np.testing.assert_array_equal(texts[1](x)[0].reshape(ROWS, COLUMNS), texts[0](x)[0])


@pytest.mark.parametrize("of_product", [False, True])
def test_rows_that_come_again_are_loaded_once(of_product: bool):
    whole, mask = "tensor<4x2x128x64xf32>", "tensor<128x64xf32>"
    operands, made = f"%x: {whole}", "%p = stablehlo.negate %x : " + whole
    if of_product:
        operands = "%x: tensor<4x2x128x16xf32>, %y: tensor<4x2x16x64xf32>"
        made = (
            "%p = stablehlo.dot_general %x, %y, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : "
            f"(tensor<4x2x128x16xf32>, tensor<4x2x16x64xf32>) -> {whole}"
        )
    model = opentrn.compile(
        f"func.func @main(%m: {mask}, {operands}) -> {whole} {{\n{made}\n"
        f"%b = stablehlo.broadcast_in_dim %m, dims = [2, 3] : ({mask}) -> {whole}\n"
        f"%r = stablehlo.add %p, %b : {whole}\nreturn %r : {whole}\n}}",
        target="trn2",
    )
    loads = [line for line in model.program_text().split("\n") if line.startswith("dma_copy ") and "src=%0" in line]
    assert len(loads) == 1, loads
    rng = np.random.default_rng(1)
    m = rng.standard_normal((128, 64)).astype(np.float32)
    if of_product:
        x, y = rng.standard_normal((4, 2, 128, 16)), rng.standard_normal((4, 2, 16, 64))
        np.testing.assert_allclose(model(m, x.astype(np.float32), y.astype(np.float32))[0], x @ y + m, atol=1e-5)
    else:
        x = rng.standard_normal((4, 2, 128, 64)).astype(np.float32)
        np.testing.assert_array_equal(model(m, x)[0], m - x)
