"""Configurations of AWS's vLLM plugins for this server: which keys it honours, and what becomes of the others.

`neuron_config` is that of the plugin from 0.21 on (`--additional-config`); `override_neuron_config` that of the plugin
up to 0.5, over NxD Inference. Sources: aws-neuron-sdk, vllm-neuron/docs/guides/reference-configuration.md, and its
api-guide.rst of NxD Inference. A key is honoured in values and time, without effect, or refused; a program computes
what it is timed for, so none changes the time alone. A key that is not in these tables is refused.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentrn.errors import InputError

if TYPE_CHECKING:
    from opentrn.serve.build import Settings

__all__ = ["HONOURED", "KEYS", "NXDI_KEYS", "REFUSED", "WITHOUT_EFFECT", "applied", "explained"]

HONOURED = "values and time"
WITHOUT_EFFECT = "without effect"
REFUSED = "refused"


@dataclasses.dataclass(frozen=True)
class Key:
    """What a key does here. `setting`: the field of Settings that takes its value; `only`: values that are fine."""

    verdict: str
    why: str
    setting: str = ""
    only: tuple[Any, ...] = ()


_ONE_CORE = "the model is served by one group of tensor-parallel NeuronCores"
_KERNELS = "which kernels run is the compiler's choice here"
_NO_QUANTISATION = "weights are bf16, f16 or f32, and int8, fp8 or MX by --quantization"
_NARROW = "int8, f8e4m3 or f8e5m2 matrices of layers; not the head, not embeddings"
_KEPT = "modules whose matrices are not made narrow"
_ON_DEVICE = (
    "programs give tokens, and no logits, where no request of a step has a grammar, penalty, bias or log probability: "
    "the likeliest ones at temperature 0 and, with do_sample true or all_greedy false, drawn ones, among all tokens or "
    "those that the request's top_k, top_p and min_p leave; its other attributes are without effect; with --step-times "
    "the table says"
)
_LOOKUP = "guesses are asked for by --speculative-config: prompt lookup, a draft model, or an EAGLE head"
_MEDUSA = "guesses come from prompt lookup, a draft model, or an EAGLE head (--speculative-config)"


def _fixed(why: str, *only: Any) -> Key:
    """A key whose usual value changes nothing and whose others are refused."""
    return Key(REFUSED, why, only=(None, *only))


KEYS: Mapping[str, Key] = {
    "num_batched_tokens_buckets": Key(HONOURED, "the prefill programs", "token_buckets"),
    "num_seqs_buckets": Key(HONOURED, "the sequences of decode programs", "sequence_buckets"),
    "decode_context_length_buckets": Key(HONOURED, "the positions of decode programs", "context_buckets"),
    "enable_structured_outputs": Key(HONOURED, "false: requests with a grammar are refused", "structured"),
    "max_logprobs": Key(HONOURED, "more are refused", "max_logprobs"),
    "quantization": Key(HONOURED, "bf16, or on trn3 matrices of layers in MX types", "mx_type",
                        (None, "bf16", "mxfp4", "mxfp8")),
    "on_device_sampling_config": Key(HONOURED, _ON_DEVICE, "on_device_sampling"),
    "all2all_backend": Key(WITHOUT_EFFECT, _ONE_CORE),
    "kv_segment_size_buckets": _fixed("a prompt behind a found prefix runs a prefill program over its whole context"),
    "modules_to_not_convert": Key(HONOURED, _KEPT, "modules_to_not_convert"),
    "fp8_packed_kv": _fixed("keys and values have the weights' type", False),
    "blockwise_fp8": _fixed(_NO_QUANTISATION, False),
    "ep_degree": _fixed(_ONE_CORE, 1),
    "attention_dp_size": _fixed(_ONE_CORE, 1),
    "embedding_dp_size": _fixed(_ONE_CORE, 1),
    "lm_head_dp_size": _fixed(_ONE_CORE, 1),
    "mlp_dp_size": _fixed(_ONE_CORE, 1),
    "tensor_capture": _fixed("opentrn diff compares tensors of a model"),
    "tensor_replacement": _fixed("opentrn diff compares tensors of a model"),
    "debug_logits_dir": _fixed("opentrn diff compares tensors of a model"),
    "vision_neuron_config": _fixed("the model reads text"),
}

NXDI_KEYS: Mapping[str, Key] = {
    "batch_size": Key(HONOURED, "requests at once", "max_num_seqs"),
    "max_batch_size": Key(HONOURED, "requests at once", "max_num_seqs"),
    "tkg_batch_size": Key(HONOURED, "requests at once", "max_num_seqs"),
    "seq_len": Key(HONOURED, "positions of a request", "max_model_len"),
    "n_positions": Key(HONOURED, "positions of a request", "max_model_len"),
    "max_length": Key(HONOURED, "positions of a request", "max_model_len"),
    "context_encoding_buckets": Key(HONOURED, "the prefill programs", "token_buckets"),
    "token_generation_buckets": Key(HONOURED, "the positions of decode programs", "context_buckets"),
    "token_generation_batches": Key(HONOURED, "the sequences of decode programs", "sequence_buckets"),
    "is_prefix_caching": Key(HONOURED, "whether prefixes are looked for", "prefix_caching"),
    "pa_num_blocks": Key(HONOURED, "KV blocks", "num_blocks"),
    "skip_warmup": Key(HONOURED, "programs are compiled when they are needed", "cold"),
    "torch_dtype": Key(HONOURED, "of weights, keys and values", "dtype", ("bfloat16", "float16", "float32")),
    "pa_block_size": _fixed("a block has 32 positions", 32),
    "ctx_batch_size": _fixed("one prompt is read at a time", 1),
    "is_continuous_batching": _fixed("requests come and go at every step", True),
    "is_block_kv_layout": _fixed("keys and values lie in blocks", True),
    "enable_bucketing": _fixed("programs have fixed sizes", True),
    "tp_degree": Key(HONOURED, "NeuronCores that share the model; --instance says of which machine", "ranks"),
    "cp_degree": _fixed(_ONE_CORE, 1),
    "pp_degree": _fixed(_ONE_CORE, 1),
    "ep_degree": _fixed(_ONE_CORE, 1),
    "attention_dp_degree": _fixed(_ONE_CORE, 1),
    "logical_nc_config": _fixed("the target's logical core is one physical core", 1),
    "sequence_parallel_enabled": _fixed(_ONE_CORE, False),
    "flash_decoding_enabled": _fixed(_ONE_CORE, False),
    "vocab_parallel": Key(WITHOUT_EFFECT, _ONE_CORE),
    "quantized": Key(HONOURED, _NARROW, "quantized"),
    "quantization_dtype": Key(HONOURED, _NARROW, "quantization_dtype", ("int8", "f8e4m3", "f8e5m2")),
    "quantization_type": Key(HONOURED, "a scale for each tensor, or for each of its outputs", "quantization_type",
                             ("per_tensor_symmetric", "per_channel_symmetric")),
    "modules_to_not_convert": Key(HONOURED, _KEPT, "modules_to_not_convert"),
    "kv_cache_quant": Key(HONOURED, "keys and values in fp8_e4m3", "kv_cache_quant"),
    "is_chunked_prefill": _fixed("policy neuron reads long prompts in parts", False),
    "chunked_prefill_config": _fixed("policy neuron reads long prompts in parts"),
    "windowed_context_encoding_size": _fixed("policy neuron reads long prompts in parts"),
    "speculation_length": _fixed(_LOOKUP, 0),
    "enable_fused_speculation": _fixed(_LOOKUP, False),
    "enable_eagle_speculation": _fixed(_LOOKUP, False),
    "is_medusa": _fixed(_MEDUSA, False),
    "lora_config": _fixed("--lora-modules names adapters"),
    "async_mode": _fixed("a step is planned when the one before it has ended; opentrn replay has the other", False),
    "on_device_sampling_config": Key(HONOURED, _ON_DEVICE, "on_device_sampling"),
    "output_logits": Key(WITHOUT_EFFECT, "logits are on the host anyway"),
    "padding_side": Key(WITHOUT_EFFECT, "padding is written nowhere"),
    "save_sharded_checkpoint": Key(WITHOUT_EFFECT, "weights are read from the model's files"),
    "target": Key(HONOURED, "the chip", "target"),
    **{
        name: Key(WITHOUT_EFFECT, _KERNELS)
        for name in ("fused_qkv", "attn_kernel_enabled", "qkv_kernel_enabled", "mlp_kernel_enabled",
                     "attn_tkg_nki_kernel_enabled", "attn_block_tkg_nki_kernel_enabled", "out_proj_kernel_enabled",
                     "cc_pipeline_tiling_factor", "scratchpad_page_size")
    },
}  # fmt: skip

_DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
_LISTS = ("token_buckets", "sequence_buckets", "context_buckets")
_COUNTS = ("max_num_seqs", "max_model_len", "num_blocks", "max_logprobs", "ranks")
_SWITCHES = ("structured", "prefix_caching", "cold", "quantized", "kv_cache_quant")
_QUANTISATION = ("quantized", "quantization_dtype", "quantization_type", "mx_type", "modules_to_not_convert")
_NARROW_TYPES = {"int8": "int8", "f8e4m3": "fp8_e4m3", "f8e5m2": "fp8_e5m2"}


def _refuse(key: str, message: str, hint: str = "") -> InputError:
    return InputError(f"{key}: {message}", label="serve.neuron_config", hint=hint)


# Attributes of OnDeviceSamplingConfig, and those that the plugin from 0.21 on reads. What is asked of a request decides
# where its tokens are chosen, so that the defaults of requests change nothing.
_SAMPLING = ("all_greedy", "temperature", "do_sample", "top_k", "top_p", "dynamic", "deterministic", "global_topk")


def _sampling(key: str, value: Any) -> str:
    """What programs choose. Raises InputError."""
    if not isinstance(value, dict):
        raise _refuse(key, f"{value!r} is not an object", '{"temperature": "0"}')
    if unknown := sorted({*value} - {*_SAMPLING}):
        near = difflib.get_close_matches(unknown[0], _SAMPLING, 1)
        raise _refuse(key, f"{unknown[0]!r} is not an attribute of it", f"{near[0]}?" if near else ", ".join(_SAMPLING))
    switches = {name: value[name] for name in ("do_sample", "all_greedy") if name in value}
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise _refuse(key, f"{name} is {switch!r}, which is neither true nor false")
    do_sample, all_greedy = switches.get("do_sample"), switches.get("all_greedy")
    if do_sample is not None and do_sample == all_greedy:
        raise _refuse(key, f"do_sample is {do_sample}, and all_greedy too", "one of them says whether tokens are drawn")
    return "drawn-truncated" if do_sample or all_greedy is False else "likeliest"


def _checked(key: str, setting: str, value: Any) -> Any:
    """A value of the type that the setting has. Raises InputError."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if setting in _LISTS:
        fine = isinstance(value, list) and value and all(isinstance(v, int) and v > 0 for v in value)
        if not fine or sorted(set(value)) != value:
            raise _refuse(key, f"{value!r} is not an ascending list of sizes")
    elif setting == "modules_to_not_convert":
        if not isinstance(value, list) or not all(isinstance(v, str) and v and "," not in v for v in value):
            raise _refuse(key, f"{value!r} is not a list of modules", '["self_attn", "lm_head"]')
    elif setting in _COUNTS and (not whole or value < 1):
        raise _refuse(key, f"{value!r} is not a number of 1 or more")
    elif setting in _SWITCHES and not isinstance(value, bool):
        raise _refuse(key, f"{value!r} is neither true nor false")
    elif setting == "on_device_sampling":
        return _sampling(key, value)
    elif setting == "target" and not isinstance(value, str):
        raise _refuse(key, f"{value!r} is not a name of a chip")
    return _DTYPES.get(value, value) if setting == "dtype" else value


def _narrow(config: Mapping[str, Any]) -> str:
    """The type of narrow weights, or "". Raises InputError for keys that do not go together."""
    kept = [f"except={module}" for module in config.get("modules_to_not_convert", ())]
    if "mx_type" in config:
        return ",".join([config["mx_type"], *kept])
    if not config.get("quantized", False):
        if alone := [key for key, value in config.items() if key != "quantized" and value != []]:
            raise _refuse(alone[0], "nothing is quantised", "quantized: true")
        return ""
    words = [_NARROW_TYPES[config.get("quantization_dtype", "int8")]]
    return ",".join([*words, config.get("quantization_type", "per_tensor_symmetric"), *kept])


def explained(config: Mapping[str, Any], *, nxdi: bool = False) -> list[tuple[str, Any, str, str]]:
    """(key, value, verdict, why) of every key, refused ones included. Raises InputError for an unknown one."""
    table = NXDI_KEYS if nxdi else KEYS
    rows = []
    for key, value in config.items():
        row = table.get(key)
        if row is None:
            near = difflib.get_close_matches(key, table, 1)
            raise _refuse(key, "not a key that is known here", f"{near[0]}?" if near else "")
        verdict = row.verdict
        if row.only:
            verdict = (WITHOUT_EFFECT if verdict == REFUSED else verdict) if value in row.only else REFUSED
        rows.append((key, value, verdict, row.why))
    return rows


def applied(settings: Settings, config: Mapping[str, Any], *, nxdi: bool = False) -> Settings:
    """The settings with the configuration's values. Raises InputError for the first key that is refused."""
    changes: dict[str, Any] = {}
    for key, value, verdict, why in explained(config, nxdi=nxdi):
        if verdict == REFUSED:
            raise _refuse(key, f"{value!r} is not possible here: {why}")
        setting = (NXDI_KEYS if nxdi else KEYS)[key].setting
        if not setting or value is None:
            continue
        value = _checked(key, setting, value)
        if setting == "mx_type" and value == "bf16":
            setting = "dtype"
        if changes.get(setting, value) != value:
            raise _refuse(key, f"{value!r}, and another key says {changes[setting]!r}")
        changes[setting] = value
    if changes.pop("kv_cache_quant", False):
        changes["kv_cache_dtype"] = "fp8_e4m3"
    if changes.pop("cold", False):
        changes["warm"] = False
    narrow = _narrow({key: changes.pop(key) for key in _QUANTISATION if key in changes})
    if narrow:
        changes["quantization"] = narrow
    return dataclasses.replace(settings, **changes)
