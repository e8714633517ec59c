"""The gradient of GELU as torch's kernels have it, in fewer passes than torch's decomposition."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the device is torch's")

from opentrn.torch import decompositions  # noqa: E402
from opentrn.torch.gelu import gelu_backward  # noqa: E402


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_are_torchs(approximate: str, dtype: torch.dtype) -> None:
    corners = torch.tensor([0.0, -0.0, 1e-30, 30.0, -30.0, 1e14, -1e14, -1e18])
    x = torch.cat([torch.linspace(-9, 9, 4001), corners]).to(dtype)
    grad = torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    wide = torch.ops.aten.gelu_backward(grad.double(), x.double(), approximate=approximate)
    found = gelu_backward(grad, x, approximate)
    assert found.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float32 else 2**-8
    torch.testing.assert_close(found.double(), wide, rtol=tolerance, atol=tolerance)
    special = torch.tensor([float("nan"), float("inf"), -float("inf")], dtype=dtype)
    one = torch.ones_like(special)
    assert gelu_backward(one, special, approximate)[0].isnan()


def test_that_of_the_tangent_has_fewer_ops_than_torchs() -> None:
    from torch._decomp import core_aten_decompositions
    from torch.fx.experimental.proxy_tensor import make_fx

    op = torch.ops.aten.gelu_backward.default
    ours = decompositions.table()[op]
    assert ours is gelu_backward
    x = torch.randn(4)

    def passes(form: object) -> int:
        """Ops on tensors, without those by a number, which the op behind them takes along."""
        traced = make_fx(lambda g, y: form(g, y, approximate="tanh"))(x, x)
        calls = [node for node in traced.graph.nodes if node.op == "call_function"]
        return sum(1 for node in calls if len(node.all_input_nodes) > 1 or not isinstance(node.args[-1], (int, float)))

    assert passes(ours) < passes(core_aten_decompositions()[op])
