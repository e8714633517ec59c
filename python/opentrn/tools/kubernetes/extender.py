"""The scheduler extender of Neuron nodes: HTTP verbs `filter` and `bind`, as kube-scheduler calls them.

filter keeps the nodes where the pod's containers find contiguous sets (sets.py) that no other pod of the node has, and
says of each other node why not. bind writes the chosen numbers into the pod's annotations NEURON_CORES and
NEURON_DEVICES, and binds it. What is taken is read from the annotations of the node's pods at each call: nothing is
kept here, so that nothing is stale after a restart. It speaks to the API server at an address that needs no password,
as `kubectl proxy` gives one.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentrn import _core
from opentrn.errors import InputError
from opentrn.tools.kubernetes import sets
from opentrn.tools.kubernetes.sets import ranges_text

CORES, DEVICES = "NEURON_CORES", "NEURON_DEVICES"
_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_BODY_BYTES_MAX = 32 << 20
_API_S = 10.0
_ENDED = ("Succeeded", "Failed")
# What reading an answer raises that is no node and no pod.
_MALFORMED = (KeyError, TypeError, AttributeError)
_NO_OBJECTS = "the API server's answers are not nodes and pods"


def _refuse(message: str) -> InputError:
    return InputError(message, label="tools.kubernetes")


def _number(text: Any) -> int:
    """Of a resource's quantity, which is whole for devices."""
    if isinstance(text, bool) or not str(text).isdecimal() or len(str(text)) > 9:
        raise _refuse(f"{str(text)[:40]!r} is not a number of devices")
    return int(text)


def requests_of(pod: dict[str, Any]) -> list[tuple[str, int]]:
    """("device" or "core", how many) of each container that asks for any. InputError for what is no pod."""
    found = []
    try:
        for container in pod["spec"]["containers"]:
            resources = container.get("resources") or {}
            given = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
            # The older name of the same thing.
            devices = max(
                _number(given.get(f"aws.amazon.com/{name}", 0)) for name in ("neuron", "neurondevice")
            )
            cores = _number(given.get("aws.amazon.com/neuroncore", 0))
            if devices and cores:
                raise _refuse("a container asks for devices and for cores: one of them")
            if devices or cores:
                found.append(("device", devices) if devices else ("core", cores))
    except (KeyError, TypeError, AttributeError) as error:
        raise _refuse("this is not a pod") from error
    return found


def numbers_of(text: str) -> list[int]:
    """Of "0-2,5". InputError for anything else."""
    numbers: list[int] = []
    for part in text.split(","):
        begin, dash, end = part.strip().partition("-")
        if not begin.isdecimal() or (dash and not end.isdecimal()) or len(begin + end) > 12:
            raise _refuse(f"{text[:40]!r} is not a list of numbers")
        numbers += range(int(begin), int(end if dash else begin) + 1)
        if len(numbers) > 4096:
            raise _refuse(f"{text[:40]!r} names too many numbers")
    return numbers


def taken_cores(machine: dict[str, Any], pods: list[dict[str, Any]]) -> set[int]:
    """Cores that annotations of pods name, which have not ended."""
    each = {device["index"]: device["cores"] for device in machine["devices"]}
    taken: set[int] = set()
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        notes = (pod.get("metadata") or {}).get("annotations") or {}
        if CORES in notes:
            taken |= set(numbers_of(str(notes[CORES])))
        elif DEVICES in notes:
            taken |= {core for index in numbers_of(str(notes[DEVICES])) for core in each.get(index, [])}
    return taken


def place(
    machine: dict[str, Any], wanted: list[tuple[str, int]], taken: set[int]
) -> list[tuple[str, list[int]]]:
    """For each container ("device" or "core", numbers). Raises InputError in the extension's words."""
    owner = {core: device["index"] for device in machine["devices"] for core in device["cores"]}
    free = set(owner) - taken
    placed = []
    # Large sets first: a small one may stand in the way of a large one, and not the other way.
    for number, (kind, count) in sorted(enumerate(wanted), key=lambda row: -row[1][1]):
        if kind == "device":
            whole = {device["index"] for device in machine["devices"] if set(device["cores"]) <= free}
            chosen = sets.choose(sets.device_sets(machine, count), whole)
            cores = [core for index in chosen or [] for core in machine["devices"][index]["cores"]]
        else:
            chosen = cores = sets.choose(sets.core_sets(machine, count), free) or []
        if not chosen:
            raise _refuse(f"no contiguous set of {count} {kind}s is free")
        free -= set(cores)
        placed.append((number, kind, chosen))
    return [(kind, chosen) for _, kind, chosen in sorted(placed)]


class Api:
    """What the extender asks of the API server."""

    def __init__(self, url: str) -> None:
        if urllib.parse.urlparse(url).scheme not in ("http", "https"):
            raise _refuse(f"--api {url}: an address that begins with http:// (kubectl proxy gives one)")
        self._url = url.rstrip("/")

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": kind}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_API_S) as answer:
                return json.loads(answer.read(_BODY_BYTES_MAX) or b"null")
        except urllib.error.HTTPError as error:
            raise _refuse(f"the API server answers {error.code} to {method} {path}") from error
        except (OSError, ValueError) as error:
            raise _refuse(f"the API server does not answer {method} {path}: {error}") from error

    def node(self, name: str) -> dict[str, Any]:
        return self.call("GET", f"/api/v1/nodes/{urllib.parse.quote(name, safe='')}")

    def pods_on(self, node: str) -> list[dict[str, Any]]:
        field = urllib.parse.quote(f"spec.nodeName={node}", safe="")
        return (self.call("GET", f"/api/v1/pods?fieldSelector={field}") or {}).get("items") or []


class Extender:
    """The two verbs, on decoded JSON."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._machines: dict[str, dict[str, Any]] = {}
        self._one = threading.Lock()  # two binds at once would take the same cores

    def filter(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """ExtenderArgs to ExtenderFilterResult."""
        try:
            wanted = requests_of(arguments.get("pod") or {})
            nodes = (arguments.get("nodes") or {}).get("items")
            names = arguments.get("nodenames")
            given = {node["metadata"]["name"]: node for node in nodes or []}
            names = list(given) if names is None else [str(name) for name in names]
        except InputError as error:
            return {"nodenames": [], "failedNodes": {}, "error": error.message}
        except (AttributeError, KeyError, TypeError):
            return {"nodenames": [], "failedNodes": {}, "error": "these are not arguments of an extender"}
        kept, failed = [], {}
        for name in names:
            try:
                if wanted:
                    machine = self._machine(given.get(name) or self._api.node(name))
                    place(machine, wanted, taken_cores(machine, self._api.pods_on(name)))
                kept.append(name)
            except InputError as error:
                failed[name] = error.message
            except _MALFORMED:
                failed[name] = _NO_OBJECTS
        result: dict[str, Any] = {"nodenames": kept, "failedNodes": failed, "error": ""}
        if nodes is not None:
            result["nodes"] = {"items": [given[name] for name in kept if name in given]}
        return result

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """ExtenderBindingArgs to ExtenderBindingResult."""
        try:
            name, space, node = (str(arguments[key]) for key in ("podName", "podNamespace", "node"))
        except (KeyError, TypeError):
            return {"error": "these are not arguments of a binding"}
        path = f"/api/v1/namespaces/{urllib.parse.quote(space, safe='')}/pods/{urllib.parse.quote(name, safe='')}"
        try:
            with self._one:
                pod = self._api.call("GET", path)
                machine = self._machine(self._api.node(node))
                placed = place(machine, requests_of(pod), taken_cores(machine, self._api.pods_on(node)))
                if notes := _annotations(machine, placed):
                    self._api.call(
                        "PATCH",
                        path,
                        {"metadata": {"annotations": notes}},
                        "application/strategic-merge-patch+json",
                    )
                self._api.call(
                    "POST", f"{path}/binding",
                    {"apiVersion": "v1", "kind": "Binding",
                     "metadata": {"name": name, "namespace": space, "uid": str(arguments.get("podUID", ""))},
                     "target": {"apiVersion": "v1", "kind": "Node", "name": node}},
                )  # fmt: skip
        except InputError as error:
            return {"error": error.message}
        except _MALFORMED:
            return {"error": _NO_OBJECTS}
        return {"error": ""}

    def _machine(self, node: dict[str, Any]) -> dict[str, Any]:
        labels = (node.get("metadata") or {}).get("labels") or {}
        kind = next((str(labels[label]) for label in _TYPE_LABELS if label in labels), None)
        if kind is None:
            raise _refuse(f"the node has no label {_TYPE_LABELS[0]}")
        if kind not in self._machines:
            try:
                self._machines[kind] = _core.machine_facts(kind)
            except ValueError as error:
                raise _refuse(f"{kind} is not an instance with Neuron devices") from error
        return self._machines[kind]


def _annotations(machine: dict[str, Any], placed: list[tuple[str, list[int]]]) -> dict[str, str]:
    devices = [number for kind, numbers in placed if kind == "device" for number in numbers]
    cores = [number for kind, numbers in placed if kind == "core" for number in numbers]
    cores += [core for index in devices for core in machine["devices"][index]["cores"]]
    if not cores:
        return {}
    return {CORES: ranges_text(cores)} | ({DEVICES: ranges_text(devices)} if devices else {})


def server(extender: Extender, host: str, port: int) -> ThreadingHTTPServer:
    """Bound and not yet serving. Raises InputError where the port cannot be had."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_POST(self) -> None:
            verb = {"/filter": extender.filter, "/bind": extender.bind}.get(self.path)
            length = self.headers.get("Content-Length", "")
            if verb is None or not length.isdecimal() or int(length) > _BODY_BYTES_MAX:
                self.send_error(404 if verb is None else 413)
                return
            try:
                arguments = json.loads(self.rfile.read(int(length)))
            except (ValueError, RecursionError):
                arguments = None
            if not isinstance(arguments, dict):
                self.send_error(400, "this is not a JSON object")
                return
            body = json.dumps(verb(arguments)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, text: str, *values: Any) -> None:  # pods' names are nobody's business
            return

    try:
        return ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise InputError(
            f"port {port} of {host}: {error.strerror}", label="tools.kubernetes", hint="choose another --port"
        ) from error


def run(api: str, host: str, port: int) -> int:
    """Until it is interrupted."""
    with server(Extender(Api(api)), host, port) as serving:
        print(f"filter and bind at http://{host}:{serving.server_address[1]}", file=sys.stderr)
        serving.serve_forever()
    return 0
