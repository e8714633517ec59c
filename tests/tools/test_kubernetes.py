"""The device plug-in against a kubelet over a unix socket, the extender against an API server, resource slices.

Sets of devices, pods and claims: src/monitor/node_sets_test.cc and resource_slices_test.cc.
"""

import json
import os
import queue
import threading
import urllib.error
import urllib.request
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentrn import _core
from opentrn.cli import main
from opentrn.errors import InputError
from opentrn.tools.kubernetes import extender, messages

TRN2 = _core.machine_facts("trn2.48xlarge")


# -- device plug-in


class Kubelet:
    """Plays the kubelet: its socket takes registrations, and it calls the plug-in's."""

    def __init__(self, folder):
        self.folder = folder
        self.registered = queue.Queue()
        self.server = None

    def start(self):
        grpc, made = messages.grpc_module(), messages.classes()

        def register(request, context):
            self.registered.put(request)
            return made["Empty"]()

        handler = grpc.unary_unary_rpc_method_handler(
            register, request_deserializer=made["RegisterRequest"].FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )  # fmt: skip
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler}),)
        )
        self.server.add_insecure_port(f"unix:{self.folder / 'kubelet.sock'}")
        self.server.start()

    def stop(self):
        self.server.stop(None).wait()
        for file in list(self.folder.iterdir()):
            file.unlink()

    def endpoint(self):
        return self.registered.get(timeout=20)

    def call(self, endpoint, method, request):
        grpc, made = messages.grpc_module(), messages.classes()
        _, _, answer, streams = next(row for row in messages.SERVICES["DevicePlugin"] if row[0] == method)
        channel = grpc.insecure_channel(f"unix:{self.folder / endpoint}")
        make = channel.unary_stream if streams else channel.unary_unary
        call = make(
            messages.path_of("DevicePlugin", method), response_deserializer=made[answer].FromString,
            request_serializer=lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
        )  # fmt: skip
        return call(request, timeout=20)


@pytest.fixture
def kubelet(tmp_path):
    (tmp_path / "k").mkdir()
    (tmp_path / "dev").mkdir()
    for number in range(16):
        (tmp_path / "dev" / f"neuron{number}").touch()
    made = Kubelet(tmp_path / "k")
    made.start()
    yield made
    made.server.stop(None).wait()


def test_the_plug_in_with_a_kubelet(kubelet, tmp_path):
    from opentrn.tools.kubernetes.device_plugin import Plugin

    made = messages.classes()
    plugin = Plugin("trn2.48xlarge", kubelet.folder, tmp_path / "dev", ("neuron", "neuroncore"))
    plugin.start()
    try:
        requests = [kubelet.endpoint() for _ in range(2)]
        assert [r.resource_name for r in requests] == ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore"]
        assert all(r.version == "v1beta1" for r in requests)
        devices, cores = (r.endpoint for r in requests)
        assert (kubelet.folder / devices).stat().st_mode & 0o077 == 0
        options = kubelet.call(devices, "GetDevicePluginOptions", made["Empty"]())
        assert options.get_preferred_allocation_available and not options.pre_start_required

        watch = kubelet.call(devices, "ListAndWatch", made["Empty"]())
        first = next(watch)
        assert [d.ID for d in first.devices] == [str(i) for i in range(16)]
        assert {d.health for d in first.devices} == {"Healthy"}
        assert int(TRN2["devices"][0]["numa_node"]) == first.devices[0].topology.nodes[0].ID
        assert len(next(kubelet.call(cores, "ListAndWatch", made["Empty"]())).devices) == 64

        wish = made["PreferredAllocationRequest"]()
        wish.container_requests.add(
            available_deviceIDs=[str(i) for i in range(16) if i not in (1, 6)], allocation_size=4
        )
        answer = kubelet.call(devices, "GetPreferredAllocation", wish)
        assert list(answer.container_responses[0].deviceIDs) == ["8", "9", "10", "11"]

        asked = made["AllocateRequest"]()
        asked.container_requests.add(devices_ids=["9", "8"])
        (got,) = kubelet.call(devices, "Allocate", asked).container_responses
        assert got.envs["NEURON_RT_VISIBLE_CORES"] == "32-39"
        assert got.envs["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn2.48xlarge"
        assert [m.container_path for m in got.mounts] == ["/dev/neuron8", "/dev/neuron9"] and got.mounts[
            0
        ].read_only
        asked = made["AllocateRequest"]()
        asked.container_requests.add(devices_ids=["5", "7"])
        (got,) = kubelet.call(cores, "Allocate", asked).container_responses
        assert got.envs["NEURON_RT_VISIBLE_CORES"] == "5,7" and got.mounts[0].container_path == "/dev/neuron1"

        # A lost device is told to whoever watches, and is not given out.
        (tmp_path / "dev" / "neuron3").unlink()
        plugin.look()
        assert [d.ID for d in next(watch).devices if d.health == "Unhealthy"] == ["3"]
        grpc = messages.grpc_module()
        for ids, why in (
            (["3"], "device 3 is lost"),
            (["99"], "no neuron '99'"),
            (["1", "1"], "twice"),
            ([], "no devices"),
        ):
            asked = made["AllocateRequest"]()
            asked.container_requests.add(devices_ids=ids)
            with pytest.raises(grpc.RpcError) as refused:
                kubelet.call(devices, "Allocate", asked)
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT and why in refused.value.details()
        (tmp_path / "dev" / "neuron3").touch()
        plugin.look()
        assert {d.health for d in next(watch).devices} == {"Healthy"}

        # Bytes that are no message end the call and nothing else.
        with pytest.raises(grpc.RpcError):
            kubelet.call(devices, "Allocate", b"\xff\xff\xff")
        kubelet.call(devices, "GetDevicePluginOptions", made["Empty"]())

        # The kubelet is started again, and the folder is emptied.
        kubelet.stop()
        assert plugin.look() is False
        kubelet.start()
        assert plugin.look() is True
        again = [kubelet.endpoint() for _ in range(2)]
        assert next(kubelet.call(again[0].endpoint, "ListAndWatch", made["Empty"]())).devices[15].ID == "15"
    finally:
        plugin.stop()
    assert [path.name for path in kubelet.folder.iterdir()] == ["kubelet.sock"]


def test_without_a_kubelet_it_says_so(tmp_path):
    from opentrn.tools.kubernetes.device_plugin import Plugin

    with pytest.raises(InputError, match=r"kubelet\.sock is not there"):
        Plugin("trn2.48xlarge", tmp_path, tmp_path, ("neuron",)).start()


def test_a_character_device_is_handed_on_as_one(tmp_path):
    from opentrn.tools.kubernetes.device_plugin import Node, Resource

    if os.geteuid() != 0:
        pytest.skip("device files need root")
    try:
        os.mknod(tmp_path / "neuron0", 0o020600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this system lets nobody make device files")
    resource = Resource(Node(TRN2, tmp_path), "neuron")
    made = resource.allocation(["0"])
    assert (made.devices[0].host_path, made.devices[0].permissions) == (str(tmp_path / "neuron0"), "mrw")
    assert not resource.allocation(["1"]).devices and not resource.allocation(["1"]).mounts


# -- extender


def pod(name="p", node="", phase="Pending", notes=None, **limits):
    names = {f"aws.amazon.com/{key}": str(value) for key, value in limits.items()}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": notes or {}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": names}}]},
        "status": {"phase": phase},
    }


class ApiServer:
    """Nodes and pods behind the paths that the extender asks for."""

    def __init__(self, nodes, pods):
        self.nodes = {name: {"metadata": {"name": name, "labels": labels}} for name, labels in nodes.items()}
        self.pods = {each["metadata"]["name"]: each for each in pods}
        self.bound = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self, body, status=200):
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def body(self):
                return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

            def do_GET(self):
                if self.path.startswith("/api/v1/nodes/"):
                    node = outer.nodes.get(self.path.rpartition("/")[2])
                    return self.answer(node or {}, 200 if node else 404)
                if "fieldSelector" in self.path:
                    name = self.path.rpartition("%3D")[2]
                    return self.answer(
                        {"items": [p for p in outer.pods.values() if p["spec"]["nodeName"] == name]}
                    )
                found = outer.pods.get(self.path.rpartition("/")[2])
                return self.answer(found or {}, 200 if found else 404)

            def do_PATCH(self):
                assert self.headers["Content-Type"] == "application/strategic-merge-patch+json"
                found = outer.pods[self.path.rpartition("/")[2]]
                found["metadata"]["annotations"].update(self.body()["metadata"]["annotations"])
                self.answer(found)

            def do_POST(self):
                body = self.body()
                assert self.path.endswith(f"/pods/{body['metadata']['name']}/binding")
                outer.bound.append((body["metadata"]["name"], body["target"]["name"]))
                outer.pods[body["metadata"]["name"]]["spec"]["nodeName"] = body["target"]["name"]
                self.answer({})

            def log_message(self, *_):
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_address[1]}"


LABEL = "node.kubernetes.io/instance-type"


@pytest.fixture
def cluster():
    pods = [
        pod("holds", node="busy", phase="Running", notes={"NEURON_CORES": "0-3"}, neuron=1),
        pod("ended", node="busy", phase="Succeeded", notes={"NEURON_CORES": "4-63"}, neuron=8),
        pod("wants", neuron=8), pod("seven", neuron=7), pod("cores", neuroncore=2), pod("all", neuron=16), pod("plain"),
    ]  # fmt: skip
    nodes = {
        "busy": {LABEL: "trn2.48xlarge"},
        "idle": {LABEL: "trn2.48xlarge"},
        "cpu": {LABEL: "m5.large"},
        "bare": {},
    }
    api = ApiServer(nodes, pods)
    serving = extender.server(extender.Extender(extender.Api(api.url)), "127.0.0.1", 0)
    threading.Thread(target=serving.serve_forever, daemon=True).start()

    def ask(verb, body, raw=False):
        data = body if raw else json.dumps(body).encode()
        url = f"http://127.0.0.1:{serving.server_address[1]}/{verb}"
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=20) as answer:
            return json.load(answer)

    yield api, ask
    serving.shutdown()
    serving.server_close()
    api.http.shutdown()
    api.http.server_close()


def test_filter_keeps_nodes_with_contiguous_sets(cluster):
    api, ask = cluster
    names = list(api.nodes)
    found = ask("filter", {"pod": api.pods["all"], "nodenames": names})
    assert found["nodenames"] == ["idle"] and found["error"] == ""
    assert found["failedNodes"] == {
        "busy": "no contiguous set of 16 devices is free",
        "cpu": "m5.large is not an instance with Neuron devices",
        "bare": f"the node has no label {LABEL}",
    }
    assert ask("filter", {"pod": api.pods["wants"], "nodenames": names})["nodenames"] == ["busy", "idle"]
    assert ask("filter", {"pod": api.pods["plain"], "nodenames": names})["nodenames"] == names
    found = ask("filter", {"pod": api.pods["seven"], "nodenames": ["idle"]})
    assert found["failedNodes"]["idle"].startswith(
        "Instance type trn2.48xlarge does not support requests for device: 7."
    )
    found = ask(
        "filter", {"pod": api.pods["wants"], "nodes": {"items": [api.nodes["idle"], api.nodes["cpu"]]}}
    )
    assert [node["metadata"]["name"] for node in found["nodes"]["items"]] == ["idle"]


def test_bind_annotates_and_binds_without_overlap(cluster):
    api, ask = cluster
    for name in ("wants", "cores"):
        assert ask("bind", {"podName": name, "podNamespace": "default", "podUID": "u", "node": "busy"}) == {
            "error": ""
        }
    notes = [api.pods[name]["metadata"]["annotations"] for name in ("wants", "cores")]
    assert notes == [{"NEURON_CORES": "32-63", "NEURON_DEVICES": "8-15"}, {"NEURON_CORES": "4-5"}]
    assert api.bound == [("wants", "busy"), ("cores", "busy")]
    refused = ask("bind", {"podName": "all", "podNamespace": "default", "podUID": "u", "node": "busy"})
    assert refused == {"error": "no contiguous set of 16 devices is free"} and len(api.bound) == 2
    assert (
        "answers 404"
        in ask("bind", {"podName": "nobody", "podNamespace": "d", "podUID": "", "node": "busy"})["error"]
    )


def test_what_is_no_request_is_answered(cluster):
    _, ask = cluster
    for raw, status in ((b"{", 400), (b"[]", 400), (b"[" * 100_000, 400)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask("filter", raw, raw=True)
        assert refused.value.code == status
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask("other", {})
    assert refused.value.code == 404
    assert ask("bind", {})["error"] and ask("filter", {"pod": 3, "nodenames": []})["error"]
    assert (
        ask("filter", {"pod": pod(neuron="1.5"), "nodenames": ["idle"]})["error"]
        == "'1.5' is not a number of devices"
    )
    both = ask("filter", {"pod": pod(neuron=1, neuroncore=1), "nodenames": ["idle"]})
    assert "one of them" in both["error"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["pod", "spec",
                                       "containers", "resources", "limits", "nodenames", "nodes", "items",
                                       "metadata", "aws.amazon.com/neuron"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(JSON)
def test_any_arguments_are_answered(arguments):
    if not isinstance(arguments, dict):
        return

    class NoApi:
        def node(self, name):
            raise InputError("no node", label="tools.kubernetes")

    found = extender.Extender(NoApi()).filter(arguments)
    assert set(found) >= {"nodenames", "failedNodes", "error"}
    assert extender.Extender(NoApi()).bind(arguments)["error"]


def test_an_address_that_is_none():
    with pytest.raises(InputError, match="kubectl proxy"):
        extender.Api("file:///etc/passwd")
    with pytest.raises(InputError, match="does not answer"):
        extender.Api("http://127.0.0.1:9").node("x")


# -- resource slices


def test_slices_are_published_as_objects(capsys):
    words = ["--node", "node-a", "--instance", "trn2.48xlarge", "--driver-version", "2.25.4.0"]
    assert main(["kubernetes", "resource-slices", *words]) == 0
    device_class, made = json.loads(capsys.readouterr().out)["items"]
    assert device_class["kind"] == "DeviceClass" and made["metadata"]["name"] == "node-a-neuron"
    assert len(made["spec"]["devices"]) == 16
    for node, version in (("Node A", "2.25"), ("a", "two")):
        words = ["--node", node, "--driver-version", version]
        assert main(["kubernetes", "resource-slices", *words]) == 2


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_selector_is_read_or_refused(text):
    machine = _core.NodeMachine("trn2.48xlarge")
    exactly = {"deviceClassName": "neuron.aws.com", "selectors": [{"cel": {"expression": text}}]}
    claim = {"devices": {"requests": [{"name": "neurons", "exactly": exactly}]}}
    try:
        _core.allocate_claim(json.dumps(claim), machine.resource_slices("node-a"))
    except InputError as error:
        assert error.label == "tools.kubernetes"
