"""What AWS's tools and the services read, damaged at random: an answer, or an input error with a label.

    python -m tests.fuzz.fuzz_tools --seconds N | --cpu-seconds N --seed S [--only TARGET] [--case SEED]

Targets: command lines of neuronx-cc, neuron_parallel_compile and neuron-explorer, NEURON_CC_FLAGS; traces and folders
of profiles; reports of neuron-monitor as its companions and neuron-top read them; records of processes; pods, nodes and
claims of Kubernetes, messages of the kubelet; names and devices of Slurm; the manifest of an installation; job files of
AWS's services. The first case that breaks this promise ends the run with status 1 and is named.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [os.environ.get("OPENTRN_PYTHON_ROOT", str(ROOT / "python")), str(ROOT)]

from opentrn import _core  # noqa: E402
from opentrn.errors import InputError, NotModelled  # noqa: E402
from opentrn.tools import (  # noqa: E402
    cloudwatch,
    explorer,
    explorer_session,
    install,
    neuronx_cc,
    parallel_compile,
    slurm,
    top,
)
from opentrn.tools.kubernetes import extender, k8s_info, messages  # noqa: E402
from opentrn.tools.kubernetes.device_plugin import Node, Resource  # noqa: E402
from opentrn.tools.prometheus import Collector  # noqa: E402
from opentrn.tools.reports import NO_REPORT  # noqa: E402
from tests.fuzz import watchdog  # noqa: E402

CASE_SECONDS = 30
MACHINES = [_core.machine_facts(name) for name in ("trn2.48xlarge", "trn1.32xlarge", "inf2.48xlarge", "trn1.2xlarge")]
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 1.5, float("nan"), float("inf"), -0.0, 1e308, "", "0",
    "-1", "x", "\x00", "\n", "\ud7ff", "9" * 30, "٣", "²", "a" * 300, [], {}, [[]], [None], {"": None},
]  # fmt: skip


class Broken(Exception):
    """A promise that was broken."""


@contextlib.contextmanager
def refusals(*more: type[Exception]) -> Iterator[None]:
    """An input error with a label is an answer, and so are `more`."""
    try:
        yield
    except (InputError, NotModelled) as error:
        if not getattr(error, "label", ""):
            raise Broken(f"no label: {error}") from error
    except more:
        return


# -- damage


def any_value(rng: random.Random, depth: int = 2) -> Any:
    kind = rng.randrange(4 if depth else 2)
    if kind == 2:
        return [any_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    if kind == 3:
        return {str(rng.choice(ODD)): any_value(rng, depth - 1) for _ in range(rng.randrange(3))}
    return copy.deepcopy(rng.choice(ODD))


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside of another."""
    found, left = [], [value]
    while left:
        each = left.pop()
        items = each.items() if isinstance(each, dict) else enumerate(each if isinstance(each, list) else ())
        for key, inner in list(items):
            found.append((each, key))
            left.append(inner)
    return found


def damaged(rng: random.Random, value: Any) -> Any:
    """A copy with up to three values replaced, taken away, repeated or under another key."""
    value = copy.deepcopy(value)
    for _ in range(rng.randrange(4)):
        found = places(value)
        if not found:
            return any_value(rng)
        where, key = rng.choice(found)
        kind = rng.randrange(5)
        if kind == 0:
            del where[key]
        elif kind == 1 and isinstance(where, dict):
            where[str(rng.choice(ODD))] = where.pop(key)
        elif kind == 2 and isinstance(where, list):
            where.append(copy.deepcopy(where[key]))
        else:
            where[key] = any_value(rng)
    return value


def with_odd_texts(rng: random.Random, value: Any) -> Any:
    """A copy with other texts in place of texts."""
    value = copy.deepcopy(value)
    for where, key in places(value):
        if isinstance(where[key], str) and rng.randrange(3) == 0:
            where[key] = rng.choice([each for each in ODD if isinstance(each, str)] + ["\x1b[2J", "\u202e", "\t"])
    return value


def damaged_bytes(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(1 + rng.randrange(5)):
        start = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            del data[start : start + rng.randrange(24)]
        elif kind == 1:
            data[start:start] = rng.randbytes(rng.randrange(12))
        elif kind == 2 and start < len(data):
            data[start] ^= 1 << rng.randrange(8)
        else:
            data[start:start] = rng.choice([b"{", b"}", b"[", b'"', b"1e999", b"\xff", b"null", b"-", b"[" * 2000])
    return bytes(data)


def words_of(rng: random.Random, known: list[str]) -> list[str]:
    """Words of a command line: known ones, pieces of them, odd ones."""
    words = []
    for _ in range(rng.randrange(8)):
        word = rng.choice(known)
        kind = rng.randrange(6)
        if kind == 0:
            word = str(rng.choice(ODD))
        elif kind == 1:
            word = word[: rng.randrange(len(word) + 1)]
        elif kind == 2:
            word = f"{word}={rng.choice(known)}"
        elif kind == 3:
            word = word.replace("-", rng.choice(["", "--", "\u2014", "_"]), 1)
        words.append(word)
    return words


# -- targets

NEURONX_CC = [
    "compile", "model.hlo", "--framework", "XLA", "--target", "trn2", "--output", "-O1", "-O", "--optlevel", "3",
    "-lnc", "2", "--auto-cast", "matmult", "--auto-cast-type", "bf16", "--verbose", "35", "--pipeline", "SaveTemps",
    "--model-type", "transformer", "--native-int64", "enabled", "--internal-x", "--logfile",
    "--distribution-strategy", "'", '"',
]  # fmt: skip


def command_line(rng: random.Random) -> None:
    words = words_of(rng, NEURONX_CC)
    with refusals():
        command = _core.neuronx_cc(words)
        if command.command == "compile":
            if not command.model or not command.target:
                raise Broken("a command line without a model")
            neuronx_cc._options(command.flags, command.target)
    with refusals():
        _core.cache_dir_of_flags(" ".join(words))
    with refusals():
        _core.has_compiler_flag(" ".join(words), "--retry_failed_compilation")
    with refusals():
        _core.compiler_flags(" ".join(words))


def parallel_words(rng: random.Random) -> None:
    known = ["--command", "collect", "compile", "clean", "analyze", "--analyze-output", "out", "--analyze-verbosity",
             "2", "--command=clear-locks", "python", "train.py"]  # fmt: skip
    with refusals():
        found = _core.parallel_compile(words_of(rng, known))
        if found.verbosity not in (1, 2):
            raise Broken(f"verbosity {found.verbosity}")
    with tempfile.TemporaryDirectory() as place:
        graph = Path(place) / "model.mlir"
        options = damaged_bytes(rng, b'{"target": "trn2", "options": {"optlevel": "2"}}')
        (Path(place) / "options.json").write_bytes(options)
        with refusals():
            target, texts = parallel_compile._options_of(graph)
            if not all(isinstance(text, str) for text in (*texts, *texts.values())):
                raise Broken(f"options {texts!r} for {target}")


TRACE = {
    "otherData": {"is_simulation": "true"},
    "traceEvents": [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 1000, "args": {"name": "Tensor"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 2000, "args": {"name": "qsync +1"}},
        {"ph": "X", "name": "nc_matmul", "pid": 0, "tid": 1000, "ts": 0.5, "dur": 1.25,
         "args": {"instruction": 3, "stall_ns": 7.0, "source": "k.py:3", "flops": 128.0}},
        {"ph": "X", "name": "dma", "pid": 0, "tid": 2000, "ts": 0, "dur": 1, "args": {"bytes": 64, "instruction": 1}},
    ],
}  # fmt: skip


def trace(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "p.ntff"
        if rng.randrange(2):
            path.write_bytes(damaged_bytes(rng, json.dumps(TRACE).encode()))
        else:
            path.write_text(json.dumps(damaged(rng, TRACE)))
        with refusals():
            rows = explorer.tables_of(path)
            if not rows["Metadata"][0]["is_simulation"]:
                raise Broken("a profile that claims to be measured")
            _core.explorer_summary(path, "0")
            explorer.write_parquet(rows, Path(place) / "t")


SESSION: dict[str, Any] = {
    "trace_info.json": {"format": "opentrn-inspect-1", "pid": 5, "is_simulation": True},
    "ntrace.json": {"events": [
        {"name": "nrt_execute", "type": "software", "group": "nrt-nc-000", "id": 1, "nc_idx": 0, "timestamp": 10,
         "duration": 3, "model_id": "1"},
        {"name": "nc_exec_running", "type": "hardware", "id": 2, "nc_idx": 1, "timestamp": 10, "duration": 3,
         "nc_timestamp_ns": 0}]},
    "host_mem.json": {"mem_usage": [{"timestamp": 1, "resident_bytes": 2}]},
    "cpu_util.json": {"cpu_util": [{"timestamp": 1, "user_ns": 2, "system_ns": 3}]},
}  # fmt: skip


def session(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "simulated_pid_5"
        folder.mkdir()
        for name, content in SESSION.items():
            text = json.dumps(damaged(rng, content) if rng.randrange(3) == 0 else content).encode()
            (folder / name).write_bytes(damaged_bytes(rng, text) if rng.randrange(6) == 0 else text)
        profile = damaged(rng, TRACE) if rng.randrange(3) == 0 else TRACE
        (folder / "1_instid_0_vnc_0.ntff").write_text(json.dumps(profile))
        filters = explorer_session.Filters()
        filters.cores = rng.choice(["", "0", "0,1", ",", "-1", "x", "٣"])
        grouping = explorer_session.Grouping(rng.choice(["instance_id", "", "process_id,lnc_idx", "thread_id"]))
        for form in explorer.FORMATS:
            with refusals(), contextlib.redirect_stdout(io.StringIO()):
                explorer_session.view(Path(place), form, Path(place) / "o" / "o", filters, grouping)


REPORT: dict[str, Any] = {
    "neuron_runtime_data": [{"pid": 3, "neuron_runtime_tag": "job", "error": "", "report": {
        "neuroncore_counters": {"period": 1.0, "neuroncores_in_use": {"5": {"neuroncore_utilization": 50.0, "flops": 3,
            "v3d": {"nc_v3.10": {"neuroncore_utilization": 50.0}}}}, "error": ""},
        "execution_stats": {"period": 1.0, "error_summary": {"generic": 0}, "execution_summary": {"completed": 3},
            "latency_stats": {"total_latency": {"p50": 0.25}, "device_latency": None}},
        "memory_used": {"neuron_runtime_used_bytes": {"host": 4096, "neuron_device": 64, "usage_breakdown": {
            "host": {"application_memory": 1}, "neuroncore_memory_usage": {"5": {"constants": 1, "tensors": 2}}}},
            "loaded_models": [{"name": "m", "model_id": 1, "subgraphs": {"sg_00": {"neuroncore_index": 5,
                "neuron_device_index": 1, "memory_used_bytes": {"host": 0, "neuron_device": 3}}}}]},
        "neuron_runtime_vcpu_usage": {"vcpu_usage": {"user": 1.0, "system": 2.0}}}}],
    "system_data": {"memory_info": {"memory_total_bytes": 9, "memory_used_bytes": 3},
        "vcpu_usage": {"average_usage": {"user": 1.0}, "usage_data": {"0": {}}},
        "neuron_hw_counters": {"neuron_devices": [{"neuron_device_index": 0, "mem_ecc_corrected": 0}]}},
    "instance_info": {"instance_id": "i-1", "instance_type": "trn2.48xlarge"},
    "neuron_hardware_info": {"neuron_device_count": 16},
    "neuron_k8s_info": {"neuroncores_k8s_info": {"5": {"pod_name": "p", "namespace": "n", "container_name": ["c"]}}},
}  # fmt: skip


def report(rng: random.Random) -> None:
    """What a companion does not take is passed over: one of the exceptions that reports.each() knows, and no other."""
    value = damaged(rng, REPORT)
    if not isinstance(value, dict):
        return
    with contextlib.suppress(*NO_REPORT):
        collector = Collector()
        collector.take(value)
        list(collector.collect())
    with contextlib.suppress(*NO_REPORT):
        for datagram in _core.statsd_datagrams(json.dumps(value), "neuron", rng.randrange(2) == 0):
            if not all(line.startswith("neuron.") for line in datagram.split("\n")):
                raise Broken(f"a line of two: {datagram!r}")
    with contextlib.suppress(*NO_REPORT):
        for entry in cloudwatch.data_of(value, None):  # type: ignore[arg-type]
            if not all(row["Value"] for row in entry["Dimensions"]):
                raise Broken(f"an empty dimension: {entry}")
    view = _core.TopView("trn2.48xlarge")
    with contextlib.suppress(*NO_REPORT):  # one that Python reads and that is no JSON, as a NaN
        view.screen(json.dumps(value), "neuron-top", rng.randrange(120), rng.randrange(50))
    odd = json.dumps(with_odd_texts(rng, REPORT))
    lines = top.screen(odd, view, 20 + rng.randrange(100), 5 + rng.randrange(40))
    if any("\x1b" in text or "\n" in text for line in lines for text, _ in line):
        raise Broken("a control character on the terminal")


def records(rng: random.Random) -> None:
    """The folder that every process of the user writes to: any files may lie there."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        folder.mkdir(mode=0o700)
        for number in range(rng.randrange(4)):
            name = rng.choice(["1", "99999999", str(os.getpid()), "x", "-1", "0"]) + rng.choice(["", str(number)])
            (folder / name).write_bytes(rng.choice([b"OTRNRUN1", b""]) + rng.randbytes(rng.choice([0, 10, 40_000])))
        before = os.environ.get("OPENTRN_RUN_DIR")
        os.environ["OPENTRN_RUN_DIR"] = str(folder)
        try:
            with refusals():
                _core.device_processes()
        finally:
            if before is None:
                del os.environ["OPENTRN_RUN_DIR"]
            else:
                os.environ["OPENTRN_RUN_DIR"] = before


POD: dict[str, Any] = {
    "metadata": {"name": "p", "annotations": {"NEURON_CORES": "0-3,7"}}, "status": {"phase": "Running"},
    "spec": {"containers": [{"resources": {"limits": {"aws.amazon.com/neuron": 4, "aws.amazon.com/neuroncore": "2"}}}]},
}  # fmt: skip
NODE = {"metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": "trn2.48xlarge"}}}


class Cluster:
    """An API server whose answers are damaged too."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def call(self, method: str, path: str, body: Any = None, kind: str = "") -> Any:
        return damaged(self._rng, POD)

    def node(self, name: str) -> Any:
        return damaged(self._rng, NODE)

    def pods_on(self, node: str) -> Any:
        return [damaged(self._rng, POD) for _ in range(self._rng.randrange(3))]


def scheduler(rng: random.Random) -> None:
    arguments = damaged(rng, {"pod": POD, "nodenames": ["n", "m"], "nodes": {"items": [NODE]}})
    binding = damaged(rng, {"podName": "p", "podNamespace": "d", "podUID": "u", "node": "n"})
    serving = extender.Extender(Cluster(rng))  # type: ignore[arg-type]
    for verb, value in ((serving.filter, arguments), (serving.bind, binding)):
        if isinstance(value, dict):
            answer = verb(value)
            json.dumps(answer)
            if not isinstance(answer["error"], str):
                raise Broken(f"an answer without a word: {answer}")


CLAIM: dict[str, Any] = {"devices": {
    "requests": [{"name": "neurons", "exactly": {"deviceClassName": "neuron.aws.com", "allocationMode": "ExactCount",
        "count": 4, "selectors": [{"cel": {"expression": "device.attributes['neuron.aws.com'].deviceId == 0"}}]}}],
    "constraints": [{"requests": ["neurons"], "matchAttribute": "resource.aws.com/devicegroup4_id"}],
    "config": [{"requests": ["neurons"], "opaque": {"driver": "neuron.aws.com", "parameters": {
        "apiVersion": "neuron.aws.com/v1", "kind": "NeuronConfig", "logicalNeuronCore": 1}}}]}}  # fmt: skip
TRN2 = _core.NodeMachine("trn2.48xlarge")
SLICES = TRN2.resource_slices("node-a", "2.25.4.0")


def claim(rng: random.Random) -> None:
    with refusals():
        variables, _ = TRN2.container_of(_core.allocate_claim(json.dumps(damaged(rng, CLAIM)), SLICES))
        json.loads(variables)


def kubelet(rng: random.Random) -> None:
    """Messages as bytes: protobuf refuses what is no message, and what is one is answered."""
    made = messages.classes()
    pods = messages.classes_of("v1", "opentrn/podresources_v1.proto", k8s_info.MESSAGES)
    allocate = made["AllocateRequest"]()
    for _ in range(rng.randrange(3)):
        ids = [rng.choice(["0", "5", "15", "x", "", "1" * 20]) for _ in range(3)]
        allocate.container_requests.add(devices_ids=ids)
    prefer = made["PreferredAllocationRequest"]()
    prefer.container_requests.add(
        available_deviceIDs=[str(i) for i in range(rng.randrange(20))], must_include_deviceIDs=["1"],
        allocation_size=rng.choice([-1, 0, 1, 4, 2**31 - 1]),
    )  # fmt: skip
    listing = pods["ListPodResourcesResponse"]()
    container = listing.pod_resources.add(name="p", namespace="n").containers.add(name="c")
    container.devices.add(resource_name="aws.amazon.com/neuroncore", device_ids=["5", "99", "x"])

    def parsed(message: Any) -> Any:
        content = message.SerializeToString()
        if rng.randrange(2):
            content = damaged_bytes(rng, content)
        try:
            return type(message).FromString(content)
        except Exception as error:
            if type(error).__name__ != "DecodeError":
                raise
            return type(message)()

    with tempfile.TemporaryDirectory() as place:
        resource = Resource(Node(rng.choice(MACHINES), Path(place)), rng.choice(["neuron", "neuroncore"]))
        for each in parsed(allocate).container_requests:
            with refusals():
                resource.allocation(each.devices_ids)
        for each in parsed(prefer).container_requests:
            with refusals():
                chosen = resource.preferred(each.available_deviceIDs, each.must_include_deviceIDs, each.allocation_size)
                if len(set(chosen)) != len(chosen):
                    raise Broken(f"a device twice: {chosen}")
    json.dumps(k8s_info.info_of(parsed(listing), _core.NodeMachine(rng.choice(MACHINES)["instance_type"]), 1.0))


def slurm_words(rng: random.Random) -> None:
    odd = [text for text in map(str, ODD) if "\x00" not in text]
    names = [*odd, "trn[0-3]", "trn0,trn1", "a b", "x\nGresTypes=evil", "/dev", "/etc/x y"]
    with refusals():
        made = slurm.configuration("trn2.48xlarge", *(rng.choice(names) for _ in range(3)))
        for text in made.values():
            if "evil" in text:
                raise Broken(f"a line of the caller's: {text!r}")
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = rng.choice([*odd, "0,1", "0,0", "15", "16", "$(id)"])
    try:
        with refusals():
            if "$" in slurm.task_prolog("trn2.48xlarge"):
                raise Broken("a variable of the caller's in a prolog")
    finally:
        if before is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


MANIFEST = {"files": {"bin/neuron-ls": "0" * 64, "lib/libnrt.so": "link to libnrt.so.1"}}


def manifest(rng: random.Random) -> None:
    """An uninstall removes nothing outside of its prefix, whatever its manifest says."""
    with tempfile.TemporaryDirectory() as place:
        prefix, outside = Path(place) / "p", Path(place) / "kept"
        (prefix / "share" / "opentrn").mkdir(parents=True)
        outside.write_text("")
        value = damaged(rng, MANIFEST)
        if rng.randrange(3) == 0 and isinstance(value, dict) and isinstance(value.get("files"), dict):
            value["files"][rng.choice(["bin/../../kept", "../kept", str(outside), "bin/"])] = "x"
        text = json.dumps(value).encode()
        path = prefix / "share" / "opentrn" / "neuron-tools.json"
        path.write_bytes(damaged_bytes(rng, text) if rng.randrange(3) == 0 else text)
        with refusals():
            install.uninstall(prefix)
        if not outside.exists():
            raise Broken("a file outside of the prefix was removed")


TARGETS: dict[str, Callable[[random.Random], None]] = {
    each.__name__: each
    for each in (command_line, parallel_words, trace, session, report, records, scheduler, claim, kubelet, slurm_words,
                 manifest)
}  # fmt: skip


# -- the run


def run_case(name: str, seed: int) -> str:
    """What went wrong, or ""."""

    def hang(number: int, frame: Any) -> None:
        watchdog.watch(0)  # or the other one ends what tells of this
        clock, limit = "processor time", CASE_SECONDS
        if number == signal.SIGALRM:
            clock, limit = "wall time", CASE_SECONDS * watchdog.WALL_PER_CPU
        raise Broken(f"a case did not end in {limit:g} s of {clock}")

    before = {number: signal.signal(number, hang) for number in (signal.SIGPROF, signal.SIGALRM)}
    watchdog.watch(CASE_SECONDS)
    try:
        TARGETS[name](random.Random(seed))
    except Exception:
        return traceback.format_exc()
    finally:
        watchdog.watch(0)
        for number, handler in before.items():
            signal.signal(number, handler)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--cpu-seconds", type=float, help="in place of --seconds: of processor time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(TARGETS))
    parser.add_argument("--case", type=int, help="run only the case of this seed; with --only")
    options = parser.parse_args()
    names = [options.only] if options.only else list(TARGETS)
    counts, spent = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    goes_on = watchdog.budget(options.seconds, options.cpu_seconds)
    # The target that has had the least time goes next.
    while not any(counts.values()) or (options.case is None and goes_on()):
        name = min(names, key=lambda each: spent[each])
        seed = options.case if options.case is not None else (options.seed << 32) + counts[name]
        began = time.process_time()
        if problem := run_case(name, seed):
            print(f"fuzz_tools: FAILED\n{problem}\n  again: --only {name} --case {seed}", file=sys.stderr)
            return 1
        spent[name] += time.process_time() - began
        counts[name] += 1
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    print(f"fuzz_tools: seed {options.seed}: {told} cases in {sum(spent.values()):.0f} CPU s, none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
