"""AWS's rules over vLLM's scheduler, written down literally from their public description.

Sources: `neuron`: aws-neuron-sdk, vllm-neuron/docs/design/vllm/neuron-scheduler.md (2026-06-23); `neuron-nxdi`: what the
public plugin 0.2 (vllm-project/vllm-neuron) does. Both let the base scheduler see a part of the queues, call it, and put
back the rest.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler


def is_prefill(request: Any) -> bool:
    return request.num_computed_tokens < request.num_prompt_tokens


class Neuron(Scheduler):
    """Prefill and decode apart, one prefill at a time, prefill first while there is room."""

    prefills_at_once = 1

    def concurrent(self) -> int:
        """Requests whose blocks last whatever they grow to."""
        blocks_each = -(-self.max_model_len // self.block_size)
        return self.cache_config.num_gpu_blocks // blocks_each or self.max_num_running_reqs

    def may_enter(self) -> bool:
        return (
            len(self.running) < self.max_num_running_reqs
            and not any(map(is_prefill, self.running))
            and len(self.waiting) < self.prefills_at_once
            and len(self.running) < self.concurrent()
        )

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        held = deque(self.waiting)
        self.waiting.clear()
        while held and self.may_enter():
            self.waiting.append(held.popleft())
        hidden: list[Any] = []
        if any(map(is_prefill, self.running)):
            hidden = [request for request in self.running if not is_prefill(request)]
            self.running = [request for request in self.running if is_prefill(request)]
        elif self.waiting:
            hidden, self.running = self.running, []
        output = super().schedule(*args, **kwargs)
        self.running = self.running + hidden
        self.waiting.extend(held)
        return output


class NeuronNxdi(Neuron):
    """The plugin before 0.21: a prompt is one step, and only places are counted."""

    def may_enter(self) -> bool:
        places = len(self.running) + len(self.waiting) < self.max_num_running_reqs
        return len(self.running) + len(self.waiting) == 0 or (places and len(self.waiting) < self.prefills_at_once)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        held = deque(self.waiting)
        self.waiting.clear()
        while held and self.may_enter():
            self.waiting.append(held.popleft())
        hidden: list[Any] = []
        if self.waiting:
            hidden, self.running = self.running, []
        output = Scheduler.schedule(self, *args, **kwargs)
        self.running = self.running + hidden
        self.waiting.extend(held)
        return output


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
