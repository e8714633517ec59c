"""neuronx-cc: AWS's command line of the compiler, over OpenTrn's.

What is written is OpenTrn's container of a compiled model, and never a NEFF, whatever the file is called; libnrt of
OpenTrn loads it, and `opentrn run` does. Options of AWS's reference are honoured, or a warning names those that change
nothing here; others are refused by name. Exit status 0, or 70 for any failure.
"""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.errors import InputError, NotModelled

SUCCESS, FAILURE = 0, 70
_VERBOSITY = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
# Phases of AWS's compiler that --pipeline may name: the whole of it, and one that keeps its intermediate files.
_PIPELINE = ("compile", "SaveTemps")
_VALUES = {
    "model-type": ("generic", "transformer", "unet-inference"),
    "distribution-strategy": ("generic", "llm-training", "NEMO"),
    "native-int64": ("default", "enabled", "disabled"),
    "logical-nc-config": ("1", "2"),
    "lnc": ("1", "2"),
}
# The instance family that a --target names, where it is no target of `opentrn`.
_TARGETS = {"trn1n": "trn1"}
# AWS's codes of the same conditions, by our labels (compiler/error-codes of the SDK's documents).
_CODES = {
    "compiler.hbm": "NCC_EOOM001",
    "lower.no_kernel": "NCC_EUOC002",
    "hlo.proto": "NCC_EVRF001",
}

# The opcodes of HLO that src/import/hlo/convert.cc takes; tests/tools/test_neuronx_cc.py holds this to it.
OPERATORS = (
    *(
        "abs",
        "acos",
        "acosh",
        "add",
        "after-all",
        "all-gather",
        "all-reduce",
        "all-to-all",
        "and",
        "asin",
        "asinh",
    ),
    *("atan2", "atanh", "batch-norm-grad", "batch-norm-inference", "batch-norm-training", "bitcast"),
    *(
        "bitcast-convert",
        "broadcast",
        "call",
        "cbrt",
        "ceil",
        "cholesky",
        "clamp",
        "collective-permute",
        "compare",
    ),
    *(
        "complex",
        "concatenate",
        "conditional",
        "constant",
        "convert",
        "convolution",
        "copy",
        "cosine",
        "cosh",
    ),
    *("count-leading-zeros", "custom-call", "divide", "domain", "dot", "dynamic-reshape", "dynamic-slice"),
    *(
        "dynamic-update-slice",
        "erf",
        "exponential",
        "exponential-minus-one",
        "fft",
        "floor",
        "fusion",
        "gather",
    ),
    *(
        "get-dimension-size",
        "get-tuple-element",
        "imag",
        "iota",
        "is-finite",
        "log",
        "log-plus-one",
        "logistic",
    ),
    *(
        "map",
        "maximum",
        "minimum",
        "multiply",
        "negate",
        "not",
        "optimization-barrier",
        "or",
        "pad",
        "parameter",
    ),
    *(
        "partition-id",
        "popcnt",
        "power",
        "real",
        "reduce",
        "reduce-precision",
        "reduce-scatter",
        "reduce-window",
    ),
    *("remainder", "replica-id", "reshape", "reverse", "rng-bit-generator", "round-nearest-afz"),
    *(
        "round-nearest-even",
        "rsqrt",
        "scatter",
        "select",
        "select-and-scatter",
        "set-dimension-size",
        "shift-left",
    ),
    *(
        "shift-right-arithmetic",
        "shift-right-logical",
        "sign",
        "sine",
        "sinh",
        "slice",
        "sort",
        "sqrt",
        "subtract",
    ),
    *("tan", "tanh", "topk", "transpose", "triangular-solve", "tuple", "while", "xor"),
)

_USAGE = """\
usage: neuronx-cc compile MODEL --framework XLA --target TARGET [options]
       neuronx-cc list-operators --framework XLA
       neuronx-cc --version

OpenTrn's compiler behind the command line of AWS's neuronx-cc. compile reads an HLO protocol buffer (StableHLO and
ONNX too) and writes OpenTrn's container, which `opentrn run` and OpenTrn's libnrt execute on a simulated device.

  --target trn1|trn1n|trn2|trn3|inf2
  --output FILE             (default file.neff; the name changes nothing of what is in it)
  --optlevel N, -O N        1, 2 (default) or 3
  --auto-cast MODE          none (default), matmult or all
  --auto-cast-type TYPE     bf16 (default), fp16, tf32 or fp8_e4m3
  --logfile FILE            (default log-neuron-cc.txt)
  --verbose LEVEL           debug, info, warning (default), error or critical; or its number
  other options of AWS's reference are taken, and a warning says that they change nothing
"""


@dataclass
class Command:
    """A parsed command line of `compile`."""

    model: str = ""
    target: str = ""
    output: str = "file.neff"
    logfile: str = "log-neuron-cc.txt"
    level: int = 30
    words: list[str] = field(default_factory=list)  # for the compiler


def _refuse(message: str, hint: str = "neuronx-cc compile --help") -> InputError:
    return InputError(message, label="tools.neuronx_cc", hint=hint)


def _normal(word: str) -> str:
    """`--output=x` of a word; -O1, -lnc=2 and dashes that a document turned into others in the long form."""
    word = word.replace("\u2014", "--").replace("\u2013", "-") if word[:1] in "\u2014\u2013" else word
    if word.startswith("---"):
        word = word[1:]
    if word.startswith("-O") and len(word) > 2:
        return "--optlevel=" + word[2:].lstrip("=")
    if word == "-O":
        return "--optlevel"
    return "--lnc" + word[4:] if word.startswith("-lnc") else word


def parse(words: list[str]) -> Command:
    """Raises InputError "tools.neuronx_cc" for what is no command line of neuronx-cc's."""
    command = Command()
    left = [_normal(word) for word in words]
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            if command.model:
                raise _refuse(f"two models, {command.model} and {word}: XLA's are one file")
            command.model = word
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if name == "pipeline":
            given = [value] if equals else []
            while left and not left[0].startswith("-") and (left[0] in _PIPELINE or not given):
                given.append(left.pop(0))
            if unknown := [step for step in given if step not in _PIPELINE]:
                raise NotModelled(
                    f"--pipeline {unknown[0]}: OpenTrn's compiler has no such step of AWS's",
                    label="tools.neuronx_cc",
                    hint="--pipeline compile SaveTemps; `opentrn opt` prints the programs between its own passes",
                )
            continue
        if name not in ("framework", "target", "output", "logfile", "verbose"):
            taken = [word]
            known = _VALUES.get(name)
            if known is not None and not equals:
                if not left:
                    raise _refuse(f"--{name} has no value")
                value = left.pop(0)
                taken.append(value)
            if known is not None and value not in known:
                raise _refuse(f"--{name} {value}: it is one of {', '.join(known)}")
            if known is None and not equals and left and not left[0].startswith("-") and _takes_value(name):
                taken.append(left.pop(0))
            command.words += taken
            continue
        if not equals:
            if not left:
                raise _refuse(f"--{name} has no value")
            value = left.pop(0)
        if name == "framework":
            if value.upper() != "XLA":
                raise _refuse(f"--framework {value}: there is XLA")
        elif name == "verbose":
            command.level = _level(value)
        else:
            setattr(command, name, value)
    if not command.model:
        raise _refuse("no model is named")
    if not command.target:
        raise _refuse("no --target is named", hint="--target trn2")
    return command


def _takes_value(name: str) -> bool:
    """Whether an option that stands alone lacks its value: it then takes the next word."""
    return not _is_taken(f"--{name}") and _is_taken(f"--{name}=1")


def _is_taken(flag: str) -> bool:
    try:
        _core.compiler_flags(flag)
    except (ValueError, NotImplementedError):
        return False
    return True


def _level(value: str) -> int:
    if value.lower() in _VERBOSITY:
        return _VERBOSITY[value.lower()]
    if value.isdecimal() and int(value) <= 100:  # scripts give numbers too
        return int(value)
    raise _refuse(f"--verbose {value}: it is one of {', '.join(_VERBOSITY)}")


def _options(words: list[str], target: str) -> tuple[dict[str, Any], list[str]]:
    """(options of opentrn.compile, options that change nothing). Raises as the compiler does."""
    from opentrn.settings.compiler_options import OPTIONS, option_values

    try:
        texts, stated, without_effect = _core.compiler_flags(shlex.join(words))
    except (InputError, NotModelled) as error:
        message = str(error.message if hasattr(error, "message") else error)
        raise type(error)(
            message.replace("NEURON_CC_FLAGS", "the command line"), label="tools.neuronx_cc"
        ) from error
    assert not stated, target
    for name, row in OPTIONS.items():
        if type(row.default) is int and not texts.get(row.name, "0").isdecimal():
            raise _refuse(f"--{name} {texts[row.name]}: it is a number")
    options = option_values(texts)
    assert len(options) == len(texts), texts
    return options, without_effect


class _Log:
    """Messages to the streams that AWS's reference names, and all of them to the log file."""

    def __init__(self, path: str, level: int) -> None:
        self._logger = logging.Logger("neuronx-cc", level=logging.DEBUG)
        self._level = level
        try:
            handler = logging.FileHandler(path, mode="w", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise _refuse(f"--logfile {path}: {error.strerror}") from error
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self._logger.addHandler(handler)
        self._handler = handler

    def say(self, level: int, text: str) -> None:
        self._logger.log(level, "%s", text)
        if level >= self._level:
            print(f"[{logging.getLevelName(level)}] {text}", file=sys.stderr if level >= 30 else sys.stdout)

    def close(self) -> None:
        self._handler.close()


def _compile(words: list[str]) -> int:
    command = parse(words)
    log = _Log(command.logfile, command.level)
    try:
        log.say(20, f"neuronx-cc compile {shlex.join(words)}")
        try:
            written = _write(command, log)
        except (ValueError, OSError, NotImplementedError, MemoryError, RuntimeError) as error:
            code = _CODES.get(getattr(error, "label", "") or "")
            log.say(max(command.level, 40), f"{f'[{code}] ' if code else ''}{error}")
            print("Compiler status ERROR", flush=True)
            return FAILURE
        print(f"{written}: OpenTrn's container of a compiled model (not a NEFF)")
        print("Compiler status PASS", flush=True)
        return SUCCESS
    finally:
        log.close()


def _write(command: Command, log: _Log) -> Path:
    from opentrn.model.compiled import CompiledModel
    from opentrn.model.compiled import compile as compile_model

    options, without_effect = _options(command.words, command.target)
    for option in without_effect:
        log.say(30, f"{option} changes nothing here")
    path = Path(command.model)
    if not path.is_file():
        raise _refuse(f"{path}: there is no such file", hint="name a file of an HLO protocol buffer")
    model = compile_model(path, target=_TARGETS.get(command.target, command.target), **options)
    output = Path(command.output)
    model.save(output)
    if isinstance(model, CompiledModel):
        log.say(20, f"{model.instruction_count} instructions, {model.constant_bytes} bytes of constants")
    return output


def run(words: list[str]) -> int:
    """The exit status of `neuronx-cc WORDS`."""
    try:
        if not words or words[0] in ("-h", "--help", "help") or "--help" in words or "-h" in words:
            print(_USAGE, end="")
            return SUCCESS if words else FAILURE
        if words[0] == "--version":
            from opentrn import __version__

            print(f"OpenTrn {__version__}: the command line of AWS's neuronx-cc")
            return SUCCESS
        if words[0] == "list-operators":
            parser = argparse.ArgumentParser("neuronx-cc list-operators", exit_on_error=False)
            parser.add_argument("--framework", required=True, choices=["XLA"], type=str.upper)
            try:
                parser.parse_args([_normal(word) for word in words[1:]])
            except argparse.ArgumentError as error:
                raise _refuse(str(error), hint="neuronx-cc list-operators --framework XLA") from error
            print("\n".join(sorted(OPERATORS)))
            return SUCCESS
        if words[0] != "compile":
            raise _refuse(f"'{words[0]}' is not a command", hint="compile, or list-operators")
        return _compile(words[1:])
    except (InputError, NotModelled) as error:
        print(f"neuronx-cc: {error}", file=sys.stderr)
        return FAILURE
    except SystemExit as left:  # of argparse
        return SUCCESS if left.code in (None, 0) else FAILURE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
