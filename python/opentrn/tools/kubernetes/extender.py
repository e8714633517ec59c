"""The scheduler extender of Neuron nodes: HTTP verbs `filter` and `bind`, as kube-scheduler calls them.

filter keeps the nodes where the pod's containers find contiguous sets (src/monitor/node_sets.h) that no other pod of
the node has, and says of each other node why not. bind writes the chosen numbers into the pod's annotations
NEURON_CORES and NEURON_DEVICES, and binds it. What is taken is read from the annotations of the node's pods at each
call: nothing is kept here, so that nothing is stale after a restart. It speaks to the API server at an address that
needs no password, as `kubectl proxy` gives one.
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

_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_BODY_BYTES_MAX = 32 << 20
_API_S = 10.0
# What reading an answer raises that is no node and no pod.
_MALFORMED = (KeyError, TypeError, AttributeError)
_NO_OBJECTS = "the API server's answers are not nodes and pods"


def _refuse(message: str) -> InputError:
    return InputError(message, label="tools.kubernetes")


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
        self._machines: dict[str, _core.NodeMachine] = {}
        self._one = threading.Lock()  # two binds at once would take the same cores

    def filter(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """ExtenderArgs to ExtenderFilterResult."""
        try:
            pod = json.dumps(arguments.get("pod") or {})
            wanted = _core.wants_devices(pod)
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
                    machine.annotations(pod, json.dumps(self._api.pods_on(name)))
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
                if notes := json.loads(machine.annotations(json.dumps(pod), json.dumps(self._api.pods_on(node)))):
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

    def _machine(self, node: dict[str, Any]) -> _core.NodeMachine:
        labels = (node.get("metadata") or {}).get("labels") or {}
        kind = next((str(labels[label]) for label in _TYPE_LABELS if label in labels), None)
        if kind is None:
            raise _refuse(f"the node has no label {_TYPE_LABELS[0]}")
        if kind not in self._machines:
            try:
                self._machines[kind] = _core.NodeMachine(kind)
            except ValueError as error:
                raise _refuse(f"{kind} is not an instance with Neuron devices") from error
        return self._machines[kind]


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
