"""Which machine NKI instructions run on.

Two backends implement the same instructions over the same interface:
  core    `opentrn._core`, the C++ machine (the default where the extension is built)
  oracle  `opentrn.oracle`, the eager NumPy interpreter, slow and obvious, the reference of the core

The backend of a process is chosen once, when `opentrn.nki` is imported: `OPENTRN_NKI_BACKEND` if set, else
core, else oracle when the extension is not built, which a line on stderr says. `select()` changes it explicitly.
Nothing changes it silently; a launch reports the backend it used (`nki.last_launch()`).

A backend provides: `NkiTensor`, `DynamicSlice`, `VirtualRegister`, the module `isa` with one function per
instruction, `from_array(array, name, buffer, dtype)`, `current_or_none()` giving the machine active in this
thread, and `run_cores(program, lnc, target)` which calls `program(machine)` once per core of a logical
NeuronCore. `run_ranks` does so for several ranks, in a backend that has them. `map_leaves` and `common_shape` are
functions of values and shapes alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
from abc import ABCMeta
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from opentrn.base.notices import tell_once
from opentrn.errors import InputError, MissingModule, NkiValidationError
from opentrn.types.isa_enums import MemoryRegion
from opentrn.types.shapes import DynamicSlice

BACKENDS = ("core", "oracle")
BACKEND_ENV = "OPENTRN_NKI_BACKEND"


@dataclass(frozen=True)
class Backend:
    """One implementation of the machine."""

    name: str
    isa: ModuleType
    tensor_class: type
    register_class: type
    dynamic_slice: type
    from_array: Callable[..., Any]
    current_or_none: Callable[[], Any]
    run_cores: Callable[..., list[Any]]
    # Of values in containers and of tiles' shapes: _core's functions of these names, or the reference of them.
    map_leaves: Callable[..., Any]
    common_shape: Callable[..., tuple[int, ...]]
    # As run_cores, of several ranks; None where there is one only.
    run_ranks: Callable[..., list[list[Any]]] | None = None
    # Functions of nki.collectives, and whose data a rank holds in a ring; None as run_ranks.
    collective: Callable[..., None] | None = None
    processing_rank: Callable[..., int] | None = None
    # Records a print in program order; without one, nl.device_print reads the tensor at once.
    device_print: Callable[[str, Any], None] | None = None


def core_available() -> bool:
    """True where the C++ extension is built and exports the NKI machine."""
    return importlib.util.find_spec("opentrn._core") is not None


def instruction_names() -> tuple[str, ...]:
    """The calls of nki.isa: those of the core's instruction table; where the extension is not built, the oracle's."""
    module = importlib.import_module("opentrn.kernel.machine" if core_available() else "opentrn.oracle.isa")
    return module.INSTRUCTIONS


def _load(name: str) -> Backend:
    if name == "core":
        if not core_available():
            raise MissingModule(
                "the 'core' backend needs the C++ extension opentrn._core, which is not built here",
                name="opentrn._core",
                label="nki.backend", hint=f"build it, or ask for the NumPy reference with {BACKEND_ENV}=oracle",
            )
        core = importlib.import_module("opentrn.kernel.machine")
        native = importlib.import_module("opentrn._core")
        return Backend(
            name="core",
            isa=core.isa,
            tensor_class=core.NkiTensor,
            register_class=core.VirtualRegister,
            dynamic_slice=core.DynamicSlice,
            from_array=core.from_array,
            current_or_none=core.current_or_none,
            run_cores=core.run_cores,
            map_leaves=native.map_leaves,
            common_shape=native.common_shape,
            run_ranks=core.run_ranks,
            collective=native.collective,
            processing_rank=native.processing_rank,
            device_print=native.device_print,
        )
    if name == "oracle":
        isa = importlib.import_module("opentrn.oracle.isa")
        machine = importlib.import_module("opentrn.oracle.machine")
        tensor = importlib.import_module("opentrn.oracle.tensor")
        containers = importlib.import_module("opentrn.oracle.containers")
        return Backend(
            name="oracle",
            isa=isa,
            tensor_class=tensor.NkiTensor,
            register_class=isa.VirtualRegister,
            dynamic_slice=DynamicSlice,
            from_array=machine.from_array,
            current_or_none=machine.current_or_none,
            run_cores=machine.run_cores,
            map_leaves=containers.map_leaves,
            common_shape=containers.common_shape,
        )
    raise InputError(f"unknown NKI backend {name!r}", label="nki.backend", hint=f"one of {', '.join(BACKENDS)}")


class TensorMeta(ABCMeta):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is NkiTensor:
            return _backend.tensor_class(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class NkiTensor(metaclass=TensorMeta):
    """Type of every NKI tensor of any backend. `NkiTensor(...)` makes one of the current backend."""


class _RegisterMeta(ABCMeta):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is VirtualRegister:
            return _backend.register_class(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class VirtualRegister(metaclass=_RegisterMeta):
    """Type of every scalar register, whichever backend made it."""

    if TYPE_CHECKING:  # what every backend's class has

        def __init__(self, state: int | None = None, frozen: bool = False) -> None: ...
        def __int__(self) -> int: ...


_tensor_types: set[type] = set()
_loaded: dict[str, Backend] = {}


def load(name: str) -> Backend:
    """The backend called `name`, imported and registered."""
    backend = _loaded.get(name)
    if backend is None:
        backend = _loaded[name] = _load(name)
        NkiTensor.register(backend.tensor_class)
        VirtualRegister.register(backend.register_class)
        _tensor_types.add(backend.tensor_class)
    return backend


def _initial_backend() -> str:
    if named := os.environ.get(BACKEND_ENV):
        return named
    if core_available():
        return "core"
    tell_once(
        f"the C++ extension opentrn._core is not built for Python {platform.python_version()}: NKI kernels run on the "
        f"NumPy interpreter, which is slow and predicts no times ({BACKEND_ENV}=oracle asks for it without this line)"
    )
    return "oracle"


_backend = load(_initial_backend())
_listeners: list[Callable[[Backend], None]] = []


def backend() -> Backend:
    """The backend of this process."""
    return _backend


def on_select(listener: Callable[[Backend], None]) -> None:
    """Call `listener(backend)` now and whenever the backend changes."""
    _listeners.append(listener)
    listener(_backend)


def select(name: str) -> str:
    """Make `name` the backend of this process; returns the name of the previous one.

    Functions of `nki.isa` are rebound. A name that a kernel took with `from nki.isa import f` before the
    change still belongs to the old backend, so select the backend before importing such kernels. Refused
    inside a kernel.
    """
    global _backend
    if machine_or_none() is not None:
        raise NkiValidationError(
            "the NKI backend cannot be changed while a kernel runs in this thread", label="nki.scope"
        )
    previous = _backend.name
    _backend = load(name)
    for listener in _listeners:
        listener(_backend)
    return previous


def is_tensor(value: Any) -> bool:
    """True for a tensor of any backend. Faster than isinstance on the hot path."""
    return type(value) in _tensor_types or isinstance(value, NkiTensor)


def machine_or_none() -> Any:
    """The machine that runs a kernel in this thread, or None."""
    return _backend.current_or_none()


def machine() -> Any:
    """The machine that runs a kernel in this thread. Raises NkiValidationError outside a kernel."""
    current = _backend.current_or_none()
    if current is None:
        raise NkiValidationError(
            "this NKI call works inside a kernel only",
            label="nki.scope", hint="launch the function with nki.simulate(kernel)(...) or decorate it with @nki.jit",
        )
    return current


def ndarray(shape, dtype, buffer=MemoryRegion.sbuf, name="", address=None):
    """Create an uninitialised tensor.

    `shape` in elements, dimension 0 being the partition on SBUF and PSUM; `dtype` any of nki.language's;
    `buffer` one of nl.sbuf, nl.psum, nl.hbm, nl.private_hbm, nl.shared_hbm; `address` an explicit
    (partition, byte offset).
    """
    return machine().ndarray(shape, dtype, buffer, name or "", address)
