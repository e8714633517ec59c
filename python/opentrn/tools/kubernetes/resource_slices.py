"""Resource slices of a simulated node for Kubernetes' dynamic resource allocation, as AWS's DRA driver publishes them.

Attributes are those of AWS's page of the driver. What only AWS's services tell is left out (network nodes, capacity
blocks), and so is devicegroup1_id, the address of a network adapter; `devicegroup` numbers are digests of the node and
the group. Versions of drivers are the user's to state: a simulated node has none.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from opentrn import _core
from opentrn.errors import InputError
from opentrn.tools.kubernetes import sets
from opentrn.tools.kubernetes.sets import ranges_text

DRIVER = "neuron.aws.com"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_VERSION = re.compile(r"\d+(\.\d+){1,3}")


def _group_id(node: str, count: int, group: int) -> str:
    return hashlib.sha256(f"{node}/{count}/{group}".encode()).hexdigest()[:16]


def _attributes(machine: dict[str, Any], node: str, index: int, driver: str) -> dict[str, Any]:
    rows: dict[str, Any] = {
        "deviceId": {"int": index},
        "instanceType": {"string": machine["instance_type"]},
        "resourceType": {"string": "neuron_device"},
    }
    if driver:
        rows["neuronDriverVersion"] = {"string": driver}
    total = len(machine["devices"])
    if machine["is_torus"]:
        columns = machine["columns"]
        rows |= {
            "topology_x": {"int": index // columns},
            "topology_y": {"int": index % columns},
            "topology4_id": {"int": index // columns},
        }
        if total >= 8:
            rows["topology8_id"] = {"int": index // columns // 2}
        for count in sets.device_counts(machine):
            if count > 1:
                rows[f"resource.aws.com/devicegroup{count}_id"] = {
                    "string": _group_id(node, count, index // count)
                }
    return rows


def slices(instance: str, node: str, driver: str = "", ultraserver: str = "") -> list[dict[str, Any]]:
    """ResourceSlice objects of resource.k8s.io/v1. `ultraserver`: of which the node is one; it is then one device.

    Raises InputError "tools.kubernetes" for names and versions that Kubernetes would not take.
    """
    if not _NAME.fullmatch(node):
        raise InputError(
            f"{node[:60]!r} is not a name of a node",
            label="tools.kubernetes",
            hint="a DNS name in small letters",
        )
    if driver and not _VERSION.fullmatch(driver):
        raise InputError(
            f"{driver[:40]!r} is not a version of a driver", label="tools.kubernetes", hint="as in 2.25.4.0"
        )
    machine = _core.machine_facts(instance)
    if ultraserver:
        rows: dict[str, Any] = {
            "instanceType": {"string": machine["instance_type"]},
            "resourceType": {"string": "neuron_node"},
        }
        if driver:
            rows["neuronDriverVersion"] = {"string": driver}
        devices = [{"name": "neuronnode0", "attributes": rows}]
    else:
        devices = [
            {
                "name": f"neurondevice{device['index']}",
                "attributes": _attributes(machine, node, device["index"], driver),
                "capacity": {"memory": {"value": str(machine["memory_bytes"])}},
            }
            for device in machine["devices"]
        ]
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-neuron"},
            "spec": {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }
    ]


def device_class() -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
    }


# -- what a claim is given


def _value(attribute: dict[str, Any]) -> Any:
    return next(iter(attribute.values()))


_TERM = re.compile(
    r"""device\.attributes\[\s*(?P<q>['"])(?P<domain>[^'"]+)(?P=q)\s*\]\s*\.\s*(?P<name>\w+)\s*==\s*"""
    r"""(?:(?P<p>['"])(?P<text>[^'"]*)(?P=p)|(?P<number>\d+))"""
)
_CLASS_TERM = re.compile(r"""device\.driver\s*==\s*["'](?P<driver>[^"']+)["']""")


def matches(device: dict[str, Any], expression: str) -> bool:
    """A CEL expression of the forms that the published specs have: comparisons with ==, joined by &&.

    Raises InputError "tools.kubernetes" for any other.
    """
    for term in expression.split("&&"):
        term = term.strip()
        if found := _CLASS_TERM.fullmatch(term):
            if found["driver"] != DRIVER:
                return False
            continue
        found = _TERM.fullmatch(term)
        if found is None:
            raise InputError(
                f"the selector {term[:80]!r} is not of a form that this reads",
                label="tools.kubernetes",
                hint="device.attributes['neuron.aws.com'].NAME == VALUE, joined by &&",
            )
        wanted: Any = int(found["number"]) if found["number"] is not None else found["text"]
        rows = device["attributes"]
        row = (
            rows.get(found["name"])
            if found["domain"] == DRIVER
            else rows.get(f"{found['domain']}/{found['name']}")
        )
        if row is None or _value(row) != wanted:
            return False
    return True


def allocate(
    claim: dict[str, Any], published: list[dict[str, Any]], taken: set[tuple[str, str]]
) -> dict[str, Any]:
    """The allocation of a claim's spec (`spec.devices`) on one node: {"results": [...], "config": [...]}.

    taken: (pool, device) of other claims. Raises InputError "tools.kubernetes" where no node has what is asked, and for
    what is no claim.
    """
    try:
        return _allocate(claim, published, taken)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"this is not a claim: {error!r}", label="tools.kubernetes") from error


def _allocate(
    claim: dict[str, Any], published: list[dict[str, Any]], taken: set[tuple[str, str]]
) -> dict[str, Any]:
    spec = claim["devices"]
    constraints = spec.get("constraints") or []
    why = "no slice is published"
    for each in published:
        pool = each["spec"]["pool"]["name"]
        devices = [d for d in each["spec"]["devices"] if (pool, d["name"]) not in taken]
        try:
            results: list[dict[str, Any]] = []
            for request in spec["requests"]:
                exactly = request["exactly"]
                if exactly["deviceClassName"] != DRIVER:
                    raise InputError(
                        f"there is no class {exactly['deviceClassName']}", label="tools.kubernetes"
                    )
                selectors = [row["cel"]["expression"] for row in exactly.get("selectors") or []]
                used = {row["device"] for row in results}
                fitting = [
                    d for d in devices if d["name"] not in used and all(matches(d, s) for s in selectors)
                ]
                same = [
                    c["matchAttribute"]
                    for c in constraints
                    if request["name"] in c.get("requests", [request["name"]])
                ]
                chosen = _chosen(exactly, fitting, same, each, selectors)
                results += [
                    {"device": d["name"], "driver": DRIVER, "pool": pool, "request": request["name"]}
                    for d in chosen
                ]
            return {"results": results, "config": spec.get("config") or []}
        except InputError as error:
            why = error.message
    raise InputError(f"no node has what the claim asks: {why}", label="tools.kubernetes")


def _chosen(
    exactly: dict[str, Any],
    fitting: list[dict[str, Any]],
    same: list[str],
    published: dict[str, Any],
    selectors: Any,
) -> list[dict[str, Any]]:
    if str(exactly.get("allocationMode", "ExactCount")).lower() == "all":
        every = [d for d in published["spec"]["devices"] if all(matches(d, s) for s in selectors)]
        if not every or len(every) != len(fitting):
            raise InputError(f"{len(fitting)} of {len(every)} devices are free", label="tools.kubernetes")
        return fitting
    count = exactly.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"{str(count)[:40]} devices: a number from 1 was expected", label="tools.kubernetes")
    groups: dict[Any, list[dict[str, Any]]] = {}
    for device in fitting:
        names = [name.removeprefix(f"{DRIVER}/") for name in same]
        if all(name in device["attributes"] for name in names):
            groups.setdefault(tuple(_value(device["attributes"][name]) for name in names), []).append(device)
    for group in groups.values():
        if len(group) >= count:
            return group[:count]
    raise InputError(f"{count} devices of one group are not free", label="tools.kubernetes")


def container_of(allocation: dict[str, Any], instance: str) -> tuple[dict[str, str], int | None]:
    """The variables that a container of the allocation is started with, and how many servers of an UltraServer the
    claim wants to use together, which the caller's collectives have to know. Raises InputError for
    unknown parameters."""
    try:
        return _container_of(allocation, instance)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"this is not an allocation: {error!r}", label="tools.kubernetes") from error


def _container_of(allocation: dict[str, Any], instance: str) -> tuple[dict[str, str], int | None]:
    machine = _core.machine_facts(instance)
    lnc = machine["physical_cores_per_core"]
    ultraserver = None
    for row in allocation["config"]:
        parameters = (row.get("opaque") or {}).get("parameters") or {}
        kind = parameters.get("kind")
        if kind == "NeuronConfig" and parameters.get("logicalNeuronCore") in (1, 2):
            lnc = parameters["logicalNeuronCore"]
        elif kind == "UltraServerConfig" and parameters.get("ultraserverMode") in (1, 2, 4):
            ultraserver = parameters["ultraserverMode"]
        else:
            raise InputError(
                f"the configuration {str(parameters)[:80]} is not known", label="tools.kubernetes"
            )
    names = [row["device"] for row in allocation["results"]]
    total = len(machine["devices"][0]["cores"]) * machine["physical_cores_per_core"] // lnc
    if names == ["neuronnode0"]:
        indices = [device["index"] for device in machine["devices"]]
    else:
        indices = sorted(int(name.removeprefix("neurondevice")) for name in names)
    return {
        "NEURON_RT_VISIBLE_CORES": ranges_text(
            [index * total + core for index in indices for core in range(total)]
        ),
        "NEURON_LOGICAL_NC_CONFIG": str(lnc),
        "NEURON_PLATFORM_TARGET_OVERRIDE": machine["instance_type"],
    }, ultraserver
