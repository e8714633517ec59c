"""vLLM's own scheduler over a workload: the lines that driver.cc prints. Runs in an environment that has vLLM."""

from __future__ import annotations

import json
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from conformance.vllm_scheduler import neuron_reference
from conformance.vllm_scheduler.workloads import STOP, Workload

# Beyond them a workload has no end: the driver's limit is the same.
TURNS_MAX = 20000

# A model that vLLM knows; none of it is built.
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 6000,
    "max_position_embeddings": 131072, "torch_dtype": "float32",
}  # fmt: skip


@cache
def model_folder() -> str:
    folder = tempfile.mkdtemp()
    Path(folder, "config.json").write_text(json.dumps(MODEL))
    return folder


@cache
def model_config(max_model_len: int) -> Any:
    from vllm.config import ModelConfig

    return ModelConfig(
        model=model_folder(), skip_tokenizer_init=True, dtype="float32", max_model_len=max_model_len, seed=0
    )


def scheduler_of(work: Workload) -> Any:
    import torch
    from vllm.config import CacheConfig, DeviceConfig, LoRAConfig, SchedulerConfig, VllmConfig
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    scheduling = SchedulerConfig(
        max_num_seqs=work.max_num_seqs, max_num_batched_tokens=work.max_num_batched_tokens,
        max_model_len=work.max_model_len, long_prefill_token_threshold=work.threshold,
        enable_chunked_prefill=work.policy != "neuron-nxdi", is_encoder_decoder=False,
        policy=work.order, async_scheduling=work.async_scheduling, scheduler_reserve_full_isl=work.reserve,
    )  # fmt: skip
    blocks = CacheConfig(block_size=work.block_size, enable_prefix_caching=work.prefix_caching)
    # Adapters are numbers here: none is loaded.
    lora = LoRAConfig(max_loras=work.max_loras, max_cpu_loras=4) if work.max_loras else None
    config = VllmConfig(
        scheduler_config=scheduling, lora_config=lora, cache_config=blocks,
        model_config=model_config(work.max_model_len),
        device_config=DeviceConfig("cpu"),
    )  # fmt: skip
    config.cache_config.block_size = work.block_size
    config.cache_config.enable_prefix_caching = work.prefix_caching
    config.cache_config.num_gpu_blocks = work.num_blocks
    config.scheduler_config.async_scheduling = work.async_scheduling
    config.scheduler_config.scheduler_reserve_full_isl = work.reserve
    config.scheduler_config.long_prefill_token_threshold = work.threshold
    config.scheduler_config.max_num_batched_tokens = work.max_num_batched_tokens
    spec = FullAttentionSpec(block_size=work.block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    cache_config = KVCacheConfig(
        num_blocks=work.num_blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
    )
    kinds = {
        "neuron": neuron_reference.Neuron,
        "neuron-nxdi": neuron_reference.NeuronNxdi,
        "vllm": AsyncScheduler if work.async_scheduling else Scheduler,
    }
    return kinds[work.policy](
        vllm_config=config, kv_cache_config=cache_config, block_size=work.block_size, log_stats=False,
        structured_output_manager=StructuredOutputManager(config),
    )  # fmt: skip


@cache
def block_hasher(block_size: int) -> Any:
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

    init_none_hash(sha256)
    return get_request_block_hasher(block_size, sha256)


def request_of(work: Workload, number: int) -> Any:
    from vllm import SamplingParams
    from vllm.lora.request import LoRARequest
    from vllm.v1.request import Request

    load = work.requests[number]
    name = f"adapter{load.adapter}"
    return Request(
        request_id=str(number), prompt_token_ids=list(load.prompt), pooling_params=None,
        sampling_params=SamplingParams(max_tokens=load.max_tokens, ignore_eos=True, stop_token_ids=[STOP]),
        block_hasher=block_hasher(work.block_size), priority=load.priority, arrival_time=float(number),
        lora_request=LoRARequest(name, load.adapter, name) if load.adapter else None,
        cache_salt=str(load.salt) if load.salt else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A request in a step. computed: tokens whose keys and values were there before it."""

    name: str
    computed: int
    tokens: int
    samples: bool


class Oracle:
    """One run. The loop is that of vLLM's engine core: `batch_queue` with two places when asynchronous."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self.scheduler = scheduler_of(work)
        self.requests: dict[str, Any] = {}
        self.under_way: deque[tuple[Any, list[Entry]]] = deque()

    def lines(self) -> Iterator[str]:
        from vllm.v1.request import RequestStatus

        work, scheduler = self.work, self.scheduler
        depth = 2 if work.async_scheduling else 1
        last = max(load.at for load in work.requests)
        turn = 0
        while turn <= last or scheduler.running or scheduler.waiting or self.under_way:
            for number, load in enumerate(work.requests):
                if load.at == turn:
                    self.requests[str(number)] = request_of(work, number)
                    scheduler.add_request(self.requests[str(number)])
            for at, number in work.aborts:
                if at == turn:
                    scheduler.finish_requests(str(number), RequestStatus.FINISHED_ABORTED)
            planned = False
            if scheduler.running or scheduler.waiting:
                output = scheduler.schedule()
                entries = self.entries(output)
                yield self.line(turn, entries)
                planned = bool(entries)
                if planned:
                    self.under_way.append((output, entries))
            if not (planned and len(self.under_way) < depth) and self.under_way:
                self.take()
            turn += 1
            if turn > TURNS_MAX:
                yield "endless"
                return
        yield "end"

    def entries(self, output: Any) -> list[Entry]:
        """Requests in the order in which they were scheduled."""
        counts = output.num_scheduled_tokens.items()
        requests = [(name, self.requests[name], count) for name, count in counts]
        return [
            Entry(name, request.num_computed_tokens - count, count, not request.is_prefill_chunk)
            for name, request, count in requests
        ]

    def line(self, turn: int, entries: list[Entry]) -> str:
        # Several tokens at once are read as a prompt is, answers of a request that was preempted too.
        prefills = sum(
            entry.computed < len(self.work.requests[int(entry.name)].prompt) or entry.tokens > 1 for entry in entries
        )
        phase = "mixed" if 0 < prefills < len(entries) else "prefill" if prefills else "decode"
        rows = phase == "decode" and self.work.policy != "vllm"
        count = len(entries) if rows else sum(entry.tokens for entry in entries)
        size = neuron_reference.padded(self.work.policy, phase, count, self.work)
        words = [str(turn), phase, str(size)] if entries else [str(turn), "idle", "0"]
        manager = self.scheduler.kv_cache_manager
        for entry in entries:
            blocks = "".join(f"{block}," for block in manager.get_block_ids(entry.name)[0])
            words.append(f"{entry.name}:{entry.computed}+{entry.tokens}[{blocks}]")
        return " ".join([*words, "free", str(manager.block_pool.get_num_free_blocks())])

    def take(self) -> None:
        from vllm.v1.outputs import ModelRunnerOutput

        output, entries = self.under_way.popleft()
        sampled: list[list[int]] = []
        for entry in entries:
            load = self.work.requests[int(entry.name)]
            place = entry.computed + entry.tokens - len(load.prompt)
            sampled.append([load.answer[place]] if entry.samples else [])
        names = [entry.name for entry in entries]
        index = {name: row for row, name in enumerate(names)}
        self.scheduler.update_from_output(
            output, ModelRunnerOutput(req_ids=names, req_id_to_index=index, sampled_token_ids=sampled)
        )
