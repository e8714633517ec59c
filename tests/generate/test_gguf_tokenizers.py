"""Tokenizers that GGUF files hold: SentencePiece's BPE against a slow one, how texts are split, and what ends them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tiny import gguf_bytes
from tiny_gguf import ROWS, keys, tensors

from opentrn import cli
from opentrn.errors import InputError, NotModelled
from opentrn.generate.language_model import TextStream
from opentrn.generate.text import text_of_gguf
from opentrn.generate.tokenizer import end_tokens, tokenizer_of

LETTERS = "abcde▁é"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6


def vocabulary(pieces: list[str], **changes: Any) -> dict[str, Any]:
    """Metadata of a vocabulary in which earlier pieces have higher scores."""
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *pieces]
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * (3 + len(BYTES)) + [-float(place) for place in range(len(pieces))],
        "tokenizer.ggml.token_type": [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces),
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
    } | changes  # fmt: skip


def joined(text: str, pieces: list[str], prefix: bool) -> list[str]:
    """Of all neighbours that make a piece those of the highest score become one, the first of equals, until none do."""
    symbols = list(("▁" if prefix and text else "") + text.replace(" ", "▁"))
    while True:
        made = [
            (pieces.index(a + b), i) for i, (a, b) in enumerate(zip(symbols, symbols[1:])) if a + b in pieces
        ]
        if not made:
            break
        _, place = min(made)
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
    return [
        token
        for symbol in symbols
        for token in ([symbol] if symbol in pieces else [f"<0x{byte:02X}>" for byte in symbol.encode()])
    ]


@pytest.mark.parametrize("prefix", [True, False])
def test_pieces_are_joined_by_their_scores(prefix: bool) -> None:
    for seed in range(40):
        draw = random.Random(seed)
        # Each is two earlier ones, so that it can be reached.
        pieces = list(LETTERS)
        for _ in range(30):
            longer = draw.choice(pieces) + draw.choice(pieces)
            if longer not in pieces and len(longer) <= 6:
                pieces.append(longer)
        order = pieces[len(LETTERS) :]
        draw.shuffle(order)
        pieces = order + list(LETTERS)
        made = tokenizer_of(vocabulary(pieces, **{"tokenizer.ggml.add_space_prefix": prefix}))
        for _ in range(25):
            text = "".join(draw.choice("abcde é漢") for _ in range(draw.randrange(24)))
            found = made.encode(text, add_special_tokens=False)
            assert found.tokens == joined(text, pieces, prefix), (seed, text)
            assert made.decode(found.ids) == text


def test_spaces_of_user_defined_tokens_are_matched_first() -> None:
    metadata = vocabulary([*LETTERS, "▁a", "  ", "   "])
    metadata["tokenizer.ggml.token_type"][-2:] = [USER, USER]
    made = tokenizer_of(metadata | {"tokenizer.ggml.add_space_prefix": False})
    assert made.encode("a     a").tokens == ["a", "   ", "  ", "a"]
    assert made.encode("a a</s>").tokens == ["a", "▁a", "</s>"]


@pytest.mark.parametrize("prefix", [True, False])
def test_pieces_that_come_one_by_one_are_the_whole_text(prefix: bool) -> None:
    made = tokenizer_of(vocabulary([*LETTERS, "▁a", "ab"], **{"tokenizer.ggml.add_space_prefix": prefix}))
    draw = random.Random(1)
    for _ in range(200):
        text = "".join(draw.choice("ab  é漢😀") for _ in range(draw.randrange(30)))
        ids = made.encode(text, add_special_tokens=False).ids
        stream = TextStream(made)
        assert "".join(stream.add(token) for token in ids) + stream.rest() == text


@pytest.mark.parametrize(("changes", "reason"), [
    ({"tokenizer.ggml.scores": [0.0]}, "scores of 262"),
    ({"tokenizer.ggml.scores": None}, "scores of 262"),
    ({"tokenizer.ggml.token_type": "all"}, "token_type of 262"),
])  # fmt: skip
def test_damaged_vocabularies(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        tokenizer_of(vocabulary(["a", "b", "ab"], **changes))


def test_other_vocabularies_are_named() -> None:
    with pytest.raises(NotModelled, match="'t5'"):
        tokenizer_of(vocabulary(["a"], **{"tokenizer.ggml.model": "t5"}))


@pytest.mark.parametrize(("name", "text", "pieces"), [
    ("default", "it's 12345, so", ["it", "'", "s", " ", "123", "45", ",", " so"]),
    ("gpt-2", "it's 12345, so", ["it", "'s", " 12345", ",", " so"]),
    ("smollm", "it's 123 so", ["it", "'s", " ", "1", "2", "3", " so"]),
    ("falcon", "a 12345`b", ["a", " ", "123", "45", "`", "b"]),
    ("glm4", "IT'S 12345", ["IT", "'S", " ", "123", "45"]),
    ("qwen2", "IT'S 123", ["IT", "'S", " ", "1", "2", "3"]),
    ("tekken", "HelloWorld's 12", ["Hello", "World", "'s", " ", "1", "2"]),
    ("deepseek-v3", "12345 it's,abc", ["123", "45", " it", "'s", ",abc"]),
    ("bloom", "one, two(three", ["one", ",", " two", "(", "three"]),
])  # fmt: skip
def test_how_texts_are_split(name: str, text: str, pieces: list[str]) -> None:
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.merges": []}
    made = tokenizer_of(metadata | {"tokenizer.ggml.pre": name})
    assert [piece.replace("Ġ", " ") for piece, _ in made.pre_tokenizer.pre_tokenize_str(text)] == pieces


def test_tokens_that_end_an_answer_are_found_by_name() -> None:
    metadata = vocabulary(["a", "<end_of_turn>"])
    metadata["tokenizer.ggml.token_type"][-1] = CONTROL
    text = text_of_gguf(metadata)
    assert text.stop_tokens == [2, len(metadata["tokenizer.ggml.tokens"]) - 1]
    assert text.begin == 1  # where the file does not say otherwise
    assert text_of_gguf(metadata | {"tokenizer.ggml.add_bos_token": False}).begin is None


def test_a_message_of_harmony_does_not_end_its_answer() -> None:
    names = ["<|start|>", "<|end|>", "<|return|>", "<|call|>"]
    assert end_tokens(names) == {2, 3}
    assert end_tokens(["a", "<|end|>"]) == {1}


def test_a_file_of_gemma_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    architecture, make, names, own = ROWS["gemma"]
    model = make()
    count = model.config["vocab_size"]
    pieces = ["▁", *(chr(letter) for letter in range(33, 33 + count - 4))]
    metadata = vocabulary([]) | {
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *pieces],
        "tokenizer.ggml.scores": [-float(place) for place in range(count)],
        "tokenizer.ggml.token_type": [UNKNOWN, CONTROL, CONTROL] + [NORMAL] * len(pieces),
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}",
    }
    found = tensors(model, architecture, names)
    content = {name: (0, value.shape, value.tobytes()) for name, value in found.items()}
    (tmp_path / "m.gguf").write_bytes(gguf_bytes(keys(model, architecture, own) | metadata, content))
    words = ["generate", str(tmp_path / "m.gguf"), "--prompt", "ab c", "--max-tokens", "4", "--dtype", "f32"]
    assert cli.main(words) == 0
    answer = capsys.readouterr().out.rstrip("\n")
    tokens = [1, *(pieces.index(piece) + 3 for piece in "ab▁c")]
    for _ in range(4):
        tokens.append(int(model.logits(tokens)[-1].argmax()))
    assert answer == "".join(pieces[token - 3] for token in tokens[5:]).replace("▁", " ")
