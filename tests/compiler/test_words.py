"""Operators on the bits of 32-bit words: numbers are operands of one instruction, tiles in between lie in PSUM."""

import re

import numpy as np
import pytest

import opentrn

ROWS, COLUMNS = 128, 512
TYPE = f"tensor<{ROWS}x{COLUMNS}xui32>"
CONSTANTS = {"thirteen": 13, "nineteen": 19, "nine": 9, "mask": 0x3F800000, "all": 0xFFFFFFFF}


def compiled(lines: str, result: str = TYPE) -> opentrn.CompiledModel:
    body = "\n".join(
        f"{line} : {TYPE}".replace("= ", "= stablehlo.", 1) if ":" not in line else line
        for line in lines.strip().split("\n")
    )
    constants = "\n".join(f"%{k} = stablehlo.constant dense<{v}> : {TYPE}" for k, v in CONSTANTS.items())
    return opentrn.compile(
        f"func.func @main(%x: {TYPE}, %y: {TYPE}) -> {result} {{\n{constants}\n{body}\nreturn %r : {result}\n}}",
        target="trn2", strict=True,
    )  # fmt: skip


def arguments() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 2**32, (2, ROWS, COLUMNS), dtype=np.uint32)
    return x, y


ROTATION = """%a = shift_left %x, %thirteen
%b = shift_right_logical %x, %nineteen
%c = or %a, %b
%r = xor %y, %c"""


def rotated(x: np.ndarray) -> np.ndarray:
    return (x << np.uint32(13)) | (x >> np.uint32(19))


def instructions(model: opentrn.CompiledModel, name: str) -> list[str]:
    return [line for line in model.program_text().splitlines() if line.startswith(name + " ")]


def test_one_operand_of_each_pair_of_words_lies_in_psum():
    """Two from SBUF take the Vector engine two cycles an element."""
    model, (x, y) = compiled(ROTATION), arguments()
    psum = {line.split()[1] for line in model.program_text().splitlines() if line.split()[2:3] == ["psum"]}
    pairs = instructions(model, "tensor_tensor")
    assert len(pairs) == 2
    for line in pairs:
        assert sum(tensor in psum for tensor in re.findall(r"data[12]=(%\d+)", line)) == 1, line
    np.testing.assert_array_equal(model(x, y)[0], y ^ rotated(x))


def test_numbers_are_operands():
    """A shift and what is put into its free bits are one instruction, and seeing the word as a float none."""
    f32 = TYPE.replace("ui32", "f32")
    model = compiled(
        f"%a = shift_right_logical %x, %nine\n%b = or %a, %mask\n"
        f"%f = stablehlo.bitcast_convert %b : ({TYPE}) -> {f32}\n%r = stablehlo.negate %f : {f32}", f32,
    )  # fmt: skip
    x, y = arguments()
    assert len(instructions(model, "tensor_scalar")) == 2
    assert not instructions(model, "tensor_tensor")
    assert not instructions(model, "memset")
    wanted = -((x >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32)
    np.testing.assert_array_equal(model(x, y)[0].view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("line, function", [
    ("%r = xor %x, %all", lambda x, y: ~x),
    ("%r = and %mask, %x", lambda x, y: x & np.uint32(0x3F800000)),
    ("%a = shift_left %x, %nine\n%b = shift_left %y, %nine\n%r = or %a, %b", lambda x, y: (x | y) << np.uint32(9)),
    ("%a = and %x, %y\n%b = or %x, %y\n%c = xor %a, %b\n%r = xor %c, %a", lambda x, y: (x & y) ^ (x | y) ^ (x & y)),
    ("%a = xor %x, %y\n%b = or %a, %a\n%r = xor %b, %x", lambda x, y: y),
])  # fmt: skip
def test_values(line: str, function) -> None:
    model, (x, y) = compiled(line), arguments()
    np.testing.assert_array_equal(model(x, y)[0], function(x, y))


def chain(rows: int, columns: int, rounds: int) -> tuple[opentrn.CompiledModel, list[np.ndarray], np.ndarray]:
    """Rounds of x = x + y, y = (y << 13 | y >> 19) ^ x; what they make of random words."""
    shape = f"tensor<{rows}x{columns}xui32>"
    lines = [f"%{k} = stablehlo.constant dense<{v}> : {shape}" for k, v in CONSTANTS.items()]
    x, y = "%x", "%y"
    for n in range(rounds):
        lines += [
            f"%x{n} = stablehlo.add {x}, {y} : {shape}", f"%l{n} = stablehlo.shift_left {y}, %thirteen : {shape}",
            f"%h{n} = stablehlo.shift_right_logical {y}, %nineteen : {shape}",
            f"%o{n} = stablehlo.or %l{n}, %h{n} : {shape}", f"%y{n} = stablehlo.xor %o{n}, %x{n} : {shape}",
        ]  # fmt: skip
        x, y = f"%x{n}", f"%y{n}"
    body = "\n".join(lines)
    model = opentrn.compile(
        f"func.func @main(%x: {shape}, %y: {shape}) -> {shape} {{\n{body}\nreturn {y} : {shape}\n}}", target="trn2"
    )
    rng = np.random.default_rng(5)
    given = list(rng.integers(0, 2**32, (2, rows, columns), dtype=np.uint32))
    a, b = given
    for _ in range(rounds):
        a = a + b
        b = rotated(b) ^ a
    return model, given, b


@pytest.mark.parametrize("rows, columns, widest", [
    (1024, 64, 512),  # 128 rows of all there is
    (1001, 65, 65),  # no 128 equal rows: as they are
    (64, 3000, 750),  # all partitions, half of their columns in turn
])  # fmt: skip
def test_a_long_chain_goes_over_wide_rows(rows: int, columns: int, widest: int):
    model, given, wanted = chain(rows, columns, rounds=20)
    shapes = re.findall(r"^tensor %\d+ (?:sbuf|psum) \w+ \[\d+, (\d+)\]", model.program_text(), re.MULTILINE)
    assert max(map(int, shapes)) == widest
    np.testing.assert_array_equal(model(*given)[0], wanted)


def rotations(shape: str, counts: list[int], word: str = "") -> str:
    """Each rotation of a word, joined with one before it by an operator that shows every bit."""
    lines, last = [word], "%y"
    for n, count in enumerate(counts):
        lines += [
            f"%a{n} = stablehlo.constant dense<{count}> : {shape}",
            f"%b{n} = stablehlo.constant dense<{32 - count}> : {shape}",
            f"%l{n} = stablehlo.shift_left {last}, %a{n} : {shape}",
            f"%h{n} = stablehlo.shift_right_logical {last}, %b{n} : {shape}",
            f"%o{n} = stablehlo.or {('%h{0}, %l{0}' if n % 2 else '%l{0}, %h{0}').format(n)} : {shape}",
            f"%y{n} = stablehlo.xor %o{n}, %x : {shape}",
        ]  # fmt: skip
        last = f"%y{n}"
    return "\n".join(lines)


def edges(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Random words, and those whose halves are near the ends of their range."""
    words = rng.integers(0, 2**32, shape, dtype=np.uint32)
    halves = np.array([0, 1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF], np.uint32)
    found = np.array([high << 16 | low for high in halves for low in halves], np.uint32)
    words.flat[: found.size] = found[: words.size]
    return words


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("element", ["ui32", "i32"])
@pytest.mark.parametrize("rows, columns", [(128, 2048), (128, 96), (3, 40), (130, 1), (512, 1024)])
def test_every_rotation_keeps_every_bit(target: str, element: str, rows: int, columns: int):
    """The Scalar engine takes halves and bytes of the words as numbers."""
    shape, counts = f"tensor<{rows}x{columns}x{element}>", list(range(1, 32))
    text = (
        f"func.func @main(%x: {shape}, %y: {shape}) -> {shape} {{{rotations(shape, counts)}\n"
        f"return %y{len(counts) - 1} : {shape}\n}}"
    )
    model = opentrn.compile(text, target=target)
    rng = np.random.default_rng(rows + columns)
    x, y = edges(rng, (rows, columns)), edges(rng, (rows, columns))
    wanted = y
    for count in counts:
        wanted = (wanted << np.uint32(count) | wanted >> np.uint32(32 - count)) ^ x
    dtype = np.uint32 if element == "ui32" else np.int32
    np.testing.assert_array_equal(model(x.view(dtype), y.view(dtype))[0].view(np.uint32), wanted)


def test_a_rotation_of_one_word_a_row():
    """Broadcast along the columns, and broadcast again after it."""
    shape, column = "tensor<128x1024xui32>", "tensor<128xui32>"
    text = f"""func.func @main(%x: {shape}, %c: {column}) -> {shape} {{
        %y = stablehlo.broadcast_in_dim %c, dims = [0] : ({column}) -> {shape}
        {rotations(shape, [13, 16, 29])}
        return %y2 : {shape} }}"""
    rng = np.random.default_rng(1)
    x, c = edges(rng, (128, 1024)), edges(rng, (128, 1))
    wanted = np.broadcast_to(c, x.shape)
    for count in (13, 16, 29):
        wanted = (wanted << np.uint32(count) | wanted >> np.uint32(32 - count)) ^ x
    np.testing.assert_array_equal(opentrn.compile(text, target="trn2")(x, c[:, 0])[0], wanted)


def test_words_that_wait_while_others_are_made():
    """PSUM has room for one word of 2,048 columns: the second stays in SBUF (a fault of psum.overlap before)."""
    shape = "tensor<128x2048xui32>"
    names = "abcde"
    text = f"""func.func @main({", ".join(f"%{n}: {shape}" for n in names)}) -> {shape} {{
        %0 = stablehlo.or %a, %b : {shape}
        %1 = stablehlo.or %c, %d : {shape}
        %2 = stablehlo.and %1, %e : {shape}
        %3 = stablehlo.xor %0, %2 : {shape}
        return %3 : {shape} }}"""
    a, b, c, d, e = np.random.default_rng(2).integers(0, 2**32, (5, 128, 2048), dtype=np.uint32)
    np.testing.assert_array_equal(opentrn.compile(text, target="trn2")(a, b, c, d, e)[0], (a | b) ^ ((c | d) & e))


@pytest.mark.parametrize("seed", range(6))
def test_drawn_words(seed: int):
    """Additions, rotations and operators on bits of whatever was made before, beside NumPy."""
    rng = np.random.default_rng(seed)
    shape, count = "tensor<128x1024xui32>", 24
    given = [edges(rng, (128, 1024)) for _ in range(2)]
    values, names, lines = list(given), ["%x", "%y"], []
    for n in range(count):
        i, j = rng.integers(max(0, len(values) - 6), len(values), 2)
        kind = rng.choice(["rotate", "xor", "or", "and", "add"])
        if kind == "rotate":
            turn = int(rng.integers(1, 32))
            lines += [
                f"%a{n} = stablehlo.constant dense<{turn}> : {shape}",
                f"%b{n} = stablehlo.constant dense<{32 - turn}> : {shape}",
                f"%l{n} = stablehlo.shift_left {names[i]}, %a{n} : {shape}",
                f"%h{n} = stablehlo.shift_right_logical {names[i]}, %b{n} : {shape}",
                f"%v{n} = stablehlo.or %h{n}, %l{n} : {shape}",
            ]  # fmt: skip
            values.append(values[i] << np.uint32(turn) | values[i] >> np.uint32(32 - turn))
        else:
            lines.append(f"%v{n} = stablehlo.{kind} {names[i]}, {names[j]} : {shape}")
            function = {"xor": np.bitwise_xor, "or": np.bitwise_or, "and": np.bitwise_and, "add": np.add}[kind]
            values.append(function(values[i], values[j]))
        names.append(f"%v{n}")
    results = ", ".join(names[-3:])
    body = "\n".join(lines)
    types = ", ".join([shape] * 3)
    text = f"func.func @main(%x: {shape}, %y: {shape}) -> ({types}) {{\n{body}\nreturn {results} : {types}\n}}"
    model = opentrn.compile(text, target="trn2")
    for made, wanted in zip(model(*given), values[-3:], strict=True):
        np.testing.assert_array_equal(made, wanted)


def test_rounds_of_a_cipher_go_over_three_engines():
    """Vector alone: four cycles an element and round. Halves of the tile in turn keep it busy (4.6 before)."""
    model, given, wanted = chain(128, 2048, rounds=20)
    np.testing.assert_array_equal(model(*given)[0], wanted)
    assert instructions(model, "activation")
    cycles = model.time().time_us * 960 / (2048 * 20)
    assert cycles < 3.8
