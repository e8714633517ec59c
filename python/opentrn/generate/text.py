"""Text of a model: its tokenizer, its chat template and the tokens that end an answer, wherever its files have them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentrn.base.files import shown
from opentrn.errors import InputError
from opentrn.generate.tokenizer import begins_with_a_token, end_tokens, library, tokenizer_of

__all__ = ["Text", "text_of_folder", "text_of_gguf"]


@dataclass(frozen=True)
class Text:
    """`template` is "" for a model without one; `begin` is put in front of a text without a template, if it is one."""

    tokenizer: Any
    template: str
    bos: str
    eos: str
    stop_tokens: Sequence[int]
    begin: int | None


def text_of_gguf(metadata: Mapping[str, Any]) -> Text:
    """Of a GGUF file's metadata. Raises InputError for a vocabulary that it cannot read."""
    tokens = metadata.get("tokenizer.ggml.tokens", [])

    def number(which: str) -> int | None:
        found = metadata.get(f"tokenizer.ggml.{which}_token_id")
        if found is None:
            return None
        if not isinstance(found, int) or not 0 <= found < len(tokens):
            raise InputError(f"tokenizer.ggml.{which}_token_id is {found!r}, no token", label="generate.tokenizer")
        return found

    def special(which: str) -> str:
        found = number(which)
        return "" if found is None else str(tokens[found])

    template = metadata.get("tokenizer.chat_template")
    return Text(
        tokenizer_of(metadata), template if isinstance(template, str) else "", special("bos"), special("eos"),
        sorted({found for which in ("eos", "eot", "eom") if (found := number(which)) is not None} | end_tokens(tokens)),
        number("bos") if begins_with_a_token(metadata) else None,
    )  # fmt: skip


def _json(path: Path) -> dict[str, Any]:
    """The file's object; an empty one where there is no such file."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{shown(path)} is not JSON: {error}", label="generate.tokenizer") from error
    if not isinstance(found, dict):
        raise InputError(f"{shown(path)} is not a JSON object", label="generate.tokenizer")
    return found


def _word(value: Any) -> str:
    """A special token as tokenizer_config.json has it: text, or an object with its content."""
    return str(value.get("content", "")) if isinstance(value, dict) else str(value or "")


def text_of_folder(folder: Path) -> Text:
    """Of a folder as Hugging Face publishes models: tokenizer.json, tokenizer_config.json, generation_config.json.

    Raises InputError where tokenizer.json is missing or cannot be read.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise InputError(f"there is no {shown(file)}", label="generate.tokenizer")
    try:
        made = library().Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises this class itself
        raise InputError(f"{shown(file)} is not a tokenizer: {error}", label="generate.tokenizer") from error
    config = _json(folder / "tokenizer_config.json")
    template = config.get("chat_template", _json(folder / "chat_template.json").get("chat_template", ""))
    if isinstance(template, list):
        template = next((row.get("template", "") for row in template if row.get("name") == "default"), "")
    if (folder / "chat_template.jinja").is_file():
        template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    eos = _word(config.get("eos_token"))
    of_model = _json(folder / "config.json")
    inside = of_model.get("text_config")  # of a model that reads images, too
    stated = (inside if isinstance(inside, dict) else {}) | of_model | _json(folder / "generation_config.json")
    ends = stated.get("eos_token_id")
    stop = {end for end in (ends if isinstance(ends, list) else [ends]) if isinstance(end, int)}
    if (number := made.token_to_id(eos)) is not None:
        stop.add(number)
    bos = _word(config.get("bos_token"))
    begin = made.token_to_id(bos) if config.get("add_bos_token") else None
    return Text(made, str(template), bos, eos, sorted(stop), begin)
