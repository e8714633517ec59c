"""Kernels and their inputs as a command line names them.

A kernel is `path/to/file.py:function` or `package.module:function`; the function may be left out where the
file has one kernel. Inputs come from the kernel's file or from the command line:

    INPUTS = {"softmax": {"x": "256x512:float32", "scale": 0.5}}       # by kernel name

    def example_inputs(kernel_name): return {"x": numpy_array, ...}    # or a function

A text such as "128x512:bfloat16:randn(1)" is an array: shape, dtype (float32 if left out) and values, one
of zeros, ones, arange, rand(seed) in [0, 1), randn(seed) (the default, seed 0). "file.npy" is an array of a
file; "file.npy:bfloat16" reads its bytes as that dtype. Of integers, rand and randn are whole numbers from 0
to 99, of bool 0 and 1.

One dimension is written with an x or a dtype behind it; a number alone is a number, and (2,) a tuple of it:

    -i gamma=1024x                          1024 numbers in float32
    -i gamma=1024:bfloat16:ones             1024 ones in bfloat16
    -i "scale=0.5" -i "causal=True"         a number and a truth value

With --ranks N, {rank} is the number of the rank:

    -i "x=128x512:bfloat16:randn({rank})"   other values on each rank
    -i "x=part{rank}.npy"                   a file for each rank
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from opentrn.errors import ArgumentError, InputError
from opentrn.types import dtypes
from opentrn.types.shapes import ShapeOf


class UsageError(InputError):
    """What the user asked for cannot be understood or found; the message says what to write instead."""

    def _text(self) -> str:
        """What is wrong with a command is said without a kind and a label, which its fields have."""
        return self.lines()


_ARRAY = re.compile(
    r"\(?(?P<shape>\d+(?:x|(?:\s*[x,]\s*\d+)*)),?\)?(?::(?P<dtype>\w+))?(?::(?P<fill>\w+)(?:\((?P<seed>\d*)\))?)?"
)
# What is no array and no literal, but can be meant as nothing else: 128X8, -1x8, 4x4x, 4X, randn(x),
# 4x4:float32:randn(x).
_ARRAY_GONE_WRONG = re.compile(
    r"[(\[]?\s*-?\d+\s*([xX*,]\s*-?\d+\s*)+[,x]?[)\]]?(:.*)?|-?\d+X(:.*)?|-?\d+:.*|(zeros|ones|arange|randn?)\(.*\)"
)
_WHAT_RUNS = (
    "a kernel is FILE.py:NAME; files of models end in .onnx, .mlir, .mlirbc, .pb, .pt2 or .neuron; language models "
    "(.gguf, folders with config.json) are for `opentrn generate`"
)
_FILLS = ("zeros", "ones", "arange", "rand", "randn")


def load_kernel(name: str) -> tuple[Any, ModuleType]:
    """The kernel that `name` means, and the module it is in."""
    target, _, function = name.rpartition(":")
    if not target:
        target, function = function, ""
    module = _load_module(target)
    if function:
        found: Any = module
        for part in function.split("."):
            found = getattr(found, part, None)
            if found is None:
                raise UsageError(
                    f"{target} has no {function!r}", label="cli.kernel", hint=f"its kernels: {_listed(module)}"
                )
        if not callable(found):
            raise UsageError(
                f"{function} of {target} is a {type(found).__name__}, not a kernel",
                label="cli.kernel", hint=f"its kernels: {_listed(module)}",
            )
        return found, module
    kernels = _kernels(module)
    if len(kernels) != 1:
        raise UsageError(
            f"{target} has {len(kernels)} kernels",
            label="cli.kernel", hint=f"say which, as {target}:NAME: {_listed(module)}",
        )
    return next(iter(kernels.values())), module


def _load_module(target: str) -> ModuleType:
    path = Path(target)
    if path.suffix != ".py":
        return _import_module(target)
    if not path.is_file():
        raise UsageError(f"there is no file {target}", label="cli.kernel")
    path = path.resolve()
    # A file inside a package is imported as its module, so that relative imports work.
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    taken = len(parts) == 1 and _is_taken(path)
    if str(root) not in sys.path:
        # What others import by the file's name stays theirs: its folder is then the last to be searched.
        sys.path.insert(len(sys.path) if taken else 0, str(root))
    if len(parts) > 1:
        return importlib.import_module(".".join(parts))
    name = path.stem.replace(".", "_")
    spec = importlib.util.spec_from_file_location(f"{name}__kernel_file" if taken else name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickling look a class's module up there
    spec.loader.exec_module(module)
    return module


def _import_module(target: str) -> ModuleType:
    if os.path.isdir(target):
        raise UsageError(f"{target} is a folder", label="cli.kernel", hint=_WHAT_RUNS)
    wrong = UsageError(
        f"'{target}' is neither a .py file nor an importable module", label="cli.kernel", hint=_WHAT_RUNS
    )
    if not all(part.isidentifier() for part in target.split(".")):
        raise wrong
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())  # as `python -m` does, whichever way this program was started
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name and (target == error.name or target.startswith(error.name + ".")):
            raise wrong from None
        raise


def _is_taken(path: Path) -> bool:
    """Whether `import` of the file's name gives another file's module, such as json of Python's own."""
    name = path.stem
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) != str(path)
    if not name.isidentifier():
        return False
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin != str(path)


def _kernels(module: ModuleType) -> dict[str, Any]:
    """Kernels that the module itself defines."""
    return {
        name: value
        for name, value in vars(module).items()
        if type(value).__name__ == "Kernel"
        and type(value).__module__.startswith("opentrn.")
        and getattr(value, "__module__", None) == module.__name__
    }


def _listed(module: ModuleType) -> str:
    return ", ".join(sorted(_kernels(module))) or "none (decorate a function with nki.jit)"


def inputs_of(
    kernel: Any, module: ModuleType, given: list[str], execute: bool, ranks: int | None = None
) -> dict[str, Any]:
    """Arguments by name: those of the kernel's file, then those given as "name=value".

    With `ranks` a list has one value for each rank, and so has a text with {rank} in it.
    """
    name = getattr(kernel, "__name__", "")
    values: dict[str, Any] = {}
    if hasattr(module, "INPUTS"):
        of_kernels = _mapping(module.INPUTS, "INPUTS")
        values.update(_mapping(of_kernels.get(name, {}), f"INPUTS[{name!r}]"))
    if hasattr(module, "example_inputs"):
        values.update(_mapping(module.example_inputs(name) or {}, f"example_inputs({name!r})"))
    for key, value in given_inputs(given, str.isidentifier, "NAME=SHAPE:DTYPE, NAME=FILE.npy or NAME=VALUE"):
        values[key] = value
    if ranks is not None:
        return {key: _by_rank(value, f"input {key}", execute, ranks) for key, value in values.items()}
    return {key: read_value(value, f"input {key}", execute) for key, value in values.items()}


def _by_rank(value: Any, what: str, execute: bool, ranks: int) -> Any:
    """`value`, read; "4x4:float32:randn({rank})" and "part{rank}.npy" are a list by rank."""
    if isinstance(value, str) and "{rank}" in value:
        value = [value.replace("{rank}", str(rank)) for rank in range(ranks)]
    if type(value) is list:
        return [read_value(item, f"{what} of rank {rank}", execute) for rank, item in enumerate(value)]
    return read_value(value, what, execute)


def given_inputs(given: Sequence[str], is_name: Callable[[str], bool], form: str) -> Iterator[tuple[str, str]]:
    """Names and values of --input, each name once. UsageError for what has not the `form`."""
    names = set()
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not is_name(name):
            wrong = f"no input is named '{name}'" if equals and name else "no name with a value"
            raise UsageError(f"--input {text}: {wrong}", label="cli.input", hint=f"write {form}")
        if not value:
            raise UsageError(
                f"--input {text}: no value",
                label="cli.input", hint=f"write {form}, and {name}=\"''\" for an empty text",
            )
        if name in names:
            raise UsageError(f"--input {text}: {name} is given twice", label="cli.input")
        names.add(name)
        yield name, value


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    """`value` of the kernel's file, which is a dict by name."""
    if not isinstance(value, Mapping):
        raise UsageError(
            f"{what} of the kernel's file is a {type(value).__name__}, not a dict by name",
            label="cli.kernel",
            hint='INPUTS = {"softmax": {"x": "256x512:float32"}}',
        )
    return value


def read_value(value: Any, what: str, execute: bool = True) -> Any:
    """A text as the array, number or literal it means; other values unchanged."""
    if not isinstance(value, str):
        return value
    file, _, file_dtype = value.partition(".npy")
    if value.endswith(".npy") or file_dtype.startswith(":"):
        return _read_npy(Path(file + ".npy"), file_dtype[1:], what)
    match = _ARRAY.fullmatch(value.strip())
    if match and ("x" in match["shape"] or match["dtype"]):
        return _make_array(match, what, execute)
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        if _ARRAY_GONE_WRONG.fullmatch(value.strip()):
            raise UsageError(
                f"{what}: {value!r} is not an array",
                label="cli.input",
                hint="SHAPE:DTYPE:VALUES, as in 128x512:bfloat16:randn(1) or 1024x for one dimension, with "
                "sizes of 0 or more and a seed of 0 or more",
            ) from None
        return value


def _read_npy(path: Path, dtype: str, what: str) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(
            f"{what}: cannot read {path}: {error.strerror or error}", label="cli.input",
            hint="the path of a file that numpy.save wrote",
        ) from None  # fmt: skip
    except (ValueError, EOFError) as error:
        # Of other files NumPy says that they hold pickled objects, and how to load those from who is trusted.
        with path.open("rb") as file:
            is_npy = file.read(6) == b"\x93NUMPY"
        raise UsageError(
            f"{what}: {path} {f'cannot be read: {error}' if is_npy else 'is no file of numpy.save'}",
            label="cli.input", hint="a file that numpy.save wrote, without objects of Python",
        ) from None  # fmt: skip
    if not dtype:
        return array
    wanted = _numpy_dtype(dtype, what)
    if wanted.itemsize != array.itemsize:
        raise UsageError(
            f"{what}: {path} holds {array.dtype}, which cannot be read as {dtype}", label="cli.input"
        )
    return array.view(wanted)


def _numpy_dtype(name: str, what: str) -> np.dtype:
    try:
        return dtypes.to_numpy_dtype(name)
    except ArgumentError as error:
        raise UsageError(f"{what}: {error.message}", label="cli.input", hint=error.hint) from None


def _make_array(match: re.Match, what: str, execute: bool) -> Any:
    shape = tuple(int(size) for size in re.split(r"\s*[x,]\s*", match["shape"].removesuffix("x")))
    name, fill = match["dtype"] or "float32", match["fill"] or "randn"
    if fill not in _FILLS:
        raise UsageError(f"{what}: {fill!r} makes no values", label="cli.input", hint=f"one of {', '.join(_FILLS)}")
    dtype = _numpy_dtype(name, what)
    if not execute:
        return ShapeOf(shape, name)
    random = np.random.default_rng(int(match["seed"] or 0))
    makers = {
        "zeros": lambda: np.zeros(shape),
        "ones": lambda: np.ones(shape),
        "arange": lambda: np.arange(np.prod(shape)).reshape(shape),
        "rand": lambda: random.random(shape, np.float32),
        "randn": lambda: random.standard_normal(shape, np.float32),
    }
    if dtypes.is_integer(name) and fill in ("rand", "randn"):
        end = 2 if dtypes.dtype_of(name) == dtypes.bool_ else 100
        return random.integers(0, end, shape).astype(dtype)
    return makers[fill]().astype(dtype)
