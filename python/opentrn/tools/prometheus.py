"""neuron-monitor-prometheus: reads the reports of neuron-monitor, and serves them as metrics of Prometheus.

Names and labels are those of AWS's companion script. What a report leaves out is not served. The port is bound to the
loopback address unless --host says otherwise. Counters of a process end with it; their sum over processes is kept.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opentrn.errors import InputError, MissingModule
from opentrn.tools import reports

_INSTANCE_LABELS = (
    "instance_id",
    "instance_name",
    "instance_type",
    "availability_zone",
    "region",
    "subnet_id",
)
_MEMORY = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")
_ECC = ("mem_ecc_corrected", "mem_ecc_uncorrected", "sram_ecc_corrected", "sram_ecc_uncorrected")
_Sample = tuple[str, str, dict[str, str], float]  # kind, name, labels, value


def samples_of(report: dict[str, Any]) -> Iterator[_Sample]:
    """(gauge | counter, name, labels, value); counters hold what the period of the report added."""
    for runtime in report.get("neuron_runtime_data", []):
        yield from _runtime(runtime.get("neuron_runtime_tag", ""), runtime.get("report", {}))
    system = report.get("system_data", {})
    yield from _memory_and_cpu(system)
    for device in system.get("neuron_hw_counters", {}).get("neuron_devices", []):
        for event in _ECC:
            labels = {"event_type": event, "neuron_device_index": str(device["neuron_device_index"])}
            if event in device:
                yield "gauge", "hardware_ecc_events_total", labels, device[event]
    hardware = report.get("neuron_hardware_info", {})
    labels = {
        name: str(hardware[name])
        for name in (
            "neuron_device_count",
            "neuroncore_per_device_count",
            "neuron_device_type",
            "neuroncore_version",
        )
        if name in hardware
    }
    yield "gauge", "neuron_hardware_info", labels, 1
    yield "gauge", "instance_info", {}, 1


def _runtime(tag: str, report: dict[str, Any]) -> Iterator[_Sample]:
    counters = report.get("neuroncore_counters", {}).get("neuroncores_in_use", {})
    for core, row in counters.items():
        if "neuroncore_utilization" in row:
            labels = {"neuroncore": core, "runtime_tag": tag}
            yield "gauge", "neuroncore_utilization_ratio", labels, row["neuroncore_utilization"] / 100
    used = report.get("memory_used", {}).get("neuron_runtime_used_bytes", {})
    for place in ("host", "neuron_device"):
        if place in used:
            labels = {"memory_location": place, "runtime_tag": tag}
            yield "gauge", "neuron_runtime_memory_used_bytes", labels, used[place]
    for core, row in used.get("usage_breakdown", {}).get("neuroncore_memory_usage", {}).items():
        for kind in _MEMORY:
            if kind in row:
                labels = {"neuroncore": core, "memory_location": "None", "runtime_tag": tag}
                yield "gauge", f"neuroncore_memory_usage_{kind}", labels, row[kind]
    usage = report.get("neuron_runtime_vcpu_usage", {}).get("vcpu_usage") or {}
    for kind, percent in usage.items():
        yield (
            "gauge",
            "neuron_runtime_vcpu_usage_ratio",
            {"usage_type": kind, "runtime_tag": tag},
            percent / 100,
        )
    stats = report.get("execution_stats", {})
    for kind, count in stats.get("execution_summary", {}).items():
        yield "counter", "execution_status_total", {"status_type": kind, "runtime_tag": tag}, count
    for kind, count in stats.get("error_summary", {}).items():
        yield "counter", "execution_errors_total", {"error_type": kind, "runtime_tag": tag}, count
    for percentile, value in (stats.get("latency_stats", {}).get("total_latency") or {}).items():
        yield "gauge", "execution_latency_seconds", {"percentile": percentile, "runtime_tag": tag}, value


def _memory_and_cpu(system: dict[str, Any]) -> Iterator[_Sample]:
    memory = system.get("memory_info", {})
    for name in ("memory_total_bytes", "memory_used_bytes", "swap_total_bytes", "swap_used_bytes"):
        if name in memory:
            yield "gauge", f"system_{name}", {}, memory[name]
    cpu = system.get("vcpu_usage", {})
    for kind, percent in cpu.get("average_usage", {}).items():
        yield "gauge", "system_vcpu_usage_ratio", {"usage_type": kind}, percent / 100
    if "usage_data" in cpu:
        yield "gauge", "system_vcpu_count", {}, len(cpu["usage_data"])


def _pod_of(labels: dict[str, str], pods: dict[str, Any]) -> dict[str, str]:
    """Labels of the pod that holds the core of a metric; none where no pod does."""
    row = pods.get(labels.get("neuroncore", ""))
    if row is None:
        return {}
    return {
        "pod_name": str(row["pod_name"]),
        "namespace": str(row["namespace"]),
        "container_name": ",".join(map(str, row["container_name"])),
    }


class Collector:
    """What prometheus_client asks at each scrape: the last report, and counters since the start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._counters: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self._created: dict[
            tuple[str, tuple[tuple[str, str], ...]], float
        ] = {}  # when a counter was first seen
        self._periods: dict[str, float] = {}  # of a process's execution_stats, which a report may repeat

    def take(self, report: dict[str, Any]) -> None:
        """Takes a report in. Raises KeyError, TypeError, AttributeError or ValueError for what is none."""
        info = report["instance_info"]
        common = {name: str(info.get(name, info.get(f"instance_{name}", ""))) for name in _INSTANCE_LABELS}
        pods = report.get("neuron_k8s_info", {}).get("neuroncores_k8s_info", {})
        gauges, counters = {}, dict(self._counters)
        repeated = self._repeated(report)
        for kind, name, labels, value in samples_of(report):
            key = (name, tuple(sorted({**common, **labels, **_pod_of(labels, pods)}.items())))
            if kind == "gauge":
                gauges[key] = float(value)
            elif labels["runtime_tag"] not in repeated or key not in counters:
                counters[key] = counters.get(key, 0.0) + float(value)
        now = time.time()
        with self._lock:
            self._gauges, self._counters = gauges, counters
            for key in (*counters, *(key for key in gauges if key[0].endswith("_total"))):
                self._created.setdefault(key, now)

    def _repeated(self, report: dict[str, Any]) -> set[str]:
        """Tags whose execution_stats are those of the report before: another group was due."""
        periods = {
            runtime["neuron_runtime_tag"]: float(
                runtime["report"].get("execution_stats", {}).get("period", 0)
            )
            for runtime in report.get("neuron_runtime_data", [])
        }
        same = {tag for tag, period in periods.items() if self._periods.get(tag) == period}
        self._periods = periods
        return same

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import Metric

        with self._lock:
            parts = (("gauge", dict(self._gauges)), ("counter", dict(self._counters)))
            created = dict(self._created)
        metrics: dict[str, Metric] = {}
        for kind, values in parts:
            for (name, labels), value in values.items():
                family = name.removesuffix("_total")
                metric = metrics.setdefault(
                    family, Metric(family, name, "counter" if name != family else kind)
                )
                metric.add_sample(name, dict(labels), value)
                if name != family:
                    metric.add_sample(f"{family}_created", dict(labels), created[name, labels])
        return metrics.values()


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
