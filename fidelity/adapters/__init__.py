"""One adapter per family of published rows: from a row to the kernel it measured, timed.

An adapter is a function (row, checkouts) -> Predicted that raises NotReproducible with the reason when the
row has no public kernel, no stated shape, or no checkout. It never returns a guess.
"""

from adapters import accelopt, autocomp, nki_docs, nkiautotune, nkilib
from adapters._common import NotReproducible, Predicted, is_known

ADAPTERS = {
    "accelopt": accelopt.predict,
    "autocomp": autocomp.predict,
    "nki": nki_docs.predict,
    "nkiautotune": nkiautotune.predict,
    "nkilib": nkilib.predict,
}

__all__ = ["ADAPTERS", "NotReproducible", "Predicted", "is_known"]
