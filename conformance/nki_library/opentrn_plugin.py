"""pytest plugin of the nki-library runner: OpenTrn under the official names, forked tests, a result log.

Loaded with `-p opentrn_plugin` before the checkout's own conftest. After collection, which takes this suite
up to a minute, every test runs in a forked process of its own, several at a time: a test that hangs is
killed, one that takes its process down fails alone, and neither costs another collection. Settings come from
the environment, because the checkout owns the command line:
  OPENTRN_CONFORMANCE_LOG      file to append one JSON line per result to; tests with a line in it are left out
  OPENTRN_CONFORMANCE_COMMIT   commit of OpenTrn, noted with every result
  OPENTRN_CONFORMANCE_OUTPUT   folder for the output of failed tests
  OPENTRN_CONFORMANCE_JOBS     tests that run at once
  OPENTRN_CONFORMANCE_TIMEOUT  processor seconds one test may take; ten times that by the clock
  OPENTRN_CONFORMANCE_LIMIT    how many tests of the group to run (0: all)
  OPENTRN_CONFORMANCE_SAMPLE   how many cases of every test function to run (0: all)
  OPENTRN_CONFORMANCE_ROUND    1: goldens of moe_block round what is routed to the type that the kernel routes
  OPENTRN_CONFORMANCE_NOT      tests with this mark are left out (used for "new on trn3": not trn2)
"""

from __future__ import annotations

import builtins
import ctypes
import functools
import gc
import inspect
import json
import os
import re
import signal
import sys
import time
import traceback
import types
from dataclasses import dataclass
from pathlib import Path

import pytest
import several_ranks

import opentrn

_REASON_CHARACTERS = 1500
_POLL_S = 0.05
_WALL_PER_TIMEOUT = 10  # a test may take so many times its processor seconds: it may sleep or have to wait
_PR_SET_PDEATHSIG = 1
_KEEP_OUTPUT = 2  # exit status of a child whose test failed

_log_path = os.environ["OPENTRN_CONFORMANCE_LOG"]
_output_folder = Path(os.environ["OPENTRN_CONFORMANCE_OUTPUT"])
_jobs = int(os.environ.get("OPENTRN_CONFORMANCE_JOBS", "1"))
_timeout_s = float(os.environ.get("OPENTRN_CONFORMANCE_TIMEOUT", "300"))
_limit = int(os.environ.get("OPENTRN_CONFORMANCE_LIMIT", "0"))
_sample = int(os.environ.get("OPENTRN_CONFORMANCE_SAMPLE", "0"))
_commit = os.environ.get("OPENTRN_CONFORMANCE_COMMIT", "")
_left_out_mark = os.environ.get("OPENTRN_CONFORMANCE_NOT", "")

opentrn.activate()


# --- what the suite needs and does not publish -----------------------------------------------------------


class _HardwareOnly:
    """Placeholder of a name from an unpublished module of the suite. It serves remote hosts: no use here."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(
            f"{type(self).__name__} belongs to the suite's unpublished hardware support"
        )


# Modules that the suite imports and does not publish, with the names it takes from them.
_UNPUBLISHED = {
    "test.utils.perf_analysis_private": ("analyze_trace",),
    "test.utils.scripts": (),
    "test.utils.scripts.remote_lock_scripts": ("LockResult", "LockStatus"),
}
for _module_name, _names in _UNPUBLISHED.items():
    _module = types.ModuleType(_module_name)
    _module.__path__ = []
    for _name in _names:
        setattr(_module, _name, type(_name, (_HardwareOnly,), {}))
    sys.modules[_module_name] = _module


class _Platforms:
    """core/qkv/test_qkv_tkg.py uses `Platforms` without importing it; looked up here on first use."""

    def __getattr__(self, name: str):
        from test.utils.common_dataclasses import Platforms

        return getattr(Platforms, name)


builtins.Platforms = _Platforms()


def pytest_configure(config):
    """Before any test module takes the reference by name."""
    if os.environ.get("OPENTRN_CONFORMANCE_ROUND"):
        _round_routed_tokens()


def _round_routed_tokens() -> None:
    """The suite's reference of moe_block routes tokens in fp32, the kernel the tokens as `router_mm_dtype`: where
    two experts' scores nearly tie, the two choose others."""
    import torch
    from nkilib_src.nkilib.core.moe_block import moe_block_tkg_torch as reference

    normalise, whole = reference.rms_norm_torch_ref, reference.moe_block_tkg_torch_ref

    def rounded(*args, **kwargs):
        tokens = normalise(*args, **kwargs)
        return tokens.to(routed[-1]).to(tokens.dtype)

    @functools.wraps(whole)
    def moe_block_tkg_torch_ref(*args, **kwargs):
        name = str(inspect.signature(whole).bind(*args, **kwargs).arguments["router_mm_dtype"])
        routed.append(next(t for t in (torch.bfloat16, torch.float16, torch.float32) if str(t)[6:] in name))
        try:
            return whole(*args, **kwargs)
        finally:
            routed.pop()

    routed: list[torch.dtype] = []
    reference.rms_norm_torch_ref = rounded
    reference.moe_block_tkg_torch_ref = moe_block_tkg_torch_ref


def pytest_sessionstart(session):
    """At d2ad3a5 simulation mode reads `Orchestrator._compiled_kernel`, which only compiling sets."""
    from test.utils.test_orchestrator import Orchestrator

    if not hasattr(Orchestrator, "_compiled_kernel"):
        Orchestrator._compiled_kernel = None
    _find_aliased_inputs_by_their_own_name()
    several_ranks.run_all_ranks()


class _Inputs(dict):
    """Kernel inputs in which `x` finds `x.must_alias_input`, as test_gen_mask_tkg.py expects."""

    def __missing__(self, name: str):
        aliased = f"{name}.must_alias_input"
        if aliased not in self:
            raise KeyError(name)
        return self[aliased]


def _find_aliased_inputs_by_their_own_name() -> None:
    """Wrap the input generators handed to the suite's framework, so that they return `_Inputs`."""
    from test.utils.unit_test_framework import UnitTestFramework

    run_test = UnitTestFramework.run_test

    def run_test_with_inputs(self, *args, **kwargs):
        generate = self.kernel_input_generator
        self.kernel_input_generator = lambda config: _Inputs(generate(config))
        return run_test(self, *args, **kwargs)

    UnitTestFramework.run_test = run_test_with_inputs


# --- results ---------------------------------------------------------------------------------------------


def _record(test: str, outcome: str, seconds: float, reason: str = "") -> None:
    entry = {
        "test": test,
        "outcome": outcome,
        "seconds": round(seconds, 3),
        # The forked process's own: what a finished test costs even on a busy machine.
        "cpu_seconds": round(time.process_time(), 3) if _in_child else 0.0,
        "reason": reason,
        "commit": _commit,
    }
    with open(_log_path, "a", encoding="utf-8") as log:
        log.write(json.dumps(entry) + "\n")


_recorded: set[str] = set()
_failed: set[str] = set()
_in_child = False
_seconds: dict[str, float] = {}


def pytest_runtest_logreport(report):
    """Record one outcome per test: that of the first phase that did not pass, else "passed" at the end."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    decided = report.failed or report.skipped or report.when == "teardown"
    if not decided or report.nodeid in _recorded:
        return
    _recorded.add(report.nodeid)
    outcome = "passed"
    if report.failed:
        outcome = "failed" if report.when == "call" else "error"
        _failed.add(report.nodeid)
        print(report.longreprtext, flush=True)
    elif report.skipped:
        outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
    _record(report.nodeid, outcome, _seconds[report.nodeid], _reason(report) if outcome != "passed" else "")


def _reason(report) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: (path, line, text)
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    where = f" ({os.path.basename(crash.path)}:{crash.lineno})" if crash is not None else ""
    text = crash.message if crash is not None else str(report.longrepr)
    return (text[:_REASON_CHARACTERS] + where).strip()


def pytest_collectreport(report):
    """Record files that cannot be imported: their tests are unknown."""
    if report.failed:
        _record(report.nodeid, "collection error", 0.0, str(report.longrepr)[-_REASON_CHARACTERS:])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out marked tests, those outside the sample or beyond the limit, and those that have a result."""
    kept = [i for i in items if not (_left_out_mark and i.get_closest_marker(_left_out_mark))]
    if _sample:
        kept = _sampled(kept)
    if _limit:
        kept = kept[:_limit]
    done = _tests_with_results()
    chosen = {i for i in kept if i.nodeid not in done}
    removed = [i for i in items if i not in chosen]
    if removed:
        config.hook.pytest_deselected(items=removed)
        items[:] = [i for i in kept if i in chosen]


def _sampled(items: list[pytest.Item]) -> list[pytest.Item]:
    """`_sample` cases of every test function, evenly spaced over those that the suite does not skip."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("skip"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = []
    for cases in functions.values():
        count = min(_sample, len(cases))
        chosen += [cases[i * len(cases) // count] for i in range(count)]
    return chosen


def _tests_with_results() -> set[str]:
    log = Path(_log_path)
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return {json.loads(line)["test"] for line in lines}


# --- forked tests ----------------------------------------------------------------------------------------


@dataclass
class _Running:
    """A test in its forked process."""

    item: pytest.Item
    output: Path
    start_s: float


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Run the collected tests, `_jobs` at a time."""
    if session.config.option.collectonly:
        return None
    gc.collect()
    gc.freeze()  # no test's garbage collections go through what collecting the suite has made
    waiting = list(reversed(session.items))
    running: dict[int, _Running] = {}
    runner = os.getppid()
    _output_folder.mkdir(parents=True, exist_ok=True)
    while waiting or running:
        while waiting and len(running) < _jobs:
            item = waiting.pop()
            number = len(session.items) - len(waiting)
            output = _output_folder / f"{number:05}-{re.sub(r'[^A-Za-z0-9_]+', '_', item.name)[:80]}.txt"
            running[_fork(item, output)] = _Running(item, output, time.monotonic())
        time.sleep(_POLL_S)
        _reap(running)
        if os.getppid() != runner:  # nobody waits for the results any more; the children die with us
            os._exit(1)
    return True


def _fork(item: pytest.Item, output: Path) -> int:
    """Start one test in a child; returns its process id."""
    global _in_child
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    _in_child = True
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        status = _KEEP_OUTPUT if item.nodeid in _failed else 0 if item.nodeid in _recorded else 1
    except BaseException:  # nothing may escape into the parent's test loop
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _cpu_seconds(process: int) -> float:
    """Processor time of a live process (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _reap(running: dict[int, _Running]) -> None:
    """Account for children that ended, and end those that are over their time."""
    now = time.monotonic()
    for child, test in list(running.items()):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            del running[child]
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, _KEEP_OUTPUT):
                if os.WEXITSTATUS(status) == 0:
                    test.output.unlink()
            else:
                how = (
                    f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "an exit without a result"
                )
                _record(test.item.nodeid, "crashed", now - test.start_s, f"the test's process ended by {how}")
        elif _cpu_seconds(child) > _timeout_s or now - test.start_s > _WALL_PER_TIMEOUT * _timeout_s:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            del running[child]
            _record(test.item.nodeid, "timeout", now - test.start_s, f"over {_timeout_s:g} s")
