"""The platform: what vLLM asks about the device, and what it may not be asked for."""

from __future__ import annotations

import atexit
import contextlib
import os
from typing import Any

import torch
from vllm.platforms.interface import Platform, PlatformEnum

from opentrn.errors import InputError
from opentrn.generate.language_model import BLOCK_TOKENS
from opentrn.vllm.settings import TOTALS_KEY, PluginSettings, plugin_settings, sizes_of
from opentrn.vllm.totals import Totals

__all__ = ["NeuronPlatform"]

_DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
_E4M3 = ("fp8_e4m3", torch.float8_e4m3fn)
# Of keys and values, as vLLM names them: the engine's name, and the type in vLLM's account; None: the weights'.
KV_TYPES = {"auto": ("auto", None), "fp8": _E4M3, "fp8_e4m3": _E4M3, "fp8_e5m2": ("fp8_e5m2", torch.float8_e5m2)}
_SEQUENCES, _TOKENS = 8, 512  # of a step, where the user says nothing: as opentrn serve
_GIB = 1 << 30


def _refuse(message: str, hint: str = "") -> InputError:
    return InputError(message, label="vllm.platform", hint=hint)


def dtype_of(config: Any) -> str:
    """Of weights, keys and values. Raises InputError."""
    found = _DTYPES.get(config.model_config.dtype)
    if found is None:
        raise _refuse(f"no weights in {config.model_config.dtype}", "--dtype bfloat16, float16 or float32")
    return found


def _expect_possible(config: Any) -> None:
    parallel, model = config.parallel_config, config.model_config
    if parallel.world_size_across_dp > 1:
        raise _refuse(f"{parallel.world_size_across_dp} ranks; one NeuronCore serves the model",
                      "--tensor-parallel-size 1 --pipeline-parallel-size 1 --data-parallel-size 1")  # fmt: skip
    for what, found in (("adapters (LoRA)", config.lora_config), ("speculation", config.speculative_config),
                        ("transfer of keys and values", config.kv_transfer_config),
                        # A checkpoint that says so itself is read as the numbers that it stands for.
                        ("quantising to " + str(model.quantization),
                         model.quantization and not hasattr(model.hf_config, "quantization_config"))):  # fmt: skip
        if found:
            raise _refuse(f"the simulated device has no {what}")
    if model.runner_type != "generate":
        raise _refuse(f"the model is to run as '{model.runner_type}'", "--runner generate")
    if config.cache_config.cache_dtype not in (*KV_TYPES, "bfloat16", "float16"):
        raise _refuse(
            f"keys and values in {config.cache_config.cache_dtype}", f"--kv-cache-dtype {' or '.join(KV_TYPES)}"
        )
    if not os.path.isdir(model.model):
        raise _refuse(f"{model.model} is not a folder", "a folder with config.json and model.safetensors")
    dtype_of(config)


class NeuronPlatform(Platform):
    """One simulated NeuronCore. Tensors of vLLM, of which a step has none, lie on the CPU."""

    _enum = PlatformEnum.OOT
    device_name = "opentrn"
    device_type = "cpu"
    dispatch_key = "CPU"
    dist_backend = "gloo"
    device_control_env_var = "NEURON_RT_VISIBLE_CORES"

    is_shut_down = False

    def is_cpu(self) -> bool:
        """Behind the workers' end vLLM empties caches of torch's accelerator, which ends in an error: there is none."""
        return NeuronPlatform.is_shut_down

    @property
    def supported_dtypes(self) -> list[torch.dtype]:
        """The first is taken where a model states none that is here."""
        return list(_DTYPES)

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        return cls.device_name

    @classmethod
    def get_device_total_memory(cls, device_id: int = 0) -> int:
        """HBM of one physical NeuronCore of Trainium2: 96 GiB for eight."""
        return 12 * _GIB

    @classmethod
    def inference_mode(cls) -> Any:
        return torch.no_grad()

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        return False

    @classmethod
    def set_device(cls, device: torch.device) -> None:
        """There is one."""

    @classmethod
    def manual_seed_all(cls, seed: int) -> None:
        """Each request draws by itself."""

    @classmethod
    def check_if_supports_dtype(cls, dtype: torch.dtype) -> None:
        if dtype not in _DTYPES:
            raise _refuse(f"no weights in {dtype}", "--dtype bfloat16, float16 or float32")

    @classmethod
    def check_runner_kv_caches_multi_layer(cls) -> None:
        """Keys and values are the engine's."""

    @classmethod
    def import_kernels(cls) -> None:
        """None of vLLM's run."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Defaults of the command line; a program is compiled for each size."""
        if parser is not None:
            parser.set_defaults(max_num_seqs=_SEQUENCES, max_num_batched_tokens=_TOKENS)

    @classmethod
    def update_block_size_for_backend(cls, vllm_config: Any) -> None:
        """check_and_update_config() has chosen it."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Raises InputError for what the simulated device does not do."""
        if vllm_config.model_config is None:  # a part of a configuration
            return
        _expect_possible(vllm_config)
        settings = plugin_settings(vllm_config.additional_config)
        parallel, cache = vllm_config.parallel_config, vllm_config.cache_config
        parallel.worker_cls = "opentrn.vllm.worker.NeuronWorker"
        parallel.distributed_executor_backend = "uni"
        if not cache.user_specified_block_size:
            cache.block_size = BLOCK_TOKENS
        cls._schedule(vllm_config, settings)
        from vllm.config import CompilationMode, CUDAGraphMode

        vllm_config.compilation_config.mode = CompilationMode.NONE
        vllm_config.compilation_config.cudagraph_mode = CUDAGraphMode.NONE
        vllm_config.compilation_config.cudagraph_capture_sizes = []
        if settings.totals is None:
            totals = Totals.made()
            atexit.register(_remove, totals.path, os.getpid())
            vllm_config.additional_config = {**vllm_config.additional_config, TOTALS_KEY: totals.path}

    @classmethod
    def _schedule(cls, vllm_config: Any, settings: PluginSettings) -> None:
        scheduler, context = vllm_config.scheduler_config, vllm_config.model_config.max_model_len
        scheduler.async_scheduling = False  # a step is planned with the tokens of the one before it
        scheduler.scheduler_cls = "opentrn.vllm.scheduler." + (
            "NeuronScheduler" if settings.policy == "neuron" else "VllmScheduler"
        )
        scheduler.max_num_batched_tokens = min(scheduler.max_num_batched_tokens, context)
        sizes_of(settings, vllm_config.cache_config.block_size, context, scheduler.max_num_seqs,
                 scheduler.max_num_batched_tokens)  # fmt: skip

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        """Raises vLLM's own error, which clients get as status 400."""
        from vllm.exceptions import VLLMValidationError

        for what, wanted in (("prompt_logprob_token_ids", None), ("logprob_token_ids", None),
                             ("thinking_token_budget", None), ("repetition_detection", None)):  # fmt: skip
            if getattr(params, what, wanted) is not wanted:
                raise VLLMValidationError(f"{what} is not supported on simulated NeuronCores", parameter=what)


def _remove(path: str, process: int) -> None:
    """The file of totals, by the process that made it."""
    if os.getpid() == process:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
