"""Times of a model's programs by its config.json alone, on one NeuronCore or on ranks that share the model.

Each physical core has its part of the heads, the feed-forward features and the vocabulary (tensor parallel); its part
is compiled and timed, beside those of the other cores of its HBM stack. What the ranks exchange, two all-reduces a
layer and a gather of the logits, has the time that src/collectives gives it on the instance. Layers of a kind, with
experts or without, are alike: two short models of each are timed, and their difference is a layer's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.base.files import shown
from opentrn.errors import InputError
from opentrn.generate.language_model import BLOCK_TOKENS, Bucket
from opentrn.generate.ranks import band_of, expect_instance, time_on_stack
from opentrn.kernel import run as _timings  # noqa: F401 - gives _core.Timing its methods
from opentrn.settings import environment

__all__ = ["SizesOnly", "StepTime"]

_SHORT = (2, 4)  # layers of the two models that are timed


@dataclass(frozen=True)
class StepTime:
    """predicted_us: of the device, with what the ranks exchange (collectives_us). bound_by: of a rank's own part.
    band: as Timing.band, in which the measured time is expected, or why that is unknown; trust: a line of it."""

    predicted_us: float
    collectives_us: float
    bound_by: str
    band: dict[str, Any]
    trust: str


class SizesOnly:
    """path: a config.json of Hugging Face's. ranks: NeuronCores that share the model, on one `instance`.
    lnc: physical cores of each of them. quantization, kv_cache_dtype: as LanguageModel's.

    The attributes are those of LanguageModel that step times need. Raises InputError for a file that is none, and for
    ranks without an instance.
    """

    def __init__(
        self, path: Path, *, target: str | None = None, dtype: str = "f16", context: int = 2048, sequences: int = 1,
        ranks: int = 1, instance: str | None = None, lnc: int = 1, quantization: str = "none",
        kv_cache_dtype: str = "auto",
    ) -> None:  # fmt: skip
        self.path, self.target, self.dtype = path, environment.target(target or instance), dtype
        self._quantization, self._kv_cache_dtype = quantization, kv_cache_dtype
        try:
            self._text = _core.read_text_file(path, "generate.step_times", "a config.json")
            found = json.loads(self._text)
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(f"{shown(path)}: {error}", label="generate.step_times") from error
        if not isinstance(found, dict):
            raise InputError(f"{shown(path)} is not a JSON object", label="generate.step_times")
        expect_instance(ranks, instance, lnc)
        self._cores, self._lnc = ranks * lnc, lnc
        refusing = (1, 1, BLOCK_TOKENS, False)
        _core.time_of_config(self._text, self.target, dtype, refusing, self._cores, 1, cores_per_rank=lnc)
        sizes = _core.sizes_of_config(self._text)
        trained = sizes.pop("context")
        self._kinds = {kind: count for kind, count in sizes.items() if count > 0}
        self.context = _core.whole_context(context, trained)
        self.ranks, self.instance = ranks, instance
        self.buckets = _core.program_sizes(self.context, sequences)

    def program(self, bucket: Bucket, *, choice: str = "host") -> StepTime:
        """The step of these sizes. choice: as LanguageModel.program."""
        if sum(self._kinds.values()) <= _SHORT[1]:
            long = self._timed(bucket, 0, choice, "")
            device = time_on_stack(long, self._cores)
        else:
            # The model around the layers is that of the kind which most are of.
            few, many = _SHORT
            device, long = 0.0, None
            for kind, count in sorted(self._kinds.items(), key=lambda row: -row[1]):
                made = self._timed(bucket, many, choice, kind)
                both = time_on_stack(made, self._cores)
                layer = (both - time_on_stack(self._timed(bucket, few, choice, kind), self._cores)) / (many - few)
                device += count * layer if long else both + (count - many) * layer
                long = long or made
        assert long is not None
        exchange = self._exchange(bucket, choice)
        predicted = device + exchange + _core.results_us_of_config(self._text, bucket, choice)
        band, trust = band_of(long, predicted / long.time_us)
        return StepTime(predicted, exchange, long.bound_by, band, trust)

    def _timed(self, bucket: Bucket, layers: int, choice: str, kind: str) -> Any:
        return _core.time_of_config(
            self._text, self.target, self.dtype, bucket, self._cores, layers, choice=choice, cores_per_rank=self._lnc,
            quantization=self._quantization, kv_cache_dtype=self._kv_cache_dtype, kind=kind,
        )  # fmt: skip

    def _exchange(self, bucket: Bucket, choice: str) -> float:
        """Microseconds: sums of the rows of the hidden size after attention and after the feed-forward layer, and the
        logits of each sequence in fp32 or, of the likeliest tokens, each rank's."""
        return float(
            _core.exchange_us_of_config(
                self._text, self.target, self.dtype, bucket, self._cores, self.instance or "", self._lnc, choice
            )
        )
