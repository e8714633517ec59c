"""Times of a model's programs by its config.json alone, on one NeuronCore or on ranks that share the model.

Each rank has its part of the heads, the feed-forward features and the vocabulary (tensor parallel); its part is
compiled for one core and timed. What the ranks exchange, two all-reduces a layer and a gather of the logits, has the
time that src/collectives gives it on the instance. Layers are alike: two short models are timed, and their difference
is a layer's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.base.files import shown
from opentrn.errors import InputError
from opentrn.generate.language_model import BLOCK_TOKENS, Bucket, program_sizes
from opentrn.kernel import run as _timings  # noqa: F401 - gives _core.Timing its methods
from opentrn.settings import environment

__all__ = ["SizesOnly", "StepTime"]

_SHORT = (2, 4)  # layers of the two models that are timed
_BYTES = {"bf16": 2, "f16": 2, "f32": 4}


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

    The attributes are those of LanguageModel that step times need. Raises InputError for a file that is none, and for
    ranks without an instance.
    """

    def __init__(
        self, path: Path, *, target: str | None = None, dtype: str = "f16", context: int = 2048, sequences: int = 1,
        ranks: int = 1, instance: str | None = None,
    ) -> None:  # fmt: skip
        self.path, self.target, self.dtype = path, environment.target(target), dtype
        try:
            self._text = _core.read_text_file(path, "generate.step_times", "a config.json")
            found = json.loads(self._text)
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            raise InputError(f"{shown(path)}: {error}", label="generate.step_times") from error
        if not isinstance(found, dict):
            raise InputError(f"{shown(path)} is no JSON object", label="generate.step_times")
        if ranks > 1 and instance is None:
            raise InputError(f"{ranks} ranks exchange sums over the links of an instance", label="generate.step_times",
                             hint="--instance trn1.32xlarge")  # fmt: skip
        if ranks == 1 and instance is not None:
            raise InputError(f"an instance ({instance}) is of ranks that exchange sums, and this is one NeuronCore",
                             label="generate.step_times", hint="--ranks 32, or leave --instance out")  # fmt: skip
        _core.time_of_config(self._text, self.target, dtype, (1, 1, BLOCK_TOKENS, False), ranks, 1)  # refuses others
        gpt2 = "n_layer" in found
        self._layers = int(found["n_layer" if gpt2 else "num_hidden_layers"])
        self._hidden = int(found["n_embd" if gpt2 else "hidden_size"])
        self._vocabulary = int(found["vocab_size"])
        trained = int(found["n_positions" if gpt2 else "max_position_embeddings"])
        self.context = min(context, trained) // BLOCK_TOKENS * BLOCK_TOKENS
        if self.context < 64:
            raise InputError(f"a context of {context} positions, of at most {trained}", label="generate.context")
        self.ranks, self.instance = ranks, instance
        self.buckets = program_sizes(self.context, sequences)

    def program(self, bucket: Bucket) -> StepTime:
        """The step of these sizes."""
        few, many = (self._layers, self._layers) if self._layers <= _SHORT[1] else _SHORT
        long = self._timed(bucket, many)
        device = long.time_us
        if few < many:
            device += (self._layers - many) * (device - self._timed(bucket, few).time_us) / (many - few)
        exchange = self._exchange(bucket)
        band = self._band(long, (device + exchange) / long.time_us)
        if "unknown" in band:
            trust = f"error band unknown: {band['unknown']}"
        else:
            low, high = band["low_ns"] / 1e6, band["high_ns"] / 1e6
            by = f"{band['runs']} evidence runs of {band['kind']}"
            trust = f"{100 * band['share']:.0f} % band {low:.4g}-{high:.4g} ms by {by}"
        return StepTime(device + exchange, exchange, long.bound_by, band, trust)

    def _band(self, timing: Any, scale: float) -> dict[str, Any]:
        """That of the timed model, for a step `scale` times as long. The evidence of language models is of ranks that
        share one, so it holds with what they exchange."""
        band = dict(timing.band)
        for end in band.keys() & {"low_ns", "high_ns"}:
            band[end] *= scale
        return band

    def _timed(self, bucket: Bucket, layers: int) -> Any:
        return _core.time_of_config(self._text, self.target, self.dtype, bucket, self.ranks, layers)

    def _exchange(self, bucket: Bucket) -> float:
        """Microseconds: sums of the rows of the hidden size after attention and after the feed-forward layer, and the
        logits of each sequence in fp32."""
        if self.ranks == 1:
            return 0.0
        assert self.instance is not None  # the constructor refuses ranks without one
        instance = self.instance

        def of(operation: str, size: int) -> float:
            return float(json.loads(_core.predict_collective(operation, instance, 1, self.ranks, 1, size))["us"])

        rows = bucket[0] * bucket[1]
        sums = 2 * self._layers * of("all_reduce", _BYTES[self.dtype] * rows * self._hidden)
        return sums + of("all_gather", 4 * bucket[0] * self._vocabulary)
