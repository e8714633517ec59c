"""`torch_neuronx.xla_impl.custom_op`: C++ operators of GpSimd."""

from opentrn.torch.gpsimd import load, load_library

__all__ = ["load", "load_library"]
