"""What a call inside a kernel does: the values of every tile after it, its times, what it says, how it is refused."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import opentrn
from opentrn.base import notices
from opentrn.errors import Refusal

ROOT = Path(__file__).parents[2]
# Values from 0.1 to 8.2, all different, in an order that is none.
VALUES = np.random.default_rng(7).permutation(128 * 64).astype(np.float32).reshape(128, 64) / 1000 + np.float32(0.1)
COUNTS = np.random.default_rng(8).integers(0, 64, (128, 64)).astype(np.int32)


@dataclass(frozen=True)
class Held:
    """A test that shows what a keyword does, and mentions it."""

    test: str  # "tests/...py::name"


Value = str | tuple[str, str] | Held


@dataclass(frozen=True)
class Call:
    """A call as the text of its arguments, and of a value for each keyword; or of more arguments that the keyword needs
    for an effect, and of its value."""

    arguments: str
    keywords: dict[str, Value] = field(default_factory=dict)
    target: str = "trn2"
    lnc: int = 1

    def with_and_without(self, keyword: str) -> tuple[str, str]:
        """The arguments of both calls."""
        given = self.keywords[keyword]
        assert not isinstance(given, Held)
        more, value = given if isinstance(given, tuple) else ("", given)
        without = self.arguments + (", " + more if more else "")
        return f"{without}, {keyword}={value}".removeprefix(", "), without.removeprefix(", ")


@dataclass(frozen=True)
class Observed:
    refused: str = ""  # label of the error
    values: tuple[Any, ...] = ()
    times: tuple[Any, ...] = ()
    text: str = ""
    said: str = ""
    printed: str = ""


def of_values(values: Any) -> tuple[Any, ...]:
    """Bits, so that NaN equals NaN."""
    return tuple((str(each.dtype), each.shape, each.tobytes()) for each in values)


def observe(kernel: Callable[..., Any], call: Call) -> Observed:
    """Runs a kernel of (VALUES, COUNTS). An error that is none of OpenTrn's, or is one about a name or an argument that
    there is not, is the test's own."""
    notices._told.clear()
    how = {"target": call.target} | ({"lnc": 2} if call.lnc == 2 else {})
    said, printed = io.StringIO(), io.StringIO()
    caught = warnings.catch_warnings(record=True)
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed), caught as warned:
        warnings.simplefilter("always")
        try:
            result = run(kernel, how)
        except Refusal as error:
            assert error.label not in ("nki.arguments", "nki.name"), error
            return Observed(refused=error.label)
    times = tuple(tuple(row)[:7] for row in result.timing.events()) if result.timings else ()
    words = said.getvalue() + "".join(str(each.message) for each in warned)
    return Observed("", of_values(result.outputs), times, result.program_text(), words, printed.getvalue())


def run(kernel: Callable[..., Any], how: dict[str, Any]) -> Any:
    """Without a time where an instruction has no sourced one."""
    try:
        return opentrn.run(kernel, VALUES, COUNTS, **how)
    except opentrn.errors.NotModelled as error:
        if "timing rule" not in str(error):
            raise
        return opentrn.run(kernel, VALUES, COUNTS, time=False, **how)


def optional(function: Callable[..., Any]) -> list[str]:
    """The parameters of a function that may be left out."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # of a class that is only a name for what others make
        return []
    return [each.name for each in parameters if each.default is not each.empty]


def acts(before: Observed, after: Observed, keyword: str) -> bool:
    """Values, times or prints are others, one of both is refused, or it is said that nothing changes."""
    if before.refused or after.refused:
        return before.refused != after.refused
    told = f"{keyword}=) has no effect" in after.said
    return told or before.printed != after.printed or (before.values, before.times) != (after.values, after.times)


def public(module: Any) -> dict[str, Callable[..., Any]]:
    """Functions with keywords, of this module's own."""
    found = {name: getattr(module, name) for name in (getattr(module, "__all__", None) or vars(module))}
    return {
        name: each
        for name, each in found.items()
        if not name.startswith("_") and inspect.isroutine(each) and optional(each)
    }


@functools.cache
def text_of_test(test: str) -> str:
    """The lines of a test function, or of a whole file."""
    file, _, function = test.partition("::")
    text = (ROOT / file).read_text()
    if not function:
        return text
    before, found, after = text.partition(f"\ndef {function}(")
    assert found, f"there is no test {test}"
    decorators = before.rpartition("\n\n\n")[2]
    return decorators + after.partition("\ndef ")[0].partition("\nclass ")[0]
