"""opentrn.plan(), goodput() and claims(): the commands as Python objects."""

from __future__ import annotations

import json

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


def test_the_widest_contributor_is_of_the_planner_itself():
    """A plan's step moves when the input that is printed first moves, and by what is printed."""
    found = opentrn.plan("Llama-3.1-8B", **JOB | {"instance": "p5.48xlarge"}, top=1)["plans"][0]
    inputs = found["interval_by_input"]
    widths = [each["step_high_s"] - each["step_low_s"] for each in inputs]
    assert widths == sorted(widths, reverse=True) and widths[0] > 0
    assumed = next(each for each in inputs if each["key"].endswith("memory_share"))
    layout = {name: found["layout"][name] for name in ("tp", "pp", "dp", "zero", "micro_batch")}
    value = 0.80 * assumed["low"]
    moved = opentrn.plan("Llama-3.1-8B", **JOB | {"instance": "p5.48xlarge"}, top=1, **layout,
                         sp="on" if found["layout"]["sp"] else "off", recompute=found["layout"]["recompute"],
                         set=f"planner.chip.H100 SXM.memory_share={value}")["plans"][0]  # fmt: skip
    assert moved["step_s"]["value"] == pytest.approx(assumed["step_high_s"], rel=1e-6)


def test_an_exported_program_of_pytorch_is_a_job(tmp_path):
    torch = pytest.importorskip("torch")
    layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).eval()
    program = torch.export.export(layers, (torch.randn(128, 64),))
    found = opentrn.plan(program, instance="trn1.2xlarge", compiled=2)
    assert {each["mesh"] for each in found["plans"]} & {"dp=2", "tp=2"}
    assert found["flops"] >= 2 * 2 * 128 * 64 * 256
    path = tmp_path / "layers.pt2"
    torch.export.save(program, str(path))
    (tmp_path / "job.yaml").write_text("step: layers.pt2\ncluster: {instance: trn1.2xlarge}\nfix: {dp: 2}\n")
    again = opentrn.plan(tmp_path / "job.yaml", compiled=1)["plans"][0]
    assert again["mesh"] == "dp=2"
    assert again["step_s"] in [each["step_s"] for each in found["plans"]]
    path.write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(InputError, match=r"job.yaml, line 1, 'step'"):
        opentrn.plan(tmp_path / "job.yaml")


def test_an_exported_step_of_jax_is_a_job():
    jax = pytest.importorskip("jax")
    export = pytest.importorskip("jax.export")

    def step(weights, x):
        def loss(w):
            return ((jax.numpy.tanh(x @ w["up"]) @ w["down"] - x) ** 2).mean()

        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))

    shape = lambda *sizes: jax.ShapeDtypeStruct(sizes, "float32")  # noqa: E731
    weights = {"up": shape(64, 256), "down": shape(256, 64)}
    exported = export.export(jax.jit(step, donate_argnums=0), platforms=["cpu"])(weights, shape(128, 64))
    found = opentrn.plan(exported, instance="trn1.2xlarge", compiled=3, steps=1000)
    assert found["state_bytes"] == 2 * 64 * 256 * 4
    batch = [each for each in found["plans"] if each["mesh"] == "dp=2" and not each["shards_state"]]
    assert batch and batch[0]["collectives"]  # gradients meet
    assert batch[0]["hours"]["value"] == pytest.approx(1000 * batch[0]["step_s"]["value"] / 3600)
    assert json.dumps(found)
    unknown = export.export(jax.jit(lambda x: x + 1), platforms=["cpu"])(
        jax.ShapeDtypeStruct(export.symbolic_shape("n,4"), "float32")
    )
    with pytest.raises(InputError, match="sizes that are not known"):
        opentrn.plan(unknown, instance="trn1.2xlarge")
