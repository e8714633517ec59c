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
from opentrn.nki import collectives as nkc
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl
from tests.keywords import nki_calls
from tests.keywords.observed import Call, Held, Observed, acts, observe, optional, public, text_of_test

pytestmark = pytest.mark.skipif(_machine.backend().name != "core", reason="the oracle predicts no time")
REFERENCES = {"nisa": nisa, "nl": nl, "nkc": nkc}


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


COLLECTIVES = public(nkc)
OF_RANKS = ("rank_id", "collective_permute_implicit_current_processing_rank_id")  # registers
ERRORS = "tests/nki/test_collectives_errors.py"
HELD_OF_COLLECTIVES = {
    "priority": ERRORS, "recv_counts_known": "tests/nki/test_collectives_ranks.py", "has_rdispls": ERRORS,
    "channel_ids": ERRORS, "channel_id": "tests/nki/test_collectives_ranks.py",
}  # fmt: skip
ALONE = {
    "srcs": "[own]", "dsts": "[out]", "replica_group": "nkc.ReplicaGroup([[0]])", "collective_dim": "0", "op": "nl.add",
    "source_target_pairs": "[(0, 0)]", "srcs_by_channel": "[[own]]", "srcs0_by_channel": "[[own]]",
    "srcs1_by_channel": "[[own]]", "dsts_by_channel": "[[out]]", "metadata_tensor": "meta", "iteration_id": "0",
}  # fmt: skip


def test_every_other_keyword_of_the_collectives_is_held_by_a_test():
    keywords = {keyword for function in COLLECTIVES.values() for keyword in optional(function)} - {"name"}
    assert keywords == set(HELD_OF_COLLECTIVES) and len(COLLECTIVES) > 10
    assert [keyword for keyword in keywords if keyword not in text_of_test(HELD_OF_COLLECTIVES[keyword])] == []


@pytest.mark.parametrize("name", COLLECTIVES)
def test_names_of_collectives_are_those_of_their_instructions(name: str):
    needed = [each.name for each in inspect.signature(COLLECTIVES[name]).parameters.values()]
    arguments = "".join(f"{each}={ALONE[each]}, " for each in needed if each in ALONE)

    @nki.jit
    def kernel(x, counts):
        names = {"call": COLLECTIVES[name], **REFERENCES}
        names["meta"] = nl.ndarray((1, 3, 1), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.memset(names["meta"], 0)
        for tensor in ("own", "out"):
            names[tensor] = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=names[tensor], src=x)
        eval(f"call({arguments}name='given')", names)
        return names["out"]

    seen = observe(kernel, Call(""))
    if name == "all_gather_v":
        assert seen.refused == "collectives.lnc"  # of several ranks alone; it shares _issue_v with all_to_all_v
        return
    told = f"nki.collectives.{name}(name=) has no effect" in seen.said
    assert told if name in OF_RANKS else 'name="given"' in seen.text, seen
