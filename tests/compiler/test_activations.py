"""GELU and SiLU in the ways models write them: one function of the Scalar engine, with the values of float64."""

import numpy as np
import pytest

import opentrn
from opentrn import graph

TYPE = "tensor<130x70xf32>"
HEAD = f"""
func.func @main(%x: {TYPE}) -> {TYPE} {{
  %half = stablehlo.constant dense<0.5> : {TYPE}
  %one = stablehlo.constant dense<1.0> : {TYPE}
  %root = stablehlo.constant dense<0.707106769> : {TYPE}
  %root2 = stablehlo.constant dense<1.41421354> : {TYPE}
  %pi = stablehlo.constant dense<0.797884583> : {TYPE}
  %a = stablehlo.constant dense<4.471500e-02> : {TYPE}
"""
FORMS = {
    "erfc": """
  %h = stablehlo.multiply %half, %x : T
  %n = stablehlo.negate %x : T
  %z = stablehlo.multiply %n, %root : T
  %e = chlo.erfc %z : T -> T
  %r = stablehlo.multiply %h, %e : T""",
    "erf": """
  %z = stablehlo.divide %x, %root2 : T
  %e = chlo.erf %z : T -> T
  %s = stablehlo.add %e, %one : T
  %p = stablehlo.multiply %x, %s : T
  %r = stablehlo.multiply %p, %half : T""",
    "tanh-cubic": """
  %x2 = stablehlo.multiply %x, %x : T
  %x3 = stablehlo.multiply %x2, %x : T
  %c = stablehlo.multiply %a, %x3 : T
  %u = stablehlo.add %x, %c : T
  %v = stablehlo.multiply %pi, %u : T
  %t = stablehlo.tanh %v : T
  %s = stablehlo.add %one, %t : T
  %h = stablehlo.multiply %half, %s : T
  %r = stablehlo.multiply %x, %h : T""",
    "tanh-square": """
  %v = stablehlo.multiply %x, %pi : T
  %c = stablehlo.multiply %a, %x : T
  %d = stablehlo.multiply %c, %x : T
  %w = stablehlo.add %one, %d : T
  %u = stablehlo.multiply %v, %w : T
  %t = stablehlo.tanh %u : T
  %s = stablehlo.add %t, %one : T
  %h = stablehlo.multiply %x, %half : T
  %r = stablehlo.multiply %h, %s : T""",
    "silu": """
  %g = stablehlo.logistic %x : T
  %r = stablehlo.multiply %g, %x : T""",
}


def text_of(form: str) -> str:
    return HEAD + FORMS[form].replace(" T", f" {TYPE}") + f"\n  return %r : {TYPE}\n}}\n"


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("form", FORMS)
def test_an_activation_is_one_instruction(form: str, target: str):
    x = (np.random.default_rng(5).standard_normal((130, 70)) * 3).astype(np.float32)
    model = opentrn.compile(text_of(form), target=target)
    assert model.passes["activations"] == 1
    assert model.program_text().count("activation ") == 3  # one for each 128 rows, one that loads the table
    want = graph.parse(text_of(form)).evaluate(x, float64=True)[0]
    np.testing.assert_allclose(model(x)[0], want, rtol=0, atol=2e-6)
    np.testing.assert_allclose(opentrn.compile(text_of(form), optlevel=1)(x)[0], want, rtol=0, atol=4e-6)


@pytest.mark.parametrize("form,old,new", [
    ("erf", "1.41421354", "1.5"), ("tanh-cubic", "4.471500e-02", "5.0e-02"), ("silu", "%g, %x", "%g, %g"),
    ("erfc", "dense<0.5>", "dense<0.6>"),
])  # fmt: skip
def test_another_number_is_another_function(form: str, old: str, new: str):
    text = text_of(form).replace(old, new)
    model = opentrn.compile(text)
    assert model.passes["activations"] == 0
    x = np.random.default_rng(5).standard_normal((130, 70)).astype(np.float32)
    np.testing.assert_allclose(model(x)[0], graph.parse(text).evaluate(x, float64=True)[0], rtol=0, atol=4e-6)
