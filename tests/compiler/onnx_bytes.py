"""ONNX models as bytes, field by field (numbers of onnx.proto): tests need no onnx package."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | bytes | str) -> bytes:
    """One field of a protocol buffer: a number or a length-delimited value."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def value_info(name: str, dims: list[int | str], element: int = 1) -> bytes:
    """A ValueInfoProto. element: of TensorProto.DataType, 1 is float."""
    shape = b"".join(field(1, field(1, dim) if isinstance(dim, int) else field(2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))


def node(op: str, inputs: list[str], outputs: list[str], attributes: bytes = b"") -> bytes:
    """A NodeProto. attributes: its encoded fields 5."""
    names = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
    return names + field(3, op + "_" + outputs[0]) + field(4, op) + attributes


def scalar(name: str, element: int, data: bytes) -> bytes:
    """A TensorProto of rank 0."""
    return field(2, element) + field(8, name) + field(9, data)


def integers(name: str, values: list[int]) -> bytes:
    """An attribute, as node() takes it."""
    return field(5, field(1, name) + b"".join(field(8, value) for value in values) + field(20, 7))


def integer(name: str, value: int) -> bytes:
    """An attribute of one whole number."""
    return field(5, field(1, name) + field(3, value) + field(20, 2))


def real(name: str, value: float) -> bytes:
    """An attribute of one float."""
    return field(5, field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1))


def subgraph(name: str, graph: bytes) -> bytes:
    """An attribute that is a graph."""
    return field(5, field(1, name) + field(6, graph) + field(20, 5))


def model(nodes: list[bytes], inputs: dict[str, tuple[int, ...]], output: str, opset: int) -> bytes:
    """A ModelProto with float inputs and one float output."""
    graph = b"".join(field(1, each) for each in nodes) + field(2, "g")
    graph += b"".join(field(11, value_info(name, list(dims))) for name, dims in inputs.items())
    graph += field(12, value_info(output, []))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, opset))
