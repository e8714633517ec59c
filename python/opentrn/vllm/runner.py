"""Steps of vLLM's scheduler on OpenTrn's engine: what a request has, which programs run, which tokens follow.

Nothing of vLLM is imported here: what its scheduler says comes as the objects that it makes.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.errors import InputError
from opentrn.vllm.totals import Totals

__all__ = ["Clock", "Held", "Runner", "Sample", "params_of"]

Bucket = tuple[int, int, int, bool]
_CHOICES = ("host", "likeliest", "drawn", "drawn-truncated")  # each can choose what those before it can, but the host
_LIKELIEST = 1e-5  # vLLM's bound: a lower temperature takes the likeliest token


@dataclass
class Clock:
    """Predicted time of all steps so far, in seconds, and when requests came by it. One of the process: the scheduler
    notes arrivals, the runner adds steps."""

    now: float = 0.0
    arrivals: dict[str, float] = field(default_factory=dict)


CLOCK = Clock()


@dataclass
class Held:
    """A request as the engine needs it. `blocks` are those of the scheduler, in order."""

    name: str
    tokens: list[int]
    prompt: int
    params: Mapping[str, Any]
    stop: frozenset[int]
    min_tokens: int
    logprobs: int  # of so many tokens beside the chosen one; -1: none
    allowed: np.ndarray | None
    bad_words: list[list[int]]
    draws: Any
    blocks: list[int]
    computed: int
    arrival: float
    own: float = 0.0
    first: float | None = None
    structured: bool = False  # a grammar says which tokens may come

    def choice(self) -> str:
        """The least that gives the next token: the host, or a program that chooses so."""
        if self.structured or self.allowed is not None:
            return "host"
        return str(_core.choice_of(self.sampling()))

    def sampling(self) -> dict[str, Any]:
        """The parameters of the next token."""
        return {**self.params, "bias": self.bias()}

    def bias(self) -> list[tuple[int, float]]:
        """Of the next token: the user's, and what must not follow yet."""
        rows = list(self.params["bias"])
        given = len(self.tokens) - self.prompt
        if given < self.min_tokens:
            rows += [(token, -math.inf) for token in self.stop]
        for word in self.bad_words:
            before = word[:-1]
            if not before or (len(before) <= given and self.tokens[-len(before) :] == before):
                rows.append((word[-1], -math.inf))
        return rows


@dataclass(frozen=True)
class Sample:
    """A token of a request, and of what probability it was. `top`: likeliest tokens, with log probabilities."""

    name: str
    token: int
    logprob: float
    rank: int
    top: list[tuple[int, float]]


def params_of(params: Any, vocabulary: int) -> dict[str, Any]:
    """The sampler's parameters of vLLM's SamplingParams."""
    logprobs = -1 if params.logprobs is None else params.logprobs
    temperature = 0.0 if params.temperature < _LIKELIEST else params.temperature
    return {
        "temperature": temperature,
        "top_k": max(0, params.top_k),
        "top_p": params.top_p,
        "min_p": params.min_p,
        "repetition_penalty": params.repetition_penalty,
        "frequency_penalty": params.frequency_penalty,
        "presence_penalty": params.presence_penalty,
        "logprobs": vocabulary if params.logprobs == -1 else logprobs,
        "bias": list((params.logit_bias or {}).items()),
    }


def _mask_of(allowed: list[int] | None, vocabulary: int) -> np.ndarray | None:
    """A bit for each token, as grammars have it."""
    if not allowed:
        return None
    bits: np.ndarray = np.zeros((vocabulary + 31) // 32 * 32, dtype=np.uint8)
    bits[allowed] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


class Runner:
    """`engine`: _core.DecoderEngine, whose pool has the scheduler's blocks. seed: of requests without one.
    on_device_sampling: what programs choose at most, where no request of a step asks for more ("host": nothing)."""

    def __init__(
        self, engine: Any, *, seed: int = 0, paced: bool = False, totals: Totals | None = None,
        trace: str | None = None, clock: Clock = CLOCK, wait: Callable[[float], None] = time.sleep,
        on_device_sampling: str = "host",
    ) -> None:  # fmt: skip
        self.engine = engine
        self.vocabulary: int = engine.config["vocabulary"]
        self.requests: dict[str, Held] = {}
        self.clock = clock
        self._seed, self._paced, self._totals, self._wait = seed, paced, totals, wait
        self._count = 0
        self._most = _CHOICES.index(on_device_sampling)
        self._times: dict[tuple[Bucket, str], float] = {}
        self._pending: list[tuple[Held, np.ndarray | int]] = []  # logits of the next token, or the token
        try:
            self._trace = open(trace, "w", encoding="utf-8") if trace else None  # noqa: SIM115 - until close()
        except OSError as error:
            raise InputError(f"{trace}: {error.strerror}", label="vllm.settings") from error

    # -- the scheduler's words
    def take(self, output: Any) -> None:
        """What ended, what is new, and what changed, of a SchedulerOutput."""
        for name in output.finished_req_ids:
            self._ended(name)
        for new in output.scheduled_new_reqs:
            self._add(new)
        cached = output.scheduled_cached_reqs
        for i, name in enumerate(cached.req_ids):
            held = self.requests[name]
            held.computed = cached.num_computed_tokens[i]
            fresh = cached.new_block_ids[i]
            if name in cached.resumed_req_ids:
                held.blocks = list(fresh[0]) if fresh else []
            elif fresh:
                held.blocks += fresh[0]

    def _add(self, new: Any) -> None:
        if known := self.requests.get(new.req_id):  # preempted, and back
            known.blocks, known.computed = list(new.block_ids[0]), new.num_computed_tokens
            return
        params = new.sampling_params
        self._count += 1
        seed = params.seed if params.seed is not None else (self._seed << 32) + self._count
        arrival = self.clock.arrivals.pop(new.req_id, self.clock.now)
        chosen = params_of(params, self.vocabulary)
        self.requests[new.req_id] = Held(
            new.req_id, list(new.prompt_token_ids), len(new.prompt_token_ids), chosen,
            frozenset(params.all_stop_token_ids), params.min_tokens, chosen["logprobs"],
            _mask_of(params.allowed_token_ids, self.vocabulary),
            [list(word) for word in params.bad_words_token_ids or []], _core.TokenDraws(seed % 2**64),
            list(new.block_ids[0]), new.num_computed_tokens, arrival,
            structured=getattr(params, "structured_outputs", None) is not None,
        )  # fmt: skip

    def _ended(self, name: str) -> None:
        held = self.requests.pop(name, None)
        self.clock.arrivals.pop(name, None)
        if held is None or held.first is None:
            return
        first, end = held.first - held.arrival, self.clock.now - held.arrival
        if self._totals is not None:
            self._totals.add(requests=1, first_token_s=first, end_s=end)
        self._write({
            "request": name, "prompt_tokens": held.prompt, "output_tokens": len(held.tokens) - held.prompt,
            "predicted_first_token_s": first, "predicted_end_s": end, "predicted_own_s": held.own,
        })  # fmt: skip

    # -- steps
    def run(self, output: Any) -> None:
        """Computes the step; sample() then chooses tokens."""
        self.take(output)
        begin, predicted = time.perf_counter(), 0.0
        self._pending = []
        group: list[tuple[Held, int]] = []
        entries = [(self.requests[name], count) for name, count in output.num_scheduled_tokens.items()]
        for i, entry in enumerate(entries):
            group.append(entry)
            # Neighbours of one token each share a program; a part of a prompt has its own.
            if entry[1] == 1 and i + 1 < len(entries) and entries[i + 1][1] == 1:
                continue
            predicted += self._run_group(group)
            group = []
        for held, _ in entries:
            held.own += predicted
        self.clock.now += predicted
        if self._totals is not None:
            self._totals.add(steps=1, predicted_s=predicted)
        self._write({
            "step": {"requests": [held.name for held, _ in entries], "tokens": output.total_num_scheduled_tokens,
                     "predicted_s": predicted, "host_s": time.perf_counter() - begin},
        })  # fmt: skip
        if self._paced:
            self._wait(max(0.0, predicted - (time.perf_counter() - begin)))

    def _run_group(self, group: list[tuple[Held, int]]) -> float:
        rows = [
            (held.tokens[held.computed : held.computed + count], held.computed, held.blocks) for held, count in group
        ]
        longest = max(count for _, count in group)
        context = max(held.computed + count for held, count in group)
        bucket = self.engine.bucket_of(len(group), longest, context)
        choice = self._choice_of([held for held, count in group if held.computed + count == len(held.tokens)])
        predicted = self.time_of(bucket, choice)
        if choice == "host":
            results = self.engine.step(rows)[0]
        else:
            results = self._chosen(rows, [held for held, _ in group], choice)
        if self._totals is not None:
            if longest > 1:
                self._totals.add(prefill_padding=bucket[1] - longest)
            else:
                self._totals.add(decode_padding=bucket[0] - len(group))
        for row, (held, count) in enumerate(group):
            held.computed += count
            if held.computed == len(held.tokens):
                self._pending.append((held, results[row]))
        return predicted

    def _choice_of(self, sampled: list[Held]) -> str:
        """The least that gives the next token of all of them; the host where programs do not choose so."""
        asked = [_CHOICES.index(held.choice()) for held in sampled]
        if 0 in asked or max(asked, default=0) > self._most:
            return "host"
        return _CHOICES[max([min(self._most, _CHOICES.index("likeliest")), *asked])]

    def _chosen(self, rows: list[tuple[list[int], int, list[int]]], group: list[Held], choice: str) -> list[int]:
        params = [held.sampling() for held in group]
        tokens, logits = _core.choose_tokens(self.engine, rows, params, [held.draws for held in group], choice)
        if not np.isfinite(logits[: len(rows)]).all() or max(tokens[: len(rows)]) >= self.vocabulary:
            raise InputError("the logits are not finite: a value of the model overflowed", label="decoder.overflow",
                             hint="--dtype bfloat16 or float32, which have a larger range than float16")  # fmt: skip
        return tokens

    def prepare(self, tokens: int) -> None:
        """Compiles the program of a request's first step of so many tokens, or of a later one."""
        self.time_of(self.engine.bucket_of(1, tokens, 2), self._choice_of([]))

    def time_of(self, bucket: Bucket, choice: str = "host") -> float:
        """Seconds that the device takes for the program, and its results to the host; compiled and timed when it is
        first asked for."""
        if (bucket, choice) not in self._times:
            begin = time.perf_counter()
            device = self.engine.time(bucket, choice=choice).time_us
            self._times[bucket, choice] = (device + self.engine.results_us(bucket, choice)) / 1e6
            if self._totals is not None:
                self._totals.add(programs=1, compile_s=time.perf_counter() - begin)
        return self._times[bucket, choice]

    def sample(self, masks: Mapping[str, np.ndarray]) -> list[Sample]:
        """A token for each request of the step that has no more of its prompt to come. `masks`: of grammars."""
        made = []
        for held, found in self._pending:
            if isinstance(found, int):
                made.append(self._take(held, Sample(held.name, found, 0.0, 0, [])))
                continue
            mask = masks.get(held.name)
            mask = held.allowed if mask is None else mask.view(np.uint32)
            if mask is not None and held.allowed is not None:
                mask = mask[: held.allowed.size] & held.allowed
            params = held.sampling()
            token, logprob, rank, top = _core.choose_token(
                found, params, held.tokens[: held.prompt], held.tokens[held.prompt :], mask, held.draws
            )
            made.append(self._take(held, Sample(held.name, token, logprob, rank, top)))
        self._pending = []
        return made

    def _take(self, held: Held, sample: Sample) -> Sample:
        held.tokens.append(sample.token)
        if held.first is None:
            held.first = self.clock.now
        return sample

    def _write(self, row: dict[str, Any]) -> None:
        if self._trace is not None:
            self._trace.write(json.dumps(row) + "\n")
            self._trace.flush()

    def close(self) -> None:
        """No step comes after it."""
        if self._trace is not None:
            self._trace.close()
            self._trace = None
