"""Nested tensors: ops of the jagged layout run on the device, those of the strided one are refused and end nothing.

Sparse tensors are refused too.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the device is PyTorch's")

import opentrn.torch  # noqa: E402, F401

PARTS = [torch.arange(6.0).reshape(2, 3), torch.ones(4, 3)]


def test_jagged_tensors_compute_on_the_device() -> None:
    nested = torch.nested.nested_tensor(PARTS, layout=torch.jagged, device="neuron")
    doubled = nested * 2 + 1
    assert doubled.device.type == "neuron"
    for part, want in zip(doubled.unbind(), PARTS, strict=True):
        assert torch.equal(part.cpu(), want * 2 + 1)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    "call", ["nested + 1", "nested.cpu()", "nested.to_padded_tensor(0.0)", "repr(nested)"]
)
def test_ops_of_strided_ones_are_refused(call: str) -> None:
    nested = torch.nested.nested_tensor(PARTS, device="neuron")
    with pytest.raises(NotImplementedError, match=r"aten::.*strided layout.*try layout=torch\.jagged"):
        eval(call, {"nested": nested})


def test_a_gradient_of_a_strided_one_does_not_end_the_process() -> None:
    script = (
        "import torch, opentrn.torch\n"
        "nested = torch.nested.nested_tensor([torch.ones(2, 3)], device='neuron', requires_grad=True)\n"
        "try:\n    nested.sum().backward()\nexcept NotImplementedError as error:\n    print('refused', error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("refused aten::sum"), done.stderr[-500:]


def test_an_encoder_masks_its_padding_without_them() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
    x, padding = torch.randn(3, 6, 16), torch.arange(6) >= torch.tensor([6, 4, 2])[:, None]
    with torch.no_grad():
        want = encoder(x, src_key_padding_mask=padding)
        found = encoder.to("neuron")(x.to("neuron"), src_key_padding_mask=padding.to("neuron")).cpu()
    torch.testing.assert_close(found[~padding], want[~padding])


def test_sparse_tensors_are_refused_with_a_way_out() -> None:
    table = torch.nn.Embedding(8, 4, sparse=True).to("neuron")
    with pytest.raises(NotImplementedError, match=r"no sparse tensors on device neuron; try sparse=False"):
        table(torch.tensor([1, 2]).to("neuron")).sum().backward()
    with pytest.raises(NotImplementedError, match="no sparse tensors on device neuron"):
        torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,), check_invariants=False).to("neuron")
