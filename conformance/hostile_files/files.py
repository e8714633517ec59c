"""Hostile files, made here: each small or crafted to make a reader crash, hang, take the machine or read another file.

`CASES` maps the name of a file to how it is made and what must become of it. ONNX models are written field by field
(tests/compiler/onnx_bytes.py), so no onnx package is needed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.compiler.onnx_bytes import field, integer, integers, node, subgraph, value_info

FLOAT, INT64, BOOL, UINT8 = 1, 7, 9, 2
SECRET = b"SECRET-" * 8


@dataclass(frozen=True)
class Case:
    """A file, the command that opens it, and what must come of that.

    make: writes the file at the path that it is given, and what lies beside it.
    label: of the error; "" where the file is legal and must be done with.
    words: the command in front of the file's name.
    """

    make: Callable[[Path], None]
    label: str
    words: tuple[str, ...] = ("compile", "--no-cache", "-o", "{out}")


def _bytes(data: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def _text(text: str) -> Callable[[Path], None]:
    return _bytes(text.encode())


# --- ONNX -------------------------------------------------------------------------------------------------------------


def tensor(name: str, value: object, dtype: type = np.int64) -> bytes:
    """A TensorProto of int64, float or bool."""
    array = np.asarray(value, dtype)
    element = {"int64": INT64, "float32": FLOAT, "bool": BOOL}[array.dtype.name]
    dims = b"".join(field(1, size) for size in array.shape)
    return dims + field(2, element) + field(8, name) + field(9, array.tobytes())


def outside(
    location: str, *, size: int = 16, offset: int | str = 0, length: int | str | None = None
) -> bytes:
    """A TensorProto w of `size` bytes whose data is in another file."""
    rows = (
        ("location", location),
        ("offset", str(offset)),
        ("length", str(size if length is None else length)),
    )
    place = b"".join(field(13, field(1, key) + field(2, text)) for key, text in rows)
    return field(1, size) + field(2, UINT8) + field(8, "w") + place + field(14, 1)


def model(
    nodes: list[bytes],
    *,
    x: tuple[list[int], int] = ([4], FLOAT),
    y: int = FLOAT,
    tensors: tuple[bytes, ...] = (),
    functions: tuple[bytes, ...] = (),
) -> bytes:
    """A ModelProto of opset 17 with one input x and one output y of no stated shape."""
    graph = b"".join(field(1, each) for each in nodes) + field(2, "g")
    graph += b"".join(field(5, each) for each in tensors)
    graph += field(11, value_info("x", *x)) + field(12, field(1, "y") + field(2, field(1, field(1, y))))
    opsets = field(8, field(1, "") + field(2, 17)) + field(8, field(1, "l") + field(2, 1))
    return field(1, 8) + field(7, graph) + b"".join(field(25, each) for each in functions) + opsets


def one(op: str, inputs: list[str], attributes: bytes = b"", **rest: object) -> Callable[[Path], None]:
    """A model of one node."""
    return _bytes(model([node(op, inputs, ["y"], attributes)], **rest))  # type: ignore[arg-type]


def function(name: str, calls: list[bytes]) -> bytes:
    """A function of the domain l, of a to b."""
    opsets = field(9, field(1, "") + field(2, 17)) + field(9, field(1, "l") + field(2, 1))
    return (
        field(1, name)
        + field(4, "a")
        + field(5, "b")
        + b"".join(field(7, each) for each in calls)
        + opsets
        + field(10, "l")
    )


def call(name: str, source: str, result: str) -> bytes:
    return node(name, [source], [result]) + field(7, "l")


def doubling_functions(levels: int) -> bytes:
    """Functions that call the next one twice."""
    functions = [
        function(f"F{i}", [call(f"F{i + 1}", "a", "t"), call(f"F{i + 1}", "t", "b")]) for i in range(levels)
    ]
    functions.append(function(f"F{levels}", [node("Neg", ["a"], ["b"])]))
    return model([call("F0", "x", "y")], functions=tuple(functions))


def nested_branches(depth: int) -> bytes:
    """An If in the branch of an If, and so on."""
    leaf = field(1, node("Neg", ["x"], ["o"])) + field(2, "g") + field(12, value_info("o", [4]))
    body = leaf
    for _ in range(depth):
        branches = subgraph("then_branch", body) + subgraph("else_branch", leaf)
        body = field(1, node("If", ["k"], ["o"], branches)) + field(2, "g") + field(12, value_info("o", [4]))
    return model(
        [node("If", ["k"], ["y"], subgraph("then_branch", body) + subgraph("else_branch", leaf))],
        tensors=(tensor("k", True, np.bool_),),
    )


def loop(trips: int, *, scan: bool) -> bytes:
    """A Loop of so many trips whose values, or whose result's size, grow with them."""
    nodes = [node("Identity", ["ci"], ["co"]), node("Add", ["v", "v"], ["vo"])]
    outputs = [value_info("co", [], BOOL), value_info("vo", [4])]
    if scan:
        nodes.append(node("Identity", ["v"], ["s"]))
        outputs.append(value_info("s", [4]))
    inputs = [value_info("i", [], INT64), value_info("ci", [], BOOL), value_info("v", [4])]
    body = b"".join(field(1, each) for each in nodes) + field(2, "b")
    body += b"".join(field(11, each) for each in inputs) + b"".join(field(12, each) for each in outputs)
    results = ["z", "y"] if scan else ["y"]
    return model(
        [node("Loop", ["m", "k", "x"], results, subgraph("body", body))],
        tensors=(tensor("m", trips), tensor("k", True, np.bool_)),
    )


def summed(op: str, inputs: list[str], *tensors: bytes) -> Callable[[Path], None]:
    """The sum of what `op` makes, and x."""
    nodes = [node(op, inputs, ["c"]), node("ReduceSum", ["c"], ["r"]), node("Add", ["x", "r"], ["y"])]
    return _bytes(model(nodes, tensors=tensors))


def chain(length: int) -> bytes:
    names = ["x", *(f"t{i}" for i in range(length - 1)), "y"]
    return model([node("Neg", [a], [b]) for a, b in zip(names, names[1:])])


WINDOW = ([1, 1, 8, 8], FLOAT)
KERNEL = tensor("w", np.ones((1, 1, 3, 3)), np.float32)
READ = [node("Cast", ["w"], ["y"], integer("to", FLOAT))]
STAGED = [node("NonZero", ["x"], ["nz"]), node("Transpose", ["nz"], ["y"])]


def external(
    location: str, prepare: Callable[[Path], object] | None = None, **rest: object
) -> Callable[[Path], None]:
    """A model that reads w from `location`; `prepare` is given the model's folder."""

    def make(path: Path) -> None:
        secret = path.parent.parent / "elsewhere" / "secret"
        secret.parent.mkdir(exist_ok=True)
        secret.write_bytes(SECRET)
        if prepare is not None:
            prepare(path.parent)
        path.write_bytes(model(READ, tensors=(outside(location.format(secret=secret), **rest),)))  # type: ignore[arg-type]

    return make


def unread(location: str, *, in_function: bool) -> Callable[[Path], None]:
    """A model in stages that names a file and never reads it: nothing of it may come into what is saved."""

    def make(path: Path) -> None:
        secret = path.parent.parent / "elsewhere" / "secret"
        secret.parent.mkdir(exist_ok=True)
        secret.write_bytes(SECRET)
        value = outside(location.format(secret=secret))
        if in_function:
            constant = node(
                "Constant", [], ["b"], field(5, field(1, "value") + field(5, value) + field(20, 4))
            )
            data = model(STAGED, x=([8], FLOAT), y=INT64, functions=(function("F", [constant]),))
        else:
            data = model(STAGED, x=([8], FLOAT), y=INT64, tensors=(value,))
        path.write_bytes(data)

    return make


def make_fifo(folder: Path) -> None:
    os.mkfifo(folder / "w.bin")


# --- StableHLO text ---------------------------------------------------------------------------------------------------


def text_function(body: str, kind: str = "tensor<f32>", result: str = "") -> str:
    result = result or kind
    return f"func.func @main(%x: {kind}) -> {result} {{\n{body}}}\n"


def text_sum(op: str, size: int) -> str:
    """The sum of a value of so many elements, and x."""
    kind = f"tensor<{size}xf32>"
    return text_function(
        f" %c = {op} : {kind}\n %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f" %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : ({kind}, tensor<f32>) -> "
        "tensor<f32>\n %y = stablehlo.add %r, %x : tensor<f32>\n return %y : tensor<f32>\n"
    )


def doubling_calls(levels: int) -> str:
    one_call = " = func.call @f{}({}) : (tensor<f32>) -> tensor<f32>\n"
    text = text_function(" %y" + one_call.format(0, "%x") + " return %y : tensor<f32>\n")
    for level in range(levels):
        text += f"func.func private @f{level}(%x: tensor<f32>) -> tensor<f32> {{\n"
        text += " %a" + one_call.format(level + 1, "%x") + " %b" + one_call.format(level + 1, "%a")
        text += " return %b : tensor<f32>\n}\n"
    return (
        text
        + f"func.func private @f{levels}(%x: tensor<f32>) -> tensor<f32> {{\n return %x : tensor<f32>\n}}\n"
    )


def nested_whiles(depth: int) -> str:
    body = ""
    for i in range(depth):
        body += (
            f" %w{i} = stablehlo.while(%a{i} = %x) : tensor<i32> cond {{ %p{i} = stablehlo.compare LT, %a{i}, %x : "
            f"(tensor<i32>, tensor<i32>) -> tensor<i1>\n stablehlo.return %p{i} : tensor<i1> }} do {{\n"
        )
    body += " %q = stablehlo.add %x, %x : tensor<i32>\n" + " stablehlo.return %x : tensor<i32> }\n" * depth
    return text_function(body + " return %x : tensor<i32>\n", "tensor<i32>")


def ranked(rank: int) -> str:
    kind = f"tensor<{'1x' * rank}f32>"
    return text_function(f" %y = stablehlo.negate %x : {kind}\n return %y : {kind}\n", kind)


ENDLESS = text_function(
    " %w = stablehlo.while(%a = %x) : tensor<i32> cond { %p = stablehlo.constant dense<true> : tensor<i1>\n"
    " stablehlo.return %p : tensor<i1> } do { %b = stablehlo.add %a, %a : tensor<i32>\n"
    " stablehlo.return %b : tensor<i32> }\n return %w : tensor<i32>\n",
    "tensor<i32>",
)
LONGEST = 2**63 - 1
PADDED = (
    f"func.func @main(%x: tensor<4xf32>, %z: tensor<f32>) -> tensor<{LONGEST}xf32> {{\n"
    f" %w = stablehlo.pad %x, %z, low = [{LONGEST - 4}], high = [0], interior = [0] : (tensor<4xf32>, tensor<f32>) -> "
    f"tensor<{LONGEST}xf32>\n return %w : tensor<{LONGEST}xf32>\n}}\n"
)


def attribute(text: str) -> str:
    head = f"func.func @main(%x: tensor<f32>) -> tensor<f32> attributes {{a = {text}}}"
    return head + " {\n return %x : tensor<f32>\n}\n"


def constant(text: str) -> str:
    return text_function(
        f" %c = stablehlo.constant dense<{text}> : tensor<4xf32>\n return %x : tensor<f32>\n"
    )


# --- programs and compiled models -------------------------------------------------------------------------------------


def program(lines: str) -> str:
    return f'opentrn program 1 "x"\n{lines}'


def neuron(header: bytes) -> bytes:
    """A compiled model with this header and a checksum that is none."""
    return b"OTNM" + struct.pack("<IQQ", 3, len(header), 0) + header


PROFILE = ("profile",)
DESCRIBE = ("describe",)

CASES: dict[str, Case] = {
    # files that are none of the model's
    "absolute.onnx": Case(external("{secret}"), "onnx.external_data"),
    "climbing.onnx": Case(external("../elsewhere/secret"), "onnx.external_data"),
    "link.onnx": Case(
        external("w.bin", lambda f: (f / "w.bin").symlink_to("../elsewhere/secret")), "onnx.external_data"
    ),
    "linked_folder.onnx": Case(
        external("d/secret", lambda f: (f / "d").symlink_to("../elsewhere")), "onnx.external_data"
    ),
    "fifo.onnx": Case(external("w.bin", make_fifo), "onnx.external_data"),
    "device.onnx": Case(external("/dev/zero"), "onnx.external_data"),
    "device_linked.onnx": Case(
        external("w.bin", lambda f: (f / "w.bin").symlink_to("/dev/zero")), "onnx.external_data"
    ),
    "device_cached.onnx": Case(external("/dev/zero"), "onnx.external_data", ("compile", "-o", "{out}")),
    "negative_offset.onnx": Case(
        external("w.bin", lambda f: (f / "w.bin").write_bytes(bytes(64)), offset=-8), "onnx.external_data"
    ),
    "long_length.onnx": Case(
        external("w.bin", lambda f: (f / "w.bin").write_bytes(bytes(64)), size=10**14, length=10**15),
        "onnx.external_data",
    ),
    "unread_function.onnx": Case(unread("{secret}", in_function=True), ""),
    "unread_device.onnx": Case(unread("/dev/zero", in_function=True), ""),
    "unread_tensor.onnx": Case(unread("../elsewhere/secret", in_function=False), ""),
    # sizes
    "splat.onnx": Case(summed("ConstantOfShape", ["s"], tensor("s", [10**6, 10**6])), "compiler.hbm"),
    "range.onnx": Case(
        summed(
            "Range",
            ["a", "b", "d"],
            tensor("a", 0, np.float32),
            tensor("b", 1e12, np.float32),
            tensor("d", 1, np.float32),
        ),
        "compiler.hbm",
    ),
    "range_of_integers.onnx": Case(
        one("Range", ["a", "b", "d"], y=INT64, tensors=(tensor("a", 0), tensor("b", 2**62), tensor("d", 1))),
        "onnx.Range",
    ),
    "expand.onnx": Case(
        summed("Expand", ["k", "s"], tensor("k", 1.5, np.float32), tensor("s", [10**12])), "compiler.hbm"
    ),
    "expand_counted.onnx": Case(
        _bytes(
            model(
                [node("Expand", ["x", "s"], ["e"]), node("NonZero", ["e"], ["y"])],
                x=([1], FLOAT),
                y=INT64,
                tensors=(tensor("s", [2**40]),),
            )
        ),
        "compiler.hbm",
    ),
    # 40,000 x 40,000 numbers, made of one, and again in memory while they are added up across rows
    "running_sum.onnx": Case(
        _bytes(
            model(
                [node("ConstantOfShape", ["s"], ["c"]), node("CumSum", ["c", "a"], ["y"])],
                tensors=(tensor("s", [40_000, 40_000]), tensor("a", 0)),
            )
        ),
        "compiler.hbm",
    ),
    "tiles.onnx": Case(
        _bytes(
            model(
                [
                    node("Tile", ["x" if i == 0 else f"t{i - 1}", "r"], [f"t{i}" if i < 8 else "y"])
                    for i in range(9)
                ],
                x=([2, 2], FLOAT),
                tensors=(tensor("r", [100, 100]),),
            )
        ),
        "graph.type",
    ),
    "input_2_62.onnx": Case(one("Relu", ["x"], x=([2**31, 2**31], FLOAT)), "graph.type"),
    "input_2_40.onnx": Case(one("Relu", ["x"], x=([2**40], FLOAT)), "compiler.hbm"),
    "input_negative.onnx": Case(one("Relu", ["x"], x=([2**64 - 5], FLOAT)), "onnx.dimension"),
    "einsum.onnx": Case(
        one(
            "Einsum",
            ["x", "x"],
            field(5, field(1, "equation") + field(4, "ab,cd->abcd") + field(20, 3)),
            x=([3000, 3000], FLOAT),
        ),
        "compiler.hbm",
    ),
    "pad.onnx": Case(one("Pad", ["x", "p"], tensors=(tensor("p", [2**62, 2**62]),)), "onnx.Pad"),
    "dilations.onnx": Case(
        one(
            "Conv",
            ["x", "w"],
            integers("dilations", [2**31 - 1] * 2) + integers("pads", [2**30] * 4),
            x=WINDOW,
            tensors=(KERNEL,),
        ),
        "onnx.Conv",
    ),
    "no_stride.onnx": Case(
        one("Conv", ["x", "w"], integers("strides", [0, 0]), x=WINDOW, tensors=(KERNEL,)), "onnx.Conv"
    ),
    "no_group.onnx": Case(
        one("Conv", ["x", "w"], integer("group", 0), x=WINDOW, tensors=(KERNEL,)), "convolution.C21"
    ),
    "resize.onnx": Case(
        one("Resize", ["x", "", "s"], x=WINDOW, tensors=(tensor("s", [1, 1, 1e9, 1e9], np.float32),)),
        "onnx.Resize",
    ),
    "one_hot.onnx": Case(
        one(
            "OneHot",
            ["x", "d", "v"],
            x=([4], INT64),
            tensors=(tensor("d", 2**61), tensor("v", [0, 1], np.float32)),
        ),
        "onnx.OneHot",
    ),
    "top_k.onnx": Case(
        _bytes(model([node("TopK", ["x", "k"], ["y", "i"])], tensors=(tensor("k", [2**62]),))), "onnx.TopK"
    ),
    "dft.onnx": Case(
        one("DFT", ["x", "n"], integer("axis", 1), x=([1, 64, 1], FLOAT), tensors=(tensor("n", 2**33),)),
        "onnx.DFT",
    ),
    "split.onnx": Case(
        _bytes(
            model([node("Split", ["x", "s"], ["y", "z"])], tensors=(tensor("s", [2**63 - 1, -(2**63) + 5]),))
        ),
        "onnx.Split",
    ),
    # depth, cycles, length
    "cycle.onnx": Case(
        _bytes(model([node("Add", ["x", "y"], ["a"]), node("Add", ["a", "x"], ["y"])])), "onnx.name"
    ),
    "self_cycle.onnx": Case(one("Add", ["x", "y"]), "onnx.name"),
    "recursion.onnx": Case(
        _bytes(model([call("F", "x", "y")], functions=(function("F", [call("F", "a", "b")]),))), "onnx.depth"
    ),
    "doubling_40.onnx": Case(_bytes(doubling_functions(40)), "onnx.depth"),
    "doubling_25.onnx": Case(_bytes(doubling_functions(25)), "onnx.size"),
    "branches_200.onnx": Case(_bytes(nested_branches(200)), "onnx.protobuf"),
    "branches_3000.onnx": Case(_bytes(nested_branches(3000)), "onnx.protobuf"),
    "loop_2_62.onnx": Case(_bytes(loop(2**62, scan=False)), "onnx.Loop"),
    "loop_scan_2_40.onnx": Case(_bytes(loop(2**40, scan=True)), "onnx.Loop"),
    "chain_20000.onnx": Case(_bytes(chain(20_000)), ""),
    # StableHLO
    "splat.mlir": Case(_text(text_sum("stablehlo.constant dense<1.0>", 10**12)), "compiler.hbm"),
    "iota.mlir": Case(_text(text_sum("stablehlo.iota dim = 0", 10**12)), "compiler.hbm"),
    "iota_16_gb.mlir": Case(_text(text_sum("stablehlo.iota dim = 0", 4 * 10**9)), "compiler.hbm"),
    "doubling.mlir": Case(_text(doubling_calls(40)), "graph.inline"),
    "rank.mlir": Case(_text(ranked(200_000)), "graph.rank"),
    "brackets.mlir": Case(_text(attribute("[" * 2_000_000)), "stablehlo.text"),
    "braces.mlir": Case(_text(attribute("{a = " * 500_000)), "stablehlo.text"),
    "literal.mlir": Case(_text(constant("[" * 1_000_000)), "stablehlo.text"),
    "tuples.mlir": Case(
        _text(
            text_function(" return %x : tensor<f32>\n", "tuple<" * 300_000 + "tensor<f32>" + ">" * 300_000)
        ),
        "stablehlo.text",
    ),
    "recursion.mlir": Case(
        _text(
            text_function(
                " %y = func.call @main(%x) : (tensor<f32>) -> tensor<f32>\n return %y : tensor<f32>\n"
            )
        ),
        "graph.recursion",
    ),
    "whiles_3000.mlir": Case(_text(nested_whiles(3000)), "stablehlo.text"),
    "endless.mlir": Case(_text(ENDLESS), "model.endless_loop", ("run", "--no-cache")),
    "pad_2_63.mlir": Case(_text(PADDED), "compiler.hbm"),
    "hex.mlir": Case(_text(constant('"0x0000"')), "stablehlo.text"),
    # programs and compiled models
    "registers.txt": Case(_text(program("registers 99999999999\n")), "text.syntax", PROFILE),
    "tensor.txt": Case(
        _text(program("registers 0\ntensor %4000000000 sbuf float32 [128, 512]\n")), "text.syntax", PROFILE
    ),
    "loops.txt": Case(
        _text(program("registers 0\n" + "loop 0 1000000000000 1 {\n" * 100_000)), "text.syntax", PROFILE
    ),
    "deep.neuron": Case(_bytes(neuron(b"[" * 5_000_000)), "model_file", DESCRIBE),
    "long_header.neuron": Case(_bytes(b"OTNM" + struct.pack("<IQQ", 3, 2**63, 0)), "model_file", DESCRIBE),
    "empty.neuron": Case(_bytes(b""), "model_file", DESCRIBE),
    "empty.onnx": Case(_bytes(b""), "onnx.protobuf"),
    "empty.mlir": Case(_bytes(b""), "import.format"),
}
