"""neuron-monitor-prometheus: reads the reports of neuron-monitor, and serves them as metrics of Prometheus.

Names and labels are those of AWS's companion script. What a report leaves out is not served. The port is bound to the
loopback address unless --host says otherwise. What is served is made in C++ (src/monitor/companion_metrics.h).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from opentrn import _core
from opentrn.errors import InputError, MissingModule
from opentrn.tools import reports


class Collector:
    """What prometheus_client asks at each scrape: the last report, and counters since the start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics = _core.MetricCollector()

    def take(self, report: dict[str, Any]) -> None:
        """Takes a report in. InputError for what is none."""
        with self._lock:
            self._metrics.take(json.dumps(report), time.time())

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import Metric

        with self._lock:
            families = self._metrics.families()
        for family, name, is_counter, rows in families:
            metric = Metric(family, name, "counter" if is_counter else "gauge")
            for sample, labels, value in rows:
                metric.add_sample(sample, labels, value)
            yield metric


def run(port: int, host: str, kubelet: Callable[[], dict[str, Any]] | None = None) -> int:
    """Serves until standard input ends. Raises InputError and, without prometheus_client, MissingModule.

    kubelet: gives neuron_k8s_info for reports that have none; reports are then passed on to standard output.
    """
    try:
        from prometheus_client import (
            CollectorRegistry,
            GCCollector,
            PlatformCollector,
            ProcessCollector,
            start_http_server,
        )
    except ImportError as error:
        raise MissingModule(
            "neuron-monitor-prometheus needs the package prometheus_client",
            name="prometheus_client",
            label="tools.prometheus",
            hint="pip install prometheus-client",
        ) from error
    collector = Collector()
    registry = CollectorRegistry()
    registry.register(collector)
    for own in (ProcessCollector, PlatformCollector, GCCollector):  # of this program, as AWS's has them
        own(registry=registry)
    try:
        start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise InputError(
            f"port {port} of {host}: {error.strerror}", label="tools.prometheus", hint="choose another --port"
        ) from error

    def take(report: dict[str, Any]) -> None:
        if kubelet is not None and "neuron_k8s_info" not in report:
            report["neuron_k8s_info"] = kubelet()
        collector.take(report)
        if kubelet is not None:  # for neuron-monitor-k8s-info, which AWS's guide puts behind this
            sys.stdout.write(json.dumps(report) + "\n")
            sys.stdout.flush()

    return reports.each("neuron-monitor-prometheus", take)
