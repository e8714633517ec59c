"""Stand-in for `neuronxcc.starfish.support`."""
