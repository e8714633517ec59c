"""No keyword of a function of nki.isa, nki.language or of the NKI 0.1 modules is without effect: it changes values or
times, is refused, or is told to change nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from opentrn import nki
from opentrn.errors import NkiValidationError
from opentrn.nki import _machine
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from tests.keywords import nki_calls
from tests.keywords.observed import Call, Held, Observed, acts, observe, optional, public, text_of_test

pytestmark = pytest.mark.skipif(_machine.backend().name != "core", reason="the oracle predicts no time")
REFERENCES = {"nisa": nisa, "nl": nl}


def kernel_of(function: Callable[..., Any], arguments: str, read: bool) -> Any:
    """A kernel that makes tiles, calls the function, and returns all of them, and what it gave if that is read."""

    @nki.jit
    def kernel(x, counts):
        made = nki_calls.tiles(x, counts)
        given = eval(f"call({arguments})", {"call": function, "x": x, **REFERENCES, **made})
        outs = []
        for tile in (*made.values(), given if read else None):
            if not isinstance(tile, nl.NkiTensor):
                continue
            outs.append(nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm))
            if nl.program_id(0) != 0:
                continue  # of two cores the first writes
            if tile.buffer is nl.psum:
                copied = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=copied, src=tile)
                tile = copied
            nisa.dma_copy(dst=outs[-1], src=tile)
        return tuple(outs)

    return kernel


def outcome(function: Callable[..., Any], call: Call, arguments: str, read: bool = True) -> Observed:
    return observe(kernel_of(function, arguments, read), call)


INSTRUCTIONS = {name: getattr(nisa, name) for name in nisa.INSTRUCTIONS if optional(getattr(nisa, name))}


def test_every_keyword_of_an_instruction_has_a_value():
    listed = {(name, keyword) for name, call in nki_calls.ISA.items() for keyword in call.keywords}
    wanted = {(name, keyword) for name, function in INSTRUCTIONS.items() for keyword in optional(function)}
    assert sorted(listed ^ {each for each in wanted if each[1] != "name"}) == []
    assert len(wanted) > 130


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_a_keyword_of_an_instruction_acts(name: str):
    call, function = nki_calls.ISA[name], INSTRUCTIONS[name]
    plain = outcome(function, call, call.arguments)
    assert not plain.refused, plain
    if "name" in optional(function):
        named = outcome(function, call, call.arguments + ", name='given'")
        assert 'name="given"' in named.text and plain.text != named.text
    for keyword, value in call.keywords.items():
        if isinstance(value, Held):
            continue
        with_it, without = call.with_and_without(keyword)
        before = plain if without == call.arguments else outcome(function, call, without)
        after = outcome(function, call, with_it)
        assert acts(before, after, keyword), f"nki.isa.{name}({keyword}=) changes nothing"


LANGUAGE = {name: each for name, each in public(nl).items() if name not in nki_calls.OPERATORS}


def language_call(name: str) -> Call:
    """What has to be given, and a value for every keyword."""
    given = {**nki_calls.GIVEN, **nki_calls.OTHERS.get(name, {})}
    known = {**nki_calls.KEYWORDS, **nki_calls.OTHER_KEYWORDS.get(name, {})}
    parameters = inspect.signature(LANGUAGE[name]).parameters.values()
    needed = ", ".join(f"{each.name}={given.get(each.name)}" for each in parameters if each.default is each.empty)
    keywords = {keyword: known[keyword] for keyword in optional(LANGUAGE[name])}
    return Call(needed, keywords, "trn3" if name in nki_calls.NEWER else "trn2")


def test_every_keyword_of_the_language_has_a_value():
    assert sum(len(language_call(name).keywords) for name in LANGUAGE) > 100
    for name in nki_calls.OPERATORS:
        with pytest.raises(NkiValidationError):
            getattr(nl, name)(1.0)


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_keyword_of_the_language_acts(name: str):
    call, function = language_call(name), LANGUAGE[name]
    makes = name in nki_calls.MAKERS
    for keyword, value in call.keywords.items():
        if isinstance(value, Held):
            continue
        with_it, without = call.with_and_without(keyword)
        before, after = (outcome(function, call, text, not makes) for text in (without, with_it))
        assert not before.refused, before
        changed = makes and before.text != after.text
        assert changed or acts(before, after, keyword), f"nki.language.{name}({keyword}=) changes nothing"


HELD = [
    (name, keyword, value.test)
    for calls in (nki_calls.ISA, {name: language_call(name) for name in LANGUAGE})
    for name, call in calls.items()
    for keyword, value in call.keywords.items()
    if isinstance(value, Held)
]


@pytest.mark.parametrize(("name", "keyword", "test"), HELD)
def test_what_other_tests_hold_is_in_them(name: str, keyword: str, test: str):
    assert keyword in text_of_test(test) and name in text_of_test(test)
