"""What the fuzzers do beside their cases: their watch over a case, and campaigns of processor minutes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import devtool.__main__
from devtool.report import DevError
from tests.fuzz import campaign, fuzz_tools, watchdog
from tests.fuzz.__main__ import fuzz_binary


def one_case(target: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """opentrn_fuzz on one of the cases that its watch is tested with; `./dev build opentrn_fuzz` makes it."""
    command = [fuzz_binary(), "--only", target, "--case", "1", "--case-seconds", str(seconds)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_case_that_waits_for_the_processor_is_no_hang():
    """It sleeps three times its limit of processor time, as a case of low priority on a busy machine does."""
    done = one_case("waits", 0.05)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("target", "number"), [("spins", signal.SIGPROF), ("stalls", signal.SIGALRM)])
def test_a_case_without_an_end_is_named_and_ended(target: str, number: int):
    done = one_case(target, 0.05 if target == "spins" else 0.01)
    assert done.returncode == -number
    assert f"HANG in --only {target} --case 1" in done.stderr


def test_the_fuzzers_of_python_watch_processor_time_too(monkeypatch: pytest.MonkeyPatch):
    def spins(_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(fuzz_tools, "CASE_SECONDS", 0.03)
    monkeypatch.setitem(fuzz_tools.TARGETS, "spins", spins)
    monkeypatch.setitem(fuzz_tools.TARGETS, "stalls", lambda _: signal.pause())
    monkeypatch.setitem(fuzz_tools.TARGETS, "waits", lambda _: signal.sigtimedwait([signal.SIGUSR1], 0.1))
    assert "0.03 s of processor time" in fuzz_tools.run_case("spins", 0)
    assert f"{0.03 * watchdog.WALL_PER_CPU:g} s of wall time" in fuzz_tools.run_case("stalls", 0)
    assert fuzz_tools.run_case("waits", 0) == ""


def test_a_kernel_that_hangs_is_named_by_the_parent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    from tests.fuzz import fuzz_kernels

    # A child with a limit of nothing at all: its first case is over it.
    body = (
        "import sys; from tests.fuzz import fuzz_kernels; fuzz_kernels.CASE_SECONDS = 1e-6; "
        "sys.argv[1:] = ['--case', '7', '--child']; sys.exit(fuzz_kernels.main())"
    )
    started, command = subprocess.Popen, [sys.executable, "-c", body]
    monkeypatch.setattr(
        watchdog.subprocess, "Popen", lambda _, **how: started(command, **how, stderr=subprocess.PIPE)
    )
    assert fuzz_kernels.watch([]) == 1
    assert "HANG" in (said := capsys.readouterr().out) and "--case 7 --target" in said


def fake_runs(monkeypatch: pytest.MonkeyPatch, cpu_s: dict[str, float], fails: str = "") -> list[tuple[str, int]]:
    """run_slice in place of real ones; the targets and seeds that it was asked for."""
    asked = []

    def run_slice(target: str, seed: int, seconds: float, at: str) -> tuple[campaign.Slice, str]:
        asked.append((target, seed))
        status = 1 if target == fails else 0
        return campaign.Slice("now", at, target, seed, min(cpu_s[target], seconds), 3, status), "said"

    monkeypatch.setattr(campaign, "run_slice", run_slice)
    return asked


def test_a_campaign_gives_even_shares_and_goes_on_where_it_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    asked = fake_runs(monkeypatch, {"a": 10, "b": 30})
    assert campaign.campaign(["a", "b"], 0.5, 100, 60, tmp_path) == 0
    assert [target for target, _ in asked] == ["a", "b", "a", "a"]  # 30 s each
    assert campaign.campaign(["a", "b"], 1, 200, 60, tmp_path) == 0  # 30 s more each
    slices = campaign.read(tmp_path / "slices.tsv")
    assert campaign.spent(slices, ["a", "b"]) == {"a": 60, "b": 60}
    assert len({each.seed for each in slices}) == len(slices) == len(asked)
    assert "24" not in campaign.table([], ["a"])
    assert campaign.table(slices, ["a"]).splitlines()[1].split()[:4] == ["a", "1.0", "18", "0"]


def test_a_finding_of_a_campaign_is_kept_and_what_always_fails_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    asked = fake_runs(monkeypatch, {"good": 30, "bad": 0}, fails="bad")
    assert campaign.campaign(["bad", "good"], 1, 0, 60, tmp_path) == campaign.FAILURES_MAX
    assert [target for target, _ in asked][-2:] == ["good", "good"]
    logs = sorted(path.name for path in tmp_path.glob("*.log"))
    assert len(logs) == campaign.FAILURES_MAX and logs[0] == "bad-0.log"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_slice_that_somebody_ended_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
):
    def ended(target: str, seed: int, seconds: float, at: str) -> tuple[campaign.Slice, str]:
        return campaign.Slice("now", at, target, seed, seconds / 2, 0, -number), ""

    monkeypatch.setattr(campaign, "run_slice", ended)
    assert campaign.campaign(["a"], 1, 0, 60, tmp_path) == 0
    assert campaign.read(tmp_path / "slices.tsv") == [] and number.name in capsys.readouterr().out


def test_a_record_adds_slices_up_and_later_campaigns_count_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    ledger, kept = tmp_path / "slices.tsv", tmp_path / "record.tsv"
    for fails in ("", "b"):
        fake_runs(monkeypatch, {"a": 20, "b": 20}, fails)
        assert campaign.campaign(["a", "b"], 1, 0, 20, tmp_path) == (3 if fails else 0)
        assert campaign.record(ledger, kept) == 6 and not ledger.exists()
    at = campaign.commit()
    rows = {each.target: each for each in campaign.read_record(kept)}
    assert (rows["a"].commit, rows["a"].cpu_s, rows["a"].cases, rows["a"].findings) == (at, 120, 18, 0)
    assert (rows["b"].cpu_s, rows["b"].findings) == (120, 3)
    asked = fake_runs(monkeypatch, {"a": 20, "b": 20})
    assert campaign.campaign(["a", "b"], 2, 0, 20, tmp_path, campaign.read_record(kept)) == 0
    assert asked == []
    assert campaign.table(campaign.read_record(kept), ["b"]).splitlines()[1].split()[:4] == ["b", "2.0", "18", "3"]


def test_a_slice_counts_processor_time_and_cases(tmp_path: Path):
    done, said = campaign.run_slice("variables", 5, 0.05, "commit")
    assert done.status == 0 and done.cases > 0 and "none failed" in said
    assert 0.05 <= done.cpu_s < 5
    assert campaign.cases_of("fuzz_kernels: seed 9: 511 kernels executed alike, 6 refused, none failed") == 517
    assert campaign.cases_of("Done\nstat::number_of_executed_units: 77\nstat::x: 5") == 77
    assert campaign.cases_of("fuzz: FAILED: 7 x") == 0


def test_a_campaign_refuses_a_target_that_is_not_there():
    command = [sys.executable, "-m", "tests.fuzz.campaign", "--target", "nothing"]
    done = subprocess.run(command, cwd=campaign.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "no target nothing" in done.stderr and "passes" in done.stderr


def test_the_priority_of_a_campaign_is_what_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The lowest unless --nice says another, which `./dev fuzz` hands on; what is out of range is refused."""
    set_to, words = [], []
    monkeypatch.setattr(campaign, "RECORD", tmp_path / "none.tsv")
    monkeypatch.setattr(campaign.os, "setpriority", lambda *which: set_to.append(which[-1]))
    fake_runs(monkeypatch, {"variables": 60})
    for more in ([], ["--nice", "0"]):
        monkeypatch.setattr(
            sys, "argv", ["campaign", "--target", "variables", "--cpu-minutes", "1", "--folder", str(tmp_path), *more]
        )
        assert campaign.main() == 0
    monkeypatch.setattr(sys, "argv", ["campaign", "--nice", "20"])
    assert campaign.main() == 2
    assert set_to == [19, 0]

    monkeypatch.setattr(devtool.__main__, "_set_up", lambda: None)
    monkeypatch.setattr(devtool.__main__, "build", lambda *_: None)
    monkeypatch.setattr(devtool.__main__, "run", lambda command, **_: words.extend(command) or 0)
    assert devtool.__main__._fuzz(devtool.__main__._parse(["fuzz", "--cpu-minutes", "1", "--nice", "5"])) == 0
    assert words[-2:] == ["--nice", "5"]
    with pytest.raises(DevError, match="--nice needs --cpu-minutes"):
        devtool.__main__._fuzz(devtool.__main__._parse(["fuzz", "--nice", "5"]))
    for more in (["--nice", "5"], ["--seed", "0"], ["--coverage-guided"], ["--target", "text"]):
        with pytest.raises(DevError, match="--record runs nothing"):
            devtool.__main__._fuzz(devtool.__main__._parse(["fuzz", "--record", *more]))
