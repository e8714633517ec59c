"""`opentrn serve`: an HTTP server of a language model, with the device's predicted time for every request."""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import sys
from typing import TYPE_CHECKING, Any

from opentrn.cli.generate import add_lora, add_model, add_ranks, count
from opentrn.cli.interrupts import Terminated
from opentrn.cli.progress import Progress
from opentrn.errors import InputError, MissingModule

if TYPE_CHECKING:
    from opentrn.serve import Settings

_LIBRARIES = ("starlette", "uvicorn", "msgspec", "llguidance", "prometheus_client")


def serve_command(options: argparse.Namespace) -> int:
    """opentrn serve MODEL: runs until SIGTERM or Ctrl-C; requests under way are answered first."""
    uvicorn = _library()
    from opentrn.serve import Settings, build

    settings = _configured(
        options,
        Settings(
            target=options.target,
            dtype=options.dtype,
            served_name=options.served_model_name,
            max_model_len=options.max_model_len,
            max_num_seqs=options.max_num_seqs,
            policy=options.policy,
            scheduling_policy=options.scheduling_policy,
            max_loras=options.max_loras,
            num_blocks=options.num_gpu_blocks_override,
            prefix_caching=not options.no_enable_prefix_caching,
            clock=options.time,
            values=not options.no_values,
            linear=options.linear,
            step_times=options.step_times,
            host_us=options.host_us,
            host_request_us=options.host_request_us,
            max_waiting=options.max_waiting,
            max_body_bytes=options.max_body_bytes,
            api_keys=options.api_key or (),
            generation=_object(options.override_generation_config, "--override-generation-config"),
            chat_template=options.chat_template,
            reasoning_parser=options.reasoning_parser,
            tool_call_parser=options.tool_call_parser,
            template_variables=_object(options.default_chat_template_kwargs, "--default-chat-template-kwargs"),
            trace=options.trace,
            audit=options.audit,
            lora=options.lora,
            quantization=options.quantization,
            kv_cache_dtype=options.kv_cache_dtype,
            adapters=dict(options.lora_modules or ()),
            ranks=options.ranks,
            instance=options.instance,
            speculative=_object(options.speculative_config, "--speculative-config"),
        ),
    )
    if options.explain_config:
        return 0
    with Progress(options) as progress:
        progress.begin("loading the weights")
        built = build(options.model, settings)
    config = uvicorn.Config(
        built.app, host=options.host, port=options.port, log_level="warning", access_log=False, lifespan="on",
        timeout_graceful_shutdown=options.drain_seconds, limit_concurrency=options.max_connections,
        timeout_keep_alive=30, h11_max_incomplete_event_size=1 << 16,
    )  # fmt: skip
    listening = _listening(options.host, options.port)
    address = f"http://{options.host}:{listening.getsockname()[1]}"
    if options.json:
        print(json.dumps({
            "url": f"{address}/v1", "model": built.service.name, "context": built.service.context,
            "answers": built.service.served.answer_format,
            "ready_s": built.ready_s, "max_num_seqs": options.max_num_seqs, "time": options.time,
        }), flush=True)  # fmt: skip
    print(
        f"ready after {built.ready_s:.2f} s: {address}/v1 serves {built.service.name}, "
        f"{built.service.context} positions, {options.max_num_seqs} requests at once, time {options.time}",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    # uvicorn raises the signal that ended it once more when every answer is given: no failure of this command.
    with contextlib.suppress(KeyboardInterrupt, Terminated):
        uvicorn.Server(config).run(sockets=[listening])
    print("stopped", file=sys.stderr)
    return 0


def _listening(host: str, port: int) -> socket.socket:
    """Raises InputError where nobody may listen."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise InputError(f"{host}:{port}: {error}", label="serve.address", hint="another --port, or --host") from error


def _library() -> Any:
    """uvicorn. Raises MissingModule for the first library that is not installed."""
    import importlib

    for name in _LIBRARIES:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as absent:
            raise MissingModule(
                f"a server needs the package {name}, which is not installed",
                name=name, label="serve.package", hint="python -m pip install 'opentrn[serve]'",
            ) from absent  # fmt: skip
    import uvicorn

    return uvicorn


def _named(text: str) -> tuple[str, str]:
    """An adapter's name and folder."""
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FOLDER")
    return name, folder


def _object(text: str, option: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InputError(f"{option} is not JSON: {error}", label="serve.settings") from error
    if not isinstance(found, dict):
        raise InputError(f"{option} is not a JSON object", label="serve.settings")
    return found


def _configured(options: argparse.Namespace, settings: Settings) -> Settings:
    """With what AWS's configurations say; --explain-config prints what becomes of each of their keys."""
    from opentrn.serve import speculation
    from opentrn.serve.neuron_config import applied, explained

    additional = _object(options.additional_config, "--additional-config")
    others = set(additional) - {"neuron_config"}
    if others:
        raise InputError(f"--additional-config has {', '.join(sorted(others))}; only neuron_config is read",
                         label="serve.settings")  # fmt: skip
    for config, nxdi in (
        (additional.get("neuron_config", {}), False),
        (_object(options.override_neuron_config, "--override-neuron-config"), True),
    ):
        if not isinstance(config, dict):
            raise InputError("neuron_config is not a JSON object", label="serve.settings")
        if options.explain_config:
            _print_verdicts(explained(config, nxdi=nxdi), as_json=options.json)
        else:
            settings = applied(settings, config, nxdi=nxdi)
    if options.explain_config:
        _print_verdicts(speculation.explained(settings.speculative), as_json=options.json)
    return settings


def _print_verdicts(rows: list[list[Any]], *, as_json: bool) -> None:
    for key, value, verdict, why in rows:
        row = {"key": key, "value": value, "verdict": verdict, "why": why}
        print(json.dumps(row) if as_json else f"{key} = {json.dumps(value)}: {verdict}; {why}")


def add_command(commands: Any) -> None:
    """`serve` on the parser of the program."""
    parser = commands.add_parser(
        "serve",
        description="Serve a language model on one simulated NeuronCore over the APIs of OpenAI and Anthropic. Every "
        "answer says how long the device would have taken; --time paced lets clients measure it.",
    )  # fmt: skip
    parser.examples = (
        "opentrn serve smollm2 --port 8000",
        "opentrn serve smollm2 --no-values --linear step=3000,prefill_token=40 --time paced",
    )
    add_model(parser)
    add_lora(parser)
    network = parser.add_argument_group("network")
    network.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (127.0.0.1)")
    network.add_argument("--port", type=int, default=8000, metavar="N", help="port to listen on (8000)")
    network.add_argument("--api-key", action="append", metavar="KEY", help="API key that clients must send; repeatable")
    network.add_argument("--max-waiting", type=count, default=256, metavar="N",
                         help="waiting requests; further ones get status 429 (256)")  # fmt: skip
    network.add_argument("--max-connections", type=count, default=1024, metavar="N",
                         help="connections; further ones get status 503 (1024)")  # fmt: skip
    network.add_argument("--max-body-bytes", type=count, default=8 << 20, metavar="N",
                         help="size of a request's body; larger ones get status 413 (8388608)")  # fmt: skip
    network.add_argument("--drain-seconds", type=count, default=60, metavar="N",
                         help="time for running requests after SIGTERM (60)")  # fmt: skip
    engine = parser.add_argument_group("engine (names of vLLM's flags)")
    engine.add_argument("--served-model-name", metavar="NAME", help="the model's name for clients (MODEL)")
    engine.add_argument("--max-model-len", type=count, default=2048, metavar="N", help="positions of a request (2048)")
    engine.add_argument("--max-num-seqs", type=count, default=8, metavar="N", help="requests at once (8)")
    engine.add_argument("--num-gpu-blocks-override", type=int, default=0, metavar="N",
                        help="KV blocks, the null block included (as many as the requests need)")  # fmt: skip
    engine.add_argument("--no-enable-prefix-caching", action="store_true", help="compute every prompt completely")
    engine.add_argument("--policy", default="neuron", choices=("neuron", "neuron-nxdi", "vllm"),
                        help="scheduling policy, as of opentrn replay (neuron)")  # fmt: skip
    engine.add_argument("--scheduling-policy", default="fcfs", choices=("fcfs", "priority"),
                        help="which requests run first: in the order in which they come, or, with --policy vllm, by "
                        "their priority (fcfs)")  # fmt: skip
    engine.add_argument("--chat-template", metavar="FILE", help="chat template in Jinja (the model's own)")
    engine.add_argument("--default-chat-template-kwargs", default="{}", metavar="JSON",
                        help="variables of the chat template, such as '{\"enable_thinking\": false}'")  # fmt: skip
    engine.add_argument("--reasoning-parser", default="auto", metavar="NAME",
                        help="how reasoning is told from answers, by vLLM's names; none leaves it in them (auto: by "
                        "the chat template)")  # fmt: skip
    engine.add_argument("--tool-call-parser", default="auto", metavar="NAME",
                        help="form of calls of tools, by vLLM's names: hermes, mistral, llama3_json (auto: by the chat "
                        "template)")  # fmt: skip
    engine.add_argument("--override-generation-config", default="{}", metavar="JSON",
                        help="default sampling of requests, such as '{\"temperature\": 0.2}'")  # fmt: skip
    engine.add_argument("--additional-config", default="{}", metavar="JSON",
                        help="config of AWS's vLLM plugin from 0.21 on: '{\"neuron_config\": {...}}'")  # fmt: skip
    engine.add_argument("--override-neuron-config", default="{}", metavar="JSON",
                        help="config of AWS's vLLM plugin up to 0.5, over NxD Inference")  # fmt: skip
    engine.add_argument("--explain-config", action="store_true",
                        help="print how each key of these JSON options is handled, and exit")  # fmt: skip
    engine.add_argument("--speculative-config", default="{}", metavar="JSON",
                        help="guess tokens of answers, such as '{\"method\": \"ngram\", "
                        "\"num_speculative_tokens\": 4}'")  # fmt: skip
    engine.add_argument("--lora-modules", nargs="+", type=_named, metavar="NAME=FOLDER",
                        help="LoRA adapters that requests select as their model")  # fmt: skip
    engine.add_argument("--max-loras", type=count, default=0, metavar="N",
                        help="LoRA adapters in one step (any number)")  # fmt: skip
    add_ranks(engine, "--tensor-parallel-size")
    times = parser.add_argument_group("time")
    times.add_argument("--time", default="wall", choices=("wall", "paced", "virtual"),
                       help="steps take their time on this host (wall), at least the predicted time (paced), or the "
                       "predicted time without waiting (virtual)")  # fmt: skip
    times.add_argument("--no-values", action="store_true",
                       help="generate random tokens, compute none; needs --linear or --step-times")  # fmt: skip
    times.add_argument("--linear", default="", metavar="TIMES", help="linear model of step times, as of opentrn replay")
    times.add_argument("--step-times", default="", metavar="FILE", help="table of step times of opentrn step-times")
    times.add_argument("--host-us", type=float, default=0.0, metavar="US", help="host time of a step (0)")
    times.add_argument("--host-request-us", type=float, default=0.0, metavar="US",
                       help="host time of a step for each request that it gives a token (0)")  # fmt: skip
    times.add_argument("--trace", metavar="FILE", help="write each step and request as a line of JSON")
    times.add_argument("--audit", action="store_true", help="check the accounting of the KV blocks after every step")
    parser.set_defaults(command=serve_command)
