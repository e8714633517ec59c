"""The tokenizer and the chat template that a GGUF file holds, for the libraries that run them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from opentrn.errors import InputError, MissingModule, NotModelled

__all__ = ["ChatTemplate", "library", "tokenizer_of"]

# llama.cpp's patterns (src/llama-vocab.cpp) by the names of tokenizer.ggml.pre; names that share one follow each other.
_GPT2 = ("gpt-2", "default", "mpt", "olmo", "jais", "phi-2", "gigachat")
_DIGITS_APART = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b")
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3 = rf"{_SHORT}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_SHORT}|{_WORDS}|\p{{N}}|{_REST}"
# OpenAI's o200k_base: capitals and small letters of a word in turns, and short endings with it.
_CAPITALS, _SMALL = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_CAPITALS}]*[{_SMALL}]+{_SHORT}?|[^\r\n\p{{L}}\p{{N}}]?[{_CAPITALS}]+[{_SMALL}]*{_SHORT}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {
    "gpt-4o": _GPT4O, "llama4": _GPT4O,
    "llama3": _LLAMA3, "llama-v3": _LLAMA3, "llama-bpe": _LLAMA3, "falcon3": _LLAMA3, "dbrx": _LLAMA3,
    "qwen2": _QWEN2, "deepseek-r1-qwen": _QWEN2, "stablelm2": _QWEN2, "hunyuan": _QWEN2, "megrez": _QWEN2,
}  # fmt: skip
# ggml's enum llama_token_type.
_CONTROL, _USER_DEFINED = 3, 4


def library() -> Any:
    """The package tokenizers. Raises MissingModule."""
    try:
        import tokenizers
    except ModuleNotFoundError as absent:
        raise MissingModule(
            "text needs the package tokenizers, which is not installed",
            name="tokenizers", label="generate.package", hint="python -m pip install tokenizers",
        ) from absent  # fmt: skip
    return tokenizers


def _splitter(package: Any, name: str) -> Any:
    pre = package.pre_tokenizers
    if name in _GPT2:
        return pre.ByteLevel(add_prefix_space=False, use_regex=True)
    if name in _DIGITS_APART:
        return pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False, use_regex=True)])
    if name in _PATTERNS:
        pattern = package.Regex(_PATTERNS[name])
        return pre.Sequence(
            [pre.Split(pattern, behavior="isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
    raise NotModelled(
        f"tokenizer.ggml.pre is '{name}', and how that splits text is not known here", label="generate.tokenizer"
    )


def tokenizer_of(metadata: Mapping[str, Any]) -> Any:
    """tokenizers.Tokenizer of the vocabulary in a GGUF file's metadata.

    Raises InputError for a damaged vocabulary, NotModelled for another kind than byte-level BPE, MissingModule.
    """
    package = library()
    kind = metadata.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise NotModelled(
            f"tokenizer.ggml.model is {kind!r}; byte-level BPE ('gpt2') is built from a GGUF file",
            label="generate.tokenizer",
        )
    tokens, merges = _strings(metadata, "tokenizer.ggml.tokens"), _strings(metadata, "tokenizer.ggml.merges")
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    known = vocabulary.keys()
    for pair in pairs:
        if len(pair) != 2 or not (pair[0] in known and pair[1] in known and pair[0] + pair[1] in known):
            raise InputError(f"{' '.join(pair)!r} merges what is not a token", label="generate.tokenizer")
    pre = str(metadata.get("tokenizer.ggml.pre", "default"))
    model = package.models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=_PATTERNS.get(pre) == _LLAMA3)
    made = package.Tokenizer(model)
    made.pre_tokenizer = _splitter(package, pre)
    made.decoder = package.decoders.ByteLevel()
    kinds = metadata.get("tokenizer.ggml.token_type", [])
    of_kind = {wanted: [t for t, kind in zip(tokens, kinds) if kind == wanted] for wanted in (_CONTROL, _USER_DEFINED)}
    made.add_special_tokens([package.AddedToken(t, special=True, normalized=False) for t in of_kind[_CONTROL]])
    made.add_tokens([package.AddedToken(t, special=False, normalized=False) for t in of_kind[_USER_DEFINED]])
    return made


def _strings(metadata: Mapping[str, Any], key: str) -> Sequence[str]:
    found = metadata.get(key)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise InputError(f"the file has no list of strings {key}", label="generate.tokenizer")
    return found


def _reads_parts(template: Any) -> bool:
    """Whether a parsed template goes through a list of parts of each content, and takes no text in its place.

    Some of models with images do (LLaVA's); text would be left out without a word.
    """
    from jinja2 import nodes

    def is_content(node: Any) -> bool:
        while isinstance(node, nodes.Filter):
            node = node.node
        key = node.arg if isinstance(node, nodes.Getitem) else None
        return getattr(node, "attr", getattr(key, "value", None)) == "content"

    asks = any(test.name == "string" for test in template.find_all(nodes.Test))
    return not asks and any(is_content(loop.iter) for loop in template.find_all(nodes.For))


def _in_parts(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    return {**message, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else message


class ChatTemplate:
    """A chat template in Jinja, run as transformers runs it: in a sandbox, without access to Python's objects."""

    def __init__(self, source: str, bos: str, eos: str) -> None:
        try:
            from jinja2 import TemplateError, TemplateSyntaxError
            from jinja2.ext import loopcontrols
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ModuleNotFoundError as absent:
            raise MissingModule(
                "a chat template needs the package Jinja2, which is not installed",
                name="jinja2", label="generate.package", hint="python -m pip install jinja2",
            ) from absent  # fmt: skip

        def refuse(message: str) -> None:
            raise TemplateError(message)

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
        environment.globals["raise_exception"] = refuse
        environment.globals["strftime_now"] = lambda text: datetime.now().strftime(text)
        self._words = {"bos_token": bos, "eos_token": eos}
        self._error = TemplateError
        try:
            self._template = environment.from_string(source)
            self._reads_parts = _reads_parts(environment.parse(source))
        except TemplateSyntaxError as error:
            raise InputError(f"the chat template is malformed: {error}", label="generate.template") from error

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None) -> str:
        """The text of a conversation, up to where the assistant's next message begins. Raises InputError.

        `tools`: for templates that have a place for them.
        """
        if self._reads_parts:
            messages = [_in_parts(message) for message in messages]
        try:
            return self._template.render(messages=messages, tools=tools, add_generation_prompt=True, **self._words)
        except (self._error, TypeError) as error:  # TypeError: a template that adds what is no text
            raise InputError(f"the chat template refuses the messages: {error}", label="generate.template") from error
