"""Keys and values in fp8: rounded as they are written, and read so by later tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tiny import Tiny
from tiny_folders import Folder

from opentrn import _core
from opentrn.errors import InputError
from opentrn.generate import LanguageModel

TOKENS = [int(t) for t in np.random.default_rng(5).integers(0, 90, 24)]
TYPES = {"fp8": ml_dtypes.float8_e4m3, "fp8_e5m2": ml_dtypes.float8_e5m2}


class Rounded(Folder):
    """Its logits with keys and values of a type."""

    kind: Any = None

    def kept(self, x: np.ndarray) -> np.ndarray:
        return x if self.kind is None else x.astype(np.float32).astype(self.kind).astype(np.float64)


def logits(folder: Path, kind: str, context: int, ranks: int = 1, element: str = "f32") -> np.ndarray:
    """Behind a prompt, and behind each of four more tokens."""
    blocks = context // 16
    engine = _core.decoder_engine(
        _core.read_checkpoint(folder), "trn2", element, 16, blocks + 1, [1], [32], [context], ranks=ranks,
        instance="trn2.48xlarge" if ranks > 1 else "", kv_cache_dtype=kind,
    )  # fmt: skip
    own = list(range(1, blocks + 1))
    rows = [engine.step([(TOKENS[:20], 0, own[:2])], True)[0][:20]]
    rows += [engine.step([(TOKENS[i : i + 1], i, own[:2])])[0][:1].copy() for i in range(20, 24)]
    return np.concatenate(rows).astype(np.float64)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sqrt(((a - b) ** 2).mean() / (b**2).mean()))


# Of 512 positions decode attention has keys over partitions, which its kernel widens.
@pytest.mark.parametrize(("context", "ranks"), [(64, 1), (64, 2), (512, 1)])
@pytest.mark.parametrize("kind", TYPES)
def test_logits_are_those_of_the_rounded_keys_and_values(
    kind: str, context: int, ranks: int, tmp_path: Path
) -> None:
    model = Rounded("LlamaForCausalLM", max_position_embeddings=1024)
    folder = model.write(tmp_path / "model")
    plain = model.logits(TOKENS)
    model.kind = TYPES[kind]
    expected = model.logits(TOKENS)
    found = logits(folder, kind, context, ranks)
    # A number that lies between two of fp8 may go to either, as the program rounds in fp32.
    assert distance(found, expected) < 0.1 * distance(plain, expected)
    in_16_bits = logits(folder, kind, context, ranks, "bf16")
    assert distance(in_16_bits, expected) < distance(plain, expected)


def test_they_take_half_the_memory(tmp_path: Path) -> None:
    file = _core.read_gguf(Tiny().write(tmp_path))
    sizes = {
        kind: _core.decoder_engine(file, "trn2", "bf16", 16, 9, [1], [32], [64], kv_cache_dtype=kind).pool_bytes
        for kind in ("auto", "fp8_e4m3")
    }
    assert sizes["auto"] == 2 * sizes["fp8_e4m3"]


def test_what_is_no_type(tmp_path: Path) -> None:
    path = Tiny().write(tmp_path)
    for kind, target in (("int8", "trn2"), ("bf16", "trn2"), ("fp8_e4m3fn", "trn2"), ("", "trn2")):
        with pytest.raises(InputError, match=f"keys and values of {kind}") as raised:
            LanguageModel(path, target=target, kv_cache_dtype=kind)
        assert raised.value.label == "decoder.element" and "fp8_e5m2" in raised.value.hint
    LanguageModel(path, target="trn3", kv_cache_dtype="fp8_e4m3fn")
