"""Strict mode: what can be seen in the source of a kernel and of the functions it reaches.

What is refused in a syntax tree is src/nki/strict; here is what names in it mean. A name is followed through the
function's globals and closure, so `nisa.topk`, `from nki.isa import topk` and `import nki; nki.isa.topk` are one thing.
What only shows while the kernel runs is in `call_checks`.
"""

from __future__ import annotations

import ast
import inspect
import sys
import sysconfig
import textwrap
import types
from collections.abc import Callable
from typing import Any

from opentrn import _core
from opentrn.errors import SourceLocation
from opentrn.strict import StrictRefusal, rules_of, surface

_STDLIB = sysconfig.get_paths()["stdlib"]
# Libraries whose functions are not compiled into a kernel.
_FOREIGN = ("opentrn", "numpy", "torch", "jax", "ml_dtypes", "pytest", "_pytest")
_Function = types.FunctionType


def reachable(func: Callable[..., Any]) -> list[_Function]:
    """`func` and the Python functions of user code that it can call by name, methods included."""
    found: dict[int, _Function] = {}
    waiting: list[Any] = [func]
    while waiting:
        value = waiting.pop()
        if _is_kernel(value):
            value = value.func
        if isinstance(value, type) and _is_user(value):
            waiting.extend(v for v in vars(value).values() if isinstance(v, (_Function, staticmethod)))
        value = getattr(value, "__func__", value)
        if not isinstance(value, _Function) or id(value) in found or not _is_user(value):
            continue
        found[id(value)] = value
        names = _names_in(value.__code__)
        scope = _scope(value)
        waiting.extend(scope[name] for name in names if name in scope)
        modules = [
            scope[n] for n in names if isinstance(scope.get(n), types.ModuleType) and _is_user(scope[n])
        ]
        waiting.extend(vars(module)[name] for module in modules for name in names if name in vars(module))
    return list(found.values())


def _names_in(code: types.CodeType) -> set[str]:
    names = set(code.co_names) | set(code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names


def _is_kernel(value: Any) -> bool:
    return type(value).__name__ == "Kernel" and type(value).__module__.startswith("opentrn.")


def _is_user(value: Any) -> bool:
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    if not isinstance(name, str) or name.partition(".")[0] in _FOREIGN:
        return False
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return not file.startswith(_STDLIB) or "site-packages" in file


def _scope(func: _Function) -> dict[str, Any]:
    """Globals and filled closure cells by name."""
    scope = dict(func.__globals__)
    for name, cell in zip(func.__code__.co_freevars, func.__closure__ or ()):
        try:
            scope[name] = cell.cell_contents
        except ValueError:
            scope.pop(name, None)  # not yet bound
    return scope


def _canonical_names() -> dict[int, tuple[str, str]]:
    """id of a public function of the nki package -> (module, name)."""
    modules = surface.modules(legacy=False)
    return {
        id(value): (module, name)
        for module, namespace in modules.items()
        for name, value in vars(namespace).items()
        if callable(value) and not name.startswith("_")
    }


class _Source:
    """The syntax tree of one function and what its names mean."""

    def __init__(self, func: _Function, canonical: dict[int, tuple[str, str]]):
        self.func = func
        self.scope = _scope(func)
        self.tree: ast.Module | None = None
        self._canonical = canonical
        try:
            lines, first = inspect.getsourcelines(func)
            self.tree = ast.parse(textwrap.dedent("".join(lines)))
            ast.increment_lineno(self.tree, first - 1)
        except (OSError, TypeError, SyntaxError):
            pass  # defined without a source: only its calls can be checked

    def place(self, node: ast.AST) -> SourceLocation:
        code = self.func.__code__
        return SourceLocation(code.co_filename, getattr(node, "lineno", code.co_firstlineno), code.co_name)

    def meaning(self, node: ast.AST) -> tuple[str, str] | None:
        """(module, name) of a name of the nki package, whether it exists or not."""
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            name = _module_name(owner)
            return (name, node.attr) if name is not None else self._canonical.get(id(self.value(node)))
        if isinstance(node, ast.Name):
            return self._canonical.get(id(self.scope.get(node.id)))
        return None

    def is_kernel(self, node: ast.AST) -> bool:
        return _is_kernel(self.value(node))

    def writes(self) -> bool:
        """True when the function returns something, stores, or assigns to an element, or may: it has no source."""
        return self.tree is None or _core.source_writes(self.tree)

    def value(self, node: ast.AST) -> Any:
        """What a name or a dotted name is, or None."""
        if isinstance(node, ast.Name):
            return self.scope.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            if isinstance(owner, types.ModuleType) or type(owner).__name__ == "_TileSize":
                return getattr(owner, node.attr, None)
        return None


def _module_name(owner: Any) -> str | None:
    if type(owner).__name__ == "_TileSize":
        return "nki.language.tile_size"
    name = getattr(owner, "__name__", "") if isinstance(owner, types.ModuleType) else ""
    return name.removeprefix("opentrn.") if name.startswith("opentrn.nki") else None


def check(func: Callable[..., Any], functions: list[_Function], legacy: bool, release: str) -> None:
    """Refuse what the sources of `functions` show; `func` is the kernel. Raises StrictRefusal."""
    canonical = _canonical_names()
    rules = rules_of(release)
    sources = [_Source(function, canonical) for function in functions]
    for source in sources:
        if source.tree is None:
            continue
        found = _core.source_finding(
            source.tree, rules, source.meaning, source.is_kernel, legacy, source.func is func
        )
        if found is not None:
            node, rule, detail = found
            raise StrictRefusal(rule, release, detail, source.place(node))
    if legacy and not any(map(_Source.writes, sources)):
        for rule in rules_of(release, "no_output"):
            raise StrictRefusal(rule, release, f"kernel {getattr(func, '__name__', func)}")
