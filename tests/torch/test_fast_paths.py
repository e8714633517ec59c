"""What torch.nn's layers call when they infer, and dropout under activation checkpointing, as in eager PyTorch."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import opentrn.torch  # noqa: F401  (the backend)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(3)
    torch._dynamo.reset()


def inferred(module: torch.nn.Module, *arguments: torch.Tensor, **keywords: torch.Tensor):
    module.eval()
    with torch.no_grad():
        return torch.compile(module, backend="neuron")(*arguments, **keywords), module(*arguments, **keywords)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
def test_encoder_layers(norm_first: bool, activation: str, mask: str):
    layer = torch.nn.TransformerEncoderLayer(
        16, 4, 32, 0.1, activation, batch_first=True, norm_first=norm_first
    )
    x = torch.randn(3, 6, 16)
    causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
    padding = torch.arange(6)[None] >= torch.tensor([6, 4, 5])[:, None]
    keywords = {"none": {}, "causal": {"src_mask": causal}, "padding": {"src_key_padding_mask": padding}}[
        mask
    ]
    got, want = inferred(layer, x, **keywords)
    torch.testing.assert_close(got, want, rtol=0, atol=2e-6)


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention(need_weights: bool):
    attention = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(2, 5, 16)
    got, want = inferred(attention, x, x, x, need_weights=torch.tensor(need_weights).item())
    for one, other in zip(got, want, strict=True):
        if other is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=2e-6)


def test_a_checkpoint_drops_the_same_elements_twice():
    """Linear in x: each gradient is what its element was multiplied with, in the pass that made the value."""
    x = torch.ones(512, requires_grad=True)

    def kept(t: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(t, 0.4) * torch.nn.functional.dropout(t.detach(), 0.3)

    run = torch.compile(lambda t: checkpoint(kept, t, use_reentrant=False), backend="neuron")
    value = run(x)
    value.sum().backward()
    torch.testing.assert_close(value.detach(), x.grad, rtol=0, atol=1e-6)
    assert 0.3 < (value == 0).float().mean() < 0.8
