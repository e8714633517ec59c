"""One operator of ONNX Runtime's domain com.microsoft as a model, compiled and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_bytes as ob

import opentrn

KINDS = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "float16": 10}


def tensor(name: str, array: np.ndarray) -> bytes:
    dims = b"".join(ob.field(1, size) for size in array.shape)
    return dims + ob.field(2, KINDS[array.dtype.name]) + ob.field(8, name) + ob.field(9, array.tobytes())


def attributes(**values: object) -> bytes:
    made = b""
    for name, value in values.items():
        if isinstance(value, str):
            made += ob.field(5, ob.field(1, name) + ob.field(4, value) + ob.field(20, 3))
        elif isinstance(value, float):
            made += ob.real(name, value)
        else:
            made += ob.integer(name, value)
    return made


def compiled(
    path: Path,
    op: str,
    given: list[np.ndarray | None],
    outputs: tuple[int, ...] = (0,),
    variable: tuple[int, ...] = (0,),
    **values,
):
    """A model of one operator; `variable`: which of its inputs are the model's, the others are constants."""
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(given)]
    results = [f"y{i}" if i in outputs else "" for i in range(max(outputs) + 1)]
    node = ob.node(op, names, results, attributes(**values)) + ob.field(7, "com.microsoft")
    graph = ob.field(1, node) + ob.field(2, "g")
    for i, (name, array) in enumerate(zip(names, given)):
        if i in variable:
            graph += ob.field(11, ob.value_info(name, list(array.shape), KINDS[array.dtype.name]))
        elif name:
            graph += ob.field(5, tensor(name, array))
    graph += b"".join(ob.field(12, ob.value_info(name, [])) for name in results if name)
    opsets = ob.field(8, ob.field(1, "") + ob.field(2, 17)) + ob.field(8, ob.field(1, "com.microsoft") + ob.field(2, 1))
    path.write_bytes(ob.field(1, 8) + ob.field(7, graph) + opsets)
    return opentrn.compile(path, strict=True)


def run(path: Path, op: str, given: list[np.ndarray | None], outputs=(0,), variable=(0,), **values):
    """Results of one operator, as compiled() has it."""
    made = compiled(path, op, given, outputs, variable, **values)(*(given[i] for i in variable))
    return made[0] if len(outputs) == 1 else made
