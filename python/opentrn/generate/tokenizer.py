"""The tokenizer and the chat template that a GGUF file holds, for the libraries that run them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from opentrn.errors import InputError, MissingModule, NotModelled

__all__ = ["ChatTemplate", "begins_with_a_token", "end_tokens", "library", "tokenizer_of"]

# What tokenizer.ggml.pre splits a text by, one pattern behind the other, as llama.cpp has it (src/llama-vocab.cpp).
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_SHORT}|{_WORDS}|\p{{N}}{{1,3}}|{_REST}"
_QWEN2 = rf"{_SHORT}|{_WORDS}|\p{{N}}|{_REST}"
_QWEN35 = (
    rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Capitals and small letters of a word in turns: OpenAI's o200k_base, short endings with it, and Mistral's Tekken.
_CAPITALS, _SMALL = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def _in_turns(ending: str, digits: str) -> str:
    return (
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_CAPITALS}]*[{_SMALL}]+{ending}|[^\r\n\p{{L}}\p{{N}}]?[{_CAPITALS}]+[{_SMALL}]*{ending}"
        rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_GPT4O, _TEKKEN = _in_turns(f"{_SHORT}?", r"\p{N}{1,3}"), _in_turns("", r"\p{N}")
_DEEPSEEK3 = (
    r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)  # fmt: skip
_DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")
_SPLITS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("default",): _DEFAULT,
    ("gpt-2", "mpt", "olmo", "jais", "phi-2", "gigachat", "trillion", "granite-docling", "a.x-4.0"): (_GPT2,),
    ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"): (r"\p{N}", _GPT2),
    ("falcon",): (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"),
    ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "dbrx", "smaug-bpe",
     "chatglm-bpe", "glm4", "glm5"): (_LLAMA3,),
    ("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "kormo", "grok-2", "solar-open"): (_QWEN2,),
    ("qwen35",): (_QWEN35,),
    ("gpt-4o", "llama4", "kanana2", "minimax-m2"): (_GPT4O,),
    ("tekken",): (_TEKKEN,),
    ("deepseek-v3", "hunyuan-dense", "joyai-llm"): _DEEPSEEK3,
    ("bloom", "poro-chat", "gpt3-finnish"): (" ?[^(\\s|.,!?…。，、।۔،)]+",),
}  # fmt: skip
# A word that is a token is not merged; and a file that does not say has its first token in front of a text.
_WHOLE_WORDS = ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "tekken")
# Tokens that end an answer, whatever numbers the file names (the same file's end-of-generation tokens).
_ENDS = frozenset((
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<EOT>",
    "<|eom_id|>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>",
    "<｜end▁of▁sentence｜>",
))  # fmt: skip
# ggml's enum llama_token_type.
_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6


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
    for names, patterns in _SPLITS.items():
        if name in names:
            splits = [pre.Split(package.Regex(pattern), behavior="isolated") for pattern in patterns]
            return pre.Sequence([*splits, pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    raise NotModelled(
        f"tokenizer.ggml.pre is '{name}', and how that splits text is not known here", label="generate.tokenizer"
    )


def begins_with_a_token(metadata: Mapping[str, Any]) -> bool:
    """Whether the first token of a text is tokenizer.ggml.bos_token_id: as the file says, or llama.cpp for it."""
    absent = metadata.get("tokenizer.ggml.model") == "llama" or metadata.get("tokenizer.ggml.pre") in _WHOLE_WORDS
    return bool(metadata.get("tokenizer.ggml.add_bos_token", absent))


def end_tokens(tokens: Sequence[str]) -> set[int]:
    """Of a vocabulary, the numbers of tokens that end an answer by their names."""
    found = {token: place for place, token in enumerate(tokens) if token in _ENDS}
    if "<|return|>" in found and "<|call|>" in found:  # gpt-oss: an answer has several messages
        found.pop("<|end|>", None)
    return {*found.values()}


def tokenizer_of(metadata: Mapping[str, Any]) -> Any:
    """tokenizers.Tokenizer of the vocabulary in a GGUF file's metadata.

    Raises InputError for a damaged vocabulary, NotModelled for another kind than byte-level BPE and SentencePiece's
    BPE, MissingModule.
    """
    package = library()
    kind = metadata.get("tokenizer.ggml.model")
    makers = {"gpt2": _of_bytes, "llama": _of_pieces}
    if kind not in makers:
        raise NotModelled(
            f"tokenizer.ggml.model is {kind!r}; byte-level BPE ('gpt2') and SentencePiece's BPE ('llama') are read",
            label="generate.tokenizer",
        )
    tokens = _strings(metadata, "tokenizer.ggml.tokens")
    made = makers[kind](package, tokens, metadata)
    kinds = metadata.get("tokenizer.ggml.token_type", [])
    of_kind = {wanted: [t for t, kind in zip(tokens, kinds) if kind == wanted] for wanted in (_CONTROL, _USER_DEFINED)}
    made.add_special_tokens([package.AddedToken(t, special=True, normalized=False) for t in of_kind[_CONTROL]])
    made.add_tokens([package.AddedToken(t, special=False, normalized=False) for t in of_kind[_USER_DEFINED]])
    return made


def _of_bytes(package: Any, tokens: Sequence[str], metadata: Mapping[str, Any]) -> Any:
    pairs = [tuple(merge.split(" ", 1)) for merge in _strings(metadata, "tokenizer.ggml.merges")]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    known = vocabulary.keys()
    for pair in pairs:
        if len(pair) != 2 or not (pair[0] in known and pair[1] in known and pair[0] + pair[1] in known):
            raise InputError(f"{' '.join(pair)!r} merges what is not a token", label="generate.tokenizer")
    pre = str(metadata.get("tokenizer.ggml.pre", "default"))
    model = package.models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=pre in _WHOLE_WORDS)
    made = package.Tokenizer(model)
    made.pre_tokenizer = _splitter(package, pre)
    made.decoder = package.decoders.ByteLevel()
    return made


def _of_pieces(package: Any, tokens: Sequence[str], metadata: Mapping[str, Any]) -> Any:
    """SentencePiece's BPE: of neighbouring pieces those are joined first that make the piece of the highest score."""
    scores, kinds = metadata.get("tokenizer.ggml.scores"), metadata.get("tokenizer.ggml.token_type")
    for key, found in (("scores", scores), ("token_type", kinds)):
        if not isinstance(found, list) or len(found) != len(tokens):
            raise InputError(f"the file has no list tokenizer.ggml.{key} of {len(tokens)}", label="generate.tokenizer")
    assert scores is not None and kinds is not None
    numbers = {token: number for number, token in enumerate(tokens)}
    joined = [
        (-scores[number], number, split)
        for token, number in numbers.items()
        if kinds[number] not in (_UNKNOWN, _CONTROL, _BYTE)
        for split in range(1, len(token))
        if token[:split] in numbers and token[split:] in numbers
    ]
    pairs = [(tokens[number][:split], tokens[number][split:]) for _, number, split in sorted(joined)]
    unknown = next((token for token, kind in zip(tokens, kinds) if kind == _UNKNOWN), None)
    model = package.models.BPE(vocab=numbers, merges=pairs, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    made = package.Tokenizer(model)
    decoders = package.decoders
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    space = package.normalizers.Replace(" ", "▁")
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        made.normalizer = package.normalizers.Sequence([package.normalizers.Prepend("▁"), space])
        parts.append(decoders.Strip(" ", 1, 0))
    else:
        made.normalizer = space
    made.decoder = decoders.Sequence(parts)
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


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:  # fmt: skip
    """As transformers' templates have it: Jinja's own writes `<` and others as HTML does."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _generation() -> type:
    """The tag `generation` around what the assistant says, which trainers mask by; its content is written as it is."""
    from jinja2 import nodes
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012 - as Jinja's own extensions state them

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    return Generation


# What a template raises that adds what is no text, or gets variables of another kind or depth than it takes.
_OF_VARIABLES = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


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

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _generation()]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = refuse
        environment.globals["strftime_now"] = lambda text: datetime.now().strftime(text)
        self._words = {"bos_token": bos, "eos_token": eos}
        self._error = TemplateError
        try:
            self._template = environment.from_string(source)
            self._reads_parts = _reads_parts(environment.parse(source))
        except TemplateSyntaxError as error:
            raise InputError(f"the chat template is malformed: {error}", label="generate.template") from error

    def prompt(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, *,
        begins_answer: bool = True, variables: Mapping[str, Any] | None = None,
    ) -> str:  # fmt: skip
        """The text of a conversation, up to where the assistant's next message begins. Raises InputError.

        `tools` and `variables`: for templates that have a place for them, such as enable_thinking of Qwen's models.
        """
        if self._reads_parts:
            messages = [_in_parts(message) for message in messages]
        try:
            return self._template.render(
                {**self._words, **(variables or {}), "messages": messages, "tools": tools,
                 "add_generation_prompt": begins_answer}
            )  # fmt: skip
        except (self._error, *_OF_VARIABLES) as error:
            raise InputError(f"the chat template refuses the messages: {error}", label="generate.template") from error
