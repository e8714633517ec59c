"""Predicted times in vLLM's /metrics, under the names that opentrn serve has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

from opentrn.vllm.settings import TOTALS_KEY
from opentrn.vllm.totals import Totals

__all__ = ["PredictedTimes"]

# Name in the file of totals: name and text of the counter.
_COUNTERS = {
    "predicted_s": ("opentrn:predicted_device_seconds", "Predicted time of all steps."),
    "steps": ("vllm_neuron:neff_execution_count", "Steps."),
    "prefill_padding": ("vllm_neuron:num_batched_tokens_padding", "Tokens of prefill that were padded."),
    "decode_padding": ("vllm_neuron:num_seqs_padding", "Rows of decode steps that were padding."),
    "compile_s": ("vllm_neuron:compilation_time_seconds", "Spent on compiling and timing programs."),
}
_SUMMARIES = {
    "first_token_s": ("opentrn:predicted_first_token_seconds", "Predicted device time from arrival to first token."),
    "end_s": ("opentrn:predicted_e2e_seconds", "Predicted device time from arrival to the last token."),
}


class PredictedTimes(StatLoggerBase):
    """vLLM makes one in the server's process; the numbers come from the engine's process by a file."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        from prometheus_client import REGISTRY

        additional = vllm_config.additional_config
        path = additional.get(TOTALS_KEY) if isinstance(additional, dict) else None
        self._totals = Totals(path) if path else None  # vLLM runs on another platform
        self._labels = {"model_name": str(vllm_config.model_config.served_model_name), "engine": str(engine_index)}
        if self._totals is not None:
            REGISTRY.register(self)  # a collector by its methods

    def collect(self) -> Iterator[Any]:
        """For prometheus_client."""
        from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

        totals = self._totals
        if totals is None:
            return
        names, values = list(self._labels), list(self._labels.values())
        for key, (name, text) in _COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=names)
            counter.add_metric(values, totals[key])
            yield counter
        for key, (name, text) in _SUMMARIES.items():
            summary = SummaryMetricFamily(name, text, labels=names)
            summary.add_metric(values, count_value=int(totals["requests"]), sum_value=totals[key])
            yield summary

    def describe(self) -> list[Any]:
        """Nothing is known before it is asked for."""
        return []

    def record(self, *args: Any, **kwargs: Any) -> None:
        """Of a step; all that is shown is in the file."""

    def log_engine_initialized(self) -> None:
        """Nothing to say."""
