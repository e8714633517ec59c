"""No keyword of a function of NKI 0.1's nki.isa and nki.language is without effect: it changes values or times, is
refused, or is told to change nothing. A keyword that there is not is refused by every function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from opentrn import nki_legacy as nki
from opentrn.errors import ArgumentError, NotModelled
from opentrn.nki import _machine
from opentrn.nki_legacy import isa as nisa
from opentrn.nki_legacy import language as nl
from tests.keywords import legacy_calls
from tests.keywords.observed import Call, Held, Observed, acts, observe, optional, public, text_of_test

pytestmark = pytest.mark.skipif(_machine.backend().name != "core", reason="the oracle predicts no time")


def kernel_of(function: Callable[..., Any], arguments: str, read: bool, gave: list[Any]) -> Any:
    """A kernel that makes tiles, calls the function, and returns them, and what it gave if that is read.

    gave: gets what the result says of itself.
    """

    @nki.jit
    def kernel(x, counts):
        made = legacy_calls.tiles(x, counts)
        target = nl.full((128, 64), 5.0, np.float32, buffer=nl.shared_hbm)
        names = {"call": function, "source": x, "target": target, "np": np, "nl": nl, "nisa": nisa, **made}
        given = eval(f"call({arguments})", names)
        of_it = [getattr(given, field, None) for field in ("tensor", "dtype", "region")]
        gave.append(repr((given, *of_it)))
        outs = [target]
        for tile in (*made.values(), given if read else None):
            if isinstance(tile, type(made["a"])) and tile.is_on_chip:
                outs.append(nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm))
                nl.store(outs[-1], tile)
        return tuple(outs)

    return kernel


def outcome(function: Callable[..., Any], call: Call, arguments: str, read: bool = True) -> tuple[Observed, Any]:
    gave: list[Any] = []
    return observe(kernel_of(function, arguments, read, gave), call), gave[:1]


MODULES = {
    "isa": (public(nisa), legacy_calls.ISA_GIVEN, legacy_calls.ISA_KEYWORDS),
    "language": (public(nl), legacy_calls.LANGUAGE_GIVEN, legacy_calls.LANGUAGE_KEYWORDS),
}
FUNCTIONS = [
    (module, name) for module, (found, *_) in MODULES.items() for name in found if name not in legacy_calls.REFUSED
]


def call_of(module: str, name: str) -> tuple[Callable[..., Any], Call]:
    """A function, what it has to be given, and a value for each of its keywords."""
    found, given_of, keywords_of = MODULES[module]
    given = {**legacy_calls.GIVEN, **given_of.get(name, {})}
    known = {**legacy_calls.KEYWORDS, **keywords_of.get(name, {})}
    ordinary = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [each for each in inspect.signature(found[name]).parameters.values() if each.kind in ordinary]
    needed = ", ".join(f"{each.name}={given.get(each.name)}" for each in parameters if each.default is each.empty)
    return found[name], Call(needed, {keyword: known[keyword] for keyword in optional(found[name])})


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_a_keyword_acts(module: str, name: str):
    function, call = call_of(module, name)
    makes = module == "language" and name in legacy_calls.MAKERS
    assert not outcome(function, call, call.arguments, not makes)[0].refused
    for keyword, value in call.keywords.items():
        if isinstance(value, Held):
            assert keyword in text_of_test(value.test) and name in text_of_test(value.test)
            continue
        with_it, without = call.with_and_without(keyword)
        (before, was), (after, made) = (outcome(function, call, text, not makes) for text in (without, with_it))
        changed = makes and was != made
        assert changed or acts(before, after, keyword), f"nki.{module}.{name}({keyword}=) changes nothing"


def test_the_modules_are_whole():
    assert sum(len(call_of(module, name)[1].keywords) for module, name in FUNCTIONS) > 250
    with pytest.raises(NotModelled, match="programs run one after the other"):
        nl.all_reduce(None, np.add, 0)


@pytest.mark.parametrize(("module", "name"), FUNCTIONS)
def test_a_keyword_that_there_is_not_is_refused(module: str, name: str):
    function, call = call_of(module, name)
    with pytest.raises(TypeError, match="nothing_of_this_name"):
        kernel = kernel_of(function, f"{call.arguments}, nothing_of_this_name=1".removeprefix(", "), False, [])
        nki.simulate_kernel(kernel, legacy_calls.VALUES, legacy_calls.COUNTS)
    assert issubclass(ArgumentError, TypeError)
