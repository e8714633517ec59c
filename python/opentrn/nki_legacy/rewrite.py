"""`and`, `or` and `not` on predicates.

The 0.1 compiler reads a kernel's syntax tree, so `mask=(i < n and j < m)` combines predicates. Python
would ask the first predicate for its truth value. A decorated function that uses these operators is
therefore compiled again with them replaced by calls which combine predicates and short-circuit everything
else."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

from opentrn.nki_legacy.index import Predicate

_AND, _OR, _NOT = "__opentrn_and__", "__opentrn_or__", "__opentrn_not__"


def _and(left: Any, right: Callable[[], Any]) -> Any:
    if isinstance(left, Predicate):
        return left & right()
    if not left:
        return left
    return right()


def _or(left: Any, right: Callable[[], Any]) -> Any:
    if isinstance(left, Predicate):
        return left | right()
    if left:
        return left
    return right()


def _not(value: Any) -> Any:
    return ~value if isinstance(value, Predicate) else not value


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self.changed = False

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if any(isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield)) for n in ast.walk(node)):
            return node
        self.changed = True
        name = _AND if isinstance(node.op, ast.And) else _OR
        result = node.values[-1]
        for value in reversed(node.values[:-1]):
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            later = ast.Lambda(args=nothing, body=result)
            call = ast.Call(func=ast.Name(name, ast.Load()), args=[value, later], keywords=[])
            result = ast.copy_location(call, node)
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        self.changed = True
        call = ast.Call(func=ast.Name(_NOT, ast.Load()), args=[node.operand], keywords=[])
        return ast.copy_location(call, node)


def _code_named(code: types.CodeType, name: str) -> types.CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == name:
                return constant
            found = _code_named(constant, name)
            if found is not None:
                return found
    return None


def rewritten(func: Callable[..., Any]) -> Callable[..., Any]:
    """`func` with its logical operators replaced, or `func` itself where there are none or its source is
    not to be had (then predicates refuse `and` with an explanation)."""
    if not isinstance(func, types.FunctionType):
        return func
    try:
        lines, first = inspect.getsourcelines(func)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return func
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return func
    definition.decorator_list = []
    rewriter = _Rewriter()
    rewriter.visit(definition)
    if not rewriter.changed:
        return func
    # Free variables of the function must stay free: wrap it in a function that binds their names.
    names = func.__code__.co_freevars
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(n) for n in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    outer = ast.FunctionDef(name="__opentrn_scope__", args=arguments, body=[definition], decorator_list=[])
    if hasattr(ast, "type_param"):
        outer.type_params = []  # type: ignore[attr-defined]  # of Python 3.12 and later
    module = ast.Module(body=[outer if names else definition], type_ignores=[])
    ast.fix_missing_locations(module)
    ast.increment_lineno(module, first - 1)
    code = _code_named(compile(module, func.__code__.co_filename, "exec"), func.__name__)
    if code is None:
        return func
    cells = dict(zip(names, func.__closure__ or ()))
    func.__globals__.update({_AND: _and, _OR: _or, _NOT: _not})
    fresh = types.FunctionType(
        code, func.__globals__, func.__name__, func.__defaults__, tuple(cells[n] for n in code.co_freevars)
    )
    fresh.__kwdefaults__ = func.__kwdefaults__
    return functools.update_wrapper(fresh, func)
