"""neuronx-cc: AWS's command line of the compiler, over OpenTrn's.

What is written is OpenTrn's container of a compiled model, and never a NEFF, whatever the file is called; libnrt of
OpenTrn loads it, and `opentrn run` does. Options of AWS's reference are honoured, or a warning names those that change
nothing here; others are refused by name. Exit status 0, or 70 for any failure.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.errors import InputError, NotModelled

SUCCESS, FAILURE = 0, 70
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


def _refuse(message: str, hint: str = "neuronx-cc compile --help") -> InputError:
    return InputError(message, label="tools.neuronx_cc", hint=hint)


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


def _compile(command: _core.NeuronxCc, words: list[str]) -> int:
    log = _Log(command.logfile, command.level)
    try:
        log.say(20, f"neuronx-cc {shlex.join(words)}")
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


def _write(command: _core.NeuronxCc, log: _Log) -> Path:
    from opentrn.model.compiled import CompiledModel
    from opentrn.model.compiled import compile as compile_model

    options, without_effect = _options(command.flags, command.target)
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


def _help(_: _core.NeuronxCc, words: list[str]) -> int:
    print(_USAGE, end="")
    return SUCCESS if words else FAILURE


def _version(_: _core.NeuronxCc, __: list[str]) -> int:
    from opentrn import __version__

    print(f"OpenTrn {__version__}: the command line of AWS's neuronx-cc")
    return SUCCESS


def _list_operators(_: _core.NeuronxCc, __: list[str]) -> int:
    print("\n".join(sorted(OPERATORS)))
    return SUCCESS


_COMMANDS = {"help": _help, "--version": _version, "list-operators": _list_operators, "compile": _compile}


def run(words: list[str]) -> int:
    """The exit status of `neuronx-cc WORDS`."""
    try:
        asked = _core.neuronx_cc(words)
        return _COMMANDS[asked.command](asked, words)
    except (InputError, NotModelled) as error:
        print(f"neuronx-cc: {error}", file=sys.stderr)
        return FAILURE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
