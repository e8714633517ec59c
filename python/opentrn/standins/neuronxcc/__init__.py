"""Stand-in for `neuronxcc`: `neuronxcc.nki` (NKI 0.1) and `neuronxcc.starfish.support.dtype`.

No compiler is inside.
"""
