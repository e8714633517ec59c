"""AWS's scheduling rules over vLLM's scheduler, and vLLM's own, each with the times at which requests came.

Source of the rules: aws-neuron-sdk, vllm-neuron/docs/design/vllm/neuron-scheduler.md (2026-06-23). The base scheduler
sees a part of the queues, and the rest is put back after it. `./dev conformance vllm-scheduler` holds OpenTrn's own
scheduler, that of `opentrn serve` and `opentrn replay`, against these steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler

from opentrn.vllm.runner import CLOCK

__all__ = ["NeuronScheduler", "VllmScheduler"]


class VllmScheduler(Scheduler):
    """vLLM's rules."""

    running: list[Any]  # of the base class

    def add_request(self, request: Any) -> None:
        """Notes when it came, by the predicted time of the steps before it."""
        CLOCK.arrivals[request.request_id] = CLOCK.now
        super().add_request(request)


class NeuronScheduler(VllmScheduler):
    """Prefill and decode apart, one prefill at a time, prefill first while there is room; nobody is preempted."""

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """The next step."""
        entering, running = self.visible()
        with self._showing(entering, running):
            return super().schedule(*args, **kwargs)

    def visible(self) -> tuple[int, list[Any]]:
        """How many that wait may enter, and who of those that run takes part in the step."""
        unfinished = [one for one in self.running if one.num_computed_tokens < one.num_prompt_tokens]
        if unfinished:
            return 0, unfinished
        entering = int(bool(self.waiting) and len(self.running) < self.places())
        return entering, [] if entering else list(self.running)

    def places(self) -> int:
        """Requests that may run: no more than have blocks for whatever they grow to."""
        longest = -(-self.max_model_len // self.block_size)
        with_blocks = self.cache_config.num_gpu_blocks // longest or self.max_num_running_reqs
        return min(with_blocks, self.max_num_running_reqs)

    @contextmanager
    def _showing(self, entering: int, running: list[Any]) -> Iterator[None]:
        later = list(self.waiting)[entering:]
        others = [one for one in self.running if one not in running]
        for one in later:
            self.waiting.remove(one)
        self.running = running
        try:
            yield
        finally:
            self.running = self.running + others
            self.waiting.extend(later)
