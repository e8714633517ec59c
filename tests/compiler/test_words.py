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
    (64, 3000, 1500),  # all partitions, as ever
])  # fmt: skip
def test_a_long_chain_goes_over_wide_rows(rows: int, columns: int, widest: int):
    model, given, wanted = chain(rows, columns, rounds=20)
    shapes = re.findall(r"^tensor %\d+ (?:sbuf|psum) \w+ \[\d+, (\d+)\]", model.program_text(), re.MULTILINE)
    assert max(map(int, shapes)) == widest
    np.testing.assert_array_equal(model(*given)[0], wanted)
