"""pytest plugin of the nki-library runner: OpenTrn under the official names, a result log, a watchdog.

Loaded with `-p opentrn_plugin` before the checkout's own conftest. Settings come from the environment,
because the checkout owns the command line:
  OPENTRN_CONFORMANCE_LOG      file to append JSON lines to: {"start": id} and {"done": id, "outcome": ...}
  OPENTRN_CONFORMANCE_SKIP     file with test ids, one per line, that are already done
  OPENTRN_CONFORMANCE_TIMEOUT  seconds one test may take; the process then ends with exit code 75
  OPENTRN_CONFORMANCE_LIMIT    how many tests of the group to run (0: all)
  OPENTRN_CONFORMANCE_NOT      tests with this mark are left out (used for "new on trn3": not trn2)
"""

from __future__ import annotations

import builtins
import faulthandler
import json
import os
import sys
import threading
import time
import types

import pytest

import opentrn

TIMEOUT_EXIT_CODE = 75
_REASON_CHARACTERS = 1500

_log_path = os.environ["OPENTRN_CONFORMANCE_LOG"]
_timeout_s = float(os.environ.get("OPENTRN_CONFORMANCE_TIMEOUT", "300"))

opentrn.activate()


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


def _record(entry: dict) -> None:
    with open(_log_path, "a", encoding="utf-8") as log:
        log.write(json.dumps(entry) + "\n")


class _Watchdog:
    """Ends the process when one test takes too long. A hung kernel thread cannot be interrupted otherwise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._test: str | None = None
        self._deadline = 0.0
        threading.Thread(target=self._watch, name="conformance-watchdog", daemon=True).start()

    def start(self, test: str) -> None:
        with self._lock:
            self._test, self._deadline = test, time.monotonic() + _timeout_s

    def stop(self) -> None:
        with self._lock:
            self._test = None

    def _watch(self) -> None:
        parent = os.getppid()
        while True:
            time.sleep(0.5)
            if os.getppid() != parent:  # the runner is gone
                os._exit(TIMEOUT_EXIT_CODE)
            with self._lock:
                late = self._test if self._test is not None and time.monotonic() > self._deadline else None
            if late is not None:
                _record(
                    {
                        "done": late,
                        "outcome": "timeout",
                        "seconds": _timeout_s,
                        "reason": f"over {_timeout_s:g} s",
                    }
                )
                faulthandler.dump_traceback(file=sys.stderr)
                os._exit(TIMEOUT_EXIT_CODE)


_watchdog = _Watchdog()


class _Platforms:
    """core/qkv/test_qkv_tkg.py uses `Platforms` without importing it; looked up here on first use."""

    def __getattr__(self, name: str):
        from test.utils.common_dataclasses import Platforms

        return getattr(Platforms, name)


builtins.Platforms = _Platforms()


def pytest_sessionstart(session):
    """In simulation mode the suite at d2ad3a5 reads `Orchestrator._compiled_kernel` without ever having set
    it.
    """
    from test.utils.test_orchestrator import Orchestrator

    if not hasattr(Orchestrator, "_compiled_kernel"):
        Orchestrator._compiled_kernel = None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what an earlier process of this run has already recorded, and marked tests."""
    done: set[str] = set()
    skip_file = os.environ.get("OPENTRN_CONFORMANCE_SKIP")
    if skip_file and os.path.exists(skip_file):
        with open(skip_file, encoding="utf-8") as file:
            done = set(file.read().splitlines())
    mark = os.environ.get("OPENTRN_CONFORMANCE_NOT")
    limit = int(os.environ.get("OPENTRN_CONFORMANCE_LIMIT") or 0)
    kept = [i for i in items if i.nodeid not in done and not (mark and i.get_closest_marker(mark))]
    if limit:
        kept = kept[: max(0, limit - len(done))]
    chosen = set(kept)
    removed = [i for i in items if i not in chosen]
    if removed:
        config.hook.pytest_deselected(items=removed)
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Record the start of a test, so that a crash or a hang is attributed to it."""
    _record({"start": item.nodeid})
    _watchdog.start(item.nodeid)
    try:
        return (yield)
    finally:
        _watchdog.stop()


_seconds: dict[str, float] = {}


def pytest_runtest_logreport(report):
    """Record one outcome per test: that of the first phase that did not pass, else the call's."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    decided = report.failed or report.skipped or report.when == "teardown"
    if not decided or _seconds.get("recorded " + report.nodeid):
        return
    _seconds["recorded " + report.nodeid] = 1.0
    outcome = "passed"
    if report.failed:
        outcome = "failed" if report.when == "call" else "error"
    elif report.skipped:
        outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
    _record(
        {
            "done": report.nodeid,
            "outcome": outcome,
            "seconds": round(_seconds[report.nodeid], 3),
            "reason": _reason(report) if outcome != "passed" else "",
        }
    )


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
        _record(
            {
                "done": report.nodeid,
                "outcome": "collection error",
                "seconds": 0.0,
                "reason": str(report.longrepr)[-_REASON_CHARACTERS:],
            }
        )
