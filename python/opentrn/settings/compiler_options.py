"""How a model is compiled: the one record of the compiler's options, by neuronx-cc's names and ours.

`opentrn.compile`, `prepare` and `diff`, the command line and torch.compile's options all read it. Which options and
values there are, src/compiler/options.cc decides, which NEURON_CC_FLAGS are read by too;
tests/compiler/test_compiler_flags.py holds this to it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from opentrn.errors import InputTypeError

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _option(default: Any, text: str, values: tuple[Any, ...] = (), **more: Any) -> Any:
    """text: for --help. values: all that it takes. more: `short`, its other flag; `metavar`; `runs`, that it is of what
    runs the program and not of the program."""
    return field(default=default, metadata={"help": text, "values": values, **more})


@dataclass(frozen=True)
class CompilerOptions:
    """What `opentrn.compile` says of each."""

    optlevel: int = _option(
        2, "1: ops as they stand; 2 (default): simplified, folded and fused; 3: also the fastest of a dozen lowerings",
        (1, 2, 3), short="-O",
    )  # fmt: skip
    auto_cast: str = _option(
        "none", "which fp32 operations are computed in --auto-cast-type (default none)", ("none", "matmult", "all")
    )
    auto_cast_type: str = _option("bf16", "default bf16", ("bf16", "fp16", "tf32", "fp8_e4m3"))
    weight_dtype: str = _option(
        "none", "keep constant operands of products narrower (default none)",
        ("none", "int8", "fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2", "mxfp8", "mxfp4"),
    )  # fmt: skip
    weight_sparsity: str = _option(
        "none", "sparse products where of N weights at most M are not zero: 4:16 ... 1:2", metavar="M:N"
    )
    prune_weights: bool = _option(False, "make weights obey --weight-sparsity: the smallest become zero")
    enable_stochastic_rounding: bool = _option(
        False, "engines round to narrower floats stochastically", runs=True
    )

    def of_program(self) -> dict[str, Any]:
        """Those that say which numbers are computed."""
        return {name: getattr(self, name) for name in PROGRAM_OPTIONS}


PROGRAM_OPTIONS = tuple(each.name for each in fields(CompilerOptions) if not each.metadata.get("runs"))


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
        checked.__signature__ = signature.replace(parameters=[*own, *written])  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorate
