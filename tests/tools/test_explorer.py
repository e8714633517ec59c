"""neuron-explorer: tables of a real profile, and what is no profile."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opentrn
from opentrn.cli import main
from opentrn.errors import InputError
from opentrn.tools import explorer

MODEL = """func.func @main(%a: tensor<128x256xf32>, %b: tensor<256x128xf32>) -> tensor<128x128xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] :
    (tensor<128x256xf32>, tensor<256x128xf32>) -> tensor<128x128xf32>
  %1 = stablehlo.tanh %0 : tensor<128x128xf32>
  return %1 : tensor<128x128xf32>
}
"""


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explorer")
    (folder / "m.mlir").write_text(MODEL)
    model = opentrn.compile(folder / "m.mlir", target="trn2")
    path = model.save(folder / "m.neuron")
    assert main(["neuron-explorer", "capture", "-n", str(path), "-s", str(folder / "p.ntff")]) == 0
    return folder / "p.ntff", model.time()


def test_parquet_tables_are_the_timeline(captured, tmp_path, capsys):
    pq = pytest.importorskip("pyarrow.parquet")
    profile, timing = captured
    assert main(["neuron-explorer", "view", "-s", str(profile), "--output-file", str(tmp_path / "t")]) == 0
    printed = capsys.readouterr().out.split()
    assert sorted(p.rpartition("/")[2] for p in printed) == sorted(
        f"{n}.parquet" for n in [*explorer.TABLES, "SchemaFields"]
    )
    tables = {name: pq.read_table(tmp_path / "t" / f"{name}.parquet") for name in explorer.TABLES}
    for name, fields in explorer.TABLES.items():
        assert tables[name].column_names == [field for field, *_ in fields]
    instructions = tables["Instruction"].to_pylist()
    assert {row["engine"] for row in instructions} >= {"tensor", "scalar"}
    assert all(row["end_ts"] - row["start_ts"] == row["duration_ns"] >= 0 for row in instructions)
    # Products, and transposes on the same engine.
    assert sum(row["raw_flops"] or 0 for row in instructions) >= 2 * 128 * 256 * 128
    moved = sum(row["transfer_bytes"] for row in tables["DmaPacketAggregated"].to_pylist())
    assert moved >= 4 * (2 * 128 * 256 + 128 * 128)
    (summary,) = tables["Summary"].to_pylist()
    assert summary["total_time"] * 1e6 == pytest.approx(timing.time_us, rel=0.05)
    (metadata,) = tables["Metadata"].to_pylist()
    assert metadata["is_simulation"] is True and metadata["profile_schema_version"] == "7.4.0"
    assert metadata["ntff_version"] is None
    counts = {(r["engine"], r["opcode"]): r["instruction_count"] for r in tables["OpcodeSummary"].to_pylist()}
    assert sum(counts.values()) == len(instructions)


def test_the_other_formats(captured, tmp_path, capsys):
    profile, _ = captured
    assert main(["neuron-explorer", "view", "-s", str(profile), "--output-format", "summary-text"]) == 0
    assert "total_time" in capsys.readouterr().out
    out = tmp_path / "o"
    for form in ("json", "perfetto"):
        assert (
            main(
                [
                    "neuron-explorer",
                    "view",
                    "-s",
                    str(profile),
                    "--output-format",
                    form,
                    "--output-file",
                    str(out),
                ]
            )
            == 0
        )
        assert json.loads(out.read_text())
    assert main(["neuron-explorer", "schema"]) == 0
    assert "Instruction.start_ts" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"NTFF\x00\x01", b"[1]", b'{"traceEvents": [], "otherData": {}}']
)
def test_what_is_no_profile_is_refused(content, tmp_path, capsys):
    (tmp_path / "p.ntff").write_bytes(content)
    assert main(["neuron-explorer", "view", "-s", str(tmp_path / "p.ntff")]) == 2
    assert "NTFF is not documented" in capsys.readouterr().err


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_a_damaged_trace_is_refused(captured, data):
    """A value of the trace is put in another's place: the tables are made, or an input error says so."""
    trace = json.loads(captured[0].read_text())
    trace["traceEvents"] = copy.deepcopy(trace["traceEvents"][:6] + trace["traceEvents"][-6:])
    event = data.draw(st.sampled_from(trace["traceEvents"]))
    key = data.draw(st.sampled_from(sorted(event)))
    event[key] = data.draw(
        st.none() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({}) | st.floats()
    )
    try:
        explorer.tables_of(trace)
    except InputError as error:
        assert error.label == "tools.explorer"


def test_an_active_time_counts_overlaps_once():
    assert explorer._merged([(0, 10), (5, 12), (20, 21), (20, 20)]) == 13
    assert explorer._merged([]) == 0
