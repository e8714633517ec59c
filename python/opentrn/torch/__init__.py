"""PyTorch on simulated NeuronCores.

    import opentrn.torch                                # an installed OpenTrn needs no import
    model = torch.compile(model, backend="neuron")

docs/pytorch.md says what works. torch is the user's: this package pins none and imports it only here.
"""

from opentrn.torch.backend import neuron, register
from opentrn.torch.eager import start
from opentrn.torch.registry import NoDeviceForm
from opentrn.torch.settings import Settings

__all__ = ["NoDeviceForm", "Settings", "neuron"]

start()  # fails where the environment is wrong; a second import is then to say so again
register()
