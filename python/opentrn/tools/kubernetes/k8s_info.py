"""neuron-monitor-k8s-info: which pods hold Neuron devices, asked of the kubelet and put into neuron-monitor's reports.

The kubelet lists the devices of its containers on a unix socket of its own (the PodResources API, version v1). Of the
resources aws.amazon.com/neuroncore, neurondevice and neuron the numbers of the devices become `neuron_k8s_info` of each
report, in the form of AWS's guide: cores of the first, devices of the others with all their cores.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.errors import InputError
from opentrn.tools import reports
from opentrn.tools.kubernetes.messages import classes_of, grpc_module

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
_CALL_S = 5.0

# Of Kubernetes' published pkg/kubelet/apis/podresources/v1/api.proto, as far as it is read here; other fields of the
# same messages are passed over.
MESSAGES: dict[str, list[tuple[str, int, str]]] = {
    "ListPodResourcesRequest": [],
    "ListPodResourcesResponse": [("pod_resources", 1, "PodResources[]")],
    "PodResources": [("name", 1, "string"), ("namespace", 2, "string"), ("containers", 3, "ContainerResources[]")],
    "ContainerResources": [("name", 1, "string"), ("devices", 2, "ContainerDevices[]")],
    "ContainerDevices": [("resource_name", 1, "string"), ("device_ids", 2, "string[]")],
}
METHOD = "/v1.PodResourcesLister/List"


def _held(response: Any) -> Iterator[tuple[str, str, str, str, str]]:
    """(resource, ID, pod, namespace, container) of every device that a container has."""
    for pod in response.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                for name in devices.device_ids:
                    yield devices.resource_name, name, pod.name, pod.namespace, container.name


def info_of(response: Any, machine: _core.NodeMachine, period: float) -> dict[str, Any]:
    """The object neuron_k8s_info. Numbers that the machine does not have are left out."""
    return json.loads(machine.pods_info(list(_held(response)), period))


class Kubelet:
    """Asks the kubelet at most once in `period` seconds."""

    def __init__(self, socket: Path, period: float, instance: str = "") -> None:
        """Raises InputError for a period that is none, MissingModule without grpcio."""
        if not 0.1 <= period <= 86400:
            raise InputError(
                f"--period {period:g}", label="tools.kubernetes", hint="from 0.1 to 86400 seconds"
            )
        grpc_module()
        self._socket, self._period = socket, period
        self._machine = _core.NodeMachine(instance)
        self._asked = -period
        self._last: dict[str, Any] = {}

    def info(self) -> dict[str, Any]:
        """neuron_k8s_info; where the kubelet does not answer, with what went wrong as `error`."""
        now = time.monotonic()
        if now - self._asked >= self._period:
            period = now - self._asked if self._last else self._period
            self._asked = now
            self._last = self._ask(period)
        return self._last

    def _ask(self, period: float) -> dict[str, Any]:
        grpc, made = grpc_module(), classes_of("v1", "opentrn/podresources_v1.proto", MESSAGES)
        with grpc.insecure_channel(f"unix:{self._socket}") as channel:
            call = channel.unary_unary(
                METHOD,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=made["ListPodResourcesResponse"].FromString,
            )
            try:
                response = call(made["ListPodResourcesRequest"](), timeout=_CALL_S)
            except grpc.RpcError as error:
                why = f"the kubelet at {self._socket} does not answer: {error.code().name}"
                return {"period": period, "neuroncores_k8s_info": {}, "neurondevices_k8s_info": {}, "error": why}
        return info_of(response, self._machine, period)


def run(socket: Path, period: float, instance: str) -> int:
    """Reports from standard input to standard output, with neuron_k8s_info in each that has none."""
    kubelet = Kubelet(socket, period, instance)

    def take(report: dict[str, Any]) -> None:
        if "neuron_k8s_info" not in report:
            report["neuron_k8s_info"] = kubelet.info()
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()

    return reports.each("neuron-monitor-k8s-info", take)
