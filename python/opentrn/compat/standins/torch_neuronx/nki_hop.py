"""`torch_neuronx.nki_hop`, from which programs take wrap_nki."""

from opentrn.torch.neuronx import nki_op, wrap_nki

__all__ = ["nki_op", "wrap_nki"]
