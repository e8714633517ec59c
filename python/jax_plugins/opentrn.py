"""Makes a checkout's `python` folder on PYTHONPATH enough for JAX to find the `neuron` platform."""

from opentrn.jax.plugin import initialize

__all__ = ["initialize"]
