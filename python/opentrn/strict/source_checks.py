"""Strict mode: what can be seen in the source of a kernel and of the functions it reaches.

A name is followed through the function's globals and closure, so `nisa.topk`, `from nki.isa import topk` and
`import nki; nki.isa.topk` are one thing. What only shows while the kernel runs is in `call_checks`.
"""

from __future__ import annotations

import ast
import inspect
import sys
import sysconfig
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

from opentrn.errors import SourceLocation
from opentrn.strict import StrictRefusal, rules_of, surface
from opentrn.strict.rules import Rule

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
    sources = [_Source(function, canonical) for function in functions]
    for source in sources:
        if source.tree is None:
            continue
        for node, rule, detail in (_legacy_findings if legacy else _findings)(source, func, release):
            raise StrictRefusal(rule, release, detail, source.place(node))
    if legacy:
        for rule in rules_of(release, "no_output"):
            if not any(_writes(source) for source in sources):
                raise StrictRefusal(rule, release, f"kernel {getattr(func, '__name__', func)}")


_Finding = tuple[ast.AST, Rule, str]


def _findings(source: _Source, kernel: Callable[..., Any], release: str) -> Iterator[_Finding]:
    names = {(r.where, r.name): r for r in rules_of(release, "name")}
    calls = {(r.where, r.name): r for r in rules_of(release, "call")}
    arguments = {(r.where, r.name, r.argument): r for r in rules_of(release, "argument")}
    identity, keys = rules_of(release, "identity"), rules_of(release, "dict_keys")
    masks, nested = rules_of(release, "mask"), rules_of(release, "nested_jit")
    assert source.tree is not None  # findings are of a function with a source
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and (found := source.meaning(node)) in names:
            yield node, names[found], ""
        elif isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            for rule in identity:
                yield node, rule, ast.unparse(node)
        elif isinstance(node, ast.Dict):
            bad = [k for k in node.keys if isinstance(k, ast.Constant) and not isinstance(k.value, str)]
            for rule in keys if bad else ():
                yield node, rule, f"the key {ast.unparse(bad[0])}"
        if not isinstance(node, ast.Call):
            continue
        if (found := source.meaning(node.func)) in calls:
            yield node, calls[found], ""
        if found is not None:
            for keyword in node.keywords:
                refused = None if keyword.arg is None else arguments.get((*found, keyword.arg))
                if refused is not None:
                    yield node, refused, ""
                elif keyword.arg == "mask" and masks:
                    yield node, masks[0], f"of {'.'.join(found)}"
        for rule in nested:
            if _is_kernel(source.value(node.func)):
                yield node, rule, ast.unparse(node.func)


# -- 0.1 -----------------------------------------------------------------------------------------------------


def _legacy_findings(source: _Source, kernel: Callable[..., Any], release: str) -> Iterator[_Finding]:
    assert source.tree is not None  # findings are of a function with a source
    definition = source.tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return
    for rule in rules_of(release, "nested_grid"):
        for node in ast.walk(definition):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Subscript) and _is_kernel(source.value(called.value)):
                yield node, rule, ast.unparse(called)
    for rule in rules_of(release, "shared_hbm_level"):
        top = definition.body if source.func is kernel else []
        allowed = {id(n) for statement in top if _is_plain(statement) for n in ast.walk(statement)}
        for node in ast.walk(definition):
            if isinstance(node, ast.Attribute) and node.attr == "shared_hbm" and id(node) not in allowed:
                yield node, rule, ""
    for rule in rules_of(release, "mutable_returned"):
        returned = {n.id for r in _returns(definition) for n in ast.walk(r) if isinstance(n, ast.Name)}
        for argument in definition.args.args if source.func is kernel else ():
            annotation = ast.unparse(argument.annotation) if argument.annotation else ""
            if "mutable_tensor" in annotation and argument.arg not in returned:
                yield argument, rule, f"parameter {argument.arg}"
    if _allocates(definition):
        yield from _findings_in_allocated(definition, release)
    for rule in rules_of(release, "scope"):
        for node, name in _out_of_scope(definition):
            yield node, rule, f"variable {name}"


def _allocates(definition: ast.FunctionDef) -> bool:
    """Whether a function places tiles itself: `ncc.sbuf.mod_alloc(...)`, `ncc.psum.alloc(...)`."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("alloc", "mod_alloc")
        and ast.unparse(node.value).rpartition(".")[2] in ("sbuf", "psum")
        for node in ast.walk(definition)
    )


def _findings_in_allocated(definition: ast.FunctionDef, release: str) -> Iterator[_Finding]:
    """Calls that need a tile which the compiler would have to place."""
    bad = {
        "allocated_bias": lambda name, given: name == "activation" and "bias" not in given,
        "allocated_value": lambda name, given: (
            name in ("full", "zeros", "ones") and "alloc" in given.get("buffer", "")
        ),
        "allocated_transpose": lambda name, given: (
            (name == "nc_transpose" and "Vector" not in given.get("engine", "").title())
            or (name == "matmul" and given.get("transpose_x") != "True")
        ),
    }
    for rule in rules_of(release, *bad):
        for node in ast.walk(definition):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if ast.unparse(node.func.value).rpartition(".")[2] not in _NAMESPACES:
                continue
            given = {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg}
            if bad[rule.kind](node.func.attr, given):
                yield node, rule, ast.unparse(node.func)


_NAMESPACES = ("nisa", "nl", "isa", "language")


def _is_plain(statement: ast.stmt) -> bool:
    return not isinstance(statement, (ast.For, ast.While, ast.If, ast.FunctionDef))


def _returns(definition: ast.FunctionDef) -> list[ast.Return]:
    return [n for n in ast.walk(definition) if isinstance(n, ast.Return) and n.value is not None]


def _makes_tensor(node: ast.AST) -> bool:
    """A call such as nl.load(...) or nisa.activation(...)."""
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Attribute) and ast.unparse(function.value) in (
        "nl",
        "nisa",
        "nki.language",
    )


def _out_of_scope(definition: ast.FunctionDef) -> Iterator[tuple[ast.AST, str]]:
    """Uses of a variable behind the block in which it was first made, as a tensor."""

    def visit(body: list[ast.stmt], known: set[str]) -> set[str]:
        gone: set[str] = set()  # made in a block that has ended
        for statement in body:
            blocks = [getattr(statement, f, []) for f in ("body", "orelse")]
            inner = [] if _is_plain(statement) else [b for b in blocks if b]
            inside = {id(n) for block in inner for s in block for n in ast.walk(s)}
            for node in ast.walk(statement):
                if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)) or id(node) in inside:
                    continue
                if node.id in gone:
                    found.append((node, node.id))
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        known.add(target.id)
                        gone.discard(target.id)
                        if _makes_tensor(statement.value):
                            tensors.add(target.id)
            for block in inner:
                gone |= (visit(block, set(known)) - known) & tensors
        return known | gone

    found: list[tuple[ast.AST, str]] = []
    tensors: set[str] = set()
    visit(definition.body, {a.arg for a in definition.args.args})
    yield from found


def _writes(source: _Source) -> bool:
    """True when a function returns something, stores, or assigns to an element."""
    if source.tree is None:
        return True
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Subscript) for t in node.targets):
            return True
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("store", "dma_copy"):
            return True
    return False
