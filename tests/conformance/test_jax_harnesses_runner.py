"""The runner of JAX's harnesses: a run that was cut off goes on where it was, with the same build only."""

import json
from pathlib import Path

import numpy as np
import pytest

from conformance.jax_harnesses import run


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run, "build", lambda: "one")
    tally = run.resumed(tmp_path / "log")
    tally.add("sin_f32", "passed", "")
    tally.add("cos_f32", "failed", "the process died")
    tally.log.close()
    return tmp_path / "log"


def test_outcomes_come_back(log: Path):
    tally = run.resumed(log)
    assert tally.outcomes == {"sin_f32": ("passed", ""), "cos_f32": ("failed", "the process died")}
    tally.add("tan_f32", "passed", "")
    tally.log.close()
    assert run.resumed(log).count("passed") == 2
    assert json.loads(log.read_text().splitlines()[0]) == {"build": "one"}


def test_another_build_is_refused(log: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "build", lambda: "another")
    with pytest.raises(ValueError, match="another build"):
        run.resumed(log)


def test_every_exclusion_has_a_reason():
    assert all(row["harness"] and row["reason"] for row in run.exclusions())


KEYS = np.array([0, 0, 1, 1], np.int32)
VALUES = np.array([3.0, np.nan, 5.0, -0.0], np.float32)


@pytest.mark.parametrize(
    ("keys", "values", "wrong"),
    [
        (KEYS, VALUES[[1, 0, 3, 2]], ""),
        (KEYS[::-1], VALUES, "key 0"),
        (KEYS, VALUES[[0, 0, 2, 3]], "1 of 4 rows"),
        (KEYS, VALUES[[0, 2, 1, 3]], "2 of 4 rows"),
        (KEYS, np.abs(VALUES), "1 of 4 rows"),
        (KEYS, VALUES.astype(np.float64), "result 1"),
    ],
    ids=["equal keys in another order", "keys", "a row doubled", "rows torn apart", "another bit", "dtype"],
)
def test_a_sort_that_is_not_stable_keeps_keys_and_rows(keys: np.ndarray, values: np.ndarray, wrong: str):
    compare = pytest.importorskip("conformance.jax_harnesses.compare", reason="compares JAX's trees")
    parameters = {"is_stable": False, "num_keys": 1, "dimension": 0}
    found = compare.compare("sort", [], [KEYS, VALUES], [keys, values], parameters)
    assert found.startswith(wrong) if wrong else found == ""


# Families of primitives, those with comparisons of their own among them; of each the middle fp32 harness.
SAMPLE = (
    "add", "conv_general_dilated", "cumsum", "dot_general", "eigh", "fft", "gather", "qr", "reduce_max", "scatter_add",
    "svd", "top_k",
)  # fmt: skip
UNSTABLE = "sort_multiple_arrays_num_arrays_2_shape_int32_100_axis_0_isstable_False_num_keys_1"


def test_a_sample_of_the_harnesses_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """`./dev conformance jax-harnesses` runs all of them; a process with JAX takes some seconds."""
    pytest.importorskip("jax", reason="the harnesses are JAX's")
    names = sample_names()
    outcome = run.main(["--only", *names, "--json", str(tmp_path / "outcomes.json")])
    assert outcome == 0, capsys.readouterr().out
    outcomes = json.loads((tmp_path / "outcomes.json").read_text())
    assert sorted(outcomes) == sorted(names)
    assert {result for result, _ in outcomes.values()} == {"passed"}, outcomes


def sample_names() -> list[str]:
    from jax._src.internal_test_util import test_harnesses

    rows = run.exclusions()
    harnesses = [each for each in test_harnesses.all_harnesses if not run.why_skipped(each, rows)]
    names = [UNSTABLE]
    for group in SAMPLE:
        found = [
            each.fullname for each in harnesses if each.group_name == group and "float32" in each.fullname
        ]
        names.append(found[len(found) // 2])
    return names
