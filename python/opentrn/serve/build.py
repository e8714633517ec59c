"""From a model's name and settings to an application."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentrn import _core
from opentrn.errors import InputError
from opentrn.generate.language_model import BLOCK_TOKENS, LanguageModel, program_sizes
from opentrn.generate.source import find
from opentrn.generate.text import text_of_folder, text_of_gguf
from opentrn.serve.engine import Engine
from opentrn.serve.metrics import Metrics
from opentrn.serve.service import Service
from opentrn.serve.speculation import Speculation, speculation_of
from opentrn.serve.trace import Trace

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["Built", "Settings", "build"]


@dataclass(frozen=True)
class Settings:
    """Names are those of vLLM's flags where it has them. Times: clock wall, paced or virtual."""

    target: str | None = None
    dtype: str = "f16"
    served_name: str | None = None
    max_model_len: int = 2048
    max_num_seqs: int = 8
    policy: str = "neuron"
    num_blocks: int = 0  # 0: as many as the requests need
    prefix_caching: bool = True
    clock: str = "wall"
    values: bool = True
    linear: str = ""
    step_times: str = ""
    host_us: float = 0.0
    host_request_us: float = 0.0
    max_waiting: int = 256
    max_body_bytes: int = 8 << 20
    api_keys: Sequence[str] = ()
    generation: Mapping[str, Any] = field(default_factory=dict)  # defaults of sampling
    trace: str | None = None
    audit: bool = False
    structured: bool = True  # whether requests may have grammars
    max_logprobs: int = 20
    # Sizes of programs, ascending; none: those of opentrn generate.
    token_buckets: Sequence[int] = ()
    sequence_buckets: Sequence[int] = ()
    context_buckets: Sequence[int] = ()
    quantization: str = "none"  # of the matrices of layers: int8, fp8_e4m3, mxfp4, ...; none: dtype
    kv_cache_dtype: str = "auto"  # of keys and values: fp8_e4m3, fp8_e5m2, ...; auto: dtype
    lora: str | None = None  # a folder of an adapter, added to the weights
    adapters: Mapping[str, str] = field(default_factory=dict)  # that requests name: folders
    ranks: int = 1  # NeuronCores of `instance` that share the model
    instance: str | None = None
    speculative: Mapping[str, Any] = field(default_factory=dict)  # vLLM's speculative-config; none: no guesses
    # What programs choose where no request of a step asks for more: "host", nothing; "likeliest"; "drawn-truncated".
    on_device_sampling: str = "host"
    warm: bool = True  # the first programs are compiled before the server is ready, the others when it is idle


@dataclass
class Built:
    """An application and what it stands on."""

    app: Starlette
    service: Service
    model: LanguageModel | None
    ready_s: float


def _expect_method(guesses: Speculation, draft: LanguageModel) -> None:
    """That the model which makes the guesses is what the method says."""
    kinds = {0: "no EAGLE head", 1: "an EAGLE head of the first version", 3: "an EAGLE-3 head"}
    found = draft.config["eagle"]
    if found != guesses.eagle:
        raise InputError(f"speculative-config: {guesses.model} is {kinds[found]}", label="serve.settings",
                         hint="method eagle, eagle3, or draft_model")  # fmt: skip


def _options(
    settings: Settings, context: int, buckets: tuple[list[int], list[int], list[int]], guesses: Speculation
) -> dict[str, Any]:
    """As the C++ core takes them; the scheduler's buckets are the model's programs."""
    sequences, tokens, contexts = buckets
    fixed = settings.policy != "vllm"
    return {
        "policy": settings.policy,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": max(tokens[-1], context) if settings.policy == "neuron-nxdi" else tokens[-1],
        "max_model_len": context,
        "block_size": BLOCK_TOKENS,
        "num_blocks": settings.num_blocks,
        "prefix_caching": settings.prefix_caching,
        "long_prefill_token_threshold": 0,
        "num_batched_tokens_buckets": tokens if fixed else [],
        "num_seqs_buckets": sequences if fixed else [],
        "decode_context_length_buckets": contexts if fixed else [],
        "clock": settings.clock,
        "waiting_max": settings.max_waiting,
        "audit": settings.audit,
        "host_us": settings.host_us,
        "host_request_us": settings.host_request_us,
        **guesses.options(),
    }


def _sizes(settings: Settings, context: int) -> tuple[list[int], list[int], list[int]]:
    """Sequences, new tokens and positions of programs. Raises InputError for sizes that fit no request."""
    sequences, tokens, contexts = program_sizes(context, settings.max_num_seqs)
    sequences, tokens = list(settings.sequence_buckets) or sequences, list(settings.token_buckets) or tokens
    if settings.context_buckets:  # the whole context is always compiled, as AWS's plugin has it
        contexts = sorted({*settings.context_buckets, context})
    for what, sizes, last in (("num_seqs", sequences, settings.max_num_seqs), ("context", contexts, context)):
        if sizes[-1] != last:
            raise InputError(f"the last of the {what} buckets is {sizes[-1]}, and {last} are the most",
                             label="serve.settings")  # fmt: skip
    if tokens[-1] > contexts[-1] or any(size % BLOCK_TOKENS for size in contexts):
        raise InputError(f"programs of {tokens} tokens and {contexts} positions", label="serve.settings",
                         hint=f"no more tokens than positions, and positions in blocks of {BLOCK_TOKENS}")  # fmt: skip
    return sequences, tokens, contexts


def _text_of(path: Path) -> tuple[Any, int]:
    """Tokenizer and template without the weights; and the positions that the model was made for."""
    if path.is_dir():
        return text_of_folder(path), _core.decoder_context(_core.read_checkpoint(path))
    file = _core.read_gguf(path)
    return text_of_gguf(file.metadata), _core.decoder_context(file)


def _expect_positions(settings: Settings, trained: int) -> None:
    """The default is cut to what a model was made for; a number of the caller's is not."""
    if settings.max_model_len > max(trained, Settings.max_model_len):
        raise InputError(f"max_model_len {settings.max_model_len}; the model was made for {trained} positions",
                         label="serve.settings", hint="at most as many")  # fmt: skip


def build(source: str | Path, settings: Settings = Settings()) -> Built:
    """The server's application over the model. Raises InputError for settings that contradict each other."""
    from opentrn.serve.app import Limits, application

    begin = time.perf_counter()
    if settings.policy == "neuron-nxdi" and settings.values:
        raise InputError(
            "policy neuron-nxdi reads a prompt in one step, and the programs of a model read 512 tokens at most",
            label="serve.settings", hint="policy neuron, or --no-values",
        )  # fmt: skip
    if settings.quantization != "none" and not settings.values:
        raise InputError("a server without values has no weights to narrow", label="serve.settings",
                         hint="--step-times of opentrn step-times --quantization have their time")  # fmt: skip
    if settings.kv_cache_dtype != "auto" and not settings.values:
        raise InputError("a server without values has no keys to narrow", label="serve.settings",
                         hint="--step-times of opentrn step-times --kv-cache-dtype have their time")  # fmt: skip
    if (settings.lora or settings.adapters) and not settings.values:
        raise InputError("an adapter without values changes nothing", label="serve.settings",
                         hint="--lora goes with weights, not with --no-values")  # fmt: skip
    if settings.ranks > 1 and not settings.values:
        raise InputError("ranks without values change nothing: steps take what the table says", label="serve.settings",
                         hint="opentrn step-times --ranks makes the table of ranks")  # fmt: skip
    guesses = speculation_of(settings.speculative)
    if guesses.tokens and (not settings.values or settings.step_times):
        raise InputError("speculation needs a model's own programs: drawn tokens are not guessed, and a table of "
                         "opentrn step-times has no programs of guesses", label="serve.settings",
                         hint="leave --speculative-config out, or --no-values and --step-times")  # fmt: skip
    model = None
    if settings.values:
        longest = _text_of(find(source))[1] if settings.context_buckets else settings.max_model_len
        context = min(settings.max_model_len, longest) // BLOCK_TOKENS * BLOCK_TOKENS
        chosen = settings.token_buckets or settings.sequence_buckets or settings.context_buckets
        model = LanguageModel(
            source, target=settings.target, dtype=settings.dtype, context=settings.max_model_len,
            sequences=settings.max_num_seqs, sizes=_sizes(settings, context) if chosen else None, lora=settings.lora,
            quantization=settings.quantization, kv_cache_dtype=settings.kv_cache_dtype,
            speculate=guesses.tokens, draft_model=guesses.model or None, ranks=settings.ranks,
            instance=settings.instance,
        )  # fmt: skip
        if guesses.model and model.draft:
            _expect_method(guesses, model.draft)
        adapters = {name: (model.add_adapter(folder), folder) for name, folder in settings.adapters.items()}
        text, context = model.text, model.context
        _expect_positions(settings, model.trained)
        if guesses.tokens >= model.buckets[1][-1]:
            raise InputError(f"{guesses.tokens} guesses and a token; programs have at most {model.buckets[1][-1]}",
                             label="serve.settings", hint="a smaller num_speculative_tokens")  # fmt: skip
        options = _options(settings, context, model.buckets, guesses)
        options["on_device_sampling"] = settings.on_device_sampling
        core = _core.model_server(
            model.engine, options, settings.linear, settings.step_times, model.draft.engine if model.draft else None
        )
    else:
        text, trained = _text_of(find(source))
        _expect_positions(settings, trained)
        adapters = {}
        context = min(settings.max_model_len, trained)
        buckets = _sizes(settings, context)
        options = _options(settings, context, buckets, guesses)
        if settings.policy == "neuron-nxdi":
            options["num_batched_tokens_buckets"] = []
        size = text.tokenizer.get_vocab_size()
        special = {number for number, token in text.tokenizer.get_added_tokens_decoder().items() if token.special}
        choices = [token for token in range(size) if token not in special]
        core = _core.drawing_server(size, choices, options, settings.linear, settings.step_times)
    loaded = time.perf_counter() - begin
    name = settings.served_name or str(source)
    trace = Trace(settings.trace) if settings.trace else None
    holder: list[Metrics] = []

    def on_step(report: dict[str, Any]) -> None:
        holder[0].step(report)
        if trace is not None:
            trace.step(report)

    engine = Engine(core, text.tokenizer, text.stop_tokens, on_step)
    engine.prepares = settings.warm
    if name in adapters:
        raise InputError(f"the model and an adapter are both named {name}", label="serve.settings",
                         hint="--served-model-name, or another name in --lora-modules")  # fmt: skip
    service = Service(
        name, text, engine, context=context, defaults=settings.generation, structured=settings.structured,
        max_logprobs=settings.max_logprobs, adapters=adapters,
    )  # fmt: skip
    service.model = model
    service.metrics = Metrics(name, engine)
    holder.append(service.metrics)
    if settings.values and settings.warm:  # a short prompt, and one token after it
        core.prepare_one()
        core.prepare_one()
    service.metrics.load_s = loaded
    service.metrics.startup_s = time.perf_counter() - begin
    app = application(service, Limits(settings.max_body_bytes, settings.api_keys), trace.close if trace else None)
    return Built(app, service, model, service.metrics.startup_s)
