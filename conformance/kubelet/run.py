#!/usr/bin/env python3
"""The device plug-in speaks to stubs that are made of Kubernetes' own api.proto.

    ./dev conformance kubelet PROTO [--python PYTHON]

PROTO: staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto of kubernetes/kubernetes. No kubelet is at
hand: this plays one over a real unix socket, with code that protoc made, as Kubernetes' is. It registers, lists,
watches, prefers, allocates, loses a device and gets it back, and begins anew as a kubelet does that is started again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from conformance.environments import add_option, interpreter  # noqa: E402

PROGRAM = r"""
import os, queue, sys, threading, time
from concurrent import futures
from pathlib import Path
import grpc
sys.path.insert(0, sys.argv[1])
import api_pb2, api_pb2_grpc
folder = Path(sys.argv[2])
registered = queue.Queue()
class Kubelet(api_pb2_grpc.RegistrationServicer):
    def Register(self, request, context):
        registered.put(request)
        return api_pb2.Empty()
def start():
    server = grpc.server(futures.ThreadPoolExecutor(4))
    api_pb2_grpc.add_RegistrationServicer_to_server(Kubelet(), server)
    server.add_insecure_port(f"unix:{folder / 'kubelet.sock'}")
    server.start()
    return server
def plugins():
    found = {}
    for _ in range(2):
        request = registered.get(timeout=30)
        assert request.version == "v1beta1" and request.options.get_preferred_allocation_available, request
        found[request.resource_name] = grpc.insecure_channel(f"unix:{folder / request.endpoint}")
    assert set(found) == {"aws.amazon.com/neuron", "aws.amazon.com/neuroncore"}, found
    return {name: api_pb2_grpc.DevicePluginStub(channel) for name, channel in found.items()}
def done(text):
    print("ok    " + text, flush=True)
server = start()
print("READY", flush=True)
stubs = plugins()
done("both resources register")
listing = stubs["aws.amazon.com/neuron"].ListAndWatch(api_pb2.Empty())
first = next(listing)
assert len(first.devices) == 16 and {d.health for d in first.devices} == {"Healthy"}, first
cores = next(stubs["aws.amazon.com/neuroncore"].ListAndWatch(api_pb2.Empty()))
assert len(cores.devices) == 64, cores
done("16 devices and 64 cores are listed")
wish = api_pb2.PreferredAllocationRequest(container_requests=[api_pb2.ContainerPreferredAllocationRequest(
    available_deviceIDs=[d.ID for d in first.devices if d.ID not in ("0", "5")], allocation_size=4)])
(answer,) = stubs["aws.amazon.com/neuron"].GetPreferredAllocation(wish).container_responses
assert list(answer.deviceIDs) == ["8", "9", "10", "11"], answer
done("four devices are preferred as a row of the torus")
request = api_pb2.AllocateRequest(container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=answer.deviceIDs)])
(made,) = stubs["aws.amazon.com/neuron"].Allocate(request).container_responses
assert made.envs["NEURON_RT_VISIBLE_CORES"] == "32-47" and len(made.mounts) == 4, made
(made,) = stubs["aws.amazon.com/neuroncore"].Allocate(api_pb2.AllocateRequest(
    container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=["2", "3"])])).container_responses
assert made.envs["NEURON_RT_VISIBLE_CORES"] == "2-3" and made.mounts[0].container_path == "/dev/neuron0", made
done("allocations name files and cores")
try:
    stubs["aws.amazon.com/neuron"].Allocate(api_pb2.AllocateRequest(
        container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=["99"])]))
    raise SystemExit("an unknown device was allocated")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
done("an unknown device is refused")
lost = Path(sys.argv[3]) / "neuron3"
lost.rename(lost.with_name("away"))
changed = next(listing)
assert [d.ID for d in changed.devices if d.health == "Unhealthy"] == ["3"], changed
lost.with_name("away").rename(lost)
assert {d.health for d in next(listing).devices} == {"Healthy"}
done("a lost device is told, and that it is back")
server.stop(None).wait()
for file in folder.iterdir():
    file.unlink()
server = start()
stubs = plugins()
assert len(next(stubs["aws.amazon.com/neuron"].ListAndWatch(api_pb2.Empty())).devices) == 16
done("a kubelet that is started again has both resources again")
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("proto", metavar="PROTO", type=Path)
    add_option(parser, "grpcio-tools")
    options = parser.parse_args()
    python = options.python or str(interpreter("kubelet", "grpcio-tools"))
    environment = dict(
        os.environ, PYTHONPATH=str(ROOT / "python"), NEURON_PLATFORM_TARGET_OVERRIDE="trn2.48xlarge"
    )
    with tempfile.TemporaryDirectory(prefix="opentrn-k8s-") as name:
        folder = Path(name)
        for part in ("stubs", "plugins", "tree"):
            (folder / part).mkdir()
        (folder / "api.proto").write_bytes(options.proto.read_bytes())
        protoc = [python, "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={folder / 'stubs'}",
                  f"--grpc_python_out={folder / 'stubs'}", str(folder / "api.proto")]  # fmt: skip
        subprocess.run(protoc, check=True)
        opentrn = [sys.executable, "-m", "opentrn"]
        subprocess.run([*opentrn, "device-tree", "--root", str(folder / "tree")], env=environment, check=True)
        dev = folder / "tree" / "dev"
        kubelet = subprocess.Popen(
            [python, "-c", PROGRAM, str(folder / "stubs"), str(folder / "plugins"), str(dev)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert kubelet.stdout is not None
        assert kubelet.stdout.readline() == "READY\n"
        plugin = subprocess.Popen(
            [*opentrn, "kubernetes", "device-plugin", "--kubelet", str(folder / "plugins"), "--dev", str(dev)],
            env=environment,
        )  # fmt: skip
        try:
            out, _ = kubelet.communicate(timeout=120)
        finally:
            kubelet.kill()
            plugin.terminate()
            plugin.wait()
        print(out, end="")
        return kubelet.returncode


if __name__ == "__main__":
    sys.exit(main())
