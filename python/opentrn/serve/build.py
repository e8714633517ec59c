"""From a model's name and settings to an application."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentrn import _core
from opentrn.errors import InputError
from opentrn.generate.language_model import BLOCK_TOKENS, LanguageModel
from opentrn.generate.source import find
from opentrn.generate.text import Text, text_of_folder, text_of_gguf
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
    scheduling_policy: str = "fcfs"  # or "priority", of policy vllm: by the priorities of requests
    max_loras: int = 0  # adapters in one step; 0: any number
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
    chat_template: str | None = None  # a file of it, in place of the model's own
    template_variables: Mapping[str, Any] = field(default_factory=dict)  # of the chat template
    # How answers are read, by vLLM's names; "auto": as the chat template has marks.
    reasoning_parser: str = "auto"
    tool_call_parser: str = "auto"
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
        "scheduling_policy": settings.scheduling_policy,
        "max_loras": settings.max_loras,
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
    return _core.chosen_sizes(
        settings.sequence_buckets, settings.token_buckets, settings.context_buckets, context, settings.max_num_seqs
    )


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


def _expect_possible(settings: Settings, guesses: Speculation) -> None:
    _core.check_server_settings(
        policy=settings.policy, values=settings.values, has_step_times=bool(settings.step_times),
        quantization=settings.quantization, kv_cache_dtype=settings.kv_cache_dtype,
        has_adapters=bool(settings.lora or settings.adapters), ranks=settings.ranks, guesses=guesses.tokens,
    )  # fmt: skip


@dataclass
class _Engine:
    """What a server answers with: a model's tokens, or drawn ones. adapters: by name, their numbers and folders."""

    core: Any
    text: Any
    context: int
    model: LanguageModel | None = None
    adapters: dict[str, tuple[int, str]] = field(default_factory=dict)


def _of_model(source: str | Path, settings: Settings, guesses: Speculation) -> _Engine:
    longest = _text_of(find(source))[1] if settings.context_buckets else settings.max_model_len
    context = min(settings.max_model_len, longest) // BLOCK_TOKENS * BLOCK_TOKENS
    chosen = settings.token_buckets or settings.sequence_buckets or settings.context_buckets
    sizes = _sizes(settings, context) if chosen else None
    model = LanguageModel(
        source, target=settings.target, dtype=settings.dtype, context=settings.max_model_len,
        sequences=settings.max_num_seqs, sizes=sizes, lora=settings.lora, quantization=settings.quantization,
        kv_cache_dtype=settings.kv_cache_dtype, speculate=guesses.tokens, draft_model=guesses.model or None,
        ranks=settings.ranks, instance=settings.instance,
    )  # fmt: skip
    if guesses.model and model.draft:
        _expect_method(guesses, model.draft)
    adapters = {name: (model.add_adapter(folder), folder) for name, folder in settings.adapters.items()}
    _expect_positions(settings, model.trained)
    if guesses.tokens >= model.buckets[1][-1]:
        raise InputError(f"{guesses.tokens} guesses and a token; programs have at most {model.buckets[1][-1]}",
                         label="serve.settings", hint="a smaller num_speculative_tokens")  # fmt: skip
    options = _options(settings, model.context, model.buckets, guesses)
    options["on_device_sampling"] = settings.on_device_sampling
    core = _core.model_server(
        model.engine, options, settings.linear, settings.step_times, model.draft.engine if model.draft else None
    )
    return _Engine(core, model.text, model.context, model, adapters)


def _of_drawn_tokens(source: str | Path, settings: Settings, guesses: Speculation) -> _Engine:
    """Steps take what `settings.linear` or `step_times` say."""
    text, trained = _text_of(find(source))
    _expect_positions(settings, trained)
    context = min(settings.max_model_len, trained)
    options = _options(settings, context, _sizes(settings, context), guesses)
    if settings.policy == "neuron-nxdi":
        options["num_batched_tokens_buckets"] = []
    size = text.tokenizer.get_vocab_size()
    special = {number for number, token in text.tokenizer.get_added_tokens_decoder().items() if token.special}
    choices = [token for token in range(size) if token not in special]
    core = _core.drawing_server(size, choices, options, settings.linear, settings.step_times)
    return _Engine(core, text, context)


def _with_template(text: Text, file: str) -> Text:
    """Raises InputError where the file cannot be read."""
    try:
        return replace(text, template=Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the chat template {file}: {error}", label="serve.settings",
                         hint="a file of a template in Jinja") from error  # fmt: skip


def build(source: str | Path, settings: Settings = Settings()) -> Built:
    """The server's application over the model. Raises InputError for settings that contradict each other."""
    from opentrn.serve.app import Limits, application

    begin = time.perf_counter()
    guesses = speculation_of(settings.speculative)
    _expect_possible(settings, guesses)
    made = (_of_model if settings.values else _of_drawn_tokens)(source, settings, guesses)
    if settings.chat_template:
        made.text = _with_template(made.text, settings.chat_template)
    loaded = time.perf_counter() - begin
    name = settings.served_name or str(source)
    trace = Trace(settings.trace) if settings.trace else None
    holder: list[Metrics] = []

    def on_step(report: dict[str, Any]) -> None:
        holder[0].step(report)
        if trace is not None:
            trace.step(report)

    engine = Engine(made.core, made.text.tokenizer, made.text.stop_tokens, on_step)
    engine.prepares = settings.warm
    if name in made.adapters:
        raise InputError(f"the model and an adapter are both named {name}", label="serve.settings",
                         hint="--served-model-name, or another name in --lora-modules")  # fmt: skip
    service = Service(
        name, made.text, engine, context=made.context, defaults=settings.generation, structured=settings.structured,
        max_logprobs=settings.max_logprobs, adapters=made.adapters, template_variables=settings.template_variables,
        reasoning_parser=settings.reasoning_parser, tool_call_parser=settings.tool_call_parser,
        by_priority=settings.scheduling_policy == "priority",
    )  # fmt: skip
    service.model = made.model
    service.metrics = Metrics(name, engine)
    holder.append(service.metrics)
    if settings.values and settings.warm:  # a short prompt, and one token after it
        made.core.prepare_one()
        made.core.prepare_one()
    service.metrics.load_s = loaded
    service.metrics.startup_s = time.perf_counter() - begin
    app = application(service, Limits(settings.max_body_bytes, settings.api_keys), trace.close if trace else None)
    return Built(app, service, made.model, service.metrics.startup_s)
