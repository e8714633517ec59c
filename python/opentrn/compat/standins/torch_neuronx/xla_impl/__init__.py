"""`torch_neuronx.xla_impl`, from which programs take custom_op."""

from . import custom_op

__all__ = ["custom_op"]
