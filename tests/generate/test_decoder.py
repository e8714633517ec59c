"""Steps of a decoder: their logits are the architecture's, and a sequence's do not depend on anything but itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import Tiny
from tiny_folders import FOLDERS, LONG, Folder

from opentrn import _core
from opentrn.errors import InputError, NotModelled
from opentrn.kernel import run as _timings  # noqa: F401 - gives _core.Timing its methods

ARCHITECTURES = ["llama", "qwen2", "qwen3", "granite"]
PROMPT = [int(t) for t in np.random.default_rng(7).integers(0, 100, 37)]


def engine_of(path: Path, element: str = "f32", target: str = "trn2", **sizes: Any) -> Any:
    options = {"blocks": 17, "sequences": [1, 4], "tokens": [16, 48], "contexts": [64, 128]} | sizes
    return _core.decoder_engine(
        _core.read_gguf(path), target, element, 16, options["blocks"], options["sequences"], options["tokens"],
        options["contexts"],
    )  # fmt: skip


def decoded(engine: Any, tokens: list[int], blocks: list[int], first: int) -> Iterator[np.ndarray]:
    """Logits of the tokens from `first` on, one step each, after one for those in front."""
    yield engine.step([(tokens[:first], 0, blocks)])[0][0]
    for i in range(first, len(tokens)):
        yield engine.step([([tokens[i]], i, blocks)])[0][0]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_prefill_and_decode_give_the_logits_of_the_architecture(architecture: str, tmp_path: Path) -> None:
    model = Tiny(architecture, tied=architecture != "qwen2")
    engine = engine_of(model.write(tmp_path, quantised=True))
    expected = model.logits(PROMPT)
    every, bucket, rows = engine.step([(PROMPT, 0, [3, 1, 2])], every_token=True)
    assert (bucket, rows) == ((1, 48, 64, True), 48)
    assert np.abs(every[: len(PROMPT)] - expected).max() < 2e-4 * np.abs(expected).max()
    steps = np.array(list(decoded(engine, PROMPT, [9, 4, 7], 20)))
    assert np.abs(steps - expected[19:]).max() < 2e-4 * np.abs(expected).max()


@pytest.mark.parametrize("context", [80, 160, 192, 288])
@pytest.mark.parametrize("fresh", [1, 6])
def test_contexts_that_do_not_fill_partitions(context: int, fresh: int, tmp_path: Path) -> None:
    """Values of the second sequence begin in the middle of a tile of what the gather leaves in SBUF."""
    model = Tiny(context=512)
    engine = engine_of(model.write(tmp_path), blocks=41, sequences=[3], tokens=[8], contexts=[context])
    tokens = [[int(t) for t in np.random.default_rng(seed).integers(0, 100, 60)] for seed in (1, 2, 3)]
    blocks = [list(range(first, first + 5)) for first in (1, 11, 21)]
    for at in range(0, 48, 8):
        engine.step([(row[at : at + 8], at, places) for row, places in zip(tokens, blocks)])
    logits, _, _ = engine.step([(row[48 : 48 + fresh], 48, places) for row, places in zip(tokens, blocks)])
    expected = np.array([model.logits(row[: 48 + fresh])[-1] for row in tokens])
    assert np.abs(logits[:3] - expected).max() < 2e-4 * np.abs(expected).max()


# Positions that a gather of keys brings in one row: a power of two whose rows fill 128 partitions.
@pytest.mark.parametrize(("context", "run"), [(640, 1), (1024, 8)])
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_steps_over_long_contexts_give_the_logits_of_the_architecture(
    architecture: str, context: int, run: int, tmp_path: Path
) -> None:
    """Few queries to many keys are a kernel of their own; the keys that a gather brings stay in SBUF for it."""
    model = Tiny(architecture, context=1024)
    tokens = [int(t) for t in np.random.default_rng(8).integers(0, 100, 530)]
    expected = model.logits(tokens)[-2:]
    engine = _core.decoder_engine(_core.read_gguf(model.write(tmp_path)), "trn2", "f32", 16, 65, [1], [640], [context])
    *_, last, end = decoded(engine, tokens, list(range(40, 0, -1)), len(tokens) - 2)
    assert np.abs(np.array([last, end]) - expected).max() < 2e-4 * np.abs(expected).max()
    text = engine.time((1, 1, context, False)).executable_text(0)
    gathers = [line for line in text.splitlines() if re.match(r"dma_copy dst=\S+ src=\S+ \S+\{vector", line)]
    assert len(gathers) == 2 + 2 * model.layers * context // run // 128  # of the token and its position, of pools


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_folder_of_safetensors_gives_the_bits_of_the_gguf_file(architecture: str, tmp_path: Path) -> None:
    model = Tiny(architecture, tied=architecture != "qwen2")
    rows = []
    for file in (
        _core.read_gguf(model.write(tmp_path)),
        _core.read_checkpoint(model.write_folder(tmp_path, parts=1 + (architecture == "llama"))),
    ):
        engine = _core.decoder_engine(file, "trn2", "bf16", 16, 5, [1], [48], [64])
        rows.append(engine.step([(PROMPT, 0, [1, 2, 3])])[0].tobytes())
    assert rows[0] == rows[1]


def test_folders_that_are_damaged_or_lead_elsewhere(tmp_path: Path) -> None:
    folder = Tiny().write_folder(tmp_path)
    whole = (folder / "model.safetensors").read_bytes()
    for length in (0, 7, 100, len(whole) - 1):
        (folder / "model.safetensors").write_bytes(whole[:length])
        with pytest.raises(InputError, match="safetensors"):
            _core.read_checkpoint(folder)
    (folder / "model.safetensors").write_bytes(whole.replace(b'"F32"', b'"U64"', 1))
    with pytest.raises(NotModelled, match="is U64"):
        _core.read_checkpoint(folder)
    for name in ("../model.safetensors", "/etc/passwd", ".."):
        (folder / "model.safetensors.index.json").write_text(f'{{"weight_map": {{"a": "{name}"}}}}')
        with pytest.raises(InputError, match="not a file of the folder") as caught:
            _core.read_checkpoint(folder)
        assert caught.value.label == "checkpoint.folder"
    (folder / "config.json").unlink()
    with pytest.raises(InputError):
        _core.read_checkpoint(folder)


@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_narrow_weights_round_and_no_more(element: str, tmp_path: Path) -> None:
    model = Tiny()
    engine = engine_of(model.write(tmp_path), element)
    found = engine.step([(PROMPT, 0, [1, 2, 3])], every_token=True)[0][: len(PROMPT)]
    expected = model.logits(PROMPT)
    off = np.abs(found - expected).max() / np.abs(expected).max()
    assert 1e-6 < off < {"bf16": 3e-2, "f16": 1e-2}[element]


def test_logits_depend_on_no_neighbour_row_block_or_shared_prefix(tmp_path: Path) -> None:
    path = Tiny(seed=3).write(tmp_path)
    other = [int(t) for t in np.random.default_rng(8).integers(0, 100, 30)]
    sizes = {"sequences": [4], "tokens": [48], "contexts": [64], "blocks": 33}

    def alone() -> list[np.ndarray]:
        engine = engine_of(path, "bf16", **sizes)
        return [row.copy() for row in decoded(engine, PROMPT, [1, 2, 3], 33)]

    def with_neighbours() -> list[np.ndarray]:
        engine = engine_of(path, "bf16", **sizes)
        engine.step([(other, 0, [30, 31]), (other[::-1], 0, [5, 6])])
        mine = [engine.step([(other, 0, [20, 21]), (PROMPT[:33], 0, [17, 8, 25])])[0][1]]
        for i in range(33, len(PROMPT)):
            rows = [
                ([other[i - 33]], 30 + i - 33, [30, 31, 11]),
                ([7], 30, [5, 6]),
                ([PROMPT[i]], i, [17, 8, 25]),
            ]
            mine.append(engine.step(rows)[0][2])
        return mine

    def with_prefix() -> list[np.ndarray]:
        engine = engine_of(path, "bf16", **sizes)
        engine.step([(PROMPT[:32] + other[:5], 0, [12, 13, 14])])
        mine = [engine.step([(PROMPT[16:33], 16, [12, 22, 23])])[0][0]]
        for i in range(33, len(PROMPT)):
            mine.append(engine.step([([PROMPT[i]], i, [12, 22, 23])])[0][0])
        return mine

    expected = alone()
    for found in (with_neighbours(), with_prefix()):
        assert [row.tobytes() for row in found] == [row.tobytes() for row in expected]


def test_a_step_takes_as_long_with_a_pool_of_any_size(tmp_path: Path) -> None:
    """Pools are updated in place: a copy would take longer where they are larger."""
    path, times = Tiny().write(tmp_path), []
    for blocks in (17, 4096):
        engine = engine_of(path, blocks=blocks)
        bucket = engine.step([(PROMPT[:1], 0, [5])])[1]
        times.append(engine.time(bucket).time_us)
    assert times[0] == times[1]


def test_all_layers_read_their_slots_from_one_load(tmp_path: Path) -> None:
    """Inputs 2 and 3 are the slots of new rows and of the context: two pools a layer scatter and gather by them."""
    tiny = Tiny()
    engine = engine_of(tiny.write(tmp_path))
    bucket = engine.step([(PROMPT[:1], 0, [5])])[1]
    lines = engine.time(bucket).executable_text(0).splitlines()
    for number in (2, 3):
        loads = [
            line
            for line in lines
            if line.startswith("dma_copy") and f"src=%{number}" in re.split(r"[ \[]", line)
        ]
        assert len(loads) == 1


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        (([], 0, [1]), "without new tokens"),
        (([1], 16, [1]), "17 positions do not fit 1 blocks of 16"),
        (([1], 0, [0]), "block 0"),
        (([1], 0, [17]), "block 17"),
        (([102], 0, [1]), "token 102"),
        (([1] * 49, 0, [1, 2, 3, 4]), "49 tokens in a step"),
    ],
)
def test_steps_that_are_none(sequence: Any, message: str, tmp_path: Path) -> None:
    engine = engine_of(Tiny().write(tmp_path))
    with pytest.raises(InputError, match=message) as caught:
        engine.step([sequence])
    assert caught.value.label == "decoder.step"


def test_models_that_have_no_builder(tmp_path: Path) -> None:
    model = Tiny("mamba")
    with pytest.raises(NotModelled, match="no builder for the architecture 'mamba'"):
        engine_of(model.write(tmp_path))
    model = Tiny(kv_heads=3)
    with pytest.raises(InputError, match="4 heads do not share 3") as caught:
        engine_of(model.write(tmp_path))
    assert caught.value.label == "decoder.config"
    model = Tiny()
    del model.weights["blk.1.ffn_up.weight"]
    with pytest.raises(InputError, match="no tensor blk.1.ffn_up.weight") as caught:
        engine_of(model.write(tmp_path))
    assert caught.value.label == "decoder.weights"


@pytest.mark.parametrize("name", FOLDERS)
def test_models_of_folders_give_the_logits_of_their_architecture(name: str, tmp_path: Path) -> None:
    architecture, config = FOLDERS[name]
    model = Folder(architecture, **config)
    prefix = "transformer." if name == "gpt2" else ""
    file = _core.read_checkpoint(model.write(tmp_path / "model", prefix))
    engine = _core.decoder_engine(file, "trn2", "f32", 16, 9, [1], [16, 48], [64])
    expected = model.logits(PROMPT)
    every, _, _ = engine.step([(PROMPT, 0, [3, 1, 2])], every_token=True)
    assert np.abs(every[: len(PROMPT)] - expected).max() < 3e-4 * np.abs(expected).max()
    steps = np.array(list(decoded(engine, PROMPT, [6, 4, 7], 20)))
    assert np.abs(steps - expected[19:]).max() < 3e-4 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("gpt2", {"activation_function": "relu"}, "'relu'"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "number of the layer"),
        ("gpt2", {"n_head": 5}, "5 heads share 64"),
        ("gemma", {"hidden_activation": "silu"}, "'silu'"),
        ("gemma3", {"use_bidirectional_attention": True}, "attention to later tokens"),
        ("llama yarn", {"hidden_act": "relu"}, "hidden_act is 'relu'; there is silu"),
        ("mixtral", {"hidden_act": "gelu_pytorch_tanh"}, "there is silu, swish"),
        ("gemma3", {"layer_types": ["sliding_attention"] * 6 + ["linear_attention"]}, "'linear_attention'"),
        ("gemma3", {"layer_types": ["sliding_attention"]}, "1 layers are told"),
        ("gemma2", {"sliding_window": 0}, "window of attention is 0"),
        ("gemma2", {"sliding_window": "no"}, "not an integer"),
        ("mixtral", {"num_experts_per_tok": 7}, "7 of 6 experts"),
        ("qwen3 moe", {"num_experts": 0}, "number of experts is 0"),
        ("qwen2 moe", {"decoder_sparse_step": 0}, "decoder_sparse_step is 0"),
        ("qwen2 moe", {"mlp_only_layers": [-1]}, "mlp_only_layers of config.json is not a list"),
        ("smollm3", {"no_rope_layers": [1, 0]}, "names 2 layers of 3"),
        ("smollm3", {"no_rope_layers": [1, 0, "no"]}, "not a list of 0 and 1"),
        ("smollm3", {"no_rope_layers": None, "no_rope_layer_interval": 0}, "no_rope_layer_interval is 0"),
        ("smollm3", {"mlp_bias": True}, "biases of feed-forward layers"),
        ("phi3", {"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5"),
        ("phi3", {"partial_rotary_factor": 0.7}, "11 features of a head are turned"),
        ("phi3 long", {"rope_scaling": LONG | {"long_factor": [1.0]}}, "long_factor .* no list of 6"),
        ("phi3 long", {"rope_scaling": LONG | {"short_factor": [0.0] * 6}}, "not above 0"),
        ("phi3 long", {"rope_scaling": LONG | {"original_max_position_embeddings": 0}}, "embeddings is 0"),
        ("phi3 long", {"rope_scaling": LONG | {"factor": "4"}}, "factor of config.json is not a number"),
        ("phi3 long", {"rope_scaling": LONG | {"original_max_position_embeddings": 1}}, "attention factor"),
    ],
)
def test_folders_that_say_what_is_not_modelled(
    name: str, change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    architecture, config = FOLDERS[name]
    folder = Folder(architecture, **(config | change)).write(tmp_path / "model")
    with pytest.raises((InputError, NotModelled), match=reason):
        _core.decoder_context(_core.read_checkpoint(folder))


def test_a_tensor_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    """Biases of feed-forward layers (mlp_bias) were left out, and logits were wrong without a word."""

    def engine(name: str) -> Any:
        file = _core.read_checkpoint(model.write(tmp_path / name))
        return _core.decoder_engine(file, "trn2", "f32", 16, 9, [1], [16, 48], [64])

    model = Folder("LlamaForCausalLM", mlp_bias=True)
    model.weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(8, np.float32)  # of older files
    engine("as-before")
    for layer in range(2):
        for part in ("gate_proj", "up_proj"):
            model.weights[f"model.layers.{layer}.mlp.{part}.bias"] = np.ones(96, np.float32)
    with pytest.raises(NotModelled, match=r"4 tensors that the builder of 'llama' makes nothing of: .*bias"):
        engine("with-biases")
