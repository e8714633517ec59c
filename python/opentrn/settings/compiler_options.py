"""How a model is compiled: the compiler's options, as Python's functions and the command line take them.

Which options there are, with their values, defaults and help, is the table of src/compiler/options.cc, from which
NEURON_CC_FLAGS and the options of jax.jit are read too. What is here gives it Python's spelling.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import field, fields, make_dataclass
from typing import Any, TypeVar

from opentrn import _core
from opentrn.errors import InputTypeError

_Function = TypeVar("_Function", bound=Callable[..., Any])

OPTIONS = {row.name.replace("-", "_"): row for row in _core.compiler_options()}
PROGRAM_OPTIONS = tuple(name for name, row in OPTIONS.items() if row.of_program)


def _of_program(self: Any) -> dict[str, Any]:
    """Those that say which numbers are computed."""
    return {name: getattr(self, name) for name in PROGRAM_OPTIONS}


# One value of each option.
CompilerOptions: Any = make_dataclass(
    "CompilerOptions",
    [(name, type(row.default), field(default=row.default)) for name, row in OPTIONS.items()],
    namespace={"__doc__": "What `opentrn.compile` says of each.", "of_program": _of_program},
    frozen=True,
)


def option_values(texts: Mapping[str, str]) -> dict[str, Any]:
    """The other way about than option_texts: what texts as NEURON_CC_FLAGS has them mean, by Python's names.

    Refuses with `compiler.option` a number that is none.
    """
    return {
        name: row.value(texts[row.name]) for name, row in OPTIONS.items() if row.name in texts
    }


def option_texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Options as src/compiler/options.h takes them: its names, and values as text."""
    return {
        name.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }


def takes_options(names: tuple[str, ...]) -> Callable[[_Function], _Function]:
    """For a function with `**options`, which are these of CompilerOptions: their names and defaults in its signature.

    An argument of another name is the TypeError that it would be if they were written out.
    """

    def decorate(function: _Function) -> _Function:
        parameters = inspect.signature(function).parameters.values()
        own = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
        written = [
            inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
            for each in fields(CompilerOptions)
            if each.name in names
        ]
        known = {each.name for each in [*own, *written]}

        @functools.wraps(function)
        def checked(*arguments: Any, **given: Any) -> Any:
            for name in given:
                if name not in known:
                    raise InputTypeError(
                        f"{function.__name__}() got an unexpected keyword argument {name!r}", label="model.options"
                    )
            return function(*arguments, **given)

        signature = inspect.signature(function)
        checked.__signature__ = signature.replace(parameters=[*own, *written])  # type: ignore[attr-defined]  # inspect's
        return checked  # type: ignore[return-value]  # the same signature but for the options

    return decorate
