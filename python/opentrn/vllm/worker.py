"""vLLM's worker over one engine: weights of the model's folder, a pool of the scheduler's blocks, steps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, LogprobsLists, LogprobsTensors, ModelRunnerOutput
from vllm.v1.worker.worker_base import CompilationTimes, WorkerBase

from opentrn import _core
from opentrn.settings import environment
from opentrn.vllm.platform import KV_TYPES, NeuronPlatform, dtype_of
from opentrn.vllm.runner import Runner, Sample
from opentrn.vllm.settings import plugin_settings, sizes_of
from opentrn.vllm.totals import Totals

__all__ = ["NeuronWorker"]

_KV_FRACTION = 0.30  # AWS's determine_available_memory_design.md: VLLM_NEURON_KV_GMU_BUDGET_CAP_FRACTION


class NeuronWorker(WorkerBase):
    """The model on one simulated NeuronCore."""

    runner: Runner | None = None

    def init_device(self) -> None:
        import torch

        self.device = torch.device("cpu")
        self.settings = plugin_settings(self.vllm_config.additional_config)

    def load_model(self, *, load_dummy_weights: bool = False) -> None:
        """The files are opened; the engine is made with its blocks, in initialize_from_config()."""
        self.file = _core.read_checkpoint(Path(self.model_config.model))

    def update_max_model_len(self, max_model_len: int) -> None:
        self.model_config.max_model_len = max_model_len

    def get_kv_cache_spec(self) -> dict[str, Any]:
        model, parallel = self.model_config, self.parallel_config
        spec = FullAttentionSpec(
            block_size=self.cache_config.block_size, num_kv_heads=model.get_num_kv_heads(parallel),
            head_size=model.get_head_size(), dtype=self._kv_type()[1] or model.dtype,
        )  # fmt: skip
        return {f"layers.{layer}": spec for layer in range(model.get_num_layers(parallel))}

    def _kv_type(self) -> tuple[str, Any]:
        return KV_TYPES.get(self.cache_config.cache_dtype, KV_TYPES["auto"])

    def get_supported_kv_cache_layouts(self) -> list[str]:
        return ["LBNHC"]

    def determine_available_memory(self) -> int:
        """AWS's rule, but no more than all requests at their longest need: the host has to have it too."""
        total = NeuronPlatform.get_device_total_memory() * self.cache_config.gpu_memory_utilization
        block = self.cache_config.block_size
        longest = -(-self.model_config.max_model_len // block)
        pages = sum(spec.page_size_bytes for spec in self.get_kv_cache_spec().values())
        needed = pages * (self.scheduler_config.max_num_seqs * longest + 1)
        return int(min(total * _KV_FRACTION, needed))

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        """Weights on the device, and a pool of as many blocks as the scheduler has."""
        scheduler, block = self.scheduler_config, self.cache_config.block_size
        sizes = sizes_of(self.settings, block, self.model_config.max_model_len, scheduler.max_num_seqs,
                         scheduler.max_num_batched_tokens)  # fmt: skip
        engine = _core.decoder_engine(
            self.file, environment.target(self.settings.target), dtype_of(self.vllm_config), block,
            kv_cache_config.num_blocks, *sizes, kv_cache_dtype=self._kv_type()[0],
        )  # fmt: skip
        self.sizes = sizes
        self.runner = Runner(
            engine, seed=self.model_config.seed or 0, paced=self.settings.time == "paced",
            totals=Totals(self.settings.totals) if self.settings.totals else None, trace=self.settings.trace,
            on_device_sampling=self.settings.buckets.on_device_sampling,
        )  # fmt: skip

    def compile_or_warm_up_model(self) -> CompilationTimes:
        """The programs of a short prompt and of one token after it; others when they are first needed."""
        assert self.runner is not None
        begin = time.perf_counter()
        self.runner.prepare(2)
        self.runner.prepare(1)
        return CompilationTimes(time.perf_counter() - begin, 0.0)

    def get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    def synchronize_device(self) -> None:
        """A step has ended when it returns."""

    def execute_model(self, scheduler_output: Any) -> Any:
        """None: sample_tokens() follows."""
        assert self.runner is not None
        if scheduler_output.total_num_scheduled_tokens == 0:
            self.runner.take(scheduler_output)
            return EMPTY_MODEL_RUNNER_OUTPUT
        self.runner.run(scheduler_output)
        self.names = list(scheduler_output.num_scheduled_tokens)
        return None

    def sample_tokens(self, grammar_output: Any) -> Any:
        """Tokens of the step, with grammars' masks."""
        assert self.runner is not None
        masks = {}
        if grammar_output is not None:
            rows = zip(grammar_output.structured_output_request_ids, grammar_output.grammar_bitmask)
            masks = {name: np.ascontiguousarray(row) for name, row in rows}
        samples = {sample.name: sample for sample in self.runner.sample(masks)}
        return ModelRunnerOutput(
            req_ids=self.names,
            req_id_to_index={name: row for row, name in enumerate(self.names)},
            sampled_token_ids=[[samples[name].token] if name in samples else [] for name in self.names],
            logprobs=self._logprobs(samples),
            prompt_logprobs_dict={name: _tensors(self.runner.prompt_scores(name)) for name in self.names},
        )

    def _logprobs(self, samples: dict[str, Sample]) -> LogprobsLists | None:
        """A row for each request of the step: the token that was chosen, then the likeliest, as many as any asks."""
        assert self.runner is not None
        wanted = self.runner.requests
        most = max((wanted[name] for name in samples), default=-1)
        if most < 0:
            return None
        tokens: np.ndarray = np.zeros((len(self.names), most + 1), dtype=np.int32)
        values: np.ndarray = np.full((len(self.names), most + 1), -np.inf, dtype=np.float32)
        ranks: np.ndarray = np.zeros(len(self.names), dtype=np.int32)
        for row, name in enumerate(self.names):
            sample = samples.get(name)
            if sample is None or wanted[name] < 0:
                continue
            pairs = [(sample.token, sample.logprob), *sample.top]
            tokens[row, : len(pairs)] = [token for token, _ in pairs]
            values[row, : len(pairs)] = [value for _, value in pairs]
            ranks[row] = sample.rank
        return LogprobsLists(tokens, values, ranks)

    def shutdown(self) -> None:
        NeuronPlatform.is_shut_down = True
        if self.runner is not None:
            self.runner.close()


def _tensors(scores: list[tuple[list[int], list[float], int]] | None) -> LogprobsTensors | None:
    """As vLLM takes what a model says of a prompt."""
    import torch

    if scores is None:
        return None
    tokens, values, ranks = zip(*scores) if scores else ((), (), ())
    return LogprobsTensors(
        torch.tensor(tokens, dtype=torch.int32), torch.tensor(values, dtype=torch.float32),
        torch.tensor(ranks, dtype=torch.int32),
    )  # fmt: skip
