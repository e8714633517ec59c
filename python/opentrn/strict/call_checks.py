"""Strict mode: what only shows while the kernel runs: the values and kinds of arguments.

While a strict launch runs, the functions of nki.isa, nki.language and nki.collectives are replaced by ones that
check their arguments first, in those modules and in the globals of the kernel's functions. Calls that OpenTrn's
own code makes are not checked.
"""

from __future__ import annotations

import enum
import functools
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentrn.base.while_conditions import in_while_condition
from opentrn.errors import SourceLocation
from opentrn.strict import StrictRefusal, rules_of, surface
from opentrn.strict.rules import COLLECTIVES, ISA, LANGUAGE, TENSOR, Rule
from opentrn.types.dtypes import is_integer, to_numpy_dtype
from opentrn.types.isa_enums import MemoryRegion, dge_mode
from opentrn.types.isa_ops import is_unary, op_name

Arguments = dict[str, Any]
# A check gives what is wrong, or None.
Check = Callable[[Arguments], "str | None"]

_ENUMS = ("dge_mode", "oob_mode", "engine", "reduce_cmd", "dma_engine", "perf_mode")
_BINARY = (
    "add", "subtract", "multiply", "maximum", "minimum", "abs_max", "abs_min", "equal", "not_equal", "greater",
    "greater_equal", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and",
    "bitwise_or", "bitwise_xor",
)  # fmt: skip
# Operators that OpenTrn has for compiled models, and no release's table.
_UNLISTED = frozenset(("divide", "mod", "fmod", "negative", "sqrt", "average", "arithmetic_right_shift"))
_WITH_OPERATORS = tuple(
    (ISA, name)
    for name in (
        "tensor_tensor", "tensor_scalar", "scalar_tensor_tensor", "tensor_reduce", "tensor_scalar_reduce",
        "tensor_scalar_cumulative", "tensor_tensor_scan",
    )
)  # fmt: skip


def _is_tensor(value: Any) -> bool:
    return surface.machine().is_tensor(value)


def _in_psum(value: Any) -> bool:
    return _is_tensor(value) and MemoryRegion(value.buffer) is MemoryRegion.psum


def _enum_integer(given: Arguments) -> str | None:
    for name in _ENUMS:
        value = given.get(name)
        if isinstance(value, int) and not isinstance(value, enum.Enum):
            return f"{name}={value!r}"
    return None


def _buffer_string(given: Arguments) -> str | None:
    value = given.get("buffer")
    plain = isinstance(value, str) and not isinstance(value, enum.Enum)
    return f"buffer={value!r}" if plain else None


def _register_immediate(given: Arguments) -> str | None:
    return f"src={given['src']!r}" if isinstance(given.get("src"), (int, float)) else None


def _transpose_rank(given: Arguments) -> str | None:
    src, dst, axes = given["src"], given["dst"], given.get("axes")
    default = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(len(src.shape))
    axes = default if axes is None else tuple(axes)
    if src.is_indirect() or axes is None:
        return None
    wanted = tuple(src.shape[axis] for axis in axes)
    return None if tuple(dst.shape) == wanted else f"dst is {tuple(dst.shape)}, the transposed src {wanted}"


def _hwdge_rows(given: Arguments) -> str | None:
    rows = given["src"].shape[0]
    return f"src.shape[0] is {rows}" if given.get("dge_mode") == dge_mode.hwdge and rows != 16 else None


def _unary_op(given: Arguments) -> str | None:
    name = op_name(given["op0"])
    return f"op0 is {name}" if name in ("square", "relu") else None


def _unlisted_operator(given: Arguments) -> str | None:
    for argument in ("op", "op0", "op1", "reduce_op"):
        if given.get(argument) is not None and (name := op_name(given[argument])) in _UNLISTED:
            return f"{argument} is {name}"
    return None


def _reduce_reverse(given: Arguments) -> str | None:
    return "reverse0 is True" if given.get("reverse0") else None


def _unary_operand(given: Arguments) -> str | None:
    operand = given.get("operand0")
    if not is_unary(op_name(given["op0"])) or operand is None or (not _is_tensor(operand) and operand == 0):
        return None
    return f"op0 is {op_name(given['op0'])}, operand0 {'a tensor' if _is_tensor(operand) else operand}"


def _memset_real(given: Arguments) -> str | None:
    value, dst = given["value"], given["dst"]
    return (
        f"dst is {dst.dtype}, value is {value!r}"
        if isinstance(value, float) and is_integer(dst.dtype)
        else None
    )


def _matmul_e4m3fn(given: Arguments) -> str | None:
    for name in ("stationary", "moving"):
        if str(given[name].dtype) == "float8_e4m3fn":
            return f"{name} is float8_e4m3fn"
    return None


def _missing_reduce_res(given: Arguments) -> str | None:
    return "reduce_res is None" if given.get("reduce_res") is None else None


def _rsqrt_psum(given: Arguments) -> str | None:
    return "x is in PSUM" if _in_psum(given["x"]) else None


def _power_scalar(given: Arguments) -> str | None:
    return None if _is_tensor(given["y"]) else f"y is {given['y']!r}"


def _matmul_transpose(given: Arguments) -> str | None:
    return None if given.get("transpose_x") else "transpose_x is False"


def _seed_scalar(given: Arguments) -> str | None:
    return None if _is_tensor(given["seed"]) else f"seed is {given['seed']!r}"


def _store_psum(given: Arguments) -> str | None:
    return "value is in PSUM" if _in_psum(given.get("value")) else None


def _broadcast(given: Arguments) -> str | None:
    x, y = given.get("x"), given.get("y")
    if x is None or y is None:
        return None
    if _is_tensor(x) and _is_tensor(y) and tuple(x.shape) != tuple(y.shape):
        return f"{tuple(x.shape)} and {tuple(y.shape)}"
    return None


def _collective_name(given: Arguments) -> str | None:
    return f"name={given['name']!r}" if given.get("name") is not None else None


def _loop_variable(given: Arguments) -> str | None:
    register = given.get("scalar_offset")
    return "scalar_offset is the loop's variable" if getattr(register, "frozen", False) else None


def _ap_row(given: Arguments) -> str | None:
    """The form of .ap that OpenTrn takes beyond the documents: the first step is the view's own row."""
    tensor, pattern = given["self"], given["pattern"]
    if MemoryRegion(tensor.buffer) not in (MemoryRegion.sbuf, MemoryRegion.psum):
        return None
    wanted = given.get("rest", {}).get("dtype") or tensor.dtype
    size, new_size = (to_numpy_dtype(dtype).itemsize for dtype in (tensor.dtype, wanted))
    row = tensor.get_pattern()[0][0] * size // new_size
    own_row = math.prod(tensor.shape[1:]) * size // new_size
    step, count = pattern[0]
    return f"it is {step}, a partition has {row}" if count > 1 and step == own_row < row else None


# -- neuronxcc.nki


def _hbm_value(given: Arguments) -> str | None:
    region = given.get("buffer")
    return f"buffer is {region}" if "hbm" in str(region) else None


def _transpose_dimensions(given: Arguments) -> str | None:
    rank = len(given["x"].shape)
    return f"x has {rank}" if rank > 2 else None


def _partitions(given: Arguments) -> str | None:
    counts = [given[name].shape[0] for name in ("data1", "data2") if getattr(given.get(name), "shape", ())]
    return f"data1 has {counts[0]}, data2 has {counts[1]}" if len(set(counts)) > 1 else None


# kind of rule -> the check, and the functions it belongs to
_CHECKS: dict[str, tuple[Check, tuple[tuple[str, str], ...]]] = {
    "enum_integer": (_enum_integer, ((ISA, "*"),)),
    "buffer_string": (_buffer_string, ((LANGUAGE, "*"),)),
    "register_immediate": (_register_immediate, ((ISA, "register_move"),)),
    "transpose_rank": (_transpose_rank, ((ISA, "dma_transpose"),)),
    "hwdge_rows": (_hwdge_rows, ((ISA, "dma_transpose"),)),
    "operator": (_unlisted_operator, _WITH_OPERATORS),
    "reduce_reverse": (_reduce_reverse, ((ISA, "tensor_scalar_reduce"),)),
    "unary_operand": (_unary_operand, ((ISA, "tensor_scalar"), (ISA, "tensor_scalar_reduce"))),
    "memset_real": (_memset_real, ((ISA, "memset"),)),
    "unary_op": (_unary_op, ((ISA, "tensor_scalar"), (ISA, "tensor_scalar_reduce"))),
    "matmul_e4m3fn": (_matmul_e4m3fn, ((ISA, "nc_matmul"),)),
    "missing_reduce_res": (_missing_reduce_res, ((ISA, "tensor_scalar_reduce"),)),
    "rsqrt_psum": (_rsqrt_psum, ((LANGUAGE, "rsqrt"),)),
    "power_scalar": (_power_scalar, ((LANGUAGE, "power"),)),
    "matmul_transpose": (_matmul_transpose, ((LANGUAGE, "matmul"),)),
    "seed_scalar": (_seed_scalar, ((LANGUAGE, "random_seed"),)),
    "store_psum": (_store_psum, ((LANGUAGE, "store"),)),
    "broadcast": (_broadcast, tuple((LANGUAGE, name) for name in _BINARY)),
    "collective_name": (_collective_name, ((COLLECTIVES, "*"),)),
}
_LEGACY_CHECKS: dict[str, tuple[Check, tuple[tuple[str, str], ...]]] = {
    "operator": (_unlisted_operator, _WITH_OPERATORS),
    "reduce_reverse": (_reduce_reverse, ((ISA, "tensor_scalar_reduce"),)),
    "hbm_value": (_hbm_value, tuple((LANGUAGE, name) for name in ("full", "zeros", "ones"))),
    "partitions": (_partitions, ((ISA, "tensor_tensor"),)),
    "transpose_dimensions": (_transpose_dimensions, ((LANGUAGE, "transpose"),)),
}


def _from_us(depth: int) -> bool:
    """True when the caller of the checked function is OpenTrn itself."""
    return sys._getframe(depth + 1).f_globals.get("__name__", "").startswith("opentrn.")


def _place(frame: types.FrameType) -> SourceLocation:
    return SourceLocation(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _checking(
    function: Callable[..., Any], signature: inspect.Signature, checks: list[tuple[Rule, Check]], release: str
) -> Callable[..., Any]:
    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not _from_us(1):
            try:
                given = dict(signature.bind(*args, **kwargs).arguments)
            except TypeError:
                return function(*args, **kwargs)  # it refuses its arguments itself
            for rule, check in checks:
                detail = check(given)
                if detail is not None:
                    frame = sys._getframe(1)
                    raise StrictRefusal(rule, release, detail, _place(frame))
        return function(*args, **kwargs)

    return checked


def _namespaces(legacy: bool) -> dict[str, Any]:
    known = surface.modules(legacy)
    return {name: known[name] for name in (ISA, LANGUAGE, COLLECTIVES) if name in known}


def _replacements(legacy: bool, release: str) -> dict[int, tuple[Any, Callable[..., Any]]]:
    """id of a function -> (the function, its checked form)."""
    table = _LEGACY_CHECKS if legacy else _CHECKS
    by_function: dict[int, tuple[Any, list[tuple[Rule, Check]]]] = {}
    for where, namespace in _namespaces(legacy).items():
        for name, function in vars(namespace).items():
            if name.startswith("_") or isinstance(function, type) or not callable(function):
                continue
            checks = [
                (rule, check)
                for kind, (check, places) in table.items()
                if (where, name) in places or (where, "*") in places
                for rule in rules_of(release, kind)
            ]
            if checks:
                by_function[id(function)] = (function, checks)
    result: dict[int, tuple[Any, Callable[..., Any]]] = {}
    for key, (function, checks) in by_function.items():
        result[key] = (function, _checking(function, inspect.signature(function), checks, release))
    return result


def _refused_method(rule: Rule, original: Any, release: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _from_us(1):
            frame = sys._getframe(1)
            raise StrictRefusal(rule, release, "", _place(frame))
        return original(self, *args, **kwargs)

    return method


def _as_function(method: Any) -> Callable[..., Any]:
    """A compiled method as a function that binds to an instance."""
    return lambda self, *args, **kwargs: method(self, *args, **kwargs)


def _method_replacements(release: str) -> dict[tuple[type, str], Any]:
    """(class, method) -> its strict form."""
    backend = surface.machine().backend()
    tensor, register = backend.tensor_class, backend.register_class
    result: dict[tuple[type, str], Any] = {}
    for rule in rules_of(release, "name"):
        if rule.where == TENSOR and hasattr(tensor, rule.name):
            result[tensor, rule.name] = _refused_method(rule, getattr(tensor, rule.name), release)
    ap_kinds: dict[str, Check] = {"loop_variable": _loop_variable, "ap_row": _ap_row}
    if ap_checks := [(rule, check) for kind, check in ap_kinds.items() for rule in rules_of(release, kind)]:
        signature = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
             for name in ("self", "pattern", "offset", "scalar_offset")]
            + [inspect.Parameter("rest", inspect.Parameter.VAR_KEYWORD)]
        )  # fmt: skip
        result[tensor, "ap"] = _checking(_as_function(tensor.ap), signature, ap_checks, release)
    for rule in rules_of(release, "register_condition"):
        truth = register.__bool__

        def condition(self: Any, rule: Rule = rule, truth: Any = truth) -> bool:
            frame = sys._getframe(1)
            if not _from_us(1) and not in_while_condition(frame):
                raise StrictRefusal(rule, release, "", _place(frame))
            return truth(self)

        result[register, "__bool__"] = condition
    return result


@contextmanager
def installed(functions: list[Any], legacy: bool, release: str) -> Iterator[None]:
    """Check the calls of `functions` and of everything they call by module name, inside the block."""
    replacements = _replacements(legacy, release)
    namespaces = [vars(namespace) for namespace in _namespaces(legacy).values()]
    namespaces += list({id(f.__globals__): f.__globals__ for f in functions}.values())
    undo: list[Callable[[], None]] = []
    try:
        for namespace in namespaces:
            for name, value in list(namespace.items()):
                if id(value) in replacements and replacements[id(value)][0] is value:
                    namespace[name] = replacements[id(value)][1]
                    undo.append(functools.partial(namespace.__setitem__, name, value))
        for (owner, name), method in ({} if legacy else _method_replacements(release)).items():
            undo.append(functools.partial(setattr, owner, name, getattr(owner, name)))
            setattr(owner, name, method)
        yield
    finally:
        for restore in reversed(undo):
            restore()
