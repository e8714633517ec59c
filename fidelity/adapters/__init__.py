"""One adapter per family of published rows: from a row to the kernel it measured, timed.

An adapter is a function (row, checkouts) -> Predicted that raises NotReproducible with the reason when the
row has no public kernel, no stated shape, or no checkout. It never returns a guess.
"""

from collections.abc import Callable
from typing import Any

from adapters import _common, accelopt, autocomp, models, nki_docs, nkiautotune, nkilib
from adapters._common import NotReproducible, Predicted

ADAPTERS: dict[str, Callable[..., Any]] = {
    "accelopt": accelopt.predict,
    "autocomp": autocomp.predict,
    "nki": nki_docs.predict,
    "nkiautotune": nkiautotune.predict,
    "nkilib": nkilib.predict,
    "encoder": models.predict,
    "decoder": models.predict,
    "cnn": models.predict,
    "vit": models.predict,
}


def family_of(row: dict[str, str]) -> str:
    """The key of a row's adapter: who published a kernel, what kind of network a model is."""
    return models.family_of(row) if row["category"] == models.CATEGORY else row["id"].split(".")[0]


def is_known(row: dict[str, str]) -> bool:
    """Whether a run shows this row's metric in its unit."""
    return models.is_known(row) if row["category"] == models.CATEGORY else _common.is_known(row)


__all__ = ["ADAPTERS", "NotReproducible", "Predicted", "family_of", "is_known", "models"]
