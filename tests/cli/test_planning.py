"""opentrn.plan(), goodput() and claims(): the commands as Python objects."""

from __future__ import annotations

import pytest

import opentrn
from opentrn.errors import InputError

JOB = {"instance": ["trn1.32xlarge", "p5.48xlarge"], "count": 2, "seq": 8192, "global_batch": 128}


def test_a_plan_has_values_with_bounds():
    found = opentrn.plan("Llama-3.1-8B", **JOB, top=3, tp=8)
    assert len(found["plans"]) == 3
    for each in found["plans"]:
        assert each["layout"]["tp"] == 8
        assert each["step_s"]["low"] < each["step_s"]["value"] < each["step_s"]["high"]
        assert each["memory_bytes"]["value"] <= each["memory_limit_bytes"]


def test_a_plan_of_inference():
    found = opentrn.plan(
        "Llama-3.1-8B", serve=True, instance="inf2.48xlarge", prompt_tokens=1500, output_tokens=250
    )
    for each in found["plans"]:
        assert each["tpot_s"]["low"] < each["tpot_s"]["value"] < each["tpot_s"]["high"]
        assert each["copies"] * each["layout"]["tp"] <= 24
    with pytest.raises(InputError) as refused:
        opentrn.plan("Llama-3.1-8B", serve=True, instance="inf2.48xlarge")
    assert refused.value.label == "plan.serve"


def test_goodput_and_claims():
    assert 0.9 < opentrn.goodput(chips=16384, model="Llama-3.1-405B", runs=5)["goodput"]["value"] < 0.96
    found = opentrn.claims("bloom-85", as_of="2024-12")["claims"]
    assert [each["id"] for each in found] == ["bloom-85"]


def test_errors_are_exceptions_with_labels():
    with pytest.raises(InputError, match="Llama-3.1-8B") as unknown:
        opentrn.plan("Llama-3.1-8", **JOB)
    assert unknown.value.label == "plan.model"
    with pytest.raises(InputError) as option:
        opentrn.plan("Llama-3.1-8B", **JOB, colour="red")
    assert option.value.label == "cli.argument"
