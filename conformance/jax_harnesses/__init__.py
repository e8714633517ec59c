"""JAX's primitive harnesses, which its wheel carries, on OpenTrn's platform `neuron`."""
