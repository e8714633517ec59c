"""What the platform `neuron` of JAX needs of Python: discovery, callbacks, lowerings, sharding."""
