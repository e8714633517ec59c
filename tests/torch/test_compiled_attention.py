"""Tests that attention in compiled graphs has torch's values and gradients, and keeps nothing of its scores' size."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")

import opentrn.torch  # noqa: E402, F401
from opentrn.torch import usage  # noqa: E402
from opentrn.torch.registry import NoDeviceForm  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention
TOKENS, SEEN = 5, 7


def _results(call: Any, given: list[Any], **options: Any) -> list[Any]:
    leaves = [each.clone().requires_grad_() for each in given]
    out = call(*leaves, **options)
    (out * out).sum().backward()
    return [out.detach(), *(each.grad for each in leaves)]


@pytest.mark.parametrize("case", ["causal", "mask", "bias", "scale", "nested", "grouped"])
def test_values_and_gradients_are_torchs(case: str) -> None:
    torch.manual_seed(0)
    seen = TOKENS if case == "causal" else SEEN
    groups = 1 if case == "grouped" else 3
    given = [torch.randn(2, 3, TOKENS, 4), torch.randn(2, groups, seen, 4), torch.randn(2, groups, seen, 6)]
    options: dict[str, Any] = {
        "causal": {"is_causal": True}, "mask": {"attn_mask": torch.rand(2, 1, TOKENS, SEEN) > 0.4},
        "bias": {"attn_mask": torch.randn(TOKENS, SEEN)}, "scale": {"scale": 0.2}, "nested": {},
        "grouped": {"enable_gqa": True},
    }[case]  # fmt: skip

    def call(q: Any, k: Any, v: Any, **more: Any) -> Any:
        return attention(torch.tanh(q) if case == "nested" else q, k, v, **more) * 2

    torch._dynamo.reset()
    before = set(usage._ALIVE)
    found = _results(torch.compile(call, backend="neuron"), given, **options)
    for ours, theirs in zip(found, _results(call, given, **options), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    shapes = [tuple(spec.shape) for program in set(usage._ALIVE) - before for spec in program.emitted.outputs]
    assert shapes and (2, 3, TOKENS, seen) not in shapes, shapes


def test_what_the_op_has_no_form_for_goes_another_way() -> None:
    torch._dynamo.reset()
    x = torch.randn(3, 4, 8)  # three dimensions
    torch.testing.assert_close(
        torch.compile(lambda q: attention(q, q, q), backend="neuron")(x), attention(x, x, x), rtol=1e-4, atol=1e-5
    )
    many = torch.randn(2, 2, 3, 4, 8)
    call = torch.compile(torch.vmap(lambda q: attention(q, q, q)), backend="neuron")
    torch.testing.assert_close(call(many), torch.vmap(lambda q: attention(q, q, q))(many), rtol=1e-4, atol=1e-5)
    with pytest.raises(NoDeviceForm, match="no second derivative"):
        q = torch.randn(1, 1, 2, 2, requires_grad=True)
        loss = torch.ops.opentrn.attention(q, q, q, None, False, 1.0).sum()
        (first,) = torch.autograd.grad(loss, q, create_graph=True)
        first.sum().backward()


def test_a_compiled_step_on_tensors_of_the_device_has_the_cpus_gradients() -> None:
    torch._dynamo.reset()
    torch.manual_seed(2)
    given = [torch.randn(2, 2, 4, 8) for _ in range(3)]
    ours = _results(
        torch.compile(lambda q, k, v: attention(q, k, v, is_causal=True), backend="neuron"),
        [each.to("neuron") for each in given],
    )
    for mine, theirs in zip(ours, _results(lambda q, k, v: attention(q, k, v, is_causal=True), given), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-5)


def test_a_causal_call_is_the_attention_kernel() -> None:
    torch._dynamo.reset()
    q = torch.randn(2, 3, TOKENS, 4)
    before = set(usage._ALIVE)
    torch.compile(lambda x: attention(x, x, x, is_causal=True), backend="neuron")(q)
    (program,) = set(usage._ALIVE) - before
    assert program.device_model.passes["attention"] == 1
