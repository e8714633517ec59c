"""Stand-in for `neuronxcc.starfish.support.dtype`, the older name of neuron_dtypes."""

from opentrn.standins.neuron_dtypes import *  # noqa: F403
