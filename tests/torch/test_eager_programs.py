"""Tests that ops of the device run as few, kept and profiled programs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")

import opentrn.torch  # noqa: E402, F401
from opentrn import _torch  # noqa: E402
from opentrn.errors import InputError  # noqa: E402
from opentrn.settings import environment  # noqa: E402
from opentrn.torch.eager import compiler  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention


def _made(call: Any) -> list[str]:
    """Names of the programs that the call needed and the table did not have."""
    known = set(compiler.PLANS)
    call()
    return [plan.name for number, plan in sorted(compiler.PLANS.items()) if number not in known]


@pytest.mark.parametrize("case", ["causal", "mask", "bias", "none", "heads", "grouped"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_is_a_program_forward_and_one_backward(case: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    counts = (6, 2, 2) if case == "grouped" else (3, 3, 3)
    heads = [torch.randn(2, 5, count, 8, dtype=dtype) for count in counts]
    options: dict[str, Any] = {"is_causal": case in ("causal", "grouped"), "enable_gqa": case == "grouped"}
    if case == "mask":
        options["attn_mask"] = torch.rand(2, 1, 5, 5) > 0.5
        options["attn_mask"][0, 0, 2] = False  # this row sees nothing: its weights are zero
    if case == "bias":
        options = {"attn_mask": torch.randn(5, 5, dtype=dtype), "scale": 0.3}

    def gradients(place: str) -> list[Any]:
        given = [each.detach().to(place).requires_grad_() for each in heads]
        moved = {key: value.to(place) if torch.is_tensor(value) else value for key, value in options.items()}
        # As models have it: [batch, tokens, heads, features] seen with the heads first.
        out = attention(*(each.transpose(1, 2) for each in given), **moved)
        out.sum().backward() if case == "none" else (out * out).sum().backward()
        return [out.detach().cpu(), *(each.grad.cpu() for each in given)]

    expected = gradients("cpu")
    found: list[Any] = []
    names = _made(lambda: found.extend(gradients("neuron")))
    close = {"rtol": 2e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, **close)
    assert not [name for name in names if "softmax" in name or "bmm" in name], names


def test_attention_goes_op_by_op_where_no_program_has_it() -> None:
    q = torch.randn(2, 4, 3, 8, device="neuron", requires_grad=True)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        (first,) = torch.autograd.grad(attention(q, q, q).sum(), q, create_graph=True)
        first.sum().backward()  # a second derivative
    assert q.grad is not None
    (first,) = torch.autograd.grad(attention(q, q, q).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="not implemented"):
        first.sum().backward()
    names = _made(lambda: attention(q, q, q, dropout_p=0.5))
    assert not any("opentrn::attention" in name for name in names)


def test_the_gradient_of_nll_loss_is_torchs() -> None:
    for shape, options in (
        ((6, 5), {}), ((6, 5), {"reduction": "none"}), ((6, 5), {"weight": torch.rand(5)}), ((5,), {}),
        ((2, 5, 3, 2), {"ignore_index": 1, "reduction": "sum"}), ((2, 5, 3), {"weight": torch.rand(5)}),
    ):  # fmt: skip
        torch.manual_seed(1)
        x, target = torch.randn(shape), torch.randint(0, 5, (shape[:1] + shape[2:]) if len(shape) > 1 else ())
        results = []
        for place in ("cpu", "neuron"):
            leaf = x.clone().to(place).requires_grad_()
            moved = {key: value.to(place) if torch.is_tensor(value) else value for key, value in options.items()}
            loss = torch.nn.functional.nll_loss(leaf, target.to(place), **moved)
            (loss * loss).sum().backward()
            results.append(leaf.grad.cpu())
        torch.testing.assert_close(results[1], results[0])


def test_the_table_keeps_the_programs_that_were_used_last() -> None:
    x = torch.ones(3, 7, device="neuron")
    try:
        _torch.bound_programs(2)
        before = torch.neuron.simulated_time_us()
        assert len(_made(lambda: [x.sin(), x.cos()])) == 2
        assert _made(lambda: x.sin()) == []
        assert _made(lambda: x.tan()) == ["aten::tan.out"]  # cos goes: its last use is longest ago
        assert len(compiler.PLANS) == 2
        assert _made(lambda: x.sin()) == [] and _made(lambda: x.cos()) == ["aten::cos.out"]
        # What a program that is gone took is not forgotten.
        first = torch.neuron.simulated_time_us() - before
        assert first > 0 and x.sin().equal(torch.ones(3, 7).sin().to("neuron"))
    finally:
        _torch.bound_programs(environment.eager_programs())


def test_the_bound_of_the_table_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.eager_programs() == environment.EAGER_PROGRAMS
    monkeypatch.setenv("OPENTRN_EAGER_PROGRAMS", "12")
    assert environment.eager_programs() == 12
    monkeypatch.setenv("OPENTRN_EAGER_PROGRAMS", "many")
    with pytest.raises(InputError, match="OPENTRN_EAGER_PROGRAMS is 'many'"):
        environment.eager_programs()


def test_results_that_overlap_what_the_op_reads_are_those_of_the_cpu() -> None:
    results = []
    for place in ("cpu", "neuron"):
        x = torch.arange(12.0).reshape(3, 4).to(place)
        x.add_(x)
        torch.mul(x, 3, out=x)
        x[1:].sub_(x[1:].flip(0))
        torch.softmax(x, 1, out=x)
        results.append(x.cpu())
    torch.testing.assert_close(results[1], results[0])


def test_torch_profiler_has_the_cores_ops_with_simulated_times() -> None:
    from torch.profiler import ProfilerActivity, profile

    x = torch.ones(64, 64, device="neuron")
    (x @ x).relu()
    before = torch.neuron.simulated_time_us()
    compiled = torch.compile(lambda t: t * 2 + 1, backend="neuron")
    compiled(x)
    start = torch.neuron.simulated_time_us()
    assert start > before
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as run:
        (x @ x).relu()
        compiled(x)
        x.clone()
    took = torch.neuron.simulated_time_us() - start
    device = [each for each in run.events() if each.device_type == torch.autograd.DeviceType.PrivateUse1]
    assert [each.name.partition(",")[0].partition("0_")[0] for each in device] != []
    names = " ".join(each.name for each in device)
    assert "aten::mm" in names and "aten::relu" in names and "copy inside HBM" in names and "_inference" in names
    assert sum(each.time_range.elapsed_us() for each in device) == pytest.approx(took, rel=0.02)
    ops = {each.key: each for each in run.key_averages()}
    assert ops["aten::mm"].device_time_total > 0
    with profile(activities=[ProfilerActivity.CPU]) as run:
        x @ x
    assert all(each.device_type == torch.autograd.DeviceType.CPU for each in run.events())


def test_no_process_aborts_at_its_end() -> None:
    """Threads of autograd are still there when Python ends; fifty runs of the example are in the notes of issue 26."""
    code = (
        "import torch, opentrn.torch\nx = torch.ones(4, 4, device='neuron', requires_grad=True)\n"
        "(x @ x).relu().sum().backward()\n"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
