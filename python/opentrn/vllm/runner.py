"""Steps of vLLM's scheduler on OpenTrn's engine: what it says of requests, and the time that a step takes.

What a request has, which programs run and which tokens follow is src/server/foreign_steps.h.

Nothing of vLLM is imported here: what its scheduler says comes as the objects that it makes.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.errors import InputError
from opentrn.vllm.totals import Totals

__all__ = ["Clock", "Runner", "Sample"]


@dataclass
class Clock:
    """Predicted time of all steps so far, in seconds, and when requests came by it. One of the process: the scheduler
    notes arrivals, the runner adds steps."""

    now: float = 0.0
    arrivals: dict[str, float] = field(default_factory=dict)


CLOCK = Clock()


@dataclass(frozen=True)
class Sample:
    """A token of a request, and of what probability it was. `top`: likeliest tokens, with log probabilities."""

    name: str
    token: int
    logprob: float
    rank: int
    top: list[tuple[int, float]]


class Runner:
    """`engine`: _core.DecoderEngine, whose pool has the scheduler's blocks. seed: of requests without one.
    on_device_sampling: what programs choose at most, where no request of a step asks for more ("host": nothing)."""

    def __init__(
        self, engine: Any, *, seed: int = 0, paced: bool = False, totals: Totals | None = None,
        trace: str | None = None, clock: Clock = CLOCK, wait: Callable[[float], None] = time.sleep,
        on_device_sampling: str = "host",
    ) -> None:  # fmt: skip
        self.clock = clock
        self._paced, self._totals, self._wait = paced, totals, wait
        self._steps = _core.ForeignSteps(engine, on_device_sampling, seed % 2**64)
        self._compiled = 0, 0.0
        try:
            self._trace = open(trace, "w", encoding="utf-8") if trace else None  # noqa: SIM115 - until close()
        except OSError as error:
            raise InputError(f"{trace}: {error.strerror}", label="vllm.settings") from error

    @property
    def requests(self) -> dict[str, int]:
        """By name, of how many tokens beside the chosen one each wants log probabilities; -1: none."""
        return self._steps.logprobs()

    def prompt_scores(self, name: str) -> list[tuple[list[int], list[float], int]] | None:
        """Of each token of a prompt but the first, where a request asks: tokens (itself, then the likeliest), their log
        probabilities, and its rank. None before all of the prompt is computed, and once they were told."""
        return self._steps.prompt_scores(name)

    # -- the scheduler's words
    def take(self, output: Any) -> None:
        """What ended, what is new, and what changed, of a SchedulerOutput. Raises InputError for an unknown request."""
        for name in output.finished_req_ids:
            self._ended(name)
        for new in output.scheduled_new_reqs:
            self._add(new)
        cached = output.scheduled_cached_reqs
        for name, blocks, computed in zip(cached.req_ids, cached.new_block_ids, cached.num_computed_tokens):
            moves = self._steps.place if name in cached.resumed_req_ids else self._steps.grow
            moves(name, blocks[0] if blocks else [], computed)

    def _add(self, new: Any) -> None:
        name, params = new.req_id, new.sampling_params
        if not self._steps.has(name):  # else it was preempted, and is back
            seed = None if params.seed is None else params.seed % 2**64
            arrival = self.clock.arrivals.pop(name, self.clock.now)
            self._steps.add(name, new.prompt_token_ids, params, seed, arrival)
        self._steps.place(name, new.block_ids[0], new.num_computed_tokens)

    def _ended(self, name: str) -> None:
        ended = self._steps.end(name)
        self.clock.arrivals.pop(name, None)
        if ended is None:
            return
        prompt, output, arrival, first, own = ended
        waited, end = first - arrival, self.clock.now - arrival
        if self._totals is not None:
            self._totals.add(requests=1, first_token_s=waited, end_s=end)
        self._write({
            "request": name, "prompt_tokens": prompt, "output_tokens": output,
            "predicted_first_token_s": waited, "predicted_end_s": end, "predicted_own_s": own,
        })  # fmt: skip

    # -- steps
    def run(self, output: Any) -> None:
        """Computes the step; sample() then chooses tokens. Raises InputError for a step that no program holds."""
        self.take(output)
        begin = time.perf_counter()
        predicted, prefill_padding, decode_padding = self._steps.run(list(output.num_scheduled_tokens.items()))
        self.clock.now += predicted
        if self._totals is not None:
            self._totals.add(
                steps=1, predicted_s=predicted, prefill_padding=prefill_padding, decode_padding=decode_padding
            )
        self._count_programs()
        self._write({
            "step": {"requests": list(output.num_scheduled_tokens), "tokens": output.total_num_scheduled_tokens,
                     "predicted_s": predicted, "host_s": time.perf_counter() - begin},
        })  # fmt: skip
        if self._paced:
            self._wait(max(0.0, predicted - (time.perf_counter() - begin)))

    def _count_programs(self) -> None:
        """Adds to the totals what has been compiled since the last time."""
        before, self._compiled = self._compiled, (self._steps.programs, self._steps.compile_s)
        if self._totals is not None:
            programs, seconds = self._compiled
            self._totals.add(programs=programs - before[0], compile_s=seconds - before[1])

    def prepare(self, tokens: int) -> None:
        """Compiles the program of a first step of so many tokens. Raises InputError where no program has them."""
        self._steps.prepare(tokens)
        self._count_programs()

    def sample(self, masks: Mapping[str, np.ndarray]) -> list[Sample]:
        """A token for each request of the step that has no more of its prompt to come. `masks`: of grammars.

        Raises InputError for logits that are not finite, and for a mask that allows no token.
        """
        words: dict[str, np.ndarray] = {name: mask.view(np.uint32) for name, mask in masks.items()}
        return list(itertools.starmap(Sample, self._steps.sample(words, self.clock.now)))

    def _write(self, row: dict[str, Any]) -> None:
        if self._trace is not None:
            self._trace.write(json.dumps(row) + "\n")
            self._trace.flush()

    def close(self) -> None:
        """No step comes after it."""
        if self._trace is not None:
            self._trace.close()
            self._trace = None
