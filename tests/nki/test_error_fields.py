"""Errors carry whose fault, which rule, what, where and what to try as fields, raised by C++ or by Python."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import opentrn
from opentrn import errors, nki
from opentrn.cli.errors import exit_code
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl


@nki.jit
def adds_unlike_shapes(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), x.dtype)
    other = nl.ndarray((128, 32), x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_fault_of_the_core_has_fields() -> None:
    with pytest.raises(errors.NkiValidationError) as caught:
        opentrn.run(adds_unlike_shapes, np.ones((128, 64), np.float32), target="trn2")
    error = caught.value
    assert error.kind == "program"
    assert error.label.startswith("tensor_tensor.C")
    assert error.location is not None and error.location.function == "adds_unlike_shapes"
    assert error.location.file == __file__
    assert error.message and f"[{error.label}]: {error.message}" in str(error)
    assert str(error).startswith("program error [")


def test_input_and_capacity_faults_have_classes_and_kinds() -> None:
    with pytest.raises(ValueError) as caught:
        opentrn.run(adds_unlike_shapes, np.ones((128, 64), np.float32), target="trn9")
    assert isinstance(caught.value, errors.InputError) and caught.value.kind == "input"

    @nki.jit
    def takes_too_much(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 1 << 17), nl.float32)  # 512 KiB of each partition
        nisa.memset(tile, 0)
        nisa.dma_copy(dst=out, src=tile[:, 0:64])
        return out

    with pytest.raises(errors.CapacityExceeded) as caught:
        opentrn.run(takes_too_much, np.ones((128, 64), np.float32), target="trn2")
    assert caught.value.kind == "capacity"


@pytest.mark.parametrize(
    "kind, cls, status",
    [
        ("program", errors.NkiValidationError, 1),
        ("input", errors.InputError, 2),
        ("capacity", errors.CapacityExceeded, 3),
        ("not_modelled", errors.NotModelled, 4),
        ("unspecified", errors.UndefinedBehavior, 5),
        ("internal", errors.InternalError, 70),
    ],
)
def test_errors_of_python_look_like_those_of_the_core(kind: str, cls: type, status: int) -> None:
    at = errors.SourceLocation("kernel.py", 7, "k")
    error = cls("3 rows, the limit is 2", label="some.rule", hint="give fewer", location=at)
    assert error.kind == kind and exit_code(error) == status
    assert str(error) == (
        f"{errors.KIND_TEXTS[kind]} [some.rule]: 3 rows, the limit is 2\n    at kernel.py:7 in k\n    try: give fewer"
    )
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.label, again.hint, again.location) == (
        str(error), error.label, error.hint, error.location,
    )  # fmt: skip


def test_a_refusal_of_python_in_a_kernel_has_fields_and_its_line() -> None:
    @nki.jit
    def broadcasts_what_does_not(x):
        return nl.broadcast_to(nl.load(x), (128, 3, 5))

    with pytest.raises(errors.NkiValidationError) as caught:
        broadcasts_what_does_not(np.ones((128, 64), np.float32))
    error = caught.value
    assert (error.kind, error.label) == ("program", "nki.shape")
    assert error.location is not None and error.location.function == "broadcasts_what_does_not"
    assert error.location.file == __file__
    place = f"{__file__}:{error.location.line} in broadcasts_what_does_not"
    assert str(error) == f"program error [nki.shape]: {error.message}\n    at {place}"


def calls_a_loop_outside_a_kernel() -> None:
    nl.fori_loop(0, 4, lambda i: None)


def asks_for_an_unknown_compiler() -> None:
    opentrn.run(adds_unlike_shapes, np.ones((128, 64), np.float32), compiler="gcc")


def asks_for_an_unknown_dtype() -> None:
    opentrn.ShapeOf((2, 2), "float5")


def asks_for_an_unknown_option() -> None:
    nki.jit(adds_unlike_shapes, colour="red")


def chooses_an_unknown_release() -> None:
    with opentrn.strict.version("9.9"):
        pass


@pytest.mark.parametrize(
    ("call", "python", "kind", "label", "hint"),
    [
        (calls_a_loop_outside_a_kernel, errors.NkiValidationError, "program", "nki.scope", "nki.simulate(kernel)"),
        (asks_for_an_unknown_compiler, ValueError, "input", "compiler.option", "neuronx-cc"),
        (asks_for_an_unknown_dtype, TypeError, "program", "dtype.unknown", ""),
        (asks_for_an_unknown_option, TypeError, "program", "nki.option", "platform_target"),
        (chooses_an_unknown_release, ValueError, "input", "strict.release", "0.6"),
    ],
)
def test_a_refusal_of_python_has_fields_and_pythons_class(call, python, kind, label, hint) -> None:
    with pytest.raises(python) as caught:
        call()
    error = caught.value
    assert isinstance(error, errors.Refusal)
    assert (error.kind, error.label) == (kind, label) and hint in error.hint
    assert str(error).startswith(f"{errors.KIND_TEXTS[kind]} [{label}]: {error.message}")


def test_what_a_strict_release_refuses_has_fields_beside_its_own_text() -> None:
    @nki.jit
    def compares(x):
        flag = None
        if flag is None:
            return x
        return x

    with pytest.raises(opentrn.strict.StrictRefusal) as caught:
        opentrn.run(compares, np.ones((2, 2), np.float32), strict="0.6")
    error = caught.value
    assert (error.kind, error.label, error.hint) == ("program", "strict.identity", "== and !=")
    assert error.location is not None and error.location.function == "compares"
    assert str(error).startswith("NKI 0.6 refuses this [identity]: ")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.label, again.location) == (str(error), error.label, error.location)


def test_errors_keep_what_pythons_own_classes_have() -> None:
    missing = errors.MissingModule("no such package", name="torch_neuronx", label="compat.name", hint="another one")
    again = pickle.loads(pickle.dumps(missing))
    assert isinstance(again, ModuleNotFoundError) and again.name == "torch_neuronx" and str(again) == str(missing)
    located = missing.restated(location=errors.SourceLocation("a.py", 3))
    assert located.name == "torch_neuronx" and "\n    at a.py:3\n" in str(located)
    located.locate(errors.SourceLocation("b.py", 4))
    assert located.location == errors.SourceLocation("a.py", 3)


def test_a_refused_command_line_has_fields_and_a_plain_text(tmp_path) -> None:
    from opentrn.cli.kernel_file import UsageError, load_kernel

    file = tmp_path / "empty.py"
    file.write_text("")
    with pytest.raises(UsageError) as caught:
        load_kernel(f"{file}:kernel")
    error = caught.value
    assert (error.kind, error.label) == ("input", "cli.kernel") and exit_code(error) == 2
    assert str(error) == f"{error.message}\n    try: {error.hint}"


def test_a_fault_before_anything_else_is_imported_has_fields(tmp_path) -> None:
    file = tmp_path / "bad.otrn"
    file.write_bytes(b"OTRN" + bytes(60))
    program = (
        "import sys; from opentrn import _core\n"
        "try: _core.listing_of_file(sys.argv[1])\n"
        "except Exception as error: print(type(error).__qualname__, error.kind, error.label)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=False)
    assert done.stdout == "InputError input file.header\n", done.stderr
