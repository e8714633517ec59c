"""Custom C++ operators of GpSimd for PyTorch, as AWS's guide has them: `torch_neuronx.xla_impl.custom_op`.

An author's kernels (`compute_srcs`) and shape functions (`shape_srcs`) are compiled here with the host's C++ compiler
and the headers in `include`, whose tensors have the names, rules and limits of the Neuron SDK's documents (16 KB of
TCM, ten operators, eight cores with multicore=True). The library has the interface of `opentrn/custom_op_abi.h`: on
the device an operator is a custom call, in eager mode as in compiled graphs; on tensors of the CPU it is called
directly. How long a kernel takes on GpSimd is not public: its author says it, by opentrn.custom_op.set_time.

Source: custom-c++-operators-devguide.rst and custom-ops-ref-guide.rst of the Neuron SDK.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opentrn import custom_op
from opentrn.errors import InputError
from opentrn.torch.emitter import Emitter
from opentrn.torch.registry import RULES
from opentrn.torch.text import Value

__all__ = ["load", "load_library"]

_INCLUDE = Path(__file__).with_name("include")
_MESSAGE_BYTES = 1024
_RANK_MAX = 8
# Letters of opentrn/operators.h, as torch's schemas call them.
_SCHEMA = {"t": "Tensor", "d": "float", "i": "int", "s": "Scalar"}
_NAME = re.compile(r"[A-Za-z_]\w*")


class _CTensor(ctypes.Structure):
    """opentrn_tensor of custom_op_abi.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_char_p),
        ("element_bytes", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]


class _CEntry(ctypes.Structure):
    """opentrn_custom_op_entry of custom_op_abi.h."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p)]


_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_CTensor), ctypes.c_int32, ctypes.POINTER(_CTensor), ctypes.c_int32,
    ctypes.c_char_p, ctypes.c_size_t,
)  # fmt: skip


def _number_bytes(kind: str, value: Any) -> bytes:
    """A number as an operand: 64 bits."""
    return struct.pack("<q", int(value)) if kind == "i" else struct.pack("<d", float(value))


@dataclass(frozen=True)
class _Operator:
    """An operator of a loaded library. kinds: of its parameters, a letter each. run: custom_op_abi.h's function."""

    name: str
    kinds: str
    place: int
    library: ctypes.CDLL
    run: Any

    def _operands(self, arguments: Sequence[Any], with_data: bool) -> Any:
        """The arguments as C has them, and what must live as long as they do."""
        operands, alive = (_CTensor * len(arguments))(), []
        for operand, kind, argument in zip(operands, self.kinds, arguments):
            if kind == "t":
                sizes = tuple(int(size) for size in argument.shape)
                held, dtype = (argument if with_data else None), str(argument.dtype).removeprefix("torch.")
                at, width = (argument.data_ptr() if with_data else None), argument.element_size()
            else:
                held = ctypes.create_string_buffer(_number_bytes(kind, argument), 8)
                sizes, dtype, width, at = (2,), "int32", 4, ctypes.addressof(held)
            shape = (ctypes.c_int64 * len(sizes))(*sizes)
            alive += [held, shape]
            operand.data, operand.dtype, operand.element_bytes = at, dtype.encode(), width
            operand.rank, operand.shape = len(sizes), shape
        return operands, alive

    def _check(self, status: int, message: Any) -> None:
        if status != 0:
            raise InputError(message.value.decode(errors="replace"), label="torch.custom_op")

    def fake(self, *arguments: Any) -> Tensor:
        """A tensor of the sizes and the type that the shape function says."""
        operands, alive = self._operands(arguments, with_data=False)
        sizes, rank = (ctypes.c_int64 * _RANK_MAX)(), ctypes.c_int32()
        dtype, message = ctypes.c_char_p(), ctypes.create_string_buffer(_MESSAGE_BYTES)
        status = self.library.opentrn_torch_shape(
            self.place, operands, len(arguments), sizes, ctypes.byref(rank), ctypes.byref(dtype),
            message, _MESSAGE_BYTES,
        )  # fmt: skip
        self._check(status, message)
        device = next((each.device for each in arguments if isinstance(each, Tensor)), torch.device("cpu"))
        return torch.empty(sizes[: rank.value], dtype=getattr(torch, (dtype.value or b"").decode()), device=device)

    def on_cpu(self, *arguments: Any) -> Tensor:
        arguments = tuple(each.detach().contiguous() if isinstance(each, Tensor) else each for each in arguments)
        result = self.fake(*arguments)
        operands, alive = self._operands(arguments, with_data=True)
        results, result_alive = _Operator("", "t", 0, self.library, None)._operands([result], with_data=True)
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._check(self.run(results, 1, operands, len(arguments), message, _MESSAGE_BYTES), message)
        return result

    def emit(self, body: Emitter, out: Any, *arguments: Any) -> Value:
        operands = [
            argument
            if kind == "t"
            else body.constant(torch.frombuffer(bytearray(_number_bytes(kind, argument)), dtype=torch.int32))
            for kind, argument in zip(self.kinds, arguments)
        ]
        return body.op("custom_call", operands, out.shape, out.dtype, f'call_target_name = "{self.name}"')


# By name. Torch keeps the first definition of an operator; a library that is loaded later replaces what it does.
_OPERATORS: dict[str, _Operator] = {}
_DEFINITIONS: list[torch.library.Library] = []


def _define(operator: _Operator) -> None:
    name = operator.name
    before = _OPERATORS.get(name)
    if before is not None and before.kinds != operator.kinds:
        raise InputError(
            f"{name} is defined with other parameters already", label="torch.custom_op", hint="load it in a new process"
        )
    _OPERATORS[name] = operator
    if before is not None:
        return
    namespace, _, op = name.partition("::")
    parameters = ", ".join(f"{_SCHEMA[kind]} a{i}" for i, kind in enumerate(operator.kinds))
    library = torch.library.Library(namespace, "FRAGMENT")
    library.define(f"{op}({parameters}) -> Tensor")
    torch.library.register_fake(name, lambda *arguments: _OPERATORS[name].fake(*arguments), lib=library)
    library.impl(op, lambda *arguments: _OPERATORS[name].on_cpu(*arguments), "CPU")
    RULES[getattr(getattr(torch.ops, namespace), op).default] = lambda *written: _OPERATORS[name].emit(*written)
    _DEFINITIONS.append(library)


def _operators_of(library: ctypes.CDLL) -> Iterator[_Operator]:
    for function, result in (
        ("opentrn_custom_ops", ctypes.POINTER(_CEntry)),
        ("opentrn_torch_fault", ctypes.c_char_p),
        ("opentrn_torch_parameters", ctypes.c_char_p),
    ):
        getattr(library, function).restype = result
    library.opentrn_torch_shape.argtypes = [
        ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_char_p, ctypes.c_size_t,
    ]  # fmt: skip
    if fault := library.opentrn_torch_fault():
        raise InputError(fault.decode(errors="replace"), label="torch.custom_op")
    count = ctypes.c_size_t()
    entries = library.opentrn_custom_ops(ctypes.byref(count))
    for place in range(count.value):
        kinds = library.opentrn_torch_parameters(ctypes.c_size_t(place))
        entry = entries[place]
        yield _Operator(entry.name.decode(), kinds.decode(), place, library, _RUN(entry.function))


def load_library(path: str | os.PathLike[str]) -> None:
    """Loads a library that load() built: its operators are torch.ops.LIBRARY.OP. **It runs the library's code.**

    Raises InputError for a file that is no such library, or names kernels that it does not have.
    """
    place = Path(path).resolve()
    try:
        library = ctypes.CDLL(str(place))
        library.opentrn_torch_fault  # noqa: B018  (whether it is there)
    except (OSError, AttributeError) as fault:
        raise InputError(
            f"{path} is not a library of custom operators: {fault}",
            label="torch.custom_op", hint="build it with custom_op.load()",
        ) from None  # fmt: skip
    every = list(_operators_of(library))
    custom_op.load_library(place)
    for operator in every:
        _define(operator)


def _run(words: Sequence[str | os.PathLike[str]], verbose: bool) -> None:
    """Runs the compiler. Raises InputError with what it says."""
    if verbose:
        print("opentrn:", *words, file=sys.stderr)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if verbose and done.stderr:
        print(done.stderr, file=sys.stderr)
    if done.returncode != 0:
        raise InputError(f"a custom operator does not compile:\n{done.stderr.strip()}", label="torch.custom_op")


def _functions(words: Sequence[str | os.PathLike[str]], source: Path, folder: Path, verbose: bool) -> list[str]:
    """Names of the functions that a source defines for others, without those of which there are several."""
    made = folder / f"{source.stem}.functions.o"
    _run([*words, "-O0", "-c", source, "-o", made], verbose)
    listed = subprocess.run(["nm", "-C", "--defined-only", made], capture_output=True, text=True, check=True).stdout
    found = [m[1] for m in re.finditer(r"^\S+ T ([\w:]+)\(.*\)$", listed, re.MULTILINE)]
    return [name for name in dict.fromkeys(found) if found.count(name) == 1]


def _sources(what: str, given: Sequence[str | os.PathLike[str]]) -> list[Path]:
    paths = [Path(each).resolve() for each in ([given] if isinstance(given, (str, os.PathLike)) else given)]
    if not paths:
        raise InputError(f"{what} has no file", label="torch.custom_op")
    for path in paths:
        if not path.is_file():
            raise InputError(f"{what}: there is no file {path}", label="torch.custom_op")
    return paths


def load(
    name: str, compute_srcs: Sequence[str | os.PathLike[str]], shape_srcs: Sequence[str | os.PathLike[str]],
    build_directory: str | os.PathLike[str] | None = None, multicore: bool = False, verbose: bool = False,
    extra_cflags: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Builds lib{name}.so of kernels and shape functions, and loads it: torch.ops.LIBRARY.OP are its operators.

    name: of the file; NEURON_LIBRARY names the operators. build_directory: where the library stays; without it, none
    does. multicore: each of GpSimd's eight cores runs the kernels. verbose: prints the compiler's calls on stderr.
    extra_cflags: for the compiler ($CXX, else c++); STACK_SIZE changes nothing, as kernels run on the host's stack.
    Raises InputError, with what the compiler says, for sources that do not compile or do not fit together.
    """
    if not _NAME.fullmatch(name) or name == "builtin":
        raise InputError(
            f"a library of custom operators cannot be named {name!r}", label="torch.custom_op",
            hint="a C++ name that is not 'builtin', which is Neuron's own",
        )  # fmt: skip
    computes, shapes = _sources("compute_srcs", compute_srcs), _sources("shape_srcs", shape_srcs)
    compiler = shlex.split(os.environ.get("CXX", "")) or ["c++"]  # "ccache g++" is two words
    if missing := next((tool for tool in (compiler[0], "nm") if shutil.which(tool) is None), None):
        raise InputError(
            f"custom operators need {missing}", label="torch.custom_op", hint="install g++, or name a compiler by $CXX"
        )
    words: list[str | os.PathLike[str]] = [
        *compiler, "-std=c++17", "-fPIC", "-fvisibility=hidden", "-Wno-narrowing", "-Wno-init-list-lifetime",
        f"-I{_INCLUDE}", f"-I{custom_op.ABI_HEADER.parent}", f"-DOPENTRN_MULTICORE={int(multicore)}",
        *(extra_cflags or ()),
    ]  # fmt: skip
    if not any("clang" in Path(word).name for word in compiler):
        words.append("-fno-gnu-unique")  # each library has tables of its own
    with tempfile.TemporaryDirectory(prefix="opentrn-custom-op-") as temporary:
        folder = Path(temporary)
        units = {f"shape{i}": f'#include "{path}"\n' for i, path in enumerate(shapes)}
        for i, path in enumerate(computes):
            kernels = _functions(words, path, folder, verbose)
            added = (f'torch::neuron::add_kernel("{kernel}", &{kernel})' for kernel in kernels)
            lines = [f"static const bool opentrn_kernel_{n} = {call};\n" for n, call in enumerate(added)]
            units[f"kernels{i}"] = f'#include "{path}"\n#include "opentrn/operators.h"\n{"".join(lines)}'
        units["library"] = '#include "opentrn/library.h"\n'
        objects = []
        for unit, text in units.items():
            source, made = folder / f"{unit}.cc", folder / f"{unit}.o"
            source.write_text(text)
            _run([*words, "-O2", "-c", source, "-o", made], verbose)
            objects.append(made)
        out = folder if build_directory is None else Path(build_directory).resolve()
        out.mkdir(parents=True, exist_ok=True)
        # Under another name first: a library of this name may be in use.
        fresh = out / f".lib{name}.{os.getpid()}.so"
        _run([*compiler, "-shared", *objects, "-o", fresh], verbose)
        fresh.replace(out / f"lib{name}.so")
        load_library(out / f"lib{name}.so")
