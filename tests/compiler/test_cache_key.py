"""Keys of the cache stay what they are, so that entries which others wrote are found: the formula in Python's words."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_neuron_file import external_model

from opentrn import _core
from opentrn.model import cache

OPTIONS = {
    "optlevel": 2, "dimensions": {"batch": 4}, "strict": False, "auto_cast": "none", "of": None,
    "x": "\u00e4\u20ac", "target": "trn2", "y": 0.5, "z": [1.0, 1e-7],
}  # fmt: skip


def digest_of(*parts: tuple[str, str]) -> str:
    """SHA-256 over the parts, each with its name and its number of characters."""
    digest = hashlib.sha256()
    for name, data in parts:
        digest.update(f"{name} {len(data)} {data}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def head(options: dict) -> list[tuple[str, str]]:
    compiler = hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()
    return [
        ("format", "opentrn-model-cache-2"),
        ("compiler", compiler),
        ("options", json.dumps(options, sort_keys=True)),
    ]


def test_the_key_of_a_text():
    text = "module {}\n// \u20ac and \U0001f600\n"
    assert cache.key_of(text, "<text>", OPTIONS) == digest_of(*head(OPTIONS), ("text", text))


@pytest.mark.parametrize("name", ["model.mlir", "no suffix", "a.b.pb", "\udcffm\u00e4.hlo", "ends.with."])
def test_the_key_of_a_file(tmp_path, monkeypatch, name):
    path = tmp_path / "folder" / ".." / name
    (tmp_path / "folder").mkdir()
    path.write_bytes(b"bytes of a model\n" * 100_000)
    expected = digest_of(
        *head(OPTIONS),
        ("suffix", Path(name).suffix),
        ("path", str(tmp_path / name)),
        ("file", hashlib.sha256(path.read_bytes()).hexdigest()),
    )
    assert cache.key_of(None, str(path), OPTIONS) == expected
    monkeypatch.chdir(tmp_path / "folder")
    assert cache.key_of(None, f"../{name}", OPTIONS) == expected


def test_the_key_of_an_onnx_model_has_the_files_beside_it(tmp_path):
    weight = np.arange(12, dtype=np.float32).reshape(4, 3)
    model = external_model(tmp_path, weight)
    expected = digest_of(
        *head({}),
        ("suffix", ".onnx"),
        ("file", f"model.onnx 0 {hashlib.sha256(model.read_bytes()).hexdigest()}"),
        ("file", f"weights.bin 64 {hashlib.sha256(weight.tobytes()).hexdigest()}"),
    )
    assert cache.key_of(None, str(model), {}) == expected


PROGRAM = """
from opentrn import _core
from opentrn.model import cache
_core.set_custom_op_time("b", 1.0, 2.5e-7)
_core.set_custom_op_time("a", 1e22, 0.1)
print(cache.key_of("t\\n", "<text>", {}))
"""


def test_the_key_has_the_times_of_custom_operators():
    """In a process of its own: an operator that has a time has it until the end."""
    times = json.dumps({"a": (1e22, 0.1), "b": (1.0, 2.5e-7)})
    expected = digest_of(*head({}), ("custom operators", times), ("text", "t\n"))
    made = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == expected
