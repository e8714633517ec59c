"""One adapter per family of published rows: from a row to the kernel it measured, timed.

An adapter is a function (row, checkouts) -> Predicted that raises NotReproducible with the reason when the
row has no public kernel, no stated shape, or no checkout. It never returns a guess.
"""

from collections.abc import Callable
from typing import Any

from adapters import (
    _common,
    accelopt,
    autocomp,
    collectives,
    llm,
    models,
    nki_docs,
    nkiautotune,
    nkilib,
    pipelines,
)  # fmt: skip
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
    "pipeline": pipelines.predict,
    collectives.CATEGORY: collectives.predict,
    **{category + part: llm.predict for category in llm.CATEGORIES for part in ("", ".server")},
}


# Categories whose rows say what they are otherwise than kernels do.
_OF_CATEGORY = {
    models.CATEGORY: models,
    collectives.CATEGORY: collectives,
    **dict.fromkeys(llm.CATEGORIES, llm),
}


def family_of(row: dict[str, str]) -> str:
    """The key of a row's adapter: who published a kernel, what kind of network a model is, or `collective`."""
    of_category = _OF_CATEGORY.get(row["category"])
    return of_category.family_of(row) if of_category else row["id"].split(".")[0]


def is_known(row: dict[str, str]) -> bool:
    """Whether a run shows this row's metric in its unit."""
    return _OF_CATEGORY.get(row["category"], _common).is_known(row)


def is_time(row: dict[str, str]) -> bool:
    """Whether the row publishes a time."""
    return _OF_CATEGORY.get(row["category"], _common).is_time(row)


def is_utilisation(row: dict[str, str]) -> bool:
    """Whether the row publishes work over time, which is a time in other words."""
    return row["metric"] in ("throughput", *_common.UTILISATIONS, *collectives.RATES)


__all__ = [
    "ADAPTERS", "NotReproducible", "Predicted", "family_of", "is_known", "is_time", "is_utilisation", "collectives",
    "llm", "models",
]  # fmt: skip
