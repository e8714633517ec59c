"""Stand-in for `neuronxcc.starfish`."""
