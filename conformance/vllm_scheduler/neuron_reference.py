"""AWS's rules over vLLM's scheduler, written down literally from their public description.

Sources: `neuron`: aws-neuron-sdk, vllm-neuron/docs/design/vllm/neuron-scheduler.md (2026-06-23); `neuron-nxdi`: what
the public plugin 0.2 (vllm-project/vllm-neuron) does. Both let the base scheduler see a part of the queues, call it,
and put back the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler


class Neuron(Scheduler):
    """Prefill and decode apart, one prefill at a time, prefill first while there is room."""

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        entering, running = self.visible()
        with self.showing(entering, running):
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
    def showing(self, entering: int, running: list[Any]) -> Iterator[None]:
        """The base scheduler sees these alone; the others keep their order behind them."""
        later = list(self.waiting)[entering:]
        others = [one for one in self.running if one not in running]
        for one in later:
            self.waiting.remove(one)
        self.running = running
        yield
        self.running = self.running + others
        self.waiting.extend(later)


class NeuronNxdi(Neuron):
    """The plugin before 0.21: a prompt is one step, and only places are counted."""

    def visible(self) -> tuple[int, list[Any]]:
        entering = int(bool(self.waiting) and len(self.running) < self.max_num_running_reqs)
        return entering, [] if entering else list(self.running)


def padded(policy: str, phase: str, count: int, work: Any) -> int:
    """Rows or tokens of the compiled program: powers of two, the last as large as any step."""
    if policy == "vllm":
        return count
    if phase == "prefill":
        largest, size = min(work.max_num_batched_tokens, work.max_model_len), 128
    elif policy == "neuron":
        largest, size = work.max_num_seqs, 1
    else:
        return work.max_num_seqs
    while size < count:
        size *= 2
    return min(size, largest)
