"""/metrics: numbers of the engine under the names of vLLM, of AWS's plugin, and our own for predicted times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)

# Name: what it is. A histogram each, with one value per request.
_OF_REQUESTS = {
    "vllm:time_to_first_token_seconds": ("Time from arrival to the first token.", _SECONDS),
    "vllm:request_time_per_output_token_seconds": ("Mean time per token after the first.", _SECONDS),
    "vllm:e2e_request_latency_seconds": ("Time from arrival to the last token.", _SECONDS),
    "vllm:request_queue_time_seconds": ("Time from arrival to the first step.", _SECONDS),
    "vllm:request_prefill_time_seconds": ("Time from the first step to the first token.", _SECONDS),
    "vllm:request_decode_time_seconds": ("Time from the first to the last token.", _SECONDS),
    "vllm:request_inference_time_seconds": ("Time from the first step to the last token.", _SECONDS),
    "vllm:request_prompt_tokens": ("Tokens of the prompt.", _COUNTS),
    "vllm:request_generation_tokens": ("Tokens of the answer.", _COUNTS),
    "vllm:request_params_max_tokens": ("Tokens that were asked for at most.", _COUNTS),
    "opentrn:predicted_first_token_seconds": ("Predicted device time from arrival to the first token.", _SECONDS),
    "opentrn:predicted_e2e_seconds": ("Predicted device time from arrival to the last token.", _SECONDS),
}


class Metrics:
    """Counts of one engine; page() is the text of Prometheus."""

    def __init__(self, model: str, engine: Any) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self._engine = engine
        self._registry = CollectorRegistry()
        self._registry.register(self)  # what the engine counts itself
        self._labels = {"model_name": model, "engine": "0"}
        names = list(self._labels)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Any:
            return Histogram(name, text, names, buckets=buckets, registry=self._registry).labels(**self._labels)

        self._of_requests = {name: histogram(name, *rest) for name, rest in _OF_REQUESTS.items()}
        self._between = histogram("vllm:inter_token_latency_seconds", "Time between two tokens of a request.", _SECONDS)
        self._iteration = histogram("vllm:iteration_tokens_total", "Tokens of a step.", _COUNTS)
        self._prompt = Counter("vllm:prompt_tokens", "Tokens of prompts.", names, registry=self._registry)
        self._given = Counter("vllm:generation_tokens", "Tokens that were given.", names, registry=self._registry)
        self._success = Counter(
            "vllm:request_success", "Requests that ended.", [*names, "finished_reason"], registry=self._registry
        )
        for reason in ("stop", "length", "abort", "error"):
            self._success.labels(**self._labels, finished_reason=reason)
        self._last: dict[int, float] = {}
        self._started = time.time()
        self.startup_s = 0.0
        self.load_s = 0.0

    def step(self, report: dict[str, Any]) -> None:
        """After each step, on the engine's thread."""
        self._iteration.observe(report["tokens"])
        now = report["end_s"]
        newest = 0
        for number, *_, end in report["events"]:
            if number in self._last and number != newest:  # tokens that a step gives together have no time between them
                self._between.observe(now - self._last[number])
            self._last[number], newest = now, number
            if end is not None:
                self._last.pop(number, None)
        self._given.labels(**self._labels).inc(len(report["events"]))
        for running, delta in report["ended"]:
            self._last.pop(running.id, None)
            self._request(delta.end, running.params.max_tokens, delta.finish)
        if len(self._last) > 4096:  # of requests that were taken back
            self._last = {number: at for number, at in self._last.items() if number in report["requests"]}

    def _request(self, end: dict[str, Any], max_tokens: int, finish: str) -> None:
        reason = finish if finish in ("stop", "length") else "error"
        self._success.labels(**self._labels, finished_reason=reason).inc()
        self._prompt.labels(**self._labels).inc(end["prompt_tokens"])
        tokens = end["output_tokens"]
        if tokens == 0:
            return
        first, last, queue = end["first_token_s"], end["end_s"], end["queue_s"]
        values = [first, (last - first) / max(1, tokens - 1), last, queue, first - queue, last - first, last - queue,
                  end["prompt_tokens"], tokens, max_tokens, end["predicted_first_token_s"],
                  end["predicted_end_s"]]  # fmt: skip
        for (name, histogram), value in zip(self._of_requests.items(), values):
            if name != "vllm:request_time_per_output_token_seconds" or tokens > 1:
                histogram.observe(value)

    def aborted(self) -> None:
        """A request that its client gave up."""
        self._success.labels(**self._labels, finished_reason="abort").inc()

    def collect(self) -> Iterator[Any]:
        """For prometheus_client: what the engine counts itself."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        stats = self._engine.core.stats()
        names, values = list(self._labels), list(self._labels.values())
        blocks = max(1, stats["blocks"])
        gauges = {
            "vllm:num_requests_running": ("Requests in the batch.", stats["running"]),
            "vllm:num_requests_waiting": ("Requests that wait.", stats["waiting"]),
            "vllm:kv_cache_usage_perc": ("Fraction of the KV blocks in use; 1: all.", stats["used_blocks"] / blocks),
            "vllm_neuron:startup_time_seconds": ("Until the server was ready.", self.startup_s),
            "vllm_neuron:compilation_time_seconds": ("Spent on compiling and timing programs.", stats["compile_s"]),
            "vllm_neuron:model_load_time_seconds": ("Until weights were loaded.", self.load_s),
        }
        counters = {
            "vllm:prefix_cache_queries": ("Tokens looked for in the prefix cache.", stats["prefix_queries"]),
            "vllm:prefix_cache_hits": ("Tokens found in the prefix cache.", stats["prefix_hits"]),
            "vllm:num_preemptions": ("Requests that lost their place.", stats["preemptions"]),
            "vllm_neuron:num_seqs_padding": ("Rows of decode steps that were padding.", stats["decode_padding"]),
            "vllm_neuron:num_batched_tokens_padding": ("Tokens of prefill that were padded.", stats["prefill_padding"]),
            "vllm_neuron:neff_execution_count": ("Steps.", stats["steps"]),
            "vllm:spec_decode_num_drafts": ("Times that guesses of a request were computed.", stats["drafts"]),
            "vllm:spec_decode_num_draft_tokens": ("Tokens that were guessed.", stats["draft_tokens"]),
            "vllm:spec_decode_num_accepted_tokens": ("Guesses that were right.", stats["accepted_tokens"]),
            "opentrn:predicted_device_seconds": ("Predicted time of all steps.", stats["predicted_s"]),
        }
        for kind, rows in ((GaugeMetricFamily, gauges), (CounterMetricFamily, counters)):
            for name, (text, value) in rows.items():
                family = kind(name, text, labels=names)
                family.add_metric(values, value)
                yield family
        by_place = CounterMetricFamily(
            "vllm:spec_decode_num_accepted_tokens_per_pos", "Right guesses by their place.", labels=[*names, "position"]
        )
        for place, value in enumerate(stats["accepted_by_place"]):
            by_place.add_metric([*values, str(place)], value)
        if stats["accepted_by_place"]:
            yield by_place

    def describe(self) -> list[Any]:
        """Nothing is known before it is asked for."""
        return []

    def page(self) -> bytes:
        """The text that Prometheus reads."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)
