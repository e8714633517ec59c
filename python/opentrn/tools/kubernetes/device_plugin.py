"""The kubelet's device plug-in of a simulated node: aws.amazon.com/neuron and aws.amazon.com/neuroncore.

Each resource is a gRPC service on a unix socket of its own in the kubelet's folder. It registers there, tells the
kubelet its devices and each change of their health, prefers contiguous sets (src/monitor/node_sets.h), and answers an
allocation with the devices' files, NEURON_RT_VISIBLE_CORES and the name of the simulated machine. A kubelet that starts
anew empties the folder and makes another socket: the services then begin again.

A device whose file under --dev was there and is gone is unhealthy until it is back. A file that is a character device
is handed to the container as one; a plain file, as `opentrn device-tree` makes it, is mounted; without files the
container has the variables alone. The API tells no plug-in when a container ends: the kubelet keeps the books, of each
resource for itself, and a node whose pods use both resources would give a core twice. Use one of them on a node.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
import time
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentrn import _core
from opentrn.errors import InputError
from opentrn.tools.kubernetes.messages import SERVICES, VERSION, classes, grpc_module, path_of

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
RESOURCES = ("neuron", "neuroncore")
_WATCH_S = 0.5
_CALL_S = 5.0


@dataclass
class Node:
    """The simulated machine, and which of its devices are there."""

    machine: dict[str, Any]
    dev: Path
    had: set[int] = field(default_factory=set)

    def file_of(self, index: int) -> Path:
        return self.dev / f"neuron{index}"

    def lost(self) -> set[int]:
        """Devices whose file was there once and is not now."""
        there = {
            device["index"] for device in self.machine["devices"] if self.file_of(device["index"]).exists()
        }
        self.had |= there
        return self.had - there


class Resource:
    """One resource of the node. Device IDs are numbers: of devices, or of logical cores."""

    def __init__(self, node: Node, kind: str) -> None:
        self.node, self.kind = node, kind
        self.name = f"aws.amazon.com/{kind}"
        self._resource = _core.PluginResource(node.machine["instance_type"], kind)
        self.count = len(self._resource.listing(set()))

    def listing(self) -> Any:
        """A ListAndWatchResponse of this moment."""
        response = classes()["ListAndWatchResponse"]()
        for number, is_healthy, numa_node in self._resource.listing(self.node.lost()):
            row = response.devices.add(ID=number, health=HEALTHY if is_healthy else UNHEALTHY)
            if numa_node is not None:
                row.topology.nodes.add(ID=numa_node)
        return response

    def preferred(self, available: Any, must: Any, size: int) -> list[str]:
        """A contiguous set; without one the lowest numbers, as the kubelet itself would choose.

        Raises InputError where the devices that must be in it are not available, or are more than `size`.
        """
        return self._resource.preferred(list(available), list(must), size)

    def allocation(self, ids: Any) -> Any:
        """A ContainerAllocateResponse. Raises InputError for unknown IDs and lost devices."""
        devices, variables = self._resource.allocation(list(ids), self.node.lost())
        response = classes()["ContainerAllocateResponse"]()
        response.envs.update(variables)
        for index in devices:
            file = self.node.file_of(index)
            with contextlib.suppress(OSError):
                mode = file.stat().st_mode
                if stat.S_ISCHR(mode):
                    response.devices.add(
                        container_path=f"/dev/neuron{index}", host_path=str(file), permissions="mrw"
                    )
                elif stat.S_ISREG(mode):
                    response.mounts.add(
                        container_path=f"/dev/neuron{index}", host_path=str(file), read_only=True
                    )
        return response


class Service:
    """The gRPC server of one resource, and its registration."""

    def __init__(self, resource: Resource, folder: Path) -> None:
        self.resource, self._folder = resource, folder
        self.socket = folder / f"opentrn-{resource.kind}.sock"
        self._server: Any = None
        self._changed = threading.Condition()
        self._state = 0
        self._ended = False
        self._last = b""

    def _handlers(self) -> Any:
        grpc, made = grpc_module(), classes()
        calls = {
            "GetDevicePluginOptions": self._options,
            "ListAndWatch": self._list,
            "GetPreferredAllocation": self._prefer,
            "Allocate": self._allocate,
            "PreStartContainer": lambda request, context: made["PreStartContainerResponse"](),
        }
        handlers = {}
        for name, request, _, streams in SERVICES["DevicePlugin"]:
            make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
            handlers[name] = make(
                calls[name],
                request_deserializer=made[request].FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        return grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers)

    def start(self) -> None:
        """Serves and registers. Raises InputError where the folder or the kubelet takes neither."""
        grpc = grpc_module()
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()
        # A stream that is watched keeps its thread.
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._ended = False
        try:
            self._server.add_insecure_port(f"unix:{self.socket}")
        except RuntimeError as error:
            raise InputError(
                f"{self.socket}: {error}", label="tools.kubernetes", hint="name another --kubelet"
            ) from error
        self._server.start()
        os.chmod(self.socket, 0o600)
        try:
            self._register(grpc)
        except InputError:
            self.stop()
            raise

    def _register(self, grpc: Any) -> None:
        made = classes()
        request = made["RegisterRequest"](
            version=VERSION, endpoint=self.socket.name, resource_name=self.resource.name,
            options=made["DevicePluginOptions"](get_preferred_allocation_available=True),
        )  # fmt: skip
        with grpc.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            call = channel.unary_unary(
                path_of("Registration", "Register"),
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=made["Empty"].FromString,
            )
            try:
                call(request, timeout=_CALL_S)
            except grpc.RpcError as error:
                raise InputError(
                    f"the kubelet at {self._folder} does not take {self.resource.name}: {error.details()}",
                    label="tools.kubernetes",
                    hint="start the kubelet first, or name its folder with --kubelet",
                ) from error

    def look(self) -> None:
        """Tells the watching kubelet where the devices' health has changed."""
        now = self.resource.listing().SerializeToString()
        with self._changed:
            if now != self._last:
                self._last = now
                self._state += 1
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._server is not None:
            self._server.stop(grace=0.2).wait()
            self._server = None
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()

    # -- what the kubelet calls

    def _options(self, request: Any, context: Any) -> Any:
        return classes()["DevicePluginOptions"](get_preferred_allocation_available=True)

    def _list(self, request: Any, context: Any) -> Any:
        seen = -1
        while context.is_active():
            with self._changed:
                if not self._ended and seen == self._state:
                    self._changed.wait(_WATCH_S)
                if self._ended:
                    return
                if seen == self._state:
                    continue
                seen = self._state
            yield self.resource.listing()

    def _prefer(self, request: Any, context: Any) -> Any:
        response = classes()["PreferredAllocationResponse"]()
        for each in request.container_requests:
            ids = self._checked(
                context,
                lambda each=each: self.resource.preferred(
                    each.available_deviceIDs, each.must_include_deviceIDs, each.allocation_size
                ),
            )
            response.container_responses.add(deviceIDs=ids)
        return response

    def _allocate(self, request: Any, context: Any) -> Any:
        response = classes()["AllocateResponse"]()
        for each in request.container_requests:
            made = self._checked(context, lambda each=each: self.resource.allocation(each.devices_ids))
            response.container_responses.append(made)
        return response

    def _checked(self, context: Any, call: Any) -> Any:
        try:
            return call()
        except InputError as error:
            context.abort(grpc_module().StatusCode.INVALID_ARGUMENT, error.message)


class Plugin:
    """The services of a node, which begin again when the kubelet does."""

    def __init__(self, instance: str, folder: Path, dev: Path, kinds: tuple[str, ...]) -> None:
        self._folder = folder
        node = Node(_core.machine_facts(instance), dev)
        node.lost()
        self.services = [Service(Resource(node, kind), folder) for kind in kinds]
        self._kubelet: tuple[int, int] | None = None
        self._running = False

    def start(self) -> None:
        """Raises InputError "tools.kubernetes"."""
        self._kubelet = self._identity()
        if self._kubelet is None:
            raise InputError(
                f"{self._folder / 'kubelet.sock'} is not there",
                label="tools.kubernetes",
                hint="start the kubelet first, or name its folder with --kubelet",
            )
        for service in self.services:
            service.start()
        self._running = True

    def look(self) -> bool:
        """Health and the kubelet, once. True where the services have begun again."""
        there = self._identity()
        fresh = there is not None and there != self._kubelet
        emptied = self._running and any(not service.socket.exists() for service in self.services)
        if there is not None and (fresh or emptied or not self._running):
            self.stop()
            try:
                self.start()
            except InputError as error:  # it is not ready yet
                self.stop()
                print(f"opentrn: {error.message}", file=sys.stderr)
                return False
            return True
        for service in self.services:
            service.look()
        return False

    def stop(self) -> None:
        for service in self.services:
            service.stop()
        self._running = False

    def _identity(self) -> tuple[int, int] | None:
        """Of the kubelet's socket: another one is another kubelet."""
        try:
            found = (self._folder / "kubelet.sock").stat()
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns


def run(instance: str, folder: Path, dev: Path, kinds: tuple[str, ...]) -> int:
    """Until it is interrupted. Raises InputError and, without grpcio, MissingModule."""
    grpc_module()
    plugin = Plugin(instance, folder, dev, kinds)
    plugin.start()
    for service in plugin.services:
        print(f"{service.resource.name}: {service.resource.count} at {service.socket}", file=sys.stderr)
    try:
        while True:
            time.sleep(_WATCH_S)
            if plugin.look():
                print("the kubelet began again: registered", file=sys.stderr)
    finally:
        plugin.stop()
