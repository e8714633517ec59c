"""`opentrn generate`: a language model's answer, and the time that the device would take for it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from opentrn import _core
from opentrn.cli import style as cli_style
from opentrn.cli.progress import Progress
from opentrn.errors import InputError

_PROMPT = "What is the capital of France?"
_TOKENS = 128
_CONTEXT = 2048


def generate_command(options: argparse.Namespace) -> int:
    """opentrn generate MODEL: text on stdout as it comes, times on stderr; or JSON."""
    from opentrn.cli.models import refuse_given
    from opentrn.generate import LanguageModel, Sampling

    prompts = options.prompt or [_PROMPT]
    if options.temperature == 0:
        refuse_given(options, {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 0},
                     "only for tokens that are drawn, and --temperature 0 takes the likeliest")  # fmt: skip
    if options.raw:
        refuse_given(options, {"system": None}, "only for the chat template, which --raw leaves out")
    if not options.speculate:
        refuse_given(options, {"draft_model": None}, "only for guessed tokens, of which --speculate says how many")
    with Progress(options) as progress:
        progress.begin("loading the weights")
        model = LanguageModel(
            options.model, target=options.target, dtype=options.dtype, context=options.context, sequences=len(prompts),
            lora=options.lora, quantization=options.quantization, kv_cache_dtype=options.kv_cache_dtype,
            speculate=options.speculate, draft_model=options.draft_model, ranks=options.ranks,
            instance=options.instance,
        )  # fmt: skip
        if options.context > max(model.trained, _CONTEXT):
            raise InputError(f"a context of {options.context} positions; the model was made for {model.trained}",
                             label="generate.context", hint="at most as many")  # fmt: skip
        texts = prompts if options.raw else [model.chat_prompt(_messages(options, text)) for text in prompts]
        encoded = [model.encode(text) for text in texts]
        progress.begin("compiling the programs")
        sampling = Sampling(options.temperature, options.top_k, options.top_p, options.min_p, options.seed)
        begin = time.perf_counter()
        pieces = model.generate(encoded, max_tokens=options.max_tokens or _room(model, encoded), sampling=sampling)
        first = next(pieces)
    streams = not options.json and len(prompts) == 1
    if streams:
        print(first.text, end="", flush=True)
    for piece in pieces:
        if streams:
            print(piece.text, end="", flush=True)
    seconds = time.perf_counter() - begin
    run = json.dumps(_run(model, prompts, seconds))
    if options.json:
        print(json.dumps(json.loads(_core.generation_facts(run)), indent=1))
        return 0
    if streams:
        print()
    else:
        for prompt, answer in zip(prompts, model.answers):
            print(cli_style.headed(f"> {prompt}\n{answer.text}\n", sys.stdout))
    print(_core.generation_text(run), file=sys.stderr)
    return 0


def _room(model: Any, prompts: list[list[int]]) -> int:
    """New tokens where nobody says how many."""
    return max(1, min(_TOKENS, model.context - max(len(prompt) for prompt in prompts)))


def _messages(options: argparse.Namespace, text: str) -> list[dict[str, str]]:
    system = [{"role": "system", "content": options.system}] if options.system else []
    return [*system, {"role": "user", "content": text}]


def _run(model: Any, prompts: list[str], seconds: float) -> dict[str, Any]:
    """What was measured and predicted, as _core.generation_facts() and generation_text() take it."""
    return {
        "model": str(model.path),
        "architecture": model.config["architecture"],
        "target": model.target,
        "dtype": model.dtype,
        "ranks": model.ranks,
        "answers": list(map(_answer_row, prompts, model.answers)),
        "programs": list(map(_program_row, model.programs.values())),
        "draft_programs": list(map(_program_row, model.draft.choosing.values())) if model.draft else [],
        "speculation": {
            "tokens": model.speculate,
            "guessed": model.guessed,
            "right": model.right,
            "draft_model": str(model.draft.path) if model.draft else None,
            "drafted_us": model.drafted_us,
            "decoded_us": model.decoded_us,
            "decoded_tokens": model.decoded_tokens,
        },
        "host": {"ready_s": model.ready_seconds, "seconds": seconds},
    }


def _answer_row(prompt: str, answer: Any) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "prompt_tokens": answer.prompt_tokens,
        "text": answer.text,
        "tokens": answer.tokens,
        "finish": answer.finish,
        "first_token_predicted_us": answer.predicted_first_us,
        "first_token_host_s": answer.host_first_seconds,
    }


def _program_row(program: Any) -> dict[str, Any]:
    sequences, tokens, context, _ = program.bucket
    return {
        "text": program.text,
        "sequences": sequences,
        "tokens": tokens,
        "context": context,
        "instructions": program.instructions,
        "predicted_us": program.predicted_us,
        "collectives_us": program.collectives_us,
        "bound_by": program.bound_by,
        "band": program.band,
        "trust": program.trust,
        "runs": program.runs,
        "host_s": program.host_seconds,
    }


def count(text: str) -> int:
    """An argument of 1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not 1 or more")
    return value


def add_model(parser: argparse.ArgumentParser) -> None:
    """What every command about a language model takes: which one, for which device, in which numbers."""
    from opentrn.cli import models as cli_model
    from opentrn.generate.source import PACKAGED

    packaged = ", ".join(sorted(PACKAGED))
    parser.add_argument("model", help=f"a .gguf file, a folder of safetensors, or a model in a package: {packaged}")
    parser.add_argument("--target", metavar="TARGET", help=cli_model.TARGET_DEFAULT)
    parser.add_argument("--dtype", default="f16", choices=("bf16", "f16", "f32"),
                        help="type of weights, keys and values (f16, as in llama.cpp)")  # fmt: skip
    parser.add_argument("--quantization", default="none", metavar="TYPE",
                        help="type of the matrices of layers: int8, fp8_e4m3, fp8_e5m2 or, on trn3, fp8_e4m3fn, mxfp8 "
                             "and mxfp4 (none: that of --dtype); behind it ,per_tensor_symmetric and "
                             ",except=MODULE")  # fmt: skip
    parser.add_argument("--kv-cache-dtype", default="auto", metavar="TYPE",
                        help="type of keys and values: fp8 (fp8_e4m3), fp8_e5m2 or, on trn3, fp8_e4m3fn (auto: that of "
                             "--dtype)")  # fmt: skip
    cli_model.add_json(parser)
    cli_model.add_progress(parser)


def add_lora(parser: Any) -> None:
    """The option of commands that load weights."""
    parser.add_argument("--lora", metavar="FOLDER", help="a LoRA adapter in PEFT's format, added to the weights")


def add_ranks(parser: Any, *names: str) -> None:
    """NeuronCores that share the model."""
    parser.add_argument("--ranks", *names, type=count, default=1, metavar="N", dest="ranks",
                        help="NeuronCores that share the model (1)")  # fmt: skip
    parser.add_argument("--instance", metavar="NAME",
                        help="instance of the ranks, over whose links they communicate: trn2.48xlarge")  # fmt: skip


def add_command(commands: Any) -> None:
    """`generate` on the parser of the program."""
    parser = commands.add_parser(
        "generate",
        description="Answer prompts with a language model on one simulated NeuronCore: text on stdout, predicted "
        "device time per program, what bounds it, and this machine's time on stderr.",
    )  # fmt: skip
    parser.examples = (
        'opentrn generate smollm2 --prompt "Why is the sky blue?"',
        "opentrn generate model.gguf --target trn3 --temperature 0.8 --seed 1 --json",
    )
    parser.add_argument("--prompt", action="append", metavar="TEXT",
                        help=f"the user's prompt (default: {_PROMPT!r}); several are answered together")  # fmt: skip
    parser.add_argument("--system", metavar="TEXT", help="system message (default: the chat template's)")
    parser.add_argument("--raw", action="store_true", help="take prompts as they are, without the chat template")
    parser.add_argument("--max-tokens", type=count, metavar="N",
                        help=f"most new tokens (default {_TOKENS}, or what the context fits)")  # fmt: skip
    parser.add_argument("--context", type=count, default=_CONTEXT, metavar="N",
                        help=f"positions, prompt included ({_CONTEXT})")  # fmt: skip
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T",
                        help="sampling temperature; 0 takes the likeliest token (default)")  # fmt: skip
    parser.add_argument("--top-k", type=int, default=0, metavar="K", help="sample from the K likeliest tokens (0: all)")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P",
                        help="sample from the likeliest tokens with a total probability of P (1)")  # fmt: skip
    parser.add_argument("--min-p", type=float, default=0.0, metavar="P",
                        help="sample from tokens with at least P times the likeliest's probability (0)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of sampling (0)")
    add_lora(parser)
    add_ranks(parser)
    parser.add_argument("--speculate", type=count, default=0, metavar="K",
                        help="guess up to K tokens per step, from the text before (0)")  # fmt: skip
    parser.add_argument("--draft-model", metavar="MODEL",
                        help="a smaller model of the same tokens, or an EAGLE head, that guesses")  # fmt: skip
    add_model(parser)
    parser.set_defaults(command=generate_command)
