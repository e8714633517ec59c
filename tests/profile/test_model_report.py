"""The report of a compiled model: layers, data movement, memory over time, serving."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opentrn
from opentrn.cli import commands as cli
from opentrn.model import compiled as model

MLP = Path(__file__).parents[2] / "examples" / "mlp.mlir"

# Two layers with names as JAX writes them; the transpose between them is a view that no product can read.
NAMED = """module @two {
  func.func public @main(%x: tensor<128x256xf32>, %w: tensor<256x256xf32>, %v: tensor<256x512xf32>)
      -> tensor<128x512xf32> {
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<128x256xf32>, tensor<256x256xf32>) -> tensor<128x256xf32> loc(#first)
    %a = stablehlo.tanh %h : tensor<128x256xf32> loc(#tanh)
    %y = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0]
      : (tensor<128x256xf32>, tensor<256x512xf32>) -> tensor<128x512xf32> loc(#second)
    return %y : tensor<128x512xf32>
  }
}
#first = loc("jit(f)/encoder/layer0/dot_general"("model.py":3:0))
#tanh = loc("jit(f)/encoder/layer0/vmap(a/b)/tanh"("model.py":4:0))
#second = loc("jit(f)/encoder/layer1/dot_general"("model.py":9:0))
"""


def leaves(layer, path=()):
    """(path, layer) of every layer without children."""
    path = (*path, layer["name"]) if layer["name"] else path
    if not layer["children"]:
        yield path, layer
    for child in layer["children"]:
        yield from leaves(child, path)


def every(layer):
    yield layer
    for child in layer["children"]:
        yield from every(child)


@pytest.fixture(scope="module")
def profile():
    return opentrn.compile(NAMED).time().profile()


def test_layers_follow_the_names(profile):
    found = {"/".join(path): layer for path, layer in leaves(profile["model"]["layers"])}
    assert list(found) == [
        "jit(f)/encoder/layer0/dot_general",
        "jit(f)/encoder/layer0/vmap(a/b)/tanh",  # the slash inside parentheses is the name's
        "jit(f)/encoder/layer1/dot_general",
    ]
    assert found["jit(f)/encoder/layer0/dot_general"]["model_flops"] == 2 * 128 * 256 * 256
    assert found["jit(f)/encoder/layer1/dot_general"]["tensor_flops"] == 2 * 128 * 256 * 512
    assert found["jit(f)/encoder/layer0/vmap(a/b)/tanh"]["tensor_flops"] == 0


@pytest.mark.parametrize("source", [NAMED, MLP], ids=["named", "mlp"])
def test_layers_add_up_to_the_run(source):
    """Against the timing model's own totals, which do not know of layers."""
    profile = opentrn.compile(source).time().profile()
    whole, summary = profile["model"]["layers"], profile["summary"]
    parts = [layer for _, layer in leaves(whole)]
    assert sum(layer["critical_ns"] for layer in parts) == pytest.approx(profile["total_ns"], rel=1e-9)
    assert sum(layer["hbm_bytes_read"] for layer in parts) == summary["hbm_read_bytes"]
    assert sum(layer["hbm_bytes_written"] for layer in parts) == summary["hbm_write_bytes"]
    assert sum(layer["tensor_flops"] for layer in parts) == pytest.approx(summary["model_flops"])
    assert whole["active_ns"] <= profile["total_ns"] * (1 + 1e-9)
    for layer in every(whole):
        assert layer["active_ns"] <= sum(child["active_ns"] for child in layer["children"] or [layer]) + 1e-6
        assert 0 <= layer["mfu_percent"] <= 100 and 0 <= layer["mbu_percent"] <= 100


def test_movements_name_their_cause(profile):
    rows = profile["model"]["movements"]
    transposes = [row for row in rows if row["what"] == "transpose"]
    assert {row["name"] for row in transposes} <= {
        "jit(f)/encoder/layer0/dot_general",
        "jit(f)/encoder/layer0/vmap(a/b)/tanh",  # whose result the next product wants turned
        "jit(f)/encoder/layer1/dot_general",
    }
    assert transposes and all(row["file"] == "model.py" and row["line"] in (3, 4, 9) for row in transposes)
    opcodes = {row["opcode"]: row["count"] for row in profile["opcodes"]}
    assert sum(row["instructions"] for row in transposes) == opcodes["nc_transpose"]


RESULT_COPY = """func.func @main(%x: tensor<64x32xf32>) -> tensor<32x64xf32> {
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
  return %t : tensor<32x64xf32>
}
"""


def test_a_result_that_is_a_view_is_a_copy():
    # Loaded, turned on the chip, stored: the result's bytes each time.
    rows = opentrn.compile(RESULT_COPY).time().profile()["model"]["movements"]
    assert [(row["what"], row["bytes"], row["line"]) for row in rows] == [("result copy", 3 * 64 * 32 * 4, 2)]


def test_memory_over_time(profile):
    curves = {curve["memory"]: curve for curve in profile["model"]["memory"]}
    inputs = 4 * (128 * 256 + 256 * 256 + 256 * 512)
    assert curves["hbm"]["steps"][0] == [
        0,
        inputs + 4 * 128 * 512,
    ]  # what goes in and out is there throughout
    for curve in curves.values():
        times = [time for time, _ in curve["steps"]]
        assert times == sorted(times) and times[-1] <= profile["total_ns"]
        assert curve["peak_bytes"] == max(held for _, held in curve["steps"]) <= curve["capacity_bytes"]
        assert any(time == curve["peak_ns"] for time in times)
    assert curves["sbuf"]["peak_bytes"] >= inputs / 2
    assert curves["sbuf"]["steps"][-1][1] == 0


def test_prices_are_the_tables_prices():
    profile = opentrn.compile(MLP, target="trn1").time().profile()["model"]
    rows = {row["instance"]: row for row in profile["serving"]}
    assert {"inf2.xlarge", "inf2.48xlarge", "trn1.2xlarge", "trn1.32xlarge"} <= set(rows)
    assert profile["latency_us"] > profile["launch_us"] > 0
    for name, cores in (("inf2.xlarge", 2), ("trn1.32xlarge", 32)):
        row = rows[name]
        assert row["cores"] == cores
        assert row["inferences_per_s"] == pytest.approx(cores / profile["latency_us"] * 1e6)
        per_hour = row["inferences_per_s"] * 3600
        assert row["on_demand"]["usd_per_million"] == pytest.approx(
            row["on_demand"]["usd_h"] / per_hour * 1e6
        )
    assert rows["trn1.32xlarge"]["on_demand"]["usd_h"] == 21.5  # us-east-1, 2026-07-20
    trn2 = opentrn.compile(MLP).time().profile()["model"]["serving"]
    assert all(row["on_demand"] is None for row in trn2)  # AWS publishes none


def test_cores_of_one_hbm_stack_share_it():
    """A model that waits for its weights is slower beside a copy on the same stack.

    By little: the 16 DMA engines of a core carry about half of what a stack does.
    """

    def busy_by_alone(model):
        rows = model.time().profile()["model"]["serving"]
        row = next(row for row in rows if row["instance"] == "trn2.48xlarge")
        assert row["inferences_per_s"] == pytest.approx(row["cores"] / row["busy_latency_us"] * 1e6)
        return row["busy_latency_us"] / row["latency_us"]

    weights = opentrn.compile(
        "module { func.func @main(%x: tensor<1x4096xbf16>, %w: tensor<4096x8192xbf16>) -> tensor<1x8192xbf16> {\n"
        "%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]"
        " : (tensor<1x4096xbf16>, tensor<4096x8192xbf16>) -> tensor<1x8192xbf16>\n"
        "return %0 : tensor<1x8192xbf16> } }"
    )
    assert 1.01 < busy_by_alone(weights) < 2


def test_the_file_keeps_the_layers(tmp_path, profile):
    saved = opentrn.compile(NAMED).save(tmp_path / "two.neuron")
    again = model.load(saved).time().profile()
    assert again["model"]["layers"] == profile["model"]["layers"]
    assert again["model"]["movements"] == profile["model"]["movements"]


def test_text_fits_a_terminal(capsys, tmp_path):
    source = tmp_path / "two.mlir"
    source.write_text(NAMED)
    assert cli.main(["profile", str(source), "--depth", "3"]) == 0
    text = capsys.readouterr().out
    sections = text[text.index("Layers:") :]
    assert "layer1" in sections and "transpose" in sections and "trn2.48xlarge" in sections
    assert max(map(len, sections.splitlines())) <= 79
    assert cli.main(["profile", str(source), "--depth", "1"]) == 0
    shallow = capsys.readouterr().out
    assert (
        "tanh" in sections and "tanh" not in shallow[shallow.index("Layers:") : shallow.index("Transposes")]
    )


def test_compile_writes_the_report(tmp_path, capsys):
    words = ["compile", str(MLP), "-o", str(tmp_path / "m.neuron"), "--report"]
    assert cli.main(words) == 0
    assert "Layers: 10 ops in" in capsys.readouterr().out
    assert cli.main([*words, str(tmp_path / "m.json")]) == 0
    assert "layers" in json.loads((tmp_path / "m.json").read_text())["model"]
    assert cli.main([*words, str(tmp_path / "m.html")]) == 0
    page = (tmp_path / "m.html").read_text()
    assert "drawModel" in page and '"serving"' in page
    capsys.readouterr()
    assert cli.main([*words, str(tmp_path / "m.txt")]) == cli.INPUT
    assert cli.main([*words, "-", "--json"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["profile"]["model"]["kernels"] > 0
