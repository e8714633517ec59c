"""The messages of the kubelet's device plug-in API, version v1beta1, made without a compiler of protocol buffers.

Names and numbers of fields are those of Kubernetes' published pkg/apis/deviceplugin/v1beta1/api.proto;
`./dev conformance kubelet` compares them with that file, and speaks to the plug-in with stubs made of it.
"""

from __future__ import annotations

from typing import Any

from opentrn.errors import MissingModule

PACKAGE = "v1beta1"
VERSION = "v1beta1"

# Message -> fields: name, number, type. "[]" repeats; "{}" maps text to text.
MESSAGES: dict[str, list[tuple[str, int, str]]] = {
    "Empty": [],
    "DevicePluginOptions": [
        ("pre_start_required", 1, "bool"),
        ("get_preferred_allocation_available", 2, "bool"),
    ],
    "RegisterRequest": [
        ("version", 1, "string"),
        ("endpoint", 2, "string"),
        ("resource_name", 3, "string"),
        ("options", 4, "DevicePluginOptions"),
    ],
    "NUMANode": [("ID", 1, "int64")],
    "TopologyInfo": [("nodes", 1, "NUMANode[]")],
    "Device": [("ID", 1, "string"), ("health", 2, "string"), ("topology", 3, "TopologyInfo")],
    "ListAndWatchResponse": [("devices", 1, "Device[]")],
    "ContainerPreferredAllocationRequest": [
        ("available_deviceIDs", 1, "string[]"),
        ("must_include_deviceIDs", 2, "string[]"),
        ("allocation_size", 3, "int32"),
    ],
    "PreferredAllocationRequest": [("container_requests", 1, "ContainerPreferredAllocationRequest[]")],
    "ContainerPreferredAllocationResponse": [("deviceIDs", 1, "string[]")],
    "PreferredAllocationResponse": [("container_responses", 1, "ContainerPreferredAllocationResponse[]")],
    "PreStartContainerRequest": [("devices_ids", 1, "string[]")],
    "PreStartContainerResponse": [],
    "ContainerAllocateRequest": [("devices_ids", 1, "string[]")],
    "AllocateRequest": [("container_requests", 1, "ContainerAllocateRequest[]")],
    "Mount": [("container_path", 1, "string"), ("host_path", 2, "string"), ("read_only", 3, "bool")],
    "DeviceSpec": [("container_path", 1, "string"), ("host_path", 2, "string"), ("permissions", 3, "string")],
    "CDIDevice": [("name", 1, "string")],
    "ContainerAllocateResponse": [
        ("envs", 1, "{}"),
        ("mounts", 2, "Mount[]"),
        ("devices", 3, "DeviceSpec[]"),
        ("annotations", 4, "{}"),
        ("cdi_devices", 5, "CDIDevice[]"),
    ],
    "AllocateResponse": [("container_responses", 1, "ContainerAllocateResponse[]")],
}
# Service -> methods: name, request, response, whether the response is a stream.
SERVICES: dict[str, list[tuple[str, str, str, bool]]] = {
    "Registration": [("Register", "RegisterRequest", "Empty", False)],
    "DevicePlugin": [
        ("GetDevicePluginOptions", "Empty", "DevicePluginOptions", False),
        ("ListAndWatch", "Empty", "ListAndWatchResponse", True),
        ("GetPreferredAllocation", "PreferredAllocationRequest", "PreferredAllocationResponse", False),
        ("Allocate", "AllocateRequest", "AllocateResponse", False),
        ("PreStartContainer", "PreStartContainerRequest", "PreStartContainerResponse", False),
    ],
}


def grpc_module() -> Any:
    """grpc. Raises MissingModule."""
    try:
        import google.protobuf  # noqa: F401
        import grpc
    except ImportError as error:
        raise MissingModule(
            "the device plug-in needs the packages grpcio and protobuf",
            name="grpc",
            label="tools.kubernetes",
            hint="pip install grpcio protobuf",
        ) from error
    return grpc


def classes() -> dict[str, Any]:
    """The classes of the device plug-in's messages by name."""
    return classes_of(PACKAGE, "opentrn/device_plugin_v1beta1.proto", MESSAGES)


_made: dict[str, dict[str, Any]] = {}


def classes_of(package: str, name: str, messages: dict[str, list[tuple[str, int, str]]]) -> dict[str, Any]:
    """Classes of messages by name, made once for each file's name."""
    if name not in _made:
        _made[name] = _make_classes(package, name, messages)
    return _made[name]


def _make_classes(package: str, path: str, messages: dict[str, list[tuple[str, int, str]]]) -> dict[str, Any]:
    grpc_module()
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=path, package=package, syntax="proto3")
    kinds = {"string": 9, "bool": 8, "int32": 5, "int64": 3}
    for name, rows in messages.items():
        message = file.message_type.add(name=name)
        for field, number, kind in rows:
            to = message.field.add(name=field, number=number)
            to.label = 3 if kind.endswith(("[]", "{}")) else 1  # repeated, or optional
            base = kind.removesuffix("[]")
            if base == "{}":
                entry = message.nested_type.add(
                    name="".join(part.title() for part in field.split("_")) + "Entry"
                )
                entry.options.map_entry = True
                for place, part in ((1, "key"), (2, "value")):
                    of_map = entry.field.add(name=part, number=place, type=9)
                    of_map.label = 1
                to.type, to.type_name = 11, f".{package}.{name}.{entry.name}"
            elif base in kinds:
                to.type = kinds[base]
            else:
                to.type, to.type_name = 11, f".{package}.{base}"
    pool = descriptor_pool.DescriptorPool()  # of its own: another copy of the API may be in the default one
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def path_of(service: str, method: str) -> str:
    return f"/{PACKAGE}.{service}/{method}"
