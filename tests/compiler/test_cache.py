"""The cache of compiled models: what the key is made of, hits, damage, concurrent writers."""

import json
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

import opentrn
from opentrn.cli import commands as cli
from opentrn.model import cache

MLP = Path(__file__).parents[2] / "examples" / "mlp.mlir"
TEXT = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c = stablehlo.constant dense<FACTOR> : tensor<4x8xf32>
  %r = stablehlo.multiply %x, %c : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def source(tmp_path: Path, factor: float = 2.0) -> Path:
    path = tmp_path / "model.mlir"
    path.write_text(TEXT.replace("FACTOR", str(factor)))
    return path


def test_the_second_compile_is_a_hit_with_the_same_values(tmp_path):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    first = opentrn.compile(source(tmp_path), cache=True)
    again = opentrn.compile(source(tmp_path), cache=True)
    assert (first.cached, again.cached) == ("miss", "hit")
    np.testing.assert_array_equal(again(x)[0], 2 * x)
    assert again.program_text() == first.program_text() and again.passes == first.passes
    assert again.target == "trn2" and again.time().time_us == first.time().time_us
    assert opentrn.compile(source(tmp_path)).cached is None  # only where it is asked for
    (entry,) = cache.entries()
    assert (
        entry.facts["source"].endswith("model.mlir") and json.loads(entry.facts["options"])["optlevel"] == 2
    )


def test_the_key_has_module_options_target_and_compiler(tmp_path, monkeypatch):
    assert opentrn.compile(source(tmp_path), cache=True).cached == "miss"
    for options in ({"target": "trn1"}, {"optlevel": 1}, {"auto_cast": "all"}):
        assert opentrn.compile(source(tmp_path), cache=True, **options).cached == "miss"
        assert opentrn.compile(source(tmp_path), cache=True, **options).cached == "hit"
    model = opentrn.compile(source(tmp_path, 3.0), cache=True)
    assert model.cached == "miss"
    np.testing.assert_array_equal(model(np.ones((4, 8), np.float32))[0], np.full((4, 8), 3))
    monkeypatch.setattr(cache, "_compiler", lambda: "another build")
    assert opentrn.compile(source(tmp_path, 3.0), cache=True).cached == "miss"


def test_a_damaged_entry_is_compiled_again_and_said(tmp_path, capsys):
    opentrn.compile(source(tmp_path), cache=True)
    (entry,) = cache.entries()
    entry.path.write_bytes(entry.path.read_bytes()[:100])
    model = opentrn.compile(source(tmp_path), cache=True)
    assert model.cached == "miss" and "compiled again" in capsys.readouterr().err
    assert opentrn.compile(source(tmp_path), cache=True).cached == "hit"


def test_a_folder_that_cannot_be_written_is_said(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "file"))
    assert opentrn.compile(source(tmp_path), cache=True).cached == "not kept"
    assert "the cache cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"OPENTRN_CACHE": "a", "NEURON_COMPILE_CACHE_URL": "b"}, "a"),
        ({"NEURON_COMPILE_CACHE_URL": "b/c"}, "b/c"),
        ({"NEURON_COMPILE_CACHE_URL": "file:///b/c%20d"}, "/b/c d"),
        ({"XDG_CACHE_HOME": "x"}, "x/opentrn"),
        ({}, str(Path.home() / ".cache" / "opentrn")),
    ],
)
def test_where_it_is(monkeypatch, variables, expected):
    for name in ("OPENTRN_CACHE", "NEURON_COMPILE_CACHE_URL", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache.folder() == Path(expected)


def test_a_bucket_is_refused(monkeypatch):
    monkeypatch.delenv("OPENTRN_CACHE")
    monkeypatch.setenv("NEURON_COMPILE_CACHE_URL", "s3://bucket/cache")
    with pytest.raises(ValueError, match="--no-cache"):
        cache.folder()


def _compile_often(path: str, folder: str, start, results) -> None:
    os.environ["OPENTRN_CACHE"] = folder
    start.wait()
    x = np.ones((4, 8), np.float32)
    fine = 0
    for _ in range(20):
        model = opentrn.compile(path, cache=True)
        fine += model.cached in ("hit", "miss") and bool((model(x)[0] == 2).all())
        if fine % 3 == 0:
            cache.clear()
    results.put(fine)


def test_concurrent_writers_and_clears(tmp_path, own_folder):
    path = source(tmp_path)
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    workers = [
        context.Process(target=_compile_often, args=(str(path), str(own_folder), start, results))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(120)
    assert [results.get(timeout=5) for _ in workers] == [20, 20, 20]
    assert not list(own_folder.rglob("*.part"))


def test_an_entry_that_is_cleared_at_once_was_kept(tmp_path, monkeypatch, capsys):
    save = opentrn._core.save_models

    def save_and_lose(*arguments, **options):
        save(*arguments, **options)
        cache.clear()

    monkeypatch.setattr(opentrn._core, "save_models", save_and_lose)
    assert opentrn.compile(source(tmp_path), cache=True).cached == "miss"
    cache.kept().touch(cache.kept().path_of("0" * 64))
    assert capsys.readouterr().err == ""


def test_clear_keeps_what_was_used(tmp_path):
    opentrn.compile(source(tmp_path), cache=True)
    opentrn.compile(source(tmp_path, 3.0), cache=True)
    old, new = cache.entries()
    os.utime(old.path, (0, 0))
    assert cache.clear(1.0) == (1, old.bytes)
    assert [entry.key for entry in cache.entries()] == [new.key]


def test_the_commands(tmp_path, capsys):
    words = ["compile", str(MLP), "-o", str(tmp_path / "m.neuron")]
    assert cli.main(words) == 0
    assert capsys.readouterr().out.startswith("compiled: ")
    assert cli.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cache"] == "hit"
    assert cli.main([*words, "--no-cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cache"] is None
    assert cli.main(["run", str(MLP), "--no-time"]) == 0
    capsys.readouterr()
    assert cli.main(["cache", "ls"]) == 0
    text = capsys.readouterr().out
    assert "1 compiled models in" in text and "mlp.mlir for trn2" in text
    assert cli.main(["cache", "clear"]) == 0
    capsys.readouterr()
    assert cli.main(["cache", "ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == []
