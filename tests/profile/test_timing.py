"""From a kernel to a predicted time: opentrn.run, Timing, and the page."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import opentrn
import opentrn.nki as nki
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row : row + 128, :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[row : row + 128, :], src=tile)
    return out


@nki.jit
def double_on_two_cores(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[core * 128 : (core + 1) * 128, :])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out[core * 128 : (core + 1) * 128, :], src=tile)
    return out


@nki.jit
def double_in_a_device_loop(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.dynamic_range(0, x.shape[1] // 64):
        tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, nl.ds(i * 64, 64)])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, nl.ds(i * 64, 64)], src=tile)
    return out


@nki.jit
def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


SHAPE = opentrn.ShapeOf((256, 512), "float32")


def test_outputs_and_time_of_one_run():
    x = np.arange(256 * 512, dtype=np.float32).reshape(256, 512)
    result = opentrn.run(double, x, target="trn2")
    np.testing.assert_array_equal(result.outputs, 2 * x)
    assert result.time_us > 0
    assert result.instruction_count == 6


def test_time_without_values_is_the_same():
    x = np.zeros((256, 512), np.float32)
    timed_only = opentrn.run(double, SHAPE, target="trn2", execute=False)
    assert timed_only.outputs == SHAPE
    assert timed_only.time_us == opentrn.run(double, x, target="trn2").time_us


def test_time_alone_takes_shapes_and_values_do_not():
    with pytest.raises(ValueError, match="execute=False"):
        opentrn.run(double, SHAPE)


def test_values_alone_have_no_timing():
    result = opentrn.run(double, np.zeros((128, 16), np.float32), time=False)
    assert result.timings == []
    for figure in ("timing", "time_us"):
        with pytest.raises(ValueError, match="double was run with time=False"):
            getattr(result, figure)


def test_slower_dma_engines_make_the_run_slower():
    large = opentrn.ShapeOf((1024, 4096), "float32")
    default = opentrn.run(double, large, execute=False).time_us
    slow = opentrn.run(double, large, execute=False, overrides={"neuron_core.v3.dma_engine_gb_s": 5}).time_us
    assert slow > 2 * default


def test_an_unknown_table_key_is_refused():
    with pytest.raises(ValueError, match="no table value"):
        opentrn.run(double, SHAPE, execute=False, overrides=["nonsense.key=1"])


def test_critical_time_of_the_lines_adds_up_to_the_run():
    profile = opentrn.run(double, SHAPE, execute=False).timing.profile()
    lines = sum(line["critical_ns"] for line in profile["lines"])
    assert lines == pytest.approx(profile["total_ns"], rel=1e-6)
    shares = sum(share["ns"] for share in profile["bound_by"]["shares"])
    assert shares == pytest.approx(profile["total_ns"], rel=1e-6)
    here = [line for line in profile["lines"] if line["file"] == __file__]
    assert {opcode for line in here for opcode in line["opcodes"]} == {"dma_copy", "tensor_scalar"}


def test_events_are_one_array():
    timing = opentrn.run(double, SHAPE, execute=False).timing
    events, tracks = timing.events(), timing.tracks()
    assert len(events) == 6 + 4  # every instruction on its engine, every DMA on its queue too
    assert (events["end_ns"] >= events["start_ns"]).all()
    assert events["end_ns"].max() <= timing.total_ns + 1e-6
    on_queues = [tracks[t]["kind"] == "dma_queue" for t in events["track"]]
    assert events["bytes"][on_queues].sum() == 2 * 256 * 512 * 4


def test_two_cores_are_timed_together():
    result = opentrn.run(double_on_two_cores, SHAPE, lnc=2, execute=False)
    profile = result.timing.profile()
    assert profile["cores"] == 2
    assert profile["instructions"] == 6
    assert {track["core"] for track in result.timing.tracks()} == {0, 1}


# Neuron Explorer's profile schema reference, table Summary: bytes read and written / total_time / the bandwidth of an
# HBM stack, the same for one core and two. A Trainium2 has four stacks of its 2.9 TB/s.
@pytest.mark.parametrize(
    ("kernel", "lnc", "shape"), [(copy, 1, (4096, 8192)), (double_on_two_cores, 2, (256, 4096))]
)
def test_memory_bandwidth_is_used_in_parts_of_a_stack(kernel, lnc, shape):
    result = opentrn.run(kernel, opentrn.ShapeOf(shape, "float32"), lnc=lnc, execute=False)
    summary = result.timing.profile()["summary"]
    moved = 2 * shape[0] * shape[1] * 4
    mbu = 100 * moved / summary["total_time"] / 725e9
    assert summary["mbu_estimated_percent"] == pytest.approx(mbu)
    assert mbu <= 100
    assert summary["peak_flops_bandwidth_ratio"] == pytest.approx(lnc * 2 * 128 * 128 * 2.4e9 / 725e9)


def test_active_times_of_two_cores_are_within_the_run():
    result = opentrn.run(double_on_two_cores, opentrn.ShapeOf((256, 4096), "float32"), lnc=2, execute=False)
    summary = result.timing.profile()["summary"]
    times = [key for key in summary if key.endswith("_active_time")]
    assert {"dma_active_time", "vector_engine_active_time"} <= set(times)
    for key in times:
        assert summary[key] <= summary["total_time"]
        assert summary[f"{key}_percent"] == pytest.approx(100 * summary[key] / summary["total_time"])
    events, tracks = result.timing.events(), result.timing.tracks()
    transfers = sorted(
        (e["start_ns"], e["end_ns"]) for e in events if tracks[e["track"]]["kind"] == "dma_queue"
    )
    assert summary["dma_active_time"] == pytest.approx(1e-9 * _covered(transfers), rel=0.01)


def _covered(intervals):
    total, until = 0.0, 0.0
    for start, end in intervals:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def test_high_water_is_that_of_the_scheduled_run():
    rows = 24
    timing = opentrn.run(double, opentrn.ShapeOf((rows * 128, 512), "float32"), execute=False).timing
    events, tracks = timing.events(), timing.tracks()
    on_queue = np.array([track["kind"] == "dma_queue" for track in tracks])[events["track"]]
    transfers = events[on_queue][np.argsort(events[on_queue]["instruction"], kind="stable")]
    loads, stores = transfers[0::2], transfers[1::2]  # of tile 0, 1, ..., as the kernel issues them
    assert len(loads) == len(stores) == rows
    held = max(int(((loads["start_ns"] <= at) & (at < stores["end_ns"])).sum()) for at in loads["start_ns"])
    assert held > 1  # the kernel, read line by line, holds one tile at a time
    assert timing.profile()["memory"]["sbuf_bytes_per_partition_used"] == held * 512 * 4


def test_a_device_loop_counts_with_all_its_iterations():
    iterations = 512
    profile = (timing := _loop_timing(iterations)).profile()
    assert profile["extrapolated_ns"] > 0.9 * profile["total_ns"]
    lines = profile["lines"]
    assert sum(line["critical_ns"] for line in lines) == pytest.approx(profile["total_ns"], rel=1e-6)
    counts = {}
    for row in profile["opcodes"]:
        counts[row["opcode"]] = counts.get(row["opcode"], 0) + row["count"]
    assert {name: counts[name] for name in ("dma_copy", "tensor_scalar", "loop_begin", "loop_end")} == {
        "dma_copy": 2 * iterations,
        "tensor_scalar": iterations,
        "loop_begin": 1,
        "loop_end": iterations,
    }
    assert sum(line["instructions"] for line in lines) == profile["instructions"]
    bytes_moved = 2 * 128 * 64 * 4 * iterations
    assert sum(line["dma_bytes"] for line in lines) == bytes_moved == profile["dma"]["bytes"]
    assert sum(queue["bytes"] for queue in profile["dma"]["queues"]) == bytes_moved
    assert sum(queue["transfers"] for queue in profile["dma"]["queues"]) == 2 * iterations
    waits = [
        row for row in profile["waits"] if row["waited_for_opcode"] == "dma_copy" and row["engine"] != "sync"
    ]
    assert sum(row["count"] for row in waits) == iterations  # each scaling waits for its load
    events = timing.events()
    assert events["times"].sum() > len(events)


def _loop_timing(iterations):
    shape = opentrn.ShapeOf((128, 64 * iterations), "float32")
    return opentrn.run(double_in_a_device_loop, shape, execute=False).timing


def test_timelines_say_which_iterations_are_not_drawn(tmp_path: Path):
    iterations = 512
    timing = _loop_timing(iterations)
    (skipped,) = timing.skipped()
    stepped = len({e["iteration"] for e in timing.events()})
    assert skipped["iterations"] == iterations - stepped
    assert skipped["text"] == f"{iterations - stepped} iterations like the one before, not drawn"
    timing.save_perfetto(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["otherData"]["iterations_not_drawn"] == str(iterations - stepped)
    assert [e["dur"] for e in trace["traceEvents"] if e["name"] == skipped["text"]] == [
        pytest.approx((skipped["end_ns"] - skipped["start_ns"]) / 1e3, abs=1e-3)
    ]
    from opentrn.report import html

    data = json.loads(re.search(r'id="data">(.*?)</script>', html.page(timing), re.S).group(1))
    assert data["skipped"] == [skipped]


def test_dtype_sizes_count():
    narrow = opentrn.run(double, opentrn.ShapeOf((256, 512), "bfloat16"), execute=False).timing.profile()
    assert narrow["summary"]["hbm_read_bytes"] == 256 * 512 * 2


def test_perfetto_trace_is_json_with_source_lines(tmp_path: Path):
    path = opentrn.run(double, SHAPE, execute=False).save_perfetto(tmp_path / "trace.json")
    slices = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == 10
    assert all(Path(__file__).name in event["args"]["source"] for event in slices)


def test_page_needs_no_network_and_holds_the_events(tmp_path: Path):
    result = opentrn.run(double, SHAPE, execute=False)
    page = result.save_html(tmp_path / "p.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
    raw = zlib.decompress(base64.b64decode(data["events"]["data"]))
    starts = np.frombuffer(raw[: 8 * data["events"]["count"]], "<f8")
    assert len(starts) == 10
    assert set(starts) == set(result.timing.events()["start_ns"])
    assert "nisa.tensor_scalar" in "\n".join(data["texts"][__file__])


def test_page_survives_tags_in_the_source(tmp_path: Path):
    kernel = tmp_path / "tagged.py"
    kernel.write_text(
        "import opentrn.nki as nki, opentrn.nki.isa as nisa, opentrn.nki.language as nl\n"
        "@nki.jit\n"
        "def tagged(x):\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(dst=out, src=x)  # </script><!-- <script \n"
        "    return out\n"
    )
    from opentrn.cli.kernel_file import load_kernel

    tagged, _ = load_kernel(f"{kernel}:tagged")
    page = opentrn.run(tagged, SHAPE, execute=False).save_html(tmp_path / "p.html").read_text("utf-8")
    assert page.count("</script>") == 2  # the data's and the program's own
    data = re.search(r'id="data">(.*?)</script>', page, re.S).group(1)
    assert "<" not in data
    assert "# </script><!-- <script" in "\n".join(json.loads(data)["texts"][str(kernel)])


@pytest.mark.parametrize("first", ["opentrn", "opentrn.kernel.machine", "opentrn.nki", "opentrn.kernel.run"])
def test_any_part_can_be_imported_first(first):
    code = f"import {first}; import opentrn; opentrn.run"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
