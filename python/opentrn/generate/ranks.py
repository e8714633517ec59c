"""Ranks that share a model: what is refused, and the error bands of their steps."""

from __future__ import annotations

from typing import Any

from opentrn.errors import InputError

__all__ = ["band_of", "expect_instance", "time_on_stack"]


def expect_instance(ranks: int, instance: str | None, lnc: int = 1) -> None:
    """Raises InputError for ranks without an instance, and for an instance without ranks.

    lnc: physical cores of each rank.
    """
    if ranks < 1:
        raise InputError(f"{ranks} ranks", label="generate.ranks", hint="1 or more")
    if lnc not in (1, 2):
        raise InputError(f"ranks of {lnc} physical cores", label="generate.ranks", hint="1 or 2")
    if lnc == 2 and instance is None:
        raise InputError("the two physical cores of a rank exchange sums on an instance", label="generate.ranks",
                         hint="--instance trn2.48xlarge")  # fmt: skip
    if ranks > 1 and instance is None:
        raise InputError(f"{ranks} ranks exchange sums over the links of an instance", label="generate.ranks",
                         hint="--instance trn2.48xlarge")  # fmt: skip
    if ranks * lnc == 1 and instance is not None:
        raise InputError(f"an instance ({instance}) is of ranks that exchange sums, and this is one NeuronCore",
                         label="generate.ranks", hint="--ranks 32, or leave --instance out")  # fmt: skip


def band_of(timing: Any, scale: float) -> tuple[dict[str, Any], str]:
    """The band of a step that takes `scale` times as long as the timed part, and a line about it.

    The evidence of language models is of ranks that share one, so a band holds with what they exchange.
    """
    if scale == 1.0:
        return timing.band, timing.trust_text().splitlines()[0]
    band = dict(timing.band)
    for end in band.keys() & {"low_ns", "high_ns"}:
        band[end] *= scale
    if "unknown" in band:
        return band, f"error band unknown: {band['unknown']}"
    low, high = band["low_ns"] / 1e6, band["high_ns"] / 1e6
    by = f"{band['runs']} evidence runs of {band['kind']}"
    return band, f"{100 * band['share']:.0f} % band {low:.4g}-{high:.4g} ms by {by}"


def time_on_stack(timing: Any, cores: int) -> float:
    """Microseconds of a step that `cores` physical cores run beside each other, those of an HBM stack with its
    bandwidth."""
    return timing.time_us if cores == 1 else timing.beside_ns / 1e3
