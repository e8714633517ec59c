"""libnrt: a C project that finds it by CMake, and the interface's rules through ctypes in processes of their own."""

import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from concurrent import futures
from pathlib import Path

import numpy as np
import pytest

import opentrn
from opentrn.tools.install import install
from tests.package import PYTHON

ROOT = Path(__file__).resolve().parents[2]
MODEL = """func.func @main(%x: tensor<4xf32>, %n: tensor<3xi64>) -> (tensor<4xf32>, tensor<3xi64>) {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  %m = stablehlo.multiply %n, %n : tensor<3xi64>
  return %y, %m : tensor<4xf32>, tensor<3xi64>
}
"""
# What every program below begins with: the library, a loaded model and its tensors.
PRELUDE = textwrap.dedent(
    """
    import ctypes, json, sys
    from ctypes import byref, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p
    nrt = ctypes.CDLL(sys.argv[1])
    nrt.nrt_get_status_as_str.restype = nrt.opentrn_nrt_last_message.restype = c_char_p
    nrt.nrt_tensor_get_va.restype, nrt.nrt_tensor_get_size.restype = c_void_p, c_size_t
    def status(code):
        return nrt.nrt_get_status_as_str(code).decode()
    def last():
        return nrt.opentrn_nrt_last_message().decode()
    def check(code):
        assert code == 0, (status(code), last())
    program = open(sys.argv[2], "rb").read() if len(sys.argv) > 2 else b""
    def load(content=program, core=0):
        model = c_void_p()
        check(nrt.nrt_load(content, c_size_t(len(content)), core, -1, byref(model)))
        return model
    def tensor(size, core=0, name=b"t"):
        made = c_void_p()
        check(nrt.nrt_tensor_allocate(0, core, c_size_t(size), name, byref(made)))
        return made
    def tensor_set(**tensors):
        made = c_void_p()
        check(nrt.nrt_allocate_tensor_set(byref(made)))
        for name, each in tensors.items():
            check(nrt.nrt_add_tensor_to_tensor_set(made, name.encode(), each))
        return made
    def write(to, content):
        check(nrt.nrt_tensor_write(to, content, c_size_t(0), c_size_t(len(content))))
    def read(of, size):
        buffer = ctypes.create_string_buffer(size)
        check(nrt.nrt_tensor_read(of, buffer, c_size_t(0), c_size_t(size)))
        return buffer.raw
    """
)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    place = tmp_path_factory.mktemp("neuron")
    install(place)
    return place


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "m.mlir").write_text(MODEL)
    return opentrn.compile(folder / "m.mlir", target="trn2").save(folder / "m.neuron")


@pytest.fixture
def run(prefix, tmp_path):
    def call(body, *arguments, **variables):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("NEURON_")}
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(body), prefix / "lib" / "libnrt.so", *arguments],
            capture_output=True, text=True, cwd=tmp_path, timeout=60,
            env=clean | {"OPENTRN_RUN_DIR": str(tmp_path / "run"), "NEURON_RT_LOG_LEVEL": "NONE"} | variables,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return call


def test_a_c_project_finds_builds_and_runs(prefix, model, tmp_path):
    cmake = Path(sys.executable).with_name("cmake")
    cmake = str(cmake) if cmake.exists() else "cmake"
    source = ROOT / "examples" / "libnrt"
    subprocess.run(
        [cmake, "-S", source, "-B", tmp_path / "b", f"-DCMAKE_PREFIX_PATH={prefix}"],
        check=True,
        capture_output=True,
    )
    subprocess.run([cmake, "--build", tmp_path / "b"], check=True, capture_output=True)
    np.array([1, 2, 3, 4], np.float32).tofile(tmp_path / "x")
    environment = dict(os.environ, OPENTRN_RUN_DIR="off")
    run_model = [tmp_path / "b" / "run_model", model]
    done = subprocess.run(
        [*run_model, "input0", tmp_path / "x"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["output0: 16 bytes 2 4 6 8", "output1: 24 bytes"] and lines[2].startswith(
        "predicted: "
    )
    listed = subprocess.run(
        [tmp_path / "b" / "list_devices"], capture_output=True, text=True, env=environment, check=True
    ).stdout.splitlines()
    assert listed[0] == f"driver: OpenTrn {opentrn.__version__}" and len(listed) == 18
    assert listed[1] == "device 0: 0000:cc:00.0, HBM of 24 GiB each, connected to 12 3 4 1"
    assert listed[2] == "1048576 bytes from HBM 0 to HBM 3: the same"
    done = subprocess.run([tmp_path / "b" / "run_model", source / "run_model.c"], capture_output=True, text=True,
                          env=environment)  # fmt: skip
    assert (
        done.returncode == 1 and "NRT_UNSUPPORTED_NEFF_VERSION" in done.stderr and "neuronx-cc" in done.stderr
    )


def test_a_version_that_is_not_there_is_not_found(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(p NONE)\nfind_package(opentrn 99.0 REQUIRED)\n"
    )
    cmake = Path(sys.executable).with_name("cmake")
    words = [str(cmake) if cmake.exists() else "cmake", "-S", tmp_path, "-B", tmp_path / "b"]
    done = subprocess.run([*words, f"-DCMAKE_PREFIX_PATH={prefix}"], capture_output=True, text=True)
    assert done.returncode != 0 and "version: " in done.stderr


def test_values_wide_integers_and_repetitions(run, model):
    (found,) = run(
        """
        import struct
        check(nrt.nrt_init(1, b"", b""))
        model = load()
        x, n, y, m = tensor(16), tensor(24), tensor(16), tensor(24)
        write(x, struct.pack("4f", 1, 2, 3, 4)); write(n, struct.pack("3q", -5, 7000, 3))
        inputs, outputs = tensor_set(input0=x, input1=n), tensor_set(output0=y, output1=m)
        check(nrt.nrt_execute_repeat(model, inputs, outputs, 3))
        check(nrt.nrt_tensor_check_output_completion(y, c_uint64(0), c_uint64(3)))
        late = status(nrt.nrt_tensor_check_output_completion(y, c_uint64(0), c_uint64(4)))
        predicted = c_double()
        check(nrt.opentrn_nrt_predicted_ns(model, byref(predicted)))
        print(json.dumps([struct.unpack("4f", read(y, 16)), struct.unpack("3q", read(m, 24)), late, predicted.value]))
        """,
        model,
    )
    values, squares, late, predicted = found
    assert values == [2, 4, 6, 8] and squares == [25, 49000000, 9]
    assert late == "NRT_TIMEOUT" and 1e3 < predicted < 1e6


def test_tensors_are_described(run, tmp_path):
    (tmp_path / "s.mlir").write_text(
        "func.func @main(%a: tensor<f32>, %b: tensor<2x3xi1>) -> (tensor<f32>, tensor<2x3xi1>) {\n"
        "  %c = stablehlo.add %a, %a : tensor<f32>\n  %d = stablehlo.not %b : tensor<2x3xi1>\n"
        "  return %c, %d : tensor<f32>, tensor<2x3xi1>\n}\n"
    )
    path = opentrn.compile(tmp_path / "s.mlir", target="trn2").save(tmp_path / "s.neuron")
    (rows,) = run(
        """
        class Info(ctypes.Structure):
            _fields_ = [("name", ctypes.c_char * 256), ("usage", c_int), ("size", c_size_t), ("dtype", c_int),
                        ("shape", ctypes.POINTER(c_uint32)), ("ndim", c_uint32)]
        check(nrt.nrt_init(1, b"", b""))
        model, infos = load(), c_void_p()
        check(nrt.nrt_get_model_tensor_info(model, byref(infos)))
        count = c_uint64.from_address(infos.value).value
        each = (Info * count).from_address(infos.value + 8)
        print(json.dumps([[i.name.decode(), i.usage, i.size, i.dtype, i.shape[: i.ndim]] for i in each]))
        check(nrt.nrt_free_model_tensor_info(infos))
        """,
        path,
    )
    assert rows == [
        ["input0", 0, 4, 0xA, [1]], ["input1", 0, 6, 0x3, [2, 3]],
        ["output0", 1, 4, 0xA, [1]], ["output1", 1, 6, 0x3, [2, 3]],
    ]  # fmt: skip


def test_slices_copies_and_ranges(run):
    (found,) = run(
        """
        check(nrt.nrt_init(1, b"", b""))
        a, b = tensor(16), tensor(16)
        write(a, bytes(range(16)))
        part = c_void_p()
        check(nrt.nrt_tensor_allocate_slice(a, c_size_t(4), c_size_t(8), b"part", byref(part)))
        check(nrt.nrt_tensor_copy(part, c_size_t(0), b, c_size_t(8), c_size_t(8)))
        check(nrt.nrt_tensor_copy(a, c_size_t(0), a, c_size_t(1), c_size_t(15)))
        nrt.nrt_tensor_free(byref(a))
        beyond = [
            status(nrt.nrt_tensor_read(b, None, c_size_t(17), c_size_t(0))),
            status(nrt.nrt_tensor_read(b, None, c_size_t(8), c_size_t(2**64 - 4))),
            status(nrt.nrt_tensor_allocate_slice(b, c_size_t(10), c_size_t(7), None, byref(c_void_p()))),
            status(nrt.nrt_tensor_allocate(0, 0, c_size_t(0), None, byref(c_void_p()))),
        ]
        own = ctypes.create_string_buffer(b"abcdefgh", 8)
        empty = c_void_p()
        check(nrt.nrt_tensor_allocate_empty(b"e", byref(empty)))
        beyond.append(status(nrt.nrt_tensor_write(empty, b"x", c_size_t(0), c_size_t(1))))
        check(nrt.nrt_tensor_attach_buffer(empty, own, c_size_t(8)))
        check(nrt.nrt_tensor_memset(empty, c_uint64(2), ord("-"), c_size_t(3)))
        print(json.dumps([list(read(b, 16)), list(read(part, 8)), nrt.nrt_tensor_get_size(part), own.raw.decode(),
                          beyond, a.value]))
        """
    )
    copied, part, size, own, beyond, freed = found
    assert copied == [0] * 8 + list(range(4, 12)) and part == list(range(3, 11)) and size == 8
    assert own == "ab---fgh" and beyond == ["NRT_INVALID"] * 5 and freed is None


def test_what_is_wrong_has_a_status_and_a_message(run, model):
    (found,) = run(
        """
        before = [status(nrt.nrt_tensor_allocate(0, 0, c_size_t(4), None, byref(c_void_p())))]
        check(nrt.nrt_init(1, b"", b""))
        again = status(nrt.nrt_init(1, b"", b""))
        rows = {}
        def note(name, code):
            rows[name] = [status(code), last()]
        made = c_void_p()
        note("neff", nrt.nrt_load(b"x" * 2000, c_size_t(2000), 0, -1, byref(made)))
        note("damaged", nrt.nrt_load(program[:200], c_size_t(200), 0, -1, byref(made)))
        note("core", nrt.nrt_load(program, c_size_t(len(program)), 64, -1, byref(made)))
        note("rank", nrt.nrt_load_collectives(program, c_size_t(len(program)), 0, -1, 2, 2, byref(made)))
        model = load()
        x, n, y, m = tensor(16), tensor(24), tensor(16), tensor(24)
        note("missing", nrt.nrt_execute(model, tensor_set(input0=x), tensor_set(output0=y, output1=m)))
        note("small", nrt.nrt_execute(model, tensor_set(input0=x, input1=tensor(8)), tensor_set(output0=y, output1=m)))
        note("elsewhere", nrt.nrt_execute(model, tensor_set(input0=tensor(16, 1), input1=n),
                                          tensor_set(output0=y, output1=m)))
        note("null", nrt.nrt_execute(None, None, None))
        note("no handle", nrt.nrt_unload(c_void_p(0x1234)))
        check(nrt.nrt_unload(model))
        note("unloaded", nrt.nrt_execute(model, tensor_set(), tensor_set()))
        note("hbm", nrt.nrt_tensor_allocate(0, 0, c_size_t(1 << 40), None, byref(made)))
        note("virtual", nrt.nrt_tensor_allocate(2, 0, c_size_t(8), None, byref(made)))
        note("comm", nrt.nrt_build_global_comm(0, 0, 2))
        note("absent", nrt.nrt_get_dmabuf_fd(c_uint64(0), c_uint64(1), byref(c_int())))
        note("driver", -nrt.ndl_open_device(0, None, None))
        note("registers", -nrt.ndl_bar_read(None, 0, None, 0, None))
        nrt.nrt_close()
        note("closed", nrt.nrt_tensor_allocate(0, 0, c_size_t(4), None, byref(made)))
        nrt.nrt_tensor_free(byref(x))
        check(nrt.nrt_init(1, b"", b""))
        print(json.dumps([before, again, rows, status(99)]))
        """,
        model,
    )
    before, again, rows, unknown = found
    assert before == ["NRT_UNINITIALIZED"] and again == "NRT_INVALID" and unknown == "NRT_UNKNOWN"
    expected = {
        "neff": ("NRT_UNSUPPORTED_NEFF_VERSION", "neuronx-cc"),
        "damaged": ("NRT_INVALID", "model_file"),
        "core": ("NRT_INVALID", "0 to 63"),
        "rank": ("NRT_INVALID", "device 2 of 2"),
        "missing": ("NRT_INVALID", "'input1'"),
        "small": ("NRT_INVALID", "has 8 bytes; the model has 24"),
        "elsewhere": ("NRT_INVALID", "on core 1"),
        "null": ("NRT_INVALID", "null"),
        "no handle": ("NRT_INVALID_HANDLE", "no model"),
        "unloaded": ("NRT_INVALID_HANDLE", "not any more"),
        "hbm": ("NRT_RESOURCE", "of HBM left"),
        "virtual": ("NRT_FAILURE", "virtual"),
        "comm": ("NRT_INVALID", "NEURON_RT_ROOT_COMM_ID is not set"),
        "absent": ("NRT_FAILURE", "nrt_get_dmabuf_fd: OpenTrn does not have this"),
        "driver": ("NRT_FAILURE", "ndl_open_device: the structure of parameters is null"),
        "registers": ("NRT_FAILURE", "ndl_bar_read: OpenTrn does not have this"),
        "closed": ("NRT_CLOSED", "nrt_close"),
    }
    for name, (code, text) in expected.items():
        assert rows[name][0] == code and text in rows[name][1], (name, rows[name])


def test_a_model_of_another_generation_is_refused(run, model):
    (found,) = run(
        """
        check(nrt.nrt_init(1, b"", b""))
        code = nrt.nrt_load(program, c_size_t(len(program)), 0, -1, byref(c_void_p()))
        print(json.dumps([status(code), last()]))
        """,
        model, NEURON_PLATFORM_TARGET_OVERRIDE="trn1.32xlarge",
    )  # fmt: skip
    assert found[0] == "NRT_INVALID" and "NeuronCore-v3" in found[1] and "NeuronCore-v2" in found[1]


def test_the_machine_is_the_environments(run):
    body = """
    import struct
    counts = []
    for name in ("total", "visible"):
        count = c_uint32()
        check(getattr(nrt, f"nrt_get_{name}_nc_count")(byref(count)))
        counts.append(count.value)
    info = ctypes.create_string_buffer(32)
    check(nrt.nrt_get_instance_info(info, c_size_t(32)))
    version = ctypes.create_string_buffer(224)
    check(nrt.nrt_get_version(version, c_size_t(224)))
    print(json.dumps([counts, struct.unpack_from("2I", info), info.raw[8:24].rstrip(b"\\0").decode(),
                      version.raw[32:160].rstrip(b"\\0").decode()]))
    """
    counts, kind, arch, version = run(body)[0]
    assert (counts, kind, arch) == ([64, 64], [5, 7], "NCv3") and version.startswith(
        f"OpenTrn {opentrn.__version__}"
    )
    variables = {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn1.32xlarge", "NEURON_RT_VISIBLE_CORES": "4-7"}
    assert run(body, **variables)[0][:3] == [[32, 4], [2, 6], "NCv2"]
    assert (
        run("print(json.dumps([status(nrt.nrt_init(1, b'', b'')), last()]))", NEURON_RT_VISIBLE_CORES="900")[
            0
        ][0]
        == "NRT_INVALID"
    )


def test_the_tools_see_executions_memory_and_the_core(run, model):
    """neuron-monitor reads what a C program does: on its own core, with its tensors."""
    (report,) = run(
        """
        import os, subprocess, time
        check(nrt.nrt_init(1, b"", b""))
        command = [sys.executable, "-m", "opentrn", "neuron-monitor", "-c", "m.json"]
        groups = ("neuroncore_counters", "execution_stats", "memory_used")
        runtimes = [{"metrics": [{"type": group} for group in groups]}]
        json.dump({"period": "1s", "neuron_runtimes": runtimes}, open("m.json", "w"))
        monitor = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        monitor.stdout.readline()
        model = load(core=1)
        x, n, y, m = (tensor(size, 1) for size in (16, 24, 16, 24))
        inputs, outputs = tensor_set(input0=x, input1=n), tensor_set(output0=y, output1=m)
        for _ in range(4):
            check(nrt.nrt_execute(model, inputs, outputs))
        print(monitor.stdout.readline().strip())
        monitor.terminate()
        monitor.wait()
        """,
        model, NEURON_RT_VISIBLE_CORES="8,9", PYTHONPATH=str(PYTHON),
    )  # fmt: skip
    (runtime,) = report["neuron_runtime_data"]
    stats = runtime["report"]
    assert stats["execution_stats"]["execution_summary"]["completed"] == 4
    cores = stats["neuroncore_counters"]["neuroncores_in_use"]
    assert cores["8"]["neuroncore_utilization"] == 0 and set(cores) == {"8", "9"}
    memory = stats["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"]["neuroncore_memory_usage"]
    assert memory["9"]["tensors"] == 80 and "tensors" not in memory["8"]
    (loaded,) = stats["memory_used"]["loaded_models"]
    assert loaded["subgraphs"]["sg_00"]["neuroncore_index"] == 9


def test_profile_and_system_trace(run, model, tmp_path):
    (found,) = run(
        """
        check(nrt.nrt_init(1, b"", b""))
        model = load()
        inputs = tensor_set(input0=tensor(16), input1=tensor(24))
        outputs = tensor_set(output0=tensor(16), output1=tensor(24))
        check(nrt.nrt_profile_start(model, b"p.ntff"))
        early = status(nrt.nrt_profile_stop(b"other"))
        check(nrt.nrt_execute(model, inputs, outputs))
        check(nrt.nrt_profile_stop(b"p.ntff"))
        none = status(nrt.nrt_profile_stop(b"p.ntff"))
        check(nrt.nrt_sys_trace_start(None))
        for _ in range(2):
            check(nrt.nrt_execute(model, inputs, outputs))
        buffer, size = c_char_p(), c_size_t()
        check(nrt.nrt_sys_trace_fetch_events(byref(buffer), byref(size), None))
        events = json.loads(buffer.value)["events"]
        check(nrt.nrt_sys_trace_fetch_events(byref(buffer), byref(size), None))
        after = json.loads(buffer.value)["events"]
        check(nrt.nrt_sys_trace_stop())
        print(json.dumps([early, none, events, after, status(nrt.nrt_sys_trace_stop())]))
        """,
        model,
    )
    early, none, events, after, twice = found
    assert early == none == twice == "NRT_INVALID" and after == []
    trace = json.loads((tmp_path / "p.ntff").read_text())
    assert trace["otherData"]["is_simulation"] == "true" and len(trace["traceEvents"]) > 5
    running = [e for e in events if e["event_type"] == "nc_exec_running"]
    assert [e["phase"] for e in running] == ["start", "stop"] * 2
    times = [e["data"]["nc_timestamp_ns"] for e in running]
    assert times[1] == times[2] and times[1] - times[0] > 0
    assert abs((times[3] - times[2]) - (times[1] - times[0])) <= 1  # whole nanoseconds


def test_asynchronous_requests_are_done_and_numbered(run, model):
    (found,) = run(
        """
        import select
        check(nrt.nrt_init(1, b"", b""))
        tracker = c_void_p()
        check(nrt.nrta_error_tracker_create(0, byref(tracker)))
        to, first, second = tensor(4), c_uint64(), c_uint64()
        check(nrt.nrta_tensor_write(to, b"abcd", c_uint64(0), c_uint64(4), 0, tracker, byref(first)))
        check(nrt.nrta_tensor_write(to, b"abcd", c_uint64(2), c_uint64(4), 0, tracker, byref(second)))
        done, fd = ctypes.c_bool(), c_int()
        check(nrt.nrta_is_completed(second, byref(done)))
        check(nrt.nrta_get_completion_handle(first, byref(fd)))
        class Error(ctypes.Structure):
            _fields_ = [("seq", c_uint64), ("code", c_uint64)]
        errors, count = ctypes.POINTER(Error)(), c_size_t()
        check(nrt.nrta_error_tracker_get_list(tracker, byref(errors), byref(count)))
        print(json.dumps([read(to, 4).decode(), second.value - first.value, first.value >> 48, done.value,
                          len(select.select([fd.value], [], [], 0)[0]), count.value, errors[0].seq == second.value,
                          status(errors[0].code), status(nrt.nrta_is_completed(c_uint64(99), byref(done)))]))
        """
    )
    assert found == ["abcd", 1, 1, True, 1, 1, True, "NRT_INVALID", "NRT_INVALID"]


def test_threads_do_not_disturb_each_other(run, model):
    (good,) = run(
        """
        import struct, threading
        check(nrt.nrt_init(1, b"", b""))
        good = []
        def work(number):
            model = load(core=-1)
            info = c_void_p()
            core = c_uint32()
            check(nrt.nrt_get_model_info(model, byref(core), c_size_t(4), None))
            x, n, y, m = (tensor(size, core.value) for size in (16, 24, 16, 24))
            inputs, outputs = tensor_set(input0=x, input1=n), tensor_set(output0=y, output1=m)
            for i in range(20):
                write(x, struct.pack("4f", number, i, 0, 1))
                check(nrt.nrt_execute(model, inputs, outputs))
                assert struct.unpack("4f", read(y, 16)) == (2 * number, 2 * i, 0, 2)
            check(nrt.nrt_unload(model))
            good.append(number)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for each in threads: each.start()
        for each in threads: each.join()
        print(json.dumps(sorted(good)))
        """,
        model,
    )
    assert good == [0, 1, 2, 3]


# -- the published functions

HERE = Path(__file__).resolve().parent
SOURCES = ROOT / "src" / "nrt"


def published():
    """Header -> names, of the list beside this file."""
    headers = {}
    for line in (HERE / "libnrt_functions.txt").read_text().splitlines()[1:]:
        if line.startswith("# "):
            names = headers.setdefault(line[2:], [])
        else:
            names.append(line)
    return headers


def refusing():
    """Names that answer only that OpenTrn does not have them."""
    names = re.findall(r'absent\("(\w+)"', (SOURCES / "absent.cc").read_text())
    names += re.findall(r"^OPENTRN_BELOW_\w+\((\w+),", (SOURCES / "below.cc").read_text(), re.MULTILINE)
    return {*names, "nrt_get_libnccl_net"}


def test_every_published_function_is_in_the_library(prefix):
    library = ctypes.CDLL(str(prefix / "lib" / "libnrt.so"))
    names = [name for each in published().values() for name in each]
    assert len(names) == len(set(names)) == 254
    assert [name for name in names if not hasattr(library, name)] == []


def test_the_page_counts_what_works_and_what_refuses():
    rows, refused = [], refusing()
    for header, names in published().items():
        lacking = [name for name in names if name in refused]
        rows.append(f"| `{header}` | {len(names) - len(lacking)} | {len(lacking)} |")
    page = (ROOT / "docs" / "libnrt.md").read_text()
    assert [row for row in rows if row not in page] == []
    total = [len(names) for names in published().values()]
    assert f"{sum(total) - len(refused)} of {sum(total)}" in page


def test_what_refuses_says_so(run):
    """All of them, called with nothing: a status or a number that tells failure, never a crash."""
    (found,) = run(
        """
        import re
        names = sys.argv[3].split()
        bad = []
        check(nrt.nrt_init(1, b"", b""))
        for name in names:
            function = getattr(nrt, name)
            function.restype = c_size_t if name.startswith("nec_get_dynamic") else c_int
            value = function(*[None] * 8) if name != "nrt_trace_start" else 1
            if name not in last() or "does not have this" not in last():
                bad.append([name, value, last()])
        print(json.dumps(bad))
        """,
        "/dev/null", " ".join(sorted(refusing() - {"nrt_get_libnccl_net"})),
    )
    assert found == []


# -- inspection, continuous profiles, traces

EXECUTE = textwrap.dedent(
    """
    def execute(model, times=1, core=0):
        x, n, y, m = tensor(16, core), tensor(24, core), tensor(16, core), tensor(24, core)
        inputs, outputs = tensor_set(input0=x, input1=n), tensor_set(output0=y, output1=m)
        for _ in range(times):
            check(nrt.nrt_execute(model, inputs, outputs))
    """
)


def inspected(folder):
    """(events, names of files) of the one process in the folder."""
    (of_process,) = Path(folder).iterdir()
    events = json.loads((of_process / "ntrace.json").read_text())["events"]
    return events, sorted(path.name for path in of_process.iterdir())


def test_inspection_by_options(run, model, tmp_path):
    run(
        EXECUTE
        + textwrap.dedent(
            """
            check(nrt.nrt_init(1, b"", b""))
            config = c_void_p()
            check(nrt.nrt_inspect_config_allocate(byref(config)))
            check(nrt.nrt_inspect_config_set_output_dir(config, b"seen"))
            check(nrt.nrt_inspect_config_set_enable_inspect(config, True))
            check(nrt.nrt_inspect_config_set_session_id(config, 7))
            check(nrt.nrt_inspect_config_set_activity(config, b"host_memory", False))
            check(nrt.nrt_inspect_config_set_capture_enabled_for_nc(config, 1, False))
            names, count = ctypes.POINTER(c_char_p)(), c_size_t()
            check(nrt.nrt_inspect_config_get_enabled_activity_types(config, byref(names), byref(count)))
            assert [names[i] for i in range(count.value)] == [b"system_profile", b"device_profile", b"cpu_util"]
            nrt.nrt_inspect_config_free_activity_types(names, count)
            assert status(nrt.nrt_inspect_config_set_activity(config, b"weather", True)) == "NRT_INVALID"
            assert status(nrt.nrt_inspect_stop()) != "NRT_SUCCESS"
            check(nrt.nrt_inspect_begin_with_options(config))
            assert status(nrt.nrt_inspect_begin_with_options(config)) != "NRT_SUCCESS"
            execute(load(), 2)
            execute(load(core=1), 1, core=1)
            check(nrt.nrt_inspect_stop())
            check(nrt.nrt_inspect_config_free(config))
            """
        ),
        model,
    )
    events, files = inspected(tmp_path / "seen")
    assert [event["name"] for event in events].count("nrt_execute") == 2
    assert {event["nc_idx"] for event in events} == {0}
    running = [event for event in events if event["name"] == "nc_exec_running"]
    assert running[1]["nc_timestamp_ns"] == running[0]["duration"] > 0
    assert [name.partition("_")[2] for name in files if name.endswith(".ntff")] == ["instid_0_vnc_0.ntff"]
    assert "host_mem.json" not in files and "cpu_util.json" in files


def test_inspection_by_the_environment(run, model, tmp_path):
    program = EXECUTE + 'check(nrt.nrt_init(1, b"", b""))\nexecute(load(), 3)\n'
    run(program, model, NEURON_RT_INSPECT_ENABLE="1", NEURON_RT_INSPECT_OUTPUT_DIR="env",
        NEURON_RT_INSPECT_EVENT_FILTER_TYPE="software,^model_load",
        NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC="2")  # fmt: skip
    events, files = inspected(tmp_path / "env")
    assert [event["name"] for event in events] == ["nrt_execute"] * 2
    info = json.loads(next((tmp_path / "env").glob("*/trace_info.json")).read_text())
    assert info["events_dropped"] == 1 and info["is_simulation"] is True
    assert not any(name.endswith(".ntff") for name in files)  # only where NEURON_RT_INSPECT_DEVICE_PROFILE asks


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("NEURON_RT_INSPECT_ENABLE", "yes"),
        ("NEURON_RT_INSPECT_DEVICE_PROFILE", "2"),
        ("NEURON_RT_INSPECT_EVENT_FILTER_NC", "3-1"),
        ("NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "Hardware!"),
        ("NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC", "-1"),
    ],
)
def test_a_variable_of_inspection_that_is_wrong_is_named(run, model, variable, value):
    program = """
        check(nrt.nrt_init(1, b"", b""))
        print(json.dumps([status(nrt.nrt_inspect_begin()), last()]))
        """
    ((code, message),) = run(program, model, **({"NEURON_RT_INSPECT_ENABLE": "1"} | {variable: value}))
    assert code == "NRT_INVALID" and variable in message and value in message


def test_continuous_profiles_and_traces(run, model, tmp_path):
    run(
        EXECUTE
        + textwrap.dedent(
            """
            check(nrt.nrt_init(1, b"", b""))
            options = c_void_p()
            check(nrt.nrt_profile_continuous_options_allocate(byref(options)))
            check(nrt.nrt_profile_continuous_options_set_output_dir(options, b"cont"))
            assert status(nrt.nrt_profile_continuous_save(0, options)) == "NRT_INVALID"
            check(nrt.nrt_profile_continuous_start(options))
            assert status(nrt.nrt_profile_continuous_save(0, options)) == "NRT_INVALID"  # nothing ran
            check(nrt.nrt_trace_start(False))
            kept = load()
            execute(kept)
            check(nrt.nrt_profile_continuous_save(0, options))
            check(nrt.nrt_profile_continuous_save(0, options))
            check(nrt.nrt_profile_continuous_stop())
            check(nrt.nrt_trace_stop(b"trace.json"))
            check(nrt.nrt_profile_continuous_options_free(options))
            """
        ),
        model,
    )
    assert len(list((tmp_path / "cont").glob("continuous_*_vnc_0.ntff"))) == 2
    events = json.loads((tmp_path / "trace.json").read_text())["events"]
    assert [event["phase"] for event in events if event["event_type"] == "nrt_execute"] == ["start", "stop"]


# -- groups of devices

GROUP = textwrap.dedent(
    """
    import threading
    check(nrt.nrt_init(1, b"", b""))
    count = int(sys.argv[3])
    def one(device):
        check(nrt.nrt_build_global_comm(device % 64, device, count))
        for number in range(3):
            own = bytes([device, number]) * 500
            got = ctypes.create_string_buffer(len(own) * count)
            check(nrt.nrt_all_gather(device % 64, device, count, len(own), own, got))
            assert got.raw == b"".join(bytes([each, number]) * 500 for each in range(count)), (device, number)
            check(nrt.nrt_barrier(device % 64, device, count))
        done.append(device)
    done = []
    threads = [threading.Thread(target=one, args=(int(text),)) for text in sys.argv[4].split(",")]
    for each in threads: each.start()
    for each in threads: each.join()
    print(json.dumps(sorted(done)))
    """
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_devices_of_two_processes_gather(run):
    """Devices 0 and 2 are threads of one process, 1 of another; somebody else's connection is hung up on."""
    root = f"127.0.0.1:{free_port()}"
    with futures.ThreadPoolExecutor(3) as pool:
        first = pool.submit(run, GROUP, "/dev/null", "3", "0,2", NEURON_RT_ROOT_COMM_ID=root)
        stranger = pool.submit(knock, root)
        second = pool.submit(run, GROUP, "/dev/null", "3", "1", NEURON_RT_ROOT_COMM_ID=root)
        assert first.result() == [[0, 2]] and second.result() == [[1]]
        stranger.result()


def knock(root):
    """Connects as soon as somebody listens and says something else; gives up when the group has met."""
    host, _, port = root.partition(":")
    for _ in range(200):
        try:
            with socket.create_connection((host, int(port)), timeout=5) as line:
                line.sendall(b"GET / HTTP/1.0\r\n\r\n" + b"x" * 64)
            return
        except OSError:
            time.sleep(0.02)


def test_a_group_that_does_not_agree_is_told(run):
    root = f"127.0.0.1:{free_port()}"
    body = """
        import threading
        check(nrt.nrt_init(1, b"", b""))
        rows = {}
        def one(device, size):
            check(nrt.nrt_build_global_comm(device, device, 2))
            buffer = ctypes.create_string_buffer(64)
            rows[device] = [status(nrt.nrt_all_gather(device, device, 2, size, buffer, buffer)), last()]
            if device == 0: nrt.nrt_close()
        threads = [threading.Thread(target=one, args=(device, 8 + device)) for device in range(2)]
        for each in threads: each.start()
        for each in threads: each.join()
        print(json.dumps([rows[0], rows[1]]))
        """
    (found,) = run(body, NEURON_RT_ROOT_COMM_ID=root)
    assert found[0][0] == "NRT_INVALID" and "do not call the same" in found[0][1]
    assert found[1][0] in ("NRT_INVALID", "NRT_NETWORK_PROXY_FAILURE")


@pytest.mark.parametrize("root", ["", "127.0.0.1", "127.0.0.1:x", ":1"])
def test_a_place_to_meet_that_is_none_is_named(run, root):
    body = """
        check(nrt.nrt_init(1, b"", b""))
        print(json.dumps([status(nrt.nrt_barrier(0, 0, 2)), status(nrt.nrt_barrier(0, 2, 2)), last()]))
        """
    ((code, no_device, _),) = run(body, NEURON_RT_ROOT_COMM_ID=root)
    assert code == no_device == "NRT_INVALID"
