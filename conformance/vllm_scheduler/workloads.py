"""Seeded workloads of a scheduler: a configuration, requests, aborts.

A prompt may begin as another one does, or go on where the answer to another ended, so that the prefix cache is used;
pools are small enough that requests are preempted. Time is counted in turns of the engine's loop.
"""

from __future__ import annotations

import csv
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

STOP = 7  # the token that ends an answer; no other token is below 10
VOCABULARY = 5000


@dataclass
class Load:
    """One request. answer: the tokens that the model would give, as many as max_tokens."""

    at: int
    prompt: list[int]
    max_tokens: int
    answer: list[int]
    priority: int = 0
    adapter: int = 0  # 0: none
    salt: int = 0  # 0: none

    @property
    def stop_after(self) -> int:
        return self.answer.index(STOP) + 1 if STOP in self.answer else 0


@dataclass
class Workload:
    name: str
    policy: str
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    block_size: int
    num_blocks: int
    prefix_caching: bool
    async_scheduling: bool
    threshold: int
    reserve: bool
    order: str = "fcfs"
    max_loras: int = 0
    requests: list[Load] = field(default_factory=list)
    aborts: list[tuple[int, int]] = field(default_factory=list)

    def text(self) -> str:
        """For the driver."""
        lines = [
            f"config {self.policy} {self.max_num_seqs} {self.max_num_batched_tokens} {self.max_model_len} "
            f"{self.block_size} {self.num_blocks} {self.prefix_caching:d} {self.async_scheduling:d} "
            f"{self.threshold} {self.reserve:d} {self.order} {self.max_loras}"
        ]
        for load in self.requests:
            tokens = " ".join(map(str, load.prompt + load.answer))
            lines.append(
                f"request {load.at} {load.max_tokens} {load.stop_after} {load.priority} {load.adapter} {load.salt} "
                f"{len(load.prompt)} {len(load.answer)} {tokens}"
            )
        lines += [f"abort {at} {request}" for at, request in self.aborts]
        return "\n".join([*lines, "end", ""])


def tokens(draw: random.Random, count: int) -> list[int]:
    return [draw.randrange(10, VOCABULARY) for _ in range(count)]


def answer(draw: random.Random, count: int, stops: float) -> list[int]:
    given = tokens(draw, count)
    if draw.random() < stops:
        given[draw.randrange(count)] = STOP
    return given


def seeded(seed: int, policy: str) -> Workload:
    """The workload of a seed."""
    draw = random.Random(f"{policy} {seed}")
    block_size = draw.choice([1, 4, 8, 16, 32])
    max_model_len = draw.choice([32, 64, 128, 256])
    max_num_seqs = draw.choice([1, 2, 3, 4, 8, 16])
    each = -(-max_model_len // block_size)
    # From room for one request to room for all.
    num_blocks = 1 + each + draw.randrange(0, each * max_num_seqs + 1)
    batched = draw.choice([16, 32, 48, 64, 128, 256])
    if policy == "neuron-nxdi":
        batched = max_model_len
        num_blocks = 1 + each * max_num_seqs  # less is a deadlock there
    work = Workload(
        f"{policy} seed {seed}", policy, max_num_seqs, max(batched, max_num_seqs), max_model_len,
        block_size, num_blocks,
        prefix_caching=draw.random() < 0.75,
        async_scheduling=policy == "vllm" and draw.random() < 0.4,
        threshold=draw.choice([0, 0, 0, 8, 24]) if policy == "vllm" else 0,
        reserve=draw.random() < 0.8 if policy == "vllm" else True,
    )  # fmt: skip
    extra = random.Random(f"more of {policy} {seed}")  # so that the rest of a seed stays as it is
    if policy == "vllm":
        work.order = extra.choice(["fcfs", "priority"])
        work.max_loras = extra.choice([0, 0, 1, 2])
    stems = [tokens(draw, draw.randrange(1, max_model_len)) for _ in range(3)]
    turn = 0
    for _ in range(draw.randrange(1, 40)):
        turn += draw.choice([0, 0, 0, 1, 2, 5, 20])
        stem = draw.choice([*stems, []])
        if work.requests and draw.random() < 0.25:  # the next turn of a conversation
            before = draw.choice(work.requests)
            stem = before.prompt + before.answer[: draw.randrange(0, len(before.answer) + 1)]
        prompt = stem[: draw.randrange(0, len(stem) + 1)] + tokens(draw, draw.randrange(0, max_model_len))
        prompt = prompt[: draw.randrange(1, max_model_len)] or tokens(draw, 1)
        most = draw.randrange(1, max_model_len + 8)
        work.requests.append(Load(turn, prompt, most, answer(draw, most, 0.3)))
        if policy == "vllm":
            load = work.requests[-1]
            load.priority = extra.choice([0, 0, 1, 5, -2])
            load.adapter = extra.randrange(0, 4) if work.max_loras else 0
            load.salt = extra.choice([0, 0, 1, 2])
        if draw.random() < 0.05:
            work.aborts.append((turn + draw.randrange(0, 30), len(work.requests) - 1))
    return work


def of_lengths(name: str, policy: str, lengths: list[tuple[float, int, int]], seed: int = 0) -> Workload:
    """A trace: arrival in seconds, tokens of prompt and answer. A turn stands for 30 ms."""
    draw = random.Random(seed)
    work = Workload(name, policy, 32, 2048, 4096, 16, 1 + 32 * 128, True, False, 0, True)
    if policy == "neuron-nxdi":
        work.max_num_batched_tokens = 4096
        work.num_blocks = 1 + 32 * 256
    for seconds, prompt, output in lengths:
        prompt = max(1, min(prompt, 4095))
        output = max(1, output)
        work.requests.append(Load(int(seconds / 0.03), tokens(draw, prompt), output, tokens(draw, output)))
    return work


def azure(path: Path, count: int) -> list[tuple[float, int, int]]:
    """The first requests of a trace of Azure/AzurePublicDataset."""
    from datetime import datetime

    rows = []
    with path.open() as lines:
        for row in csv.DictReader(lines):
            at = datetime.fromisoformat(row["TIMESTAMP"][:26])
            rows.append((at, int(row["ContextTokens"]), int(row["GeneratedTokens"])))
            if len(rows) == count:
                break
    return [((at - rows[0][0]).total_seconds(), prompt, output) for at, prompt, output in rows]


def mooncake(path: Path, count: int) -> list[tuple[float, int, int]]:
    """The first requests of a trace of kvcache-ai/Mooncake; its prompts are cut to what the workload allows."""
    rows = [json.loads(line) for line in path.read_text().splitlines()[:count]]
    return [(row["timestamp"] / 1000, row["input_length"] // 8, row["output_length"]) for row in rows]
