"""Complex numbers and Fourier transforms on the simulated core, against NumPy in complex128 and the evaluator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opentrn
from opentrn import graph

RNG = np.random.default_rng(3)


def tensor(shape: tuple[int, ...], element: str = "complex<f32>") -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{element}>"


def numbers(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(np.complex64)


def run(body: str, types: list[str], result: str, *arrays: np.ndarray) -> np.ndarray:
    """The device's result and, within 2e-5 of the largest number, the evaluator's."""
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(types))
    text = f"func.func @main({arguments}) -> {result} {{\n  %r = {body}\n  return %r : {result}\n}}\n"
    (got,) = opentrn.compile(text)(*arrays)
    (want,) = graph.parse(text).evaluate(*arrays)
    assert got.dtype == want.dtype
    close(got, want, 2e-5)
    return got


def close(got: np.ndarray, want: np.ndarray, bound: float) -> None:
    assert got.shape == want.shape
    with np.errstate(invalid="ignore"):
        error = np.where(got == want, 0, np.abs(got - want))
    assert error.max(initial=0) <= bound * max(1e-30, np.abs(want[np.isfinite(want)]).max(initial=0))


UNARY = {
    "stablehlo.exponential": np.exp,
    "stablehlo.log": np.log,
    "stablehlo.sqrt": np.sqrt,
    "stablehlo.rsqrt": lambda z: 1 / np.sqrt(z),
    "stablehlo.sine": np.sin,
    "stablehlo.cosine": np.cos,
    "stablehlo.tan": np.tan,
    "stablehlo.tanh": np.tanh,
    "stablehlo.logistic": lambda z: 1 / (1 + np.exp(-z)),
    "stablehlo.exponential_minus_one": np.expm1,
    "stablehlo.log_plus_one": np.log1p,
    "stablehlo.negate": np.negative,
    "stablehlo.sign": np.sign,
    "chlo.conj": np.conj,
    "chlo.sinh": np.sinh,
    "chlo.cosh": np.cosh,
    "chlo.asin": np.arcsin,
    "chlo.acos": np.arccos,
    "chlo.atan": np.arctan,
    "chlo.asinh": np.arcsinh,
    "chlo.acosh": np.arccosh,
    "chlo.atanh": np.arctanh,
}


@pytest.mark.parametrize("op", UNARY)
def test_a_function_of_one_number(op):
    z = np.concatenate([numbers(3000), 1e-3 * numbers(500), 3 * numbers(500)])
    kind = tensor(z.shape)
    signature = f"{kind} -> {kind}" if op.startswith("chlo") else kind
    (got,) = opentrn.compile(
        f"func.func @main(%a: {kind}) -> {kind} {{\n  %r = {op} %a : {signature}\n  return %r : {kind}\n}}\n"
    )(z)
    want = UNARY[op](z.astype(np.complex128))
    # Of the number's own size: measured at most 4e-6, at cancellations of the formulas.
    assert (np.abs(got - want) / np.abs(want)).max() <= 5e-6


@pytest.mark.parametrize(
    ("op", "reference"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("divide", np.divide),
        ("power", np.power),
    ],
)
def test_a_function_of_two_numbers(op, reference):
    a, b = numbers(40, 50), numbers(40, 50)
    kind = tensor(a.shape)
    got = run(f"stablehlo.{op} %a0, %a1 : {kind}", [kind, kind], kind, a, b)
    want = reference(a.astype(np.complex128), b.astype(np.complex128))
    assert (np.abs(got - want) / np.maximum(np.abs(want), 1e-3)).max() <= 2e-5


def test_large_numbers_stay_numbers():
    z = np.array([1e30 + 1e30j, 3e37 - 4e37j, 1e-30 + 1e-30j, 0, np.inf + 1j], np.complex64)
    kind, real = tensor(z.shape), tensor(z.shape, "f32")
    got = run(f"stablehlo.abs %a0 : ({kind}) -> {real}", [kind], real, z)
    np.testing.assert_allclose(got, np.abs(z.astype(np.complex128)), rtol=3e-7)
    quotient = run(f"stablehlo.divide %a0, %a0 : {tensor((3,))}", [tensor((3,))], tensor((3,)), z[:3])
    np.testing.assert_allclose(quotient, np.ones(3), rtol=3e-7)


def test_parts_arguments_and_results():
    z, x = numbers(5, 7), RNG.standard_normal((5, 7)).astype(np.float32)
    kind, real = tensor(z.shape), tensor(z.shape, "f32")
    assert (run(f"stablehlo.real %a0 : ({kind}) -> {real}", [kind], real, z) == z.real).all()
    assert (run(f"stablehlo.imag %a0 : ({kind}) -> {real}", [kind], real, z) == z.imag).all()
    made = run(f"stablehlo.complex %a0, %a1 : {kind}", [real, real], kind, x, z.imag.copy())
    assert (made == x + 1j * z.imag).all()
    same = f"func.func @main(%a: {kind}) -> {kind} {{\n  return %a : {kind}\n}}\n"
    assert (opentrn.compile(same)(z)[0] == z).all()
    constant = f"func.func @main() -> {kind} {{\n  %c = stablehlo.constant dense<(1.5, -2.5)> : {kind}\n"
    assert (opentrn.compile(constant + f"  return %c : {kind}\n}}\n")()[0] == 1.5 - 2.5j).all()
    turned = tensor((7, 5))
    body = f"stablehlo.transpose %a0, dims = [1, 0] : ({kind}) -> {turned}"
    assert (run(body, [kind], turned, z) == z.T).all()


def test_products_and_sums():
    a, b = numbers(2, 30, 40), numbers(2, 40, 20)
    types, result = [tensor(a.shape), tensor(b.shape)], tensor((2, 30, 20))
    body = "stablehlo.dot_general %a0, %a1, batching_dims = [0] x [0], contracting_dims = [2] x [1]"
    got = run(f"{body} : ({types[0]}, {types[1]}) -> {result}", types, result, a, b)
    close(got, a.astype(np.complex128) @ b, 1e-5)
    text = f"""
func.func @main(%a: {types[0]}) -> {tensor((30,))} {{
  %z = stablehlo.constant dense<(0.0, 0.0)> : {tensor(())}
  %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 2]
    : ({types[0]}, {tensor(())}) -> {tensor((30,))}
  return %r : {tensor((30,))}
}}
"""
    close(opentrn.compile(text)(a)[0], a.astype(np.complex128).sum((0, 2)), 1e-5)


FORMS = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}


def transform(form: str, x: np.ndarray, lengths: list[int]) -> np.ndarray:
    axes = list(range(-len(lengths), 0))
    want = FORMS[form](x.astype(np.complex128 if form != "RFFT" else np.float64), s=lengths, axes=axes)
    element = "f32" if form == "IRFFT" else "complex<f32>"
    kind, result = tensor(x.shape, "f32" if form == "RFFT" else "complex<f32>"), tensor(want.shape, element)
    text = f"func.func @main(%x: {kind}) -> {result} {{\n"
    text += f"  %r = stablehlo.fft %x, type = {form}, length = {lengths} : ({kind}) -> {result}\n"
    (got,) = opentrn.compile(text + f"  return %r : {result}\n}}\n")(x)
    close(got, want, 2e-6)
    return got


def given_for(form: str, shape: tuple[int, ...]) -> np.ndarray:
    if form == "RFFT":
        return RNG.standard_normal(shape).astype(np.float32)
    if form == "IRFFT":  # the half of a spectrum of real numbers
        axes = list(range(1, len(shape)))
        return np.fft.rfftn(RNG.standard_normal(shape), axes=axes).astype(np.complex64)
    return numbers(*shape)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 100, 256, 257, 1000, 1024, 4096])
def test_transforms_of_any_length(form, n):
    # 257 is a prime beyond the largest matrix; 1000 and up are products of two factors.
    transform(form, given_for(form, (3, n)), [n])


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(FORMS)), st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(1, 4)
)
def test_transforms_of_several_dimensions(form, lengths, batch):
    transform(form, given_for(form, (batch, *lengths)), lengths)


def test_a_length_with_a_large_prime_is_refused_by_name():
    kind = tensor((1, 2 * 4099), "complex<f32>")
    text = f"func.func @main(%x: {kind}) -> {kind} {{\n"
    text += f"  %r = stablehlo.fft %x, type = FFT, length = [{2 * 4099}] : ({kind}) -> {kind}\n"
    with pytest.raises(NotImplementedError, match=r"stablehlo\.fft"):
        opentrn.compile(text + f"  return %r : {kind}\n}}\n", strict=True)


def test_a_product_of_complex_factors_with_a_real_result_is_its_real_part():
    a, b = numbers(3, 5), numbers(5, 4)
    left, right = tensor(a.shape), tensor(b.shape)
    text = f"""
func.func @main(%a: {left}, %b: {right}) -> tensor<3x4xf32> {{
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({left}, {right}) -> tensor<3x4xf32>
  return %c : tensor<3x4xf32>
}}"""
    close(opentrn.compile(text)(a, b)[0], (a.astype(np.complex128) @ b).real, 1e-5)


def test_complex_values_in_loops_and_branches():
    """A loop that carries a complex state beside a counter, and a branch that gives one."""
    text = """
func.func @main(%z: tensor<4x6xcomplex<f32>>, %w: tensor<4x6xcomplex<f32>>, %p: tensor<i1>)
    -> (tensor<4x6xcomplex<f32>>, tensor<4x6xcomplex<f32>>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %s = %z, %keep = %w)
      : tensor<i32>, tensor<4x6xcomplex<f32>>, tensor<4x6xcomplex<f32>>
    cond {
      %go = stablehlo.compare LT, %i, %five, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %m = stablehlo.multiply %s, %keep : tensor<4x6xcomplex<f32>>
      %a = stablehlo.add %m, %z : tensor<4x6xcomplex<f32>>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %a, %s : tensor<i32>, tensor<4x6xcomplex<f32>>, tensor<4x6xcomplex<f32>>
    }
  %b = "stablehlo.if"(%p) ({
    %n = stablehlo.negate %r#1 : tensor<4x6xcomplex<f32>>
    stablehlo.return %n : tensor<4x6xcomplex<f32>>
  }, {
    stablehlo.return %w : tensor<4x6xcomplex<f32>>
  }) : (tensor<i1>) -> tensor<4x6xcomplex<f32>>
  return %r#1, %b, %r#0 : tensor<4x6xcomplex<f32>>, tensor<4x6xcomplex<f32>>, tensor<i32>
}
"""
    z, w = (
        (RNG.standard_normal((4, 6)) + 1j * RNG.standard_normal((4, 6))).astype(np.complex64) / 2
        for _ in "ab"
    )
    model = opentrn.compile(text)
    for p in (True, False):
        wanted = graph.parse(text).evaluate(z, w, np.array(p))
        for got, want in zip(model(z, w, np.array(p)), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_the_inverse_of_one_frequency_has_no_elements():
    """JAX's and XLA's irfft of one element makes 2 (1 - 1) of them."""
    body = '"stablehlo.fft"(%a0) {fft_type = #stablehlo<fft_type IRFFT>, fft_length = array<i64: 0>} '
    kinds = tensor((3, 1)), tensor((3, 0), "f32")
    got = run(body + f": ({kinds[0]}) -> {kinds[1]}", [kinds[0]], kinds[1], numbers(3, 1))
    assert got.shape == (3, 0)
