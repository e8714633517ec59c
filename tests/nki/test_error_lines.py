"""Errors name the kernel's own line, whichever of OpenTrn's functions stand between it and the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import opentrn
from opentrn import nki, nki_legacy
from opentrn.errors import ArgumentError, NkiValidationError
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from tests.marks import line_of
from tests.package import PYTHON

X = np.ones((128, 64), np.float32)
STRICT = (None, "0.6", "0.3")


def message(kernel, *args, strict=None, kind=NkiValidationError, **options) -> str:
    with pytest.raises(kind) as caught:
        opentrn.run(kernel, *args, strict=strict, target="trn2", **options)
    return str(caught.value)


@nki.jit
def bitwise_on_floats(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.bitwise_and)  # the rule
    return x


@nki.jit
def language_function(x):
    tile = nl.load(x)
    nl.add(tile, nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.sbuf))  # the rule
    return x


@nki.jit
def missing_argument(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=tile, data1=tile, op=nl.add)  # the rule
    return x


@pytest.mark.parametrize("strict", STRICT)
@pytest.mark.parametrize("kernel", [bitwise_on_floats, language_function, missing_argument])
def test_the_line_is_the_kernels_under_every_release(kernel, strict):
    text = message(kernel, X, strict=strict)
    assert f"at {__file__}:{line_of(kernel, '# the rule')} in {kernel.__name__}" in text, text
    assert os.path.join("opentrn", "strict") not in text


def add_rows(tile):
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.bitwise_and)  # the helper's line


def prepare(tile):
    add_rows(tile)


@nki.jit
def calls_helpers(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    prepare(tile)  # the call
    return x


@pytest.mark.parametrize("strict", STRICT)
def test_where_a_helper_fails_the_kernels_line_is_named_too(strict):
    text = message(calls_helpers, X, strict=strict)
    helper = f"at {__file__}:{line_of(add_rows, '# the helper')} in add_rows"
    assert (
        f"{helper}, called from {__file__}:{line_of(calls_helpers, '# the call')} in calls_helpers" in text
    ), text


@nki.jit
def while_loop(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    count = nisa.register_alloc(3)
    state = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=state, value=0)
    while count:  # the loop
        nisa.register_load(count, state)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("strict", [None, "0.6"])
def test_a_loop_without_a_known_count_is_named_at_its_while(strict):
    text = message(while_loop, X, strict=strict, execute=False, kind=ValueError)
    assert "[timing.trip_count]" in text
    assert f"at {__file__}:{line_of(while_loop, '# the loop')} in while_loop" in text, text


@pytest.mark.parametrize("strict", [None, "0.6"])
def test_a_while_of_a_register_is_a_device_loop_under_every_release(strict):
    result = opentrn.run(while_loop, X, strict=strict, target="trn2")
    assert "while_begin" in result.program_text()
    np.testing.assert_array_equal(result.outputs, X)


@nki.jit
def returns_a_tile(x):
    return nl.load(x)  # the tile


@pytest.mark.parametrize("execute", [True, False])
def test_a_returned_tile_is_refused_with_its_line(execute):
    text = message(returns_a_tile, X, execute=execute)
    assert text.startswith("program error [nki.output]: returns_a_tile returns a tile in SBUF")
    assert f"at {__file__}:{line_of(returns_a_tile, '# the tile')} in returns_a_tile" in text, text
    assert "try: " in text


@nki.jit
def returns_what_numpy_made(x):
    return np.exp(nl.load(x))


def test_what_numpy_makes_of_a_tile_is_no_result():
    text = message(returns_what_numpy_made, X)
    assert text.startswith("program error [nki.output]: returns_what_numpy_made returns an array of NumPy")
    assert f"at {__file__}:" in text and "try: compute it by nisa's instructions" in text


CALLS = {
    "missing": (
        lambda t: nisa.tensor_tensor(dst=t, data1=t, op=nl.add),
        "needs 'data2'",
        "dst, data1, data2, op",
    ),
    "unknown": (
        lambda t: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, scalar0=1.0),
        "unexpected argument 'scalar0'",
        "its arguments are dst, data, op0, operand0",
    ),
    "near": (
        lambda t: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand=1.0),
        "unexpected argument 'operand'",
        "try: operand0; its arguments are",
    ),
    "twice": (lambda t: nisa.memset(t, 0, dst=t), "two values for 'dst'", "dst, value"),
    "many": (lambda t: nisa.memset(t, 0, None, None, None), "at most 4 arguments", "dst, value"),
    "activation": (
        lambda t: nisa.activation(dst=t, data=t, op=nl.maximum),
        "maximum is not an activation function",
        "there are copy, ",
    ),
    "operator": (
        lambda t: nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.gelu),
        "gelu is not an operator",
        "there are ",
    ),
    "enumeration": (
        lambda t: nisa.tensor_copy(dst=t, src=t, engine="vektor"),
        "vektor is not a engine",
        "vector; there are unknown, tensor",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_wrong_arguments_are_program_errors_with_what_there_is(case):
    call, found, instead = CALLS[case]

    @nki.jit
    def kernel(x):
        call(nl.load(x))
        return x

    text = message(kernel, X, kind=ArgumentError)
    assert text.startswith("program error [nki.arguments]: ")
    assert found in text and f"at {__file__}:" in text
    assert instead in text.partition("try: ")[0] + "try: " + text.partition("try: ")[2], text
    with pytest.raises(TypeError):  # as Python's own functions raise
        opentrn.run(kernel, X, target="trn2")


@pytest.mark.parametrize("number", [1 << 63, -(1 << 70), 10**400])
def test_a_number_beyond_64_bits_is_named(number):
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        nisa.iota(dst=nl.ndarray((128, 64), dtype=nl.int32, buffer=nl.sbuf), pattern=[[1, 64]], offset=number)
        return tile

    text = message(kernel, X)
    assert "argument offset: a number is beyond what 64 bits hold" in text and f"at {__file__}:" in text


def endless():
    numbers = []
    numbers.append(numbers)
    return numbers


@pytest.mark.parametrize(
    ("call", "text"),
    [
        # A string is a list of strings without end; this ended the process once.
        (lambda t: nisa.iota(dst=t, pattern=[[1, "a"]]), "pattern: 'str' object cannot be interpreted as an integer"),
        (lambda t: nisa.nc_stream_shuffle(t, t, shuffle_mask="abc"), "shuffle_mask: 'str' object cannot be"),
        (lambda t: nisa.iota(dst=t, pattern=[[1, 64]], offset=0.5), "offset: 'float' object cannot be"),
        (lambda t: nisa.affine_select(t, [[1, 64]], 1, t, on_false_value=t), "on_false_value: must be real number"),
        (lambda t: nisa.dma_copy(dst=t, src=X), "src: an array of the host is no tensor of this kernel"),
        (lambda t: nisa.tensor_scalar(t, t, nl.add, X[:, :1]), "operand0: an array of the host is no tensor"),
        (lambda t: nisa.tensor_tensor(t, t, t, op=3), "3 names no operator"),
        (lambda t: nisa.dma_compute(t, srcs=t, reduce_op=nl.add), "srcs: a list of tensors is needed"),
    ],
)
def test_a_value_of_another_kind_names_the_argument_and_the_line(call, text):
    def kernel(x):
        call(nl.load(x))
        return x

    said = message(kernel, X)
    assert text in said and f"at {__file__}:" in said


def test_a_list_of_numbers_that_holds_itself_ends():
    def kernel(x):
        nisa.iota(dst=nl.load(x), pattern=endless())
        return x

    with pytest.raises(RecursionError, match="while a list of numbers was read"):
        nki.simulate(kernel)(X)


@pytest.mark.parametrize(
    ("module", "name", "text"),
    [
        (nisa, "tensor_tensr", "try: tensor_tensor"),
        (nl, "softmx", "try: softmax"),
        (nl, "mgrid", "was removed in NKI 0.3 (guide 0.1 to 0.2)\n    try: slices, or NkiTensor.ap"),
        (nl, "arange", "try: slices, or NkiTensor.ap"),
        (nl, "par_dim", "try: put the partition dimension first"),
        (nisa, "tensor_copy_dynamic_src", "try: nisa.tensor_copy with .ap(scalar_offset=)"),
        (nki_legacy.isa, "tensor_tensr", "try: tensor_tensor"),
    ],
)
def test_a_name_that_is_not_there_says_what_is(module, name, text):
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert text in str(caught.value)
    assert not hasattr(module, name) and getattr(module, name, None) is None


def test_a_name_like_no_other_has_no_advice():
    with pytest.raises(AttributeError) as caught:
        nisa.zzzzzz  # noqa: B018
    assert str(caught.value) == "module 'nki.isa' has no attribute 'zzzzzz'"


def test_the_command_says_the_same(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(
        textwrap.dedent("""
        import nki, nki.isa as nisa, nki.language as nl

        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.bitwise_and)
            return x
        """)
    )
    command = [
        sys.executable,
        "-m",
        "opentrn",
        "run",
        "--strict",
        "0.6",
        f"{path}:kernel",
        "-i",
        "x=128x64:float32",
    ]
    environment = dict(os.environ, PYTHONPATH=str(PYTHON))
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"at {path}:7 in kernel" in done.stderr and "call_checks" not in done.stderr, done.stderr
