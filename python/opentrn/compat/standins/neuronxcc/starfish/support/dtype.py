"""Stand-in for `neuronxcc.starfish.support.dtype`, the older name of neuron_dtypes."""

from opentrn.compat.standins.neuron_dtypes import *  # noqa: F403
