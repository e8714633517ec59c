"""A short run of the fuzzers of what the tools read; `python -m tests.fuzz.fuzz_tools --seconds N` runs on."""

import random
import time

import pytest

from opentrn.errors import InputError
from tests.fuzz import fuzz_tools

CASES = 12


@pytest.mark.parametrize("target", sorted(fuzz_tools.TARGETS))
def test_a_few_cases_of(target):
    for seed in range(CASES):
        assert fuzz_tools.run_case(target, seed) == "", f"--only {target} --case {seed}"


def test_a_broken_promise_and_an_exception_are_told(monkeypatch):
    def breaks(rng):
        with fuzz_tools.refusals():
            raise {0: KeyError("x"), 1: InputError("no label", label="")}[rng]

    monkeypatch.setitem(fuzz_tools.TARGETS, "breaks", breaks)
    monkeypatch.setattr(fuzz_tools.random, "Random", lambda seed: seed)
    assert "KeyError" in fuzz_tools.run_case("breaks", 0)
    assert "no label" in fuzz_tools.run_case("breaks", 1)


def test_damage_changes_something():
    value = {"a": [1, {"b": "x"}], "c": None}
    found = {repr(fuzz_tools.damaged(random.Random(seed), value)) for seed in range(50)}
    assert len(found) > 30 and value == {"a": [1, {"b": "x"}], "c": None}


@pytest.mark.parametrize("text", ["", "0,", ","])
def test_an_empty_number_of_slurm_is_refused(text, monkeypatch):
    """Found by the fuzzer, as was an empty ID of the kubelet's."""
    from opentrn.tools import slurm

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    if text:
        with pytest.raises(InputError, match="gives device"):
            slurm.task_prolog("trn2.48xlarge")
    else:
        assert slurm.task_prolog("trn2.48xlarge") == ""


def test_a_case_that_does_not_end_is_told_and_one_that_waits_its_turn_is_not(monkeypatch):
    def spins(rng):
        while True:
            pass

    def waits(rng):
        time.sleep(0.4)

    monkeypatch.setattr(fuzz_tools, "CASE_SECONDS", 0.2)
    monkeypatch.setitem(fuzz_tools.TARGETS, "spins", spins)
    monkeypatch.setitem(fuzz_tools.TARGETS, "waits", waits)
    assert "more than 0.2 s of processor time" in fuzz_tools.run_case("spins", 0)
    assert fuzz_tools.run_case("waits", 0) == ""
