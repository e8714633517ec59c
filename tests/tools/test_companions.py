"""neuron-monitor-k8s-info with a kubelet over a unix socket, neuron-monitor-cloudwatch with a client that records."""

import datetime
import io
import json
import sys
from concurrent import futures

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentrn import _core
from opentrn.cli import main
from opentrn.errors import InputError
from opentrn.tools import cloudwatch, reports
from opentrn.tools.kubernetes import k8s_info, messages
from opentrn.tools.prometheus import Collector

NODE = _core.NodeMachine("trn2.48xlarge")
REPORT = {
    "neuron_runtime_data": [{"neuron_runtime_tag": "job", "report": {
        "neuroncore_counters": {"neuroncores_in_use": {"5": {"neuroncore_utilization": 50.0}}},
        "execution_stats": {"period": 1.0, "execution_summary": {"completed": 3},
                            "latency_stats": {"total_latency": {"p50": 0.25}}},
        "memory_used": {"neuron_runtime_used_bytes": {"host": 4096, "neuron_device": 64}}}}],
    "system_data": {}, "instance_info": {"instance_id": "i-1"}, "neuron_hardware_info": {},
}  # fmt: skip


def listing(*rows):
    """A ListPodResourcesResponse of (pod, container, resource, IDs)."""
    made = messages.classes_of("v1", "opentrn/podresources_v1.proto", k8s_info.MESSAGES)
    response = made["ListPodResourcesResponse"]()
    for pod, container, resource, ids in rows:
        to = response.pod_resources.add(name=pod, namespace="jobs").containers.add(name=container)
        to.devices.add(resource_name=resource, device_ids=ids)
    return response


@pytest.fixture
def kubelet(tmp_path):
    """Serves PodResources; what it lists may be changed."""
    grpc = messages.grpc_module()
    state = {"bytes": b"", "calls": 0}

    def answer(request, context):
        state["calls"] += 1
        return state["bytes"]

    handler = grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=bytes, response_serializer=lambda content: content
    )
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler}),)
    )
    state["socket"] = tmp_path / "kubelet.sock"
    server.add_insecure_port(f"unix:{state['socket']}")
    server.start()
    yield state
    server.stop(None).wait()


def test_pods_by_core_and_device():
    response = listing(
        ("p0", "c0", "aws.amazon.com/neuroncore", ["5", "6"]), ("p1", "c1", "aws.amazon.com/neuron", ["3"]),
        ("p2", "c2", "nvidia.com/gpu", ["0"]), ("p3", "c3", "aws.amazon.com/neuron", ["99", "x", "-1"]),
    )  # fmt: skip
    info = k8s_info.info_of(response, NODE, 15.0)
    assert set(info["neuroncores_k8s_info"]) == {"5", "6", "12", "13", "14", "15"}
    assert set(info["neurondevices_k8s_info"]) == {"1", "3"}
    assert info["neuroncores_k8s_info"]["5"] == {
        "pod_name": "p0", "namespace": "jobs", "container_name": ["c0"]
    }  # fmt: skip
    assert list(info) == ["period", "neuroncores_k8s_info", "neurondevices_k8s_info", "error"]


def test_reports_get_the_pods_of_a_kubelet(kubelet, monkeypatch, capsys):
    kubelet["bytes"] = listing(("p0", "c0", "aws.amazon.com/neuroncore", ["5"])).SerializeToString()
    monkeypatch.setattr(sys, "stdin", io.StringIO(3 * (json.dumps(REPORT) + "\n") + "[]\n"))
    words = ["neuron-monitor-k8s-info", "--instance", "trn2.48xlarge", "--socket", str(kubelet["socket"])]
    assert main([*words, "--period", "3600"]) == 0
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert len(lines) == 3 and kubelet["calls"] == 1  # once in a period
    assert lines[2]["neuron_k8s_info"]["neuroncores_k8s_info"]["5"]["pod_name"] == "p0"
    assert "not a report" in said.err
    collector = Collector()
    collector.take(lines[0])
    labels = {s.name: s.labels for metric in collector.collect() for s in metric.samples}
    assert labels["neuroncore_utilization_ratio"]["pod_name"] == "p0"
    assert "pod_name" not in labels["neuron_runtime_memory_used_bytes"]


def test_a_kubelet_that_does_not_answer_is_told_in_the_report(tmp_path):
    info = k8s_info.Kubelet(tmp_path / "none.sock", 15.0, "trn2.48xlarge").info()
    assert "does not answer: UNAVAILABLE" in info["error"] and info["neuroncores_k8s_info"] == {}


@given(st.binary(max_size=200))
def test_any_bytes_of_a_kubelet_are_read_or_no_message(content):
    made = messages.classes_of("v1", "opentrn/podresources_v1.proto", k8s_info.MESSAGES)
    try:
        response = made["ListPodResourcesResponse"].FromString(content)
    except Exception as error:  # protobuf's DecodeError, which gRPC turns into a status
        assert type(error).__name__ == "DecodeError"
        return
    assert k8s_info.info_of(response, NODE, 1.0)["error"] == ""


@pytest.mark.parametrize("period", ["0", "nan", "-1", "1e9"])
def test_a_period_that_is_none_is_refused(period, capsys):
    assert main(["neuron-monitor-k8s-info", f"--period={period}"]) == 2
    assert "--period" in capsys.readouterr().err


class Client:
    def __init__(self, error=None):
        self.requests, self.error = [], error

    def put_metric_data(self, **request):
        self.requests.append(request)
        if self.error:
            raise self.error


def test_metrics_of_cloudwatch():
    at = datetime.datetime.now(datetime.timezone.utc)
    data = {entry["MetricName"]: entry for entry in cloudwatch.data_of(REPORT, at)}
    core = data["neuroncore_utilization_ratio"]
    assert (core["Value"], core["Unit"], core["Timestamp"]) == (0.5, "None", at)
    assert core["Dimensions"] == [
        {"Name": "instance_id", "Value": "i-1"}, {"Name": "neuroncore", "Value": "5"},
        {"Name": "runtime_tag", "Value": "job"},
    ]  # fmt: skip
    units = {name: entry["Unit"] for name, entry in data.items()}
    assert units["neuron_runtime_memory_used_bytes"] == "Bytes" and units["execution_status_total"] == "Count"
    assert units["execution_latency_seconds"] == "Seconds"


def test_an_error_of_the_service_is_told_without_what_it_says(capsys):
    failed = type("ClientError", (Exception,), {"__module__": "botocore.exceptions"})("SECRET in a request")
    failed.response = {"Error": {"Code": "AccessDenied", "Message": "SECRET"}}
    client = Client(failed)
    cloudwatch.send(client, "n", [{}, {}])
    said = capsys.readouterr().err
    assert "2 values are lost: AccessDenied" in said and "SECRET" not in said
    with pytest.raises(ZeroDivisionError):
        cloudwatch.send(Client(ZeroDivisionError()), "n", [{}])


@pytest.mark.parametrize(
    ("namespace", "region", "message"),
    [("AWS/EC2", "us-west-2", "--namespace"), ("", "us-west-2", "--namespace"), ("n", "http://x", "--region")],
)
def test_words_of_cloudwatch_that_are_wrong(namespace, region, message, capsys):
    assert main(["neuron-monitor-cloudwatch", "--namespace", namespace, "--region", region]) == 2
    assert message in capsys.readouterr().err


@given(st.recursive(st.none() | st.floats() | st.text(max_size=3), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["neuron_runtime_data", "report", "system_data", "instance_info", "neuron_hw_counters"]), inner)))
def test_any_json_is_a_report_or_passed_over(value):
    line = json.dumps(value)
    stdin, sys.stdin = sys.stdin, io.StringIO(line + "\n")
    try:
        assert reports.each("test", lambda report: list(cloudwatch.data_of(report, None))) == 0
    finally:
        sys.stdin = stdin
    with pytest.raises(InputError):
        cloudwatch.run("AWS/x", "us-west-2")
