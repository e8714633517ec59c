"""JAX's callbacks (`pure_callback`, `io_callback`, `debug.print`, ...) on the platform `neuron`.

JAX lowers them for its own platforms only. Here a callback becomes the custom call `@opentrn.callback`, whose
configuration names a Python function of this process and the types of its results; the plugin runs it on the host,
between the parts of the program that run on the device, and calls back through one C function (src/pjrt/callback.h).
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import secrets
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opentrn.errors import InputError, Refusal, StateError
from opentrn.graph import DTYPES, NAMES

TARGET = "opentrn.callback"
# Keys of another process must not be found: compiled programs can come from a cache on disk.
_PROCESS = secrets.token_hex(8)
_numbers = itertools.count()
# For good: a call may run after the program that makes it has been dropped.
_functions: dict[str, Callback] = {}
_library: list[Path] = []  # the plugin
_kept: list[Any] = []  # what C++ holds a pointer to


class CallbackError(Refusal, RuntimeError):
    """A program's Python function gives other results than the program states."""

    kind = "program"


class Callback:
    """A Python function of numpy arrays and its key. It lives as long as the process."""

    def __init__(self, function: Callable[..., Sequence[np.ndarray]]) -> None:
        self.function = function
        self.key = f"{_PROCESS}-{next(_numbers)}"
        _functions[self.key] = self


class _Array(ctypes.Structure):
    """HostArray of src/pjrt/callback.h."""

    _fields_ = [
        ("element", ctypes.c_char_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("bytes", ctypes.c_int64),
        ("data", ctypes.c_void_p),
    ]


_Call = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_int64,
    ctypes.POINTER(_Array),
    ctypes.c_int64,
    ctypes.POINTER(_Array),
    ctypes.POINTER(ctypes.c_char),
    ctypes.c_int64,
)


# NumPy's type of each name that src/graph/element_type.h gives, and its name of each.
ELEMENT_TYPES = DTYPES
_NAMES = NAMES


def _view(array: _Array) -> np.ndarray:
    """The array's memory as numpy's; valid during the call."""
    dtype = ELEMENT_TYPES[array.element.decode()]
    shape = tuple(array.dims[i] for i in range(array.rank))
    memory = (ctypes.c_char * array.bytes).from_address(array.data) if array.bytes else bytearray()
    return np.frombuffer(memory, dtype).reshape(shape)


@_Call
def _call(key, operand_count, operands, result_count, results, error, error_size) -> int:
    try:
        callback = _functions.get(key.decode())
        if callback is None:
            raise StateError(
                "the program was compiled by another process, whose Python function it calls",
                label="pjrt.callback", hint="run it where it was compiled",
            )
        given = [_view(operands[i]).copy() for i in range(operand_count)]
        values = callback.function(*given)
        for i in range(result_count):
            np.copyto(_view(results[i]), values[i], casting="no")
    except BaseException as raised:  # C++ cannot have it: it goes back as text, and JAX raises that
        text = "".join(traceback.format_exception(raised)).encode()[-(error_size - 1) :]
        ctypes.memmove(error, text + b"\0", len(text) + 1)
        return 1
    return 0


def _is_for_all(sharding: Any) -> bool:
    """Whether one call, on whole arrays, stands for all devices: JAX names the device ("maximal" sharding)."""
    from jax._src.lib import xla_client
    from jax._src.sharding_impls import SdyArrayList

    if isinstance(sharding, SdyArrayList):
        return any(each.logical_device_ids for each in sharding.shardings)
    return sharding is not None and sharding.type == xla_client.OpSharding.Type.MAXIMAL


def _configuration(avals: Sequence[Any], token: bool, for_all: bool) -> str:
    """What follows the key; read by src/pjrt/callback.cc, and `once` by shardy.py."""
    words = ["once"] * for_all + ["token"] * token
    words += [f"{_NAMES[np.dtype(aval.dtype)]}:{','.join(map(str, aval.shape))}" for aval in avals]
    return "".join(f";{word}" for word in words)


def _with_token(sharding: Any) -> Any:
    """`sharding` of a call's results, as Shardy has it, with one of the token before them."""
    from jax._src.sharding_impls import SdyArray, SdyArrayList

    if not isinstance(sharding, SdyArrayList):
        return sharding
    ids = sharding.shardings[0].logical_device_ids
    token = SdyArray(mesh_shape=(), dim_shardings=(), logical_device_ids=ids)
    return SdyArrayList((token, *sharding.shardings))


def _emit(ctx, callback, token, operands, operand_avals, result_avals, *, has_side_effect, **options):
    """As jax._src.callback.emit_python_callback, for this platform."""
    from jax._src import dtypes
    from jax._src.interpreters import mlir

    del operand_avals
    partitioned, sharding = options.get("partitioned", False), options.get("sharding")
    if partitioned and result_avals:
        raise InputError("Partitioned callback not supported with return values.", label="pjrt.callback")

    def checked(*arguments: np.ndarray) -> list[np.ndarray]:
        values = callback(*arguments)
        if len(values) != len(result_avals):
            raise CallbackError(
                f"Mismatched number of outputs from callback. Expected: {len(result_avals)}, Actual: "
                f"{len(values)}",
                label="pjrt.callback",
            )
        values = [np.asarray(dtypes.canonicalize_value(np.asarray(value))) for value in values]
        for i, (value, aval) in enumerate(zip(values, result_avals, strict=True)):
            if value.shape != aval.shape:
                raise CallbackError(
                    f"Incorrect output shape for return value #{i}: Expected: {aval.shape}, Actual: "
                    f"{value.shape}",
                    label="pjrt.callback",
                )
            if value.dtype != aval.dtype:
                raise CallbackError(
                    f"Incorrect output dtype for return value #{i}: Expected: {aval.dtype}, Actual: "
                    f"{value.dtype}",
                    label="pjrt.callback",
                )
        return values

    made = Callback(checked)
    types = [mlir.aval_to_ir_type(ctx.module_context, aval) for aval in result_avals]
    inputs = list(operands)
    for_all = _is_for_all(sharding)
    if token:
        inputs, types = [token, *inputs], [token.type, *types]
        # Of a call without results, the one sharding is the token's.
        sharding = _with_token(sharding) if result_avals else sharding
    call = mlir.custom_call(
        TARGET,
        result_types=types,
        operands=inputs,
        backend_config=made.key + _configuration(result_avals, bool(token), for_all),
        has_side_effect=has_side_effect,
    )
    if sharding is not None:
        mlir.set_sharding(ctx.module_context, call, sharding)
    results = list(call.results)
    return results[bool(token) :], results[0] if token else None, made


def _check(text: np.ndarray, *arguments: np.ndarray) -> tuple[()]:
    """A module on the device against float64. ValueError with what rounding does not explain."""
    from opentrn.model.checking import check
    from opentrn.settings import environment

    check(text.tobytes(), arguments, environment.read().chip)
    return ()


def _connect() -> None:
    """Gives the plugin the function to call."""
    if _kept:
        return
    plugin = ctypes.CDLL(str(_library[0]))
    plugin.opentrn_set_host_call.argtypes = [_Call]
    plugin.opentrn_set_host_call.restype = None
    plugin.opentrn_set_host_call(_call)
    _kept.append(_call)
    atexit.register(_disconnect, plugin)


def _disconnect(plugin: ctypes.CDLL) -> None:
    """Before Python ends: waits for what has side effects, as JAX does, and then for the call that is being made."""
    from jax._src import dispatch

    try:
        dispatch.wait_for_tokens()
    finally:
        plugin.opentrn_set_host_call(_Call())


def register(library: Path) -> None:
    """Makes JAX lower callbacks for `neuron`; `library` is the plugin, which gets the function to call."""
    from jax._src import callback as jax_callback
    from jax._src import checkify, debugging
    from jax._src.interpreters import mlir

    _library[:] = [library]
    if os.environ.get("OPENTRN_CHECK", "0") not in ("", "0"):
        check = Callback(_check)
        _functions["check"] = check
        _connect()
    if getattr(jax_callback.emit_python_callback, "_opentrn", False):
        return
    theirs = jax_callback.emit_python_callback

    def emit_python_callback(ctx, *arguments, **options):
        if tuple(ctx.module_context.platforms) == ("neuron",):
            _connect()
            return _emit(ctx, *arguments, **options)
        return theirs(ctx, *arguments, **options)

    emit_python_callback._opentrn = True  # type: ignore[attr-defined]  # a mark on the function
    jax_callback.emit_python_callback = emit_python_callback
    # JAX states these by platform; the other callbacks have a lowering for all of them.
    for primitive, rule in (
        (debugging.debug_callback_p, debugging.debug_callback_lowering),
        (debugging.debug_print_p, debugging.debug_print_lowering_rule),
        (checkify.check_p, checkify.check_lowering_rule),
    ):
        mlir.register_lowering(primitive, rule, platform="neuron", cacheable=False)
