"""What a model states in 64 bits and the device computes in 32 is told where it can matter, and only there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from opentrn.base import notices
from opentrn.model import compiled as model
from tests.package import PYTHON

HEAD = """func.func @main(%a: tensor<8xi64>, %x: tensor<8xf32>, %d: tensor<8xf64>, %u: tensor<8xui64>) -> ({result}) {{
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %uzero = stablehlo.constant dense<0> : tensor<ui64>
  %zeros = stablehlo.constant dense<0> : tensor<8xi64>
  %ones = stablehlo.constant dense<1> : tensor<8xi64>
  %sevens = stablehlo.constant dense<7> : tensor<8xi64>
  %i = stablehlo.iota dim = 0 : tensor<8xi64>
"""

MAY_WRAP = {
    "sum": ("%r = stablehlo.add %a, %ones : tensor<8xi64>", "tensor<8xi64>", "add to tensor<8xi64>"),
    "product": ("%r = stablehlo.multiply %a, %a : tensor<8xi64>", "tensor<8xi64>", "multiply to"),
    "reduction": (
        "%r = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]"
        " : (tensor<8xi64>, tensor<i64>) -> tensor<i64>",
        "tensor<i64>", "reduce to tensor<i64>",
    ),
    "unsigned reduction": (
        "%r = stablehlo.reduce(%u init: %uzero) applies stablehlo.add across dimensions = [0]"
        " : (tensor<8xui64>, tensor<ui64>) -> tensor<ui64>",
        "tensor<ui64>", "reduce to tensor<ui64>",
    ),
    "floats": ("%r = stablehlo.convert %x : (tensor<8xf32>) -> tensor<8xi64>", "tensor<8xi64>", "convert to"),
    "f64 moved": ("%r = stablehlo.reverse %d, dims = [0] : tensor<8xf64>", "tensor<8xf64>", "an f64 argument"),
    "f64": ("%r = stablehlo.add %d, %d : tensor<8xf64>", "tensor<8xf64>", "is rounded to f32"),
}  # fmt: skip

FITS = {
    "positions": ("%r = stablehlo.add %i, %ones : tensor<8xi64>", "tensor<8xi64>"),
    "positions from the end": (
        "%n = stablehlo.compare LT, %a, %zeros : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>\n"
        "%s = stablehlo.add %a, %sevens : tensor<8xi64>\n"
        "%r = stablehlo.select %n, %s, %a : tensor<8xi1>, tensor<8xi64>",
        "tensor<8xi64>",
    ),
    "clamped": (
        "%c = stablehlo.clamp %zeros, %a, %sevens : tensor<8xi64>\n"
        "%r = stablehlo.multiply %c, %c : tensor<8xi64>",
        "tensor<8xi64>",
    ),
    "sum of positions": (
        "%r = stablehlo.reduce(%i init: %zero) applies stablehlo.add across dimensions = [0]"
        " : (tensor<8xi64>, tensor<i64>) -> tensor<i64>",
        "tensor<i64>",
    ),
    "two words": ("%r = stablehlo.multiply %u, %u : tensor<8xui64>", "tensor<8xui64>"),
    "moved": ("%r = stablehlo.reverse %a, dims = [0] : tensor<8xi64>", "tensor<8xi64>"),
    "counter": (
        "%w:2 = stablehlo.while(%k = %zero, %s = %x) : tensor<i64>, tensor<8xf32>\n"
        "cond { %n = stablehlo.constant dense<5> : tensor<i64>\n"
        "  %t = stablehlo.compare LT, %k, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>\n"
        "  stablehlo.return %t : tensor<i1> }\n"
        "do { %o = stablehlo.constant dense<1> : tensor<i64>\n"
        "  %m = stablehlo.add %k, %o : tensor<i64>\n"
        "  %v = stablehlo.add %s, %s : tensor<8xf32>\n"
        "  stablehlo.return %m, %v : tensor<i64>, tensor<8xf32> }\n"
        "%r = stablehlo.add %w#1, %x : tensor<8xf32>",
        "tensor<8xf32>",
    ),
}


def source(body: str, result: str) -> str:
    head = HEAD.format(result=result)
    if "%d" not in body:  # f64 is rounded on its way in
        head = head.replace(", %d: tensor<8xf64>", "")
    return head + body + f"\nreturn %r : {result}\n}}\n"


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.setattr(notices, "_told", set())


@pytest.mark.parametrize("name", MAY_WRAP)
def test_what_can_leave_32_bits_is_told_with_its_place(name, capsys):
    body, result, told = MAY_WRAP[name]
    compiled = model.compile(source(body, result))
    err = capsys.readouterr().err
    assert err.count("computes 64-bit numbers in 32 bits") == 1 and told in err, err
    assert told in compiled.narrowing
    model.compile(source(body, result))
    assert capsys.readouterr().err == ""  # once for a program


@pytest.mark.parametrize("name", FITS)
def test_what_fits_32_bits_is_not(name, capsys):
    compiled = model.compile(source(*FITS[name]))
    assert compiled.narrowing == "" and capsys.readouterr().err == ""


def test_a_saved_model_tells_too(tmp_path, monkeypatch):
    body, result, told = MAY_WRAP["reduction"]
    saved = model.compile(source(body, result)).save(tmp_path / "wide.neuron")
    assert told in model.load(saved).narrowing
    text = tmp_path / "wide.mlir"
    text.write_text(source(body, result))

    def stderr_of(*arguments: object, **variables: str) -> str:
        environment = dict(
            os.environ, PYTHONPATH=str(PYTHON), OPENTRN_CACHE=str(tmp_path / "cache"), **variables
        )
        command = [sys.executable, "-m", "opentrn", *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 or "OPENTRN_NARROWING" in done.stderr, done.stderr
        return done.stderr

    for command in (
        ["compile", text, "-o", tmp_path / "out.neuron"],
        ["run", text],
        ["run", saved],
        ["run", text],
    ):
        assert stderr_of(*command).count(told) == 1
    assert "64-bit" not in stderr_of("run", saved, OPENTRN_NARROWING="off")
    assert "OPENTRN_NARROWING is 'never': tell or off" in stderr_of("run", saved, OPENTRN_NARROWING="never")
