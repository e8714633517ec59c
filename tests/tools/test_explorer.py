"""neuron-explorer: tables of a real profile, and what is no profile."""

import copy
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opentrn
from opentrn.cli import main
from opentrn.errors import InputError
from opentrn.tools import explorer, explorer_session, recommend

ROOT = Path(__file__).resolve().parents[2]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["events", "format", "pid", "mem_usage", "name", "id"]), inner, max_size=3),
    max_leaves=6,
)

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
    # The run ends when the semaphore of the last transfer is seen, behind its last event.
    assert 0 <= timing.time_us - summary["total_time"] * 1e6 < 0.5
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
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "p.ntff"
        path.write_text(json.dumps(trace))
        try:
            explorer.tables_of(path)
        except InputError as error:
            assert error.label == "tools.explorer"


# -- capture with inputs, inspect, folders, recommend

PROGRAM = """
import os, sys
import numpy as np
from opentrn.model import compiled
model = compiled.load(sys.argv[1])
for _ in range(3):
    model.run([np.ones(port.shape, port.dtype) for port in model.inputs])
if len(sys.argv) > 2 and os.fork() == 0:
    model.run([np.ones(port.shape, port.dtype) for port in model.inputs])
    sys.exit(0)
if len(sys.argv) > 2:
    os.wait()
    sys.exit(3)
"""


@pytest.fixture(scope="module")
def compiled_mlp(tmp_path_factory):
    model = tmp_path_factory.mktemp("mlp") / "mlp.neuron"
    assert main(["compile", str(ROOT / "examples/mlp.mlir"), "--target", "trn2", "--output", str(model)]) == 0
    return model


@pytest.fixture(scope="module")
def session(compiled_mlp, tmp_path_factory):
    """A folder of inspect's: a process and one that it forked."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "p.py").write_text(PROGRAM)
    words = ["inspect", "-o", str(folder / "out"), sys.executable, str(folder / "p.py"), str(compiled_mlp), "fork"]
    assert main(["neuron-explorer", *words]) == 3  # the program's status
    return folder / "out"


def view(*words):
    return main(["neuron-explorer", "view", *map(str, words)])


def test_a_session_is_summed_up(session, capsys):
    assert view("-d", session, "--output-format", "summary-json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["processes"], summary["executions"], summary["neuroncores"]) == (2, 4, [0])
    ((model, row),) = summary["models"].items()  # the same program in both processes
    assert summary["device_time_s"] == pytest.approx(4 * row["total_time"], rel=0.05)
    assert view("-d", session, "--output-format", "summary-text", "--ignore-device-profile") == 0
    text = capsys.readouterr().out
    assert "executions" in text and model not in text


def test_a_session_as_tables(session, tmp_path):
    import pyarrow.parquet as pq

    assert view("-d", session, "--output-file", tmp_path, "--system-trace-filter-event-type", "nc_exec_running") == 0
    rows = pq.read_table(tmp_path / "SystemProfileEvents.parquet").to_pylist()
    assert [row["name"] for row in rows] == ["nc_exec_running"] * 4
    assert {row["trace_event_source"] for row in rows} == {"neuron_hw"} and rows[0]["thread_id"] is None
    assert len({row["process_id"] for row in rows}) == 2
    clocks = [json.loads(row["extra_attributes_json"])["nc_timestamp_ns"] for row in rows[:2]]
    assert clocks[1] - clocks[0] == rows[0]["duration_ns"] > 0
    (model,) = tmp_path.glob("device_profile_model_*")
    assert pq.read_table(model / "Instruction.parquet").num_rows > 10


def test_a_session_as_json_and_for_perfetto(session, tmp_path):
    assert view("-d", session, "--output-format", "json", "--output-file", tmp_path / "x.json") == 0
    system = json.loads((tmp_path / "system_profile.json").read_text())
    assert len([row for row in system["events"] if row["name"] == "nrt_execute"]) == 4
    assert all(row["resident_bytes"] > 0 for row in system["mem_usage"]) and system["cpu_util"]
    assert view("-d", session, "--output-format", "perfetto", "--output-file", tmp_path / "y") == 0
    trace = json.loads((tmp_path / "system_profile.pftrace").read_text())
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"]
    assert len(names) == 2 and names[0].startswith("instance_id simulated, process_id ")
    assert len(list(tmp_path.glob("device_profile_model_*.pftrace"))) == 1
    assert view("-d", session, "--output-format", "json", "--output-file", tmp_path / "z" / "z",
                "--system-trace-filter-instance-id", "i-none") == 2  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["trace_info.json", "ntrace.json", "host_mem.json", "cpu_util.json", ".ntff"]), st.data())
def test_a_damaged_session_is_refused(session, data_kind, data):
    """One file of a session has other bytes or another value: it is viewed, or an input error says so."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "s"
        shutil.copytree(sorted(session.iterdir())[0], folder)
        (path,) = folder.glob(f"*{data_kind}")
        content = bytearray(path.read_bytes())
        if data.draw(st.booleans()):
            start = data.draw(st.integers(0, len(content) - 1))
            content[start : start + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=12))
            path.write_bytes(bytes(content))
        else:
            path.write_text(json.dumps(data.draw(JSON)))
        for form in ("json", "perfetto", "summary-json"):
            try:
                explorer_session.view(folder, form, Path(place) / "o" / "o", explorer_session.Filters(),
                                      explorer_session.Grouping())  # fmt: skip
            except InputError as error:
                assert error.label == "tools.explorer"


def test_capture_executes_with_given_inputs(compiled_mlp, tmp_path, capsys):
    loaded = opentrn.load(compiled_mlp)
    arrays = [np.full(port.shape, 0.01, port.dtype) for port in loaded.inputs]
    words = []
    for port, array in zip(loaded.inputs, arrays):
        np.save(tmp_path / f"{port.name}.npy", array)
        words += [port.name, str(tmp_path / f"{port.name}.npy")]
    capture = ["neuron-explorer", "capture", "-n", str(compiled_mlp), "-s", str(tmp_path / "p.ntff")]
    flags = ["--num-exec", "2", "--check-output-determinism", "--save-output-npy", "--save-output"]
    assert main([*capture, *flags, *words]) == 0
    (wanted,) = loaded.run(arrays)
    assert (np.load(tmp_path / "output0.npy") == wanted).all()
    assert (tmp_path / "output0").read_bytes() == wanted.tobytes()
    (tmp_path / "p.ntff").unlink()
    assert main([*capture, "--disable-profile", *words[:2]]) == 0 and not (tmp_path / "p.ntff").exists()
    capsys.readouterr()
    for wrong, message in ((["input0"], "has no file"), (["weather", words[1]], "no input 'weather'"),
                           ([words[0], str(compiled_mlp)], "mlp.neuron"),
                           (["--num-exec", "0"], "--num-exec 0")):  # fmt: skip
        assert main([*capture, *wrong]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["capture", "-r", "4"], "a container holds the program of one core"),
        (["capture", "--single-io"], "the memory of a host"),
        (["capture", "-t", "systrace"], "neuron-explorer inspect"),
        (["view", "--ingest-only"], "no web interface"),
        (["view", "-F", "ignore-nc-buf-usage=true"], "no such switches"),
        ([], "no action is named"),
        (["inspect", "-o", "x"], "no program is named"),
        (["inspect", "-n", "0", "true"], "a number from 1"),
        (["inspect", "/no/such/program"], "No such file"),
        (["view", "-d", "/no/such/folder"], "holds no profile"),
        (["view", "-d", "/", "--system-trace-filter-neuron-core", "x"], "numbers, as in 0,1"),
        (["recommend", "-n", "/no/such/file"], "No such file"),
    ],
)
def test_what_is_not_there_is_refused_by_its_name(words, message, capsys):
    assert main(["neuron-explorer", *words]) == 2
    assert message in capsys.readouterr().err


def test_recommendations_name_the_bound_and_the_line(compiled_mlp, capsys):
    recommend = ["neuron-explorer", "recommend", "-n", str(compiled_mlp)]
    assert main([*recommend, "--nki-source-root", str(ROOT)]) == 0
    text = capsys.readouterr().out
    assert "## 1. " in text and "at most" in text and "stablehlo.dot_general" in text
    assert main([*recommend, "--nki-source-root", "/no/such/folder"]) == 2


def test_a_recommendation_is_of_the_profile():
    """What no resource bounds gets no section, and a bound is the share that would be gone."""
    profile = {
        "program": "p", "neuron_core": "c", "total_ns": 1000.0, "lines": [], "stalls": [],
        "bound_by": {"shares": [{"resource": "Tensor engine", "percent": 50.0, "ns": 500.0},
                                {"resource": "DMA engines", "percent": 1.0, "ns": 10.0}]},
        "memory": {"spill_save_bytes": 0, "spill_reload_bytes": 0}, "dma": {"achieved_gb_s": 0.0},
        "flops": {"bf16": 5.0, "fp32": 0.0}, "engines": [],
    }  # fmt: skip
    text = recommend.report(json.dumps(profile), None)
    assert text.count("## ") == 2 and "at most 2.00 times" in text and "DMA engines" not in text
    profile["bound_by"] = {"shares": []}
    assert "Nothing stands out" in recommend.report(json.dumps(profile), None)


def test_version_and_schema(capsys):
    assert main(["neuron-explorer", "--version"]) == 0
    assert main(["neuron-explorer", "--show-profile-schema"]) == 0
    out = capsys.readouterr().out
    assert opentrn.__version__ in out and "Instruction.start_ts" in out
