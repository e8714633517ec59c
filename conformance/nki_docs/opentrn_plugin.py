"""pytest plugin of the runner: opentrn's stand-ins, a fixed random seed, and a report of every outcome."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import opentrn

opentrn.activate()

_report: dict = {"tests": {}, "messages": {}, "collection_error": "", "left_out": 0}


def pytest_addoption(parser):
    parser.addoption("--opentrn-report", default="")
    parser.addoption("--opentrn-seed", type=int, default=0)


def pytest_configure(config):
    np.random.seed(config.getoption("--opentrn-seed"))  # some files run a test when they are imported


def pytest_runtest_setup(item):
    np.random.seed(item.config.getoption("--opentrn-seed"))


def _name(nodeid: str) -> str:
    return nodeid.partition("::")[2]


def pytest_runtest_logreport(report):
    name = _name(report.nodeid)
    if report.when == "call" or report.failed or report.skipped:
        # An expected failure (xfail) is skipped, one that passes after all is passed.
        _report["tests"][name] = report.outcome
        if report.failed:
            _report["messages"][name] = str(report.longrepr).strip().splitlines()[-1][:400]


def pytest_deselected(items):
    _report["left_out"] += len(items)


def pytest_collectreport(report):
    if report.failed:
        _report["collection_error"] = str(report.longrepr)[-2000:]


def pytest_sessionfinish(session):
    path = session.config.getoption("--opentrn-report")
    if path:
        Path(path).write_text(json.dumps(_report))
