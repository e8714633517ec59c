"""Typed graphs with StableHLO's ops: read text or bytecode, print, verify, evaluate on NumPy arrays.

    module = graph.parse(open("model.mlir").read())
    (y,) = module.evaluate(x)

The evaluator is the reference that compiled programs are compared with: plain loops, every op of StableHLO
and CHLO, every element type (src/graph/eval/evaluate.h). Errors of a program are ValueError with the op's
location; an op outside the specification's semantics, such as an unknown custom call, is NotModelled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from opentrn import _core
from opentrn.errors import InputError
from opentrn.kernel import machine as _configured  # noqa: F401  (gives _core its exception classes)

__all__ = ["Function", "Module", "OpRow", "TensorType", "array_of", "ops", "parse", "raw_of"]

# Element types as MLIR spells them -> NumPy. tf32 is held as float32 whose 13 low bits are zero.
DTYPES: dict[str, np.dtype] = {
    "i1": np.dtype(bool),
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "i2": np.dtype(ml_dtypes.int2),
    "i4": np.dtype(ml_dtypes.int4),
    "ui2": np.dtype(ml_dtypes.uint2),
    "ui4": np.dtype(ml_dtypes.uint4),
    "index": np.dtype("int64"),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
    "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype("float16"),
    "tf32": np.dtype("float32"),
    "f32": np.dtype("float32"),
    "f64": np.dtype("float64"),
    "complex<f32>": np.dtype("complex64"),
    "complex<f64>": np.dtype("complex128"),
}
# The name of each type; "index" and "tf32" are stored as others are.
NAMES = {dtype: name for name, dtype in DTYPES.items() if name not in ("index", "tf32")}

# An array, None for a token, a list for a tuple (for a tensor parameter: of numbers).
Value = Any


@dataclass(frozen=True)
class TensorType:
    """A parameter or result. `dtype` is None for tokens and tuples; -1 in `shape` is a dynamic dimension."""

    text: str
    dtype: np.dtype | None
    shape: tuple[int, ...]
    element: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Function:
    """A function's signature. `aliases`: for each argument the number of the result that takes its place, or None."""

    name: str
    is_public: bool
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    aliases: tuple[int | None, ...]


@dataclass(frozen=True)
class OpRow:
    """One op: how many operands, results and regions it takes (fewest, most; -1 is no limit)."""

    name: str
    op_class: str
    operands: tuple[int, int]
    results: tuple[int, int]
    regions: tuple[int, int]
    attributes: tuple[str, ...]


def ops() -> list[OpRow]:
    """The table of ops (src/graph/op_definitions.cc)."""
    return [
        OpRow(name, op_class, operands, results, regions, tuple(attributes))
        for name, op_class, operands, results, regions, attributes in _core.graph.op_table()
    ]


def parse(source: str | bytes, filename: str = "<text>") -> Module:
    """Reads StableHLO text; or bytes: a portable artifact (VHLO 0.9 to 1.20 in MLIR bytecode), HLO or ONNX.

    ValueError names file and line, or the offset, of what is malformed.
    """
    if isinstance(source, bytes):
        return Module(_core.graph.read_bytes(source, filename))
    return Module(_core.graph.parse(source, filename))


def _type_of(row: tuple[str, str, list[int]]) -> TensorType:
    text, element, shape = row
    return TensorType(text, DTYPES.get(element), tuple(shape), element)


def _to_raw(value: Value, wanted: TensorType | None) -> Any:
    if value is None:
        return None
    if isinstance(value, list) and (wanted is None or wanted.dtype is None):
        return [_to_raw(element, None) for element in value]
    # Python numbers take the parameter's type; arrays must have it.
    dtype = wanted.dtype if wanted is not None and not isinstance(value, np.ndarray | np.generic) else None
    array = np.ascontiguousarray(value, dtype=dtype).reshape(np.shape(value))
    if array.dtype not in NAMES:
        raise InputError(f"no element type for NumPy's {array.dtype}", label="graph.element")
    element = NAMES[array.dtype]
    if wanted is not None and wanted.dtype == array.dtype:
        element = wanted.element  # index and tf32 share a dtype with another type
    return element, list(array.shape), array.tobytes()


def raw_of(array: np.ndarray, element: str = "") -> tuple[str, list[int], bytes]:
    """An array of any shape as _core takes values; `element` names the type where several share a dtype (tf32)."""
    array = np.ascontiguousarray(array).reshape(np.shape(array))
    return element or NAMES[array.dtype], list(array.shape), array.tobytes()


def array_of(raw: tuple[str, list[int], bytes]) -> np.ndarray:
    """The array of raw_of()'s element type, shape and bytes, in NumPy's or ml_dtypes' dtype; read-only."""
    element, shape, data = raw
    return np.frombuffer(data, dtype=DTYPES[element]).reshape(shape)


def _from_raw(raw: Any) -> Value:
    if raw is None:
        return None
    if isinstance(raw, list):
        return [_from_raw(element) for element in raw]
    return array_of(raw).copy()


def _function(name: str, is_public: bool, arguments: Any, results: Any, aliases: list[int | None]) -> Function:
    return Function(name, is_public, tuple(map(_type_of, arguments)), tuple(map(_type_of, results)), tuple(aliases))


class Module:
    """A parsed module. `str(module)` is its StableHLO text."""

    def __init__(self, raw: Any):
        self._raw = raw
        self._verified = False

    @property
    def name(self) -> str:
        """Of the module, as its text has it."""
        return self._raw.name

    @property
    def functions(self) -> dict[str, Function]:
        """Signatures by name."""
        return {row[0]: _function(*row) for row in self._raw.functions}

    @property
    def entry(self) -> str:
        """`main`, or the only public function."""
        return self._raw.entry

    def to_text(self, *, generic: bool = False, locations: bool = False, elide_larger: int = -1) -> str:
        """StableHLO text; `elide_larger` leaves out literals of more elements (such text does not parse)."""
        return self._raw.to_text(generic, locations, elide_larger)

    def __str__(self) -> str:
        return self.to_text()

    def verify(self) -> None:
        """Raises ValueError at the first broken rule, with its label ("dot_general.C4") and location."""
        self._raw.verify()
        self._verified = True

    def _verify_once(self) -> None:
        if not self._verified:
            self.verify()

    def evaluate(
        self,
        *arguments: Value,
        function: str | None = None,
        float64: bool = False,
        custom_call: Callable[[str, list[Value]], Sequence[Value] | None] | None = None,
    ) -> list[Value]:
        """Results of `function` (default: the entry) for NumPy arguments of its shapes and dtypes.

        The module is verified first; ValueError for a broken rule, or arguments that do not fit.

        `float64` computes and keeps every float in f64 whatever its type says, and returns f64 arrays: the
        yardstick for rounding errors. `custom_call(target, operands)` returns a custom call's results, or
        None for a target that it does not know.
        """
        self._verify_once()
        name = function or self.entry
        signature = self.functions.get(name)
        wanted = signature.arguments if signature is not None else ()
        raw = [_to_raw(value, wanted[i] if i < len(wanted) else None) for i, value in enumerate(arguments)]

        def call(target: str, operands: list[Any]) -> list[Any] | None:
            assert custom_call is not None
            results = custom_call(target, [_from_raw(operand) for operand in operands])
            return None if results is None else [_to_raw(result, None) for result in results]

        handler = call if custom_call is not None else None
        return [_from_raw(value) for value in self._raw.evaluate(raw, name, float64, handler)]

    def evaluate_parallel(
        self, programs: Sequence[Sequence[str]], arguments: Sequence[Sequence[Value]]
    ) -> list[list[Value]]:
        """Runs `programs[replica][partition]` as communicating processes; arguments and results by process.

        Arrays have the shapes and dtypes that the functions state. Process number is replica * partitions + partition.
        A run in which all wait for what nobody sends is a ValueError.
        """
        self._verify_once()
        functions = self.functions
        names = [name for row in programs for name in row]
        raw = [
            [_to_raw(value, wanted) for value, wanted in zip(values, functions[name].arguments, strict=True)]
            for name, values in zip(names, arguments, strict=True)
        ]
        partitions = len(programs[0]) if programs else 0
        results = self._raw.evaluate_parallel(names, len(programs), partitions, raw)
        return [[_from_raw(value) for value in values] for values in results]
