"""fidelity/run.py: what rows share a run, what metrics a run gives, how errors are counted.

The kernels of the published rows are other repositories'; here a product written below stands in for them.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "fidelity"))

import bands  # noqa: E402
import published  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import under_load  # noqa: E402
import votes  # noqa: E402
from adapters import NotReproducible, is_known  # noqa: E402
from adapters._common import METRICS, figures_of, shape, timed  # noqa: E402


def row(id: str, metric: str, value: float, unit: str, workload: str = "w", category: str = "kernel"):
    return {
        "id": id, "category": category, "workload": workload, "metric": metric, "value": str(value), "unit": unit,
        "source": "", "note": "",
    }  # fmt: skip


def product(lhs_t, rhs):
    """[128, 128]^T @ [128, 512] in float32."""
    import nki.isa as nisa
    import nki.language as nl

    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b, c = (nl.ndarray(s, dtype=nl.float32, buffer=nl.sbuf) for s in ((128, 128), (128, 512), (128, 512)))
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.dma_copy(dst=a, src=lhs_t)
    nisa.dma_copy(dst=b, src=rhs)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b)
    nisa.tensor_copy(dst=c, src=acc)
    nisa.dma_copy(dst=out, src=c)
    return out


@pytest.fixture(scope="module")
def predicted():
    import opentrn

    opentrn.activate()
    return timed(product, shape((128, 128), "float32"), shape((128, 512), "float32"), target="trn2")


def test_every_metric_has_a_figure(predicted):
    assert set(predicted.figures) == set(METRICS)


def test_counts_are_those_of_the_kernel(predicted):
    assert predicted.figures["HBM bytes read"] == 4 * 128 * (128 + 512)
    assert predicted.figures["HBM bytes written"] == 4 * 128 * 512
    assert predicted.figures["HBM bytes moved (read+write)"] == 4 * 128 * (128 + 2 * 512)
    # AWS's profiler counts two passes for FP32 (kernel-optimization.rst: 65,536 for 32,768 products).
    assert predicted.figures["TensorE matmul instruction count"] == 2
    assert predicted.figures["TensorE hardware FLOPs"] == 2 * 2 * 128 * 128 * 512


def test_mfu_is_flops_over_time_and_the_peak_of_a_core(predicted):
    peak = 2 * 128 * 128 * 2.4e9
    seconds = predicted.microseconds * 1e-6
    assert predicted.figures["MFU"] == pytest.approx(100 * 2 * 128 * 128 * 512 / seconds / peak, rel=1e-6)
    assert predicted.figures["HFU (estimated)"] == pytest.approx(2 * predicted.figures["MFU"])


def test_the_publisher_may_count_other_flops(predicted):
    import opentrn

    arguments = shape((128, 128), "float32").zeros(), shape((128, 512), "float32").zeros()
    profile = opentrn.run(product, *arguments, target="trn2", execute=False).timing.profile()
    mine = figures_of(profile, model_flops=4 * 128 * 128 * 512)["MFU"]
    assert mine == pytest.approx(2 * predicted.figures["MFU"])


def test_times_come_in_the_unit_of_the_row(predicted):
    assert predicted.value_of(row("x", "latency", 1, "ms")) == pytest.approx(predicted.microseconds / 1e3)
    with pytest.raises(NotReproducible):
        predicted.value_of(row("x", "MFU", 1, "fraction"))


def test_rows_of_one_kernel_share_a_run():
    rows = [row("f.k.base.lat", "latency", 1, "us"), row("f.k.base.hfu_estimated", "HFU (estimated)", 1, "%")]
    assert run.kernel_of(rows[0]) == run.kernel_of(rows[1])
    assert run.kernel_of(row("f.k.best.lat", "latency", 1, "us")) != run.kernel_of(rows[0])
    assert run.kernel_of(row("f.k.v2.s512", "latency", 1, "us")) != run.kernel_of(
        row("f.k.v2.s1024", "latency", 1, "us")
    )
    assert run.kernel_of(rows[0]) != run.kernel_of({**rows[0], "workload": "other"})


def test_small_shares_are_compared_in_points():
    small = run.Prediction(row("x", "VectorE active share", 0, "%"), 0.0, predicted=0.5)
    assert small.error == pytest.approx(0.5)
    large = run.Prediction(row("x", "MFU", 50, "%"), 50.0, predicted=40.0)
    assert large.error == pytest.approx(-0.2)


def test_unknown_metrics_are_not_predicted():
    assert not is_known(row("x", "throughput", 1, "inferences/s"))
    assert not is_known(row("x", "latency upper bound in unit test (p99)", 1, "us"))
    assert is_known(row("x", "latency p99", 1, "us"))


def test_the_command_says_why_nothing_was_predicted_and_fails(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text(
        "id,category,workload,metric,value,unit,source,note\n"
        "nosuch.k,kernel,w,latency,1,us,s,n\n"
        "nki.trn1.x,dma,w,peak bandwidth,17,GB/s,s,n\n"
    )
    done = subprocess.run(
        [sys.executable, REPOSITORY / "fidelity/run.py", "--rows", file, "--checkouts", tmp_path, "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no adapter for this family" in done.stdout
    counts = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert counts["nosuch"]["no public kernel"] == counts["nki"]["not shown by a run"] == 1


HEADER = "id,category,workload,metric,value,unit,source,note\n"


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, REPOSITORY / "fidelity/run.py", *words], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read"),
        ("id,value\nnki.x,1\n", "rows.csv:1: no column category, workload, metric, unit, source, note"),
        (HEADER + "nki.x,kernel,w,latency\n", "rows.csv:2: no value of column value"),
        (
            HEADER + "nki.x,kernel,w,latency,abc,us,s,n\n",
            "rows.csv:2: column value of nki.x: 'abc' is not a number",
        ),
        (HEADER + "nki.x,kernel,w,latency,0,us,s,n\n", "rows.csv:2: column value of nki.x: 0 us"),
        (HEADER + "nki.x,kernel,w,latency,nan,us,s,n\n", "rows.csv:2: column value of nki.x: nan us"),
    ],
    ids=["missing", "columns", "short", "text", "zero", "nan"],
)
def test_a_file_that_cannot_be_used_is_an_error_with_its_line(tmp_path, text, message):
    file = tmp_path / "rows.csv"
    if text is not None:
        file.write_text(text)
    done = command("--rows", file)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_share_may_be_zero_and_rows_that_are_not_looked_at_hold_anything(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text(HEADER + "a.b,kernel,w,MFU,0,%,s,n\na.c,other,w,latency,about 3,us,s,n\n")
    assert [row["id"] for row in published.read(str(file), run.CATEGORIES, "")] == ["a.b"]


def test_the_rows_of_the_repository_are_the_default_and_can_be_used():
    rows = published.read(str(run.ROWS), run.CATEGORIES, "")
    assert len(rows) > 800
    assert [row["id"] for row in rows if not is_known(row) and row["metric"] not in under_load.METRICS] == []
    elsewhere = [row["id"] for row in rows if not row["source"].startswith("https://github.com/")]
    assert [name for name in elsewhere if not name.startswith(("fab.mltrn1.", "fab.dranet."))] == []
    assert len(elsewhere) == 10  # whose addresses were not kept


def test_a_file_without_rows_has_its_json_line_all_the_same(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text(HEADER)
    done = command("--rows", file, "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout.splitlines()[-1])["rows"] == {}


def prediction(
    id: str, published: float, predicted: float, program: str, metric="latency", unit="us", **more
):
    return run.Prediction(
        row(id, metric, published, unit), published, predicted, "predicted", kind="kernel.v3.nki",
        program=program, **more,
    )  # fmt: skip


READ_OFF = [("compiler_model.nki.look_ahead_instructions", ["f.attention.*"])]


def test_a_program_has_one_vote_and_its_time_is_told_from_its_counters():
    first = prediction("f.mlp.lat", 100, 110, "a")
    share = prediction("f.mlp.mfu", 50, 45, "a", "MFU", "%")
    read = prediction("f.mlp.bytes", 1000, 1000, "a", "HBM bytes read", "bytes")
    again = prediction("f.other.lat", 105, 110, "a")
    (found,) = votes.runs_of([first, share, read, again], [])
    assert found.is_evidence and found.counter_error() == 0
    assert found.time_error() == pytest.approx(math.log(math.sqrt(1.1 * 110 / 105)))
    (other,) = votes.runs_of([share], [])
    assert other.time_error() == pytest.approx(math.log(50 / 45)), "a utilisation falls as time grows"


def test_a_run_is_calibration_when_a_value_was_read_off_any_of_its_rows():
    rows = [prediction("f.attention.lat", 100, 90, "a"), prediction("f.other.lat", 100, 90, "b"),
            prediction("f.twin.lat", 100, 90, "a")]  # fmt: skip
    calibration, evidence = votes.runs_of(rows, READ_OFF)
    assert (
        calibration.calibration == ["compiler_model.nki.look_ahead_instructions"]
        and len(calibration.predictions) == 2
    )
    assert evidence.is_evidence
    summary = report.summarise(rows, [calibration, evidence])
    assert summary["evidence"]["all"]["rows"] == 1 and summary["calibration"]["all"]["rows"] == 2


def test_kernels_and_models_have_a_line_of_their_own():
    made = [prediction(f"{family}.lat", 100, 100 + off, family) for family, off in (("f", 10), ("g", 20), ("h", 40))]
    for each, kind in zip(made, ("kernel.v3.nki", "model.v2", "model.v1"), strict=True):
        each.kind = kind
    found = report.summarise(made, votes.runs_of(made, []))["evidence"]
    assert list(found)[:3] == ["all", "kernels", "models"]
    assert [found[name]["runs"] for name in ("all", "kernels", "models")] == [3, 1, 2]
    assert found["kernels"]["time"]["median_error"] == pytest.approx(0.1)


def test_a_launch_of_a_quarter_of_the_time_is_no_evidence_of_the_kernel():
    (diluted,) = votes.runs_of([prediction("f.a.lat", 40, 40, "a", launch=26)], [])
    (mostly,) = votes.runs_of([prediction("f.a.lat", 226, 126, "a", launch=26)], [])
    assert diluted.body_error() is None
    assert mostly.body_error() == pytest.approx(math.log(100 / 200))
    for launch, counts in (25, False), (24, True):
        (at_the_limit,) = votes.runs_of([prediction("f.a.lat", 100, 90, "a", launch=launch)], [])
        assert (at_the_limit.body_error() is not None) == counts


def test_every_row_is_accounted_for():
    rows = [
        prediction("f.a.lat", 1, 1, "a"),
        run.Prediction(row("f.b", "latency", 1, "us"), 1.0, status="timed out"),
    ]
    (counts,) = report.accounts(rows).values()
    assert counts["rows"] == sum(counts[status] for status in votes.STATUSES) == 2


def test_a_band_holds_its_share_of_what_it_has_not_seen():
    random = np.random.default_rng(0)
    errors = list(random.normal(0.05, 0.2, 200))
    low, high = bands.ends(errors, bands.SHARE)
    unseen = np.exp(-random.normal(0.05, 0.2, 4000))
    assert np.mean((low <= unseen) & (unseen <= high)) == pytest.approx(0.8, abs=0.05)
    assert bands.coverage(errors, bands.SHARE) == pytest.approx(0.8, abs=0.03)


def test_few_runs_give_a_band_of_a_smaller_share_and_fewer_none():
    assert bands.share_of(7) == 0.75 and bands.share_of(50) == 0.8
    low, high = bands.ends([0.1, -0.1, 0.2, 0.0, 0.05, -0.2, 0.15], bands.share_of(7))
    assert (low, high) == (pytest.approx(math.exp(-0.2)), pytest.approx(math.exp(0.2)))
    # The two at the ends lie outside of the band that the other six give.
    assert bands.coverage([0.1, -0.1, 0.2, 0.0, 0.05, -0.2, 0.15], bands.share_of(7)) == pytest.approx(5 / 7)
    rows = [prediction(f"f.{i}.lat", 100, 90 + i, f"p{i}") for i in range(bands.RUNS_MIN - 1)]
    assert bands.bands_of(votes.runs_of(rows, [])) == []


def test_the_table_of_bands_is_that_of_the_core_and_in_its_share():
    from opentrn import _core

    text = bands.TABLE.read_text()
    shape_of = shape((128, 128), "float32"), shape((128, 512), "float32")
    import opentrn

    opentrn.activate()
    band = opentrn.run(product, *shape_of, target="trn2", execute=False).timing.band
    assert f"runs = {band['runs']}" in text and band["low_ns"] < band["high_ns"]
    kinds = re.findall(r"^\[([\w.]+)\]", text, re.MULTILINE)
    shares = [float(v) for v in re.findall(r"^share = ([\d.]+)", text, re.MULTILINE)]
    inside = [float(v) for v in re.findall(r"^coverage = ([\d.]+)", text, re.MULTILINE)]
    assert "kernel.v3.nki" in kinds and len(kinds) == len(shares) == len(inside)
    assert all(abs(a - b) < 0.05 for a, b in zip(shares, inside, strict=True) if a == bands.SHARE)
    assert _core.calibrations()
