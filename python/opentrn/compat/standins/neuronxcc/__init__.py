"""Stand-in for `neuronxcc`: `neuronxcc.nki` (NKI 0.1) and `neuronxcc.starfish.support.dtype`.

No compiler is inside. Scripts for the official package rely on the logging level that it adds:
`logging.disable(logging.OFF)`, which silences every message.
"""

import logging

if not hasattr(logging, "OFF"):
    logging.OFF = logging.CRITICAL + 10  # type: ignore[attr-defined]  # neuronxcc adds it
