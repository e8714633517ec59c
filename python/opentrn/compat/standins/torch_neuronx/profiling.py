"""`torch_neuronx.profiling`: torch.profiler on the device."""

from opentrn.torch.profiling import NeuronConfig, NeuronProfiler, ProfileMode

__all__ = ["NeuronConfig", "NeuronProfiler", "ProfileMode"]
