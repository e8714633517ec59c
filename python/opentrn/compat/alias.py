"""Importing OpenTrn's modules under the names real kernels use.

Kernels import `nki`, `neuronxcc.nki`, `neuron_dtypes` and so on. `install()` puts one finder in front of
`sys.meta_path` which answers those names with the *same* module objects as `opentrn.nki...`, so that a class
imported through either name is one class. A top-level name that some other distribution already provides is
left alone unless the caller forces it; `install()` returns who provides what.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from types import ModuleType

from opentrn.errors import InputError

# Import name -> modules of this package, the first that exists. The longest matching prefix decides, so a
# whole
# sub-tree follows its root.
ALIASES: dict[str, tuple[str, ...]] = {
    "nki": ("opentrn.nki",),
    "nki_cpu_simulator": ("opentrn.compat.standins.nki_cpu_simulator",),
    "nki_cpu_simulator.nki": ("opentrn.nki",),
    "neuron_dtypes": ("opentrn.compat.standins.neuron_dtypes",),
    "neuronxcc": ("opentrn.compat.standins.neuronxcc",),
    "torch_neuronx": ("opentrn.compat.standins.torch_neuronx",),
    # The 0.1 dialect, or what kernels of later dialects import of it.
    "neuronxcc.nki": ("opentrn.nki_legacy", "opentrn.compat.standins.neuronxcc.nki"),
}

_SHIM_MARK = "__opentrn_shim__"


def _targets(name: str) -> tuple[str, ...]:
    """The OpenTrn modules that `name` may stand for, best first; none if the name is not ours."""
    prefix = name
    while prefix:
        if prefix in ALIASES:
            return tuple(root + name[len(prefix) :] for root in ALIASES[prefix])
        prefix = prefix.rpartition(".")[0]
    return ()


def _find(module_name: str) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module of this package, or None. A folder without `__init__.py` does not count."""
    try:
        spec = importlib.util.find_spec(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            return None  # a parent is missing, or is a plain module
        raise
    return None if spec is None or spec.origin is None else spec


class _AliasLoader(importlib.abc.Loader):
    """Returns an already importable module under a second name, leaving the module itself unchanged."""

    def __init__(self, target: str):
        self._target = target
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._target)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just overwritten it with the alias's spec


class _AliasFinder(importlib.abc.MetaPathFinder):
    """Answers the adopted top-level names and everything below them."""

    def __init__(self) -> None:
        self.adopted: set[str] = set()

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] not in self.adopted:
            return None
        for module_name in _targets(fullname):
            real = _find(module_name)
            if real is not None:
                is_package = real.submodule_search_locations is not None
                loader = _AliasLoader(module_name)
                return importlib.machinery.ModuleSpec(fullname, loader, is_package=is_package)
        return None


_finder = _AliasFinder()
_lock = threading.Lock()


def _provider(name: str) -> str | None:
    """Where another distribution provides top-level `name`, or None. OpenTrn's own shims do not count."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        if getattr(loaded, "__name__", name).startswith("opentrn.") or hasattr(loaded, _SHIM_MARK):
            return None
        return getattr(loaded, "__file__", None) or "already imported"
    spec = importlib.machinery.PathFinder.find_spec(name)
    if spec is None:
        return None
    origin = spec.origin or str(list(spec.submodule_search_locations or []))
    if spec.origin:
        try:
            with open(spec.origin, encoding="utf-8") as file:
                if _SHIM_MARK in file.read(4096):
                    return None
        except OSError:
            pass
    return origin


def _without_ground() -> set[str]:
    """Names whose stand-in cannot work here: that of torch_neuronx where PyTorch's device was not built."""
    return set() if importlib.util.find_spec("opentrn._torch") is not None else {"torch_neuronx"}


def install(names: tuple[str, ...] | None = None, force: bool = False) -> dict[str, str]:
    """Make `names` (default: all top-level aliases) importable; returns name -> "opentrn" or another's path.

    With `force`, names that another distribution provides are taken over as well (in this process only).
    """
    if names is None:
        names = tuple(sorted({name.partition(".")[0] for name in ALIASES} - _without_ground()))
    report: dict[str, str] = {}
    with _lock:
        for name in names:
            if not _targets(name):
                raise InputError(
                    f"opentrn has no stand-in for {name!r}",
                    label="compat.name", hint=f"one of {', '.join(sorted(ALIASES))}",
                )
            other = None if force else _provider(name)
            if other is None:
                _adopt(name, force)
                report[name] = "opentrn"
            else:
                report[name] = other
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
    return report


def _adopt(name: str, force: bool) -> None:
    if name in _finder.adopted:
        return
    _finder.adopted.add(name)
    if force:
        for loaded in [m for m in sys.modules if m == name or m.startswith(name + ".")]:
            if not getattr(sys.modules[loaded], "__name__", "").startswith("opentrn."):
                del sys.modules[loaded]


def adopt_shim(name: str) -> None:
    """Called by a shim package from its own `__init__`: replace it in `sys.modules` by the OpenTrn module."""
    with _lock:
        _finder.adopted.add(name)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)
    sys.modules[name] = importlib.import_module(_targets(name)[0])
