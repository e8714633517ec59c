"""Small programs of one op with expected values by NumPy, shared by the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from opentrn import graph

ELEMENT_OF = {dtype: name for name, dtype in graph.DTYPES.items() if name not in ("index", "tf32")}
BF16 = np.dtype(ml_dtypes.bfloat16)


def spelled(array: np.ndarray) -> str:
    """The MLIR type of an array."""
    return f"tensor<{''.join(f'{size}x' for size in array.shape)}{ELEMENT_OF[array.dtype]}>"


@dataclass(frozen=True)
class Case:
    """`body` computes %r from %a, %b, ...; {A}, {B}, ... are their types and {R} that of the result.

    Results must be within `ulp` of `expected` in its dtype; 0 is equality (NaN equals NaN). `norm` is a
    tolerance in units of the largest magnitude instead.
    """

    op: str
    body: str
    arguments: list[np.ndarray]
    expected: np.ndarray | list[np.ndarray]
    ulp: int = 0
    norm: float = 0.0
    functions: str = ""
    returned: str = "%r"

    @property
    def results(self) -> list[np.ndarray]:
        return self.expected if isinstance(self.expected, list) else [self.expected]

    def text(self) -> str:
        names = "abcdefgh"
        types = {names[i].upper(): spelled(array) for i, array in enumerate(self.arguments)}
        types["R"] = spelled(self.results[0])
        for i, result in enumerate(self.results):
            types[f"R{i}"] = spelled(result)
        arguments = ", ".join(f"%{names[i]}: {spelled(a)}" for i, a in enumerate(self.arguments))
        results = ", ".join(spelled(result) for result in self.results)
        body = self.body
        for name, text in types.items():
            body = body.replace("{" + name + "}", text)
        return (
            f"func.func public @main({arguments}) -> ({results}) {{\n{body}\n"
            f"  return {self.returned} : {results}\n}}\n{self.functions}"
        )

    def run(self) -> None:
        module = graph.parse(self.text(), self.op)
        module.verify()
        for actual, expected in zip(module.evaluate(*self.arguments), self.results, strict=True):
            assert actual.dtype == expected.dtype
            assert actual.shape == expected.shape
            if self.norm > 0:
                assert np.abs(actual - expected).max() <= self.norm * np.abs(expected).max()
            elif self.ulp == 0:
                wide = np.float64 if expected.dtype.kind == "V" else expected.dtype  # ml_dtypes' NaN
                np.testing.assert_array_equal(actual.astype(wide), expected.astype(wide))
            else:
                assert_within_ulp(actual, expected, self.ulp)


def assert_within_ulp(actual: np.ndarray, expected: np.ndarray, ulp: int) -> None:
    """Finite values at most `ulp` steps of the dtype apart at the expected magnitude; others equal."""
    if np.iscomplexobj(actual):
        assert_within_ulp(actual.real, expected.real, ulp)
        assert_within_ulp(actual.imag, expected.imag, ulp)
        return
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(e)
    np.testing.assert_array_equal(a[~finite], e[~finite])
    info = ml_dtypes.finfo(expected.dtype)
    spacing = np.maximum(np.abs(e[finite]) * float(info.eps), float(info.tiny) * float(info.eps))
    assert np.all(np.abs(a[finite] - e[finite]) <= ulp * spacing)


def ints(*values: object, dtype: str = "int32") -> np.ndarray:
    return np.array(values if len(values) != 1 or not isinstance(values[0], list) else values[0], dtype)


def floats(*values: object, dtype: object = "float32") -> np.ndarray:
    return np.array(values if len(values) != 1 or not isinstance(values[0], list) else values[0]).astype(
        dtype
    )


def rounded(function, *arrays: np.ndarray) -> np.ndarray:
    """function in f64 (c128), rounded once to the arrays' dtype."""
    wide = [a.astype(np.complex128 if np.iscomplexobj(a) else np.float64) for a in arrays]
    with np.errstate(all="ignore"):
        return np.asarray(function(*wide)).astype(arrays[0].dtype)
