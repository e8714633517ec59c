"""libnrt below nrt.h: the driver's library, the store of data, prints of kernels, calls of anything with anything."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import opentrn
from opentrn import ShapeOf, nki
from opentrn.kernel import trace as kernel_call
from opentrn.nki import isa as nisa
from opentrn.nki import language as nl

# ruff: noqa: F811 (fixtures are parameters)
from tests.tools.test_libnrt import PRELUDE, model, prefix, run  # noqa: F401 (fixtures)

ROOT = Path(__file__).resolve().parents[2]
DRIVER = textwrap.dedent(
    """
    import errno
    from ctypes import POINTER, c_bool, c_char, c_int32, c_uint8, c_uint16, c_int64
    nrt = ctypes.CDLL(sys.argv[1], use_errno=True)
    nrt.opentrn_nrt_last_message.restype = nrt.nrt_get_status_as_str.restype = c_char_p
    class Params(ctypes.Structure):
        _fields_ = [("initialize_device", c_bool), ("num_dram_regions", c_int), ("map_hbm", c_bool)]
    def code(value):
        return 0 if value == 0 else errno.errorcode[ctypes.get_errno()]
    def ok(value):
        assert value == 0, (code(value), last())
    def device(index=0, regions=1, mapped=False):
        made = c_void_p()
        ok(nrt.ndl_open_device(index, byref(Params(True, regions, mapped)), byref(made)))
        return made
    def alloc(on, size, align=0, host=0, channel=0, region=0, core=0, kind=9):
        handle = c_uint64()
        value = nrt.ndl_memory_alloc(on, c_size_t(size), c_uint64(align), host, channel, region, core, kind,
                                     byref(handle))
        return handle if value == 0 else code(value)
    def put(handle, content, offset=0):
        ok(nrt.ndl_memory_buf_copyin(handle, content, c_uint64(offset), c_size_t(len(content))))
    def get(handle, size, offset=0):
        buffer = ctypes.create_string_buffer(size)
        ok(nrt.ndl_memory_buf_copyout(handle, buffer, c_uint64(offset), c_size_t(size)))
        return buffer.raw
    def address(handle):
        pa = c_uint64()
        ok(nrt.ndl_memory_get_pa(handle, byref(pa)))
        return pa.value
    def store(on, pid=0):
        made = c_void_p()
        value = nrt.nds_open(on, pid, byref(made))
        return made if value == 0 else code(value)
    def counter(of, core, index):
        value = c_uint64()
        ok(nrt.nds_get_nc_counter(of, core, index, byref(value)))
        return value.value
    """
)


HEADERS = sorted(
    path.relative_to(ROOT / "src/nrt/include").as_posix() for path in (ROOT / "src/nrt/include").rglob("*.h")
)


@pytest.mark.parametrize("language", ["c", "c++"])
def test_every_header_compiles_alone(language, tmp_path):
    standard = {"c": "c11", "c++": "c++17"}[language]
    assert len(HEADERS) == 15
    for header in HEADERS:
        done = subprocess.run(
            ["cc", "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
             f"-I{ROOT / 'src/nrt/include'}", "-"],
            input=f"#include <{header}>\n", capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, (header, done.stderr)


# -- devices


def test_devices_are_those_of_neuron_ls(run):
    listed = json.loads(subprocess.run(
        [sys.executable, "-m", "opentrn", "neuron-ls", "-j"], capture_output=True, text=True, check=True,
        env=os.environ | {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn2.48xlarge", "OPENTRN_RUN_DIR": "off"},
    ).stdout)  # fmt: skip
    ((count, rows),) = run(
        DRIVER
        + """
indexes = (c_int * 64)()
count = nrt.ndl_available_devices(indexes, 64)
assert nrt.ndl_available_devices(indexes, 3) == 3 and nrt.nec_get_device_count(None, 0) == count
rows = []
for index in indexes[:count]:
    opened = device(index)
    raw = ctypes.string_at(opened.value, 128)
    place = [c_uint32(), c_uint32(), c_uint8(), c_uint8()]
    ok(nrt.ndl_get_device_bdf_ext(index, *map(byref, place)))
    number = c_uint32()
    ok(nrt.ndl_get_host_device_id(opened, byref(number)))
    rows.append([raw[0], raw[1], number.value, list(raw[5:5 + raw[4]]),
                 "%02x:%02x.%x" % tuple(each.value for each in place[1:])])
print(json.dumps([count, rows]))
"""
    )
    assert count == len(listed) == 16
    assert [row[3] for row in rows] == [each["connected_to"] for each in listed]
    assert [row[4] for row in rows] == [each["bdf"] for each in listed]
    assert [row[0] for row in rows] == [row[2] for row in rows] == list(range(16)) and rows[0][1] == 3


def test_versions_maps_and_ultraservers(run):
    body = (
        DRIVER
        + """
architecture, revision, low, high = (c_uint32() for _ in range(4))
ok(nrt.ndl_get_board_info(byref(architecture), byref(revision)))
ok(nrt.ndl_get_compatible_version(byref(low), byref(high)))
version = ctypes.create_string_buffer(40)
ok(nrt.ndl_get_version(version))
count, rids = c_uint32(64), (c_uint32 * 64)()
ok(nrt.ndl_get_host_device_id_to_rid_map(byref(count), rids))
cores = (c_uint32 * (1 + 2 * 128))()
ok(nrt.ndl_get_logical_to_physical_nc_map(cores, 128, 0))
small = code(nrt.ndl_get_logical_to_physical_nc_map(cores, 1, 0))
pod, state, kind, size, node, mode, modes = c_uint8(), c_uint32(), c_uint32(), c_uint32(), c_int(), c_int(), c_uint32()
ok(nrt.ndl_pod_status(*map(byref, (pod, state, kind, size, node, mode, modes))))
vnc = c_uint32()
check(nrt.nec_get_virtual_core_size(byref(vnc)))
print(json.dumps([architecture.value, low.value, high.value, version.raw[4:36].rstrip(b"\\0").decode(), count.value,
                  list(rids[:count.value]), cores[0], list(cores[1:3]), list(cores[2 * cores[0] - 1:2 * cores[0] + 1]),
                  small, [state.value, kind.value, size.value, node.value, mode.value, modes.value], vnc.value]))
"""
    )
    one = run(body)[0]
    assert one[:5] == [3, 1, 1, f"OpenTrn {opentrn.__version__}", 16] and one[5] == list(range(16))
    assert one[6:10] == [128, [0, 0], [15, 7], "EINVAL"] and one[10:] == [[4, 0, 0, -1, 4, 16], 2]
    pod = run(body, NEURON_PLATFORM_TARGET_OVERRIDE="Trn2 UltraServer", NEURON_LOGICAL_NC_CONFIG="1")[0]
    assert pod[10:] == [[2, 1, 4, 0, 1, 2], 1]
    old = run(body, NEURON_PLATFORM_TARGET_OVERRIDE="trn1.2xlarge")[0]
    assert old[0] == 2 and old[4:9] == [1, [0], 2, [0, 0], [0, 1]]


# -- memory


def test_memory_is_copied_filled_and_freed(run):
    ((found, wrong),) = run(
        DRIVER
        + """
one = device(3)
first, second, own = alloc(one, 1000), alloc(one, 1000, channel=1), alloc(one, 64, host=1)
assert get(first, 1000) == bytes(1000)
put(first, bytes(range(200)), 100)
ok(nrt.ndl_memory_copy(first, second, c_uint64(100), c_uint64(0), c_size_t(200)))
ok(nrt.ndl_memory_copy(first, first, c_uint64(100), c_uint64(101), c_size_t(200)))
wait = c_int(-1)
ok(nrt.ndl_memory_copy_as(second, own, c_uint64(8), c_uint64(0), c_size_t(64), c_uint64(0), byref(wait)))
ok(nrt.ndl_memory_copy_as_wait(second, wait))
ok(nrt.ndl_memset(second, c_uint64(4), 7, c_size_t(4)))
va = c_void_p()
ok(nrt.ndl_memory_map(second, byref(va)))
mapped = ctypes.string_at(va.value, 12)
ok(nrt.ndl_memory_unmap(second))
class Op(ctypes.Structure):
    _fields_ = [("offset", c_uint64), ("size", c_uint64), ("buffer", c_void_p)]
class Batch(ctypes.Structure):
    _fields_ = [("handle", c_uint64), ("offset", c_uint64), ("ops", c_void_p), ("count", c_uint32), ("bar4", c_uint16),
                ("flags", c_uint16), ("context", c_void_p)]
texts = [ctypes.create_string_buffer(b"abcd", 4), ctypes.create_string_buffer(b"xyz", 3)]
ops = (Op * 2)(*(Op(10 * i, len(text), ctypes.addressof(text)) for i, text in enumerate(texts)))
batch = Batch(own.value, 20, ctypes.addressof(ops), 2, 0, 0, None)
ok(nrt.ndl_memory_buf_batch_copy(byref(batch), c_uint64(1), 0, -1))
small = Batch(own.value, 60, ctypes.addressof(ops), 2, 0, 0, None)
wrong = [
    code(nrt.ndl_memory_buf_batch_copy(byref(small), c_uint64(1), 0, -1)),
    code(nrt.ndl_memory_buf_batch_copy(byref(batch), c_uint64(1), 2, -1)),
    code(nrt.ndl_memory_buf_zerocopyin(own, b"a", c_uint64(0), c_size_t(1), 5, 0)),
    code(nrt.ndl_memory_buf_copyin(own, b"a", c_uint64(64), c_size_t(1))),
    code(nrt.ndl_memory_buf_copyout(own, None, c_uint64(0), c_size_t(1))),
    code(nrt.ndl_memory_copy(own, first, c_uint64(2**64 - 1), c_uint64(0), c_size_t(2))),
    code(nrt.ndl_memory_unmap(second)), alloc(one, 0), alloc(one, 8, align=3), alloc(one, 8, channel=4),
    alloc(one, 8, region=1), alloc(one, 8, core=8), alloc(one, 8, kind=99),
    alloc(one, 1 << 50), alloc(one, 1 << 50, host=1),
]
ok(nrt.ndl_memory_free(second))
wrong.append(code(nrt.ndl_memory_free(second)))
ok(nrt.ndl_close_device(one))
wrong += [code(nrt.ndl_memory_free(first)), code(nrt.ndl_close_device(one)), alloc(one, 8), alloc(None, 8)]
print(json.dumps([[list(mapped), wait.value], wrong]))
"""
    )
    assert found == [[0, 1, 2, 3, 7, 7, 7, 7, 8, 9, 10, 11], 1]
    assert wrong == [*["EINVAL"] * 13, "ENOMEM", "ENOMEM", "EBADF", "EBADF", "EBADF", "EBADF", "EINVAL"]


def test_moved_bytes_are_where_they_belong(run):
    """Overlapping copies and batches give what memmove gives; freed memory is zero when it is given again."""
    ((first, own, again),) = run(
        DRIVER
        + """
one = device()
first, own = alloc(one, 300), alloc(one, 64, host=1)
put(first, bytes(range(200)))
ok(nrt.ndl_memory_copy(first, first, c_uint64(0), c_uint64(50), c_size_t(200)))
ok(nrt.ndl_memory_buf_zerocopyin(own, b"abc", c_uint64(61), c_size_t(3), -1, 0))
result = [list(get(first, 300)), list(get(own, 64))]
at = address(first)
ok(nrt.ndl_memory_free(first))
again = alloc(one, 9000)
assert address(again) == at
print(json.dumps([*result, sum(get(again, 9000))]))
"""
    )
    expected = [*range(200), *[0] * 100]
    expected[50:250] = list(range(200))
    assert first == expected and bytes(own[61:]) == b"abc" and again == 0


def test_allocations_have_places(run):
    """Regions, alignment, addresses, the list of what is allocated, and a whole HBM as memory."""
    ((places, listed, errors),) = run(
        DRIVER
        + """
GIB = 1 << 30
one = device(5, regions=2, mapped=True)
a, b, c = alloc(one, 100, align=4096), alloc(one, 100, align=4096, kind=10), alloc(one, 100, channel=3, region=1)
class Chunk(ctypes.Structure):
    _fields_ = [("pa", c_uint64), ("size", c_uint64), ("kind", c_uint32)]
chunks, count = (Chunk * 4)(), c_uint32(4)
ok(nrt.ndl_dump_device_allocation_info(one, 0, chunks, byref(count)))
va, size, mapped = c_void_p(), c_size_t(), c_void_p()
assert nrt.ndl_get_hbm_va(one, 3, byref(va), byref(size)) == 0 and size.value == 24 * GIB
put(c, b"here")
assert ctypes.string_at(va.value + address(c) - 3 * 24 * GIB, 4) == b"here"
where = [c_int(), c_int()]
ok(nrt.ndl_get_va_placement(va, *map(byref, where)))
errors = [nrt.ndl_get_hbm_va(one, 4, byref(va), byref(size)), nrt.ndl_get_hbm_va(one, -1, byref(va), byref(size)),
          nrt.ndl_get_hbm_va(None, 0, byref(va), byref(size)),
          code(nrt.ndl_get_va_placement(byref(count), *map(byref, where))),
          code(nrt.ndl_open_device(5, byref(Params(True, 1, False)), byref(c_void_p()))),
          code(nrt.ndl_open_device(16, byref(Params(True, 1, False)), byref(c_void_p()))),
          alloc(one, 12 * GIB + 64, region=1)]
print(json.dumps([[address(a), address(b), address(c) - 3 * 24 * GIB - 12 * GIB, [each.value for each in where]],
                  [[each.pa, each.size, each.kind] for each in chunks[:count.value]], errors]))
"""
    )
    assert places == [0, 4096, 0, [5, 3]]
    assert listed == [[0, 128, 9], [4096, 128, 10]]
    assert errors == [-2, -22, -22, "EINVAL", "EINVAL", "EINVAL", "ENOMEM"]


def test_tensors_of_nrt_lie_in_the_same_memory(run):
    ((info, devices, errors),) = run(
        DRIVER
        + """
check(nrt.nrt_init(1, b"", b""))
class Info(ctypes.Structure):
    _fields_ = [("pa", c_uint64), ("size", c_size_t), ("hbm", c_int)]
def place(of):
    info = Info()
    check(nrt.nrt_tensor_get_device_allocation_info(of, byref(info)))
    return info
made = tensor(100, core=6)                      # of 4 logical cores of a device: HBM 2 of device 1
write(made, bytes(range(100)))
part = c_void_p()
check(nrt.nrt_tensor_allocate_slice(made, c_size_t(40), c_size_t(10), b"part", byref(part)))
va, size = c_void_p(), c_size_t()
check(nrt.nrt_get_hbm_mmap_va(1, 2, byref(va), byref(size)))
at = place(made).pa - 2 * size.value
assert ctypes.string_at(va.value + at, 100) == bytes(range(100))
assert ctypes.string_at(va.value + place(part).pa - 2 * size.value, 10) == bytes(range(40, 50))
where = [c_int(), c_int()]
nrt.nrt_tensor_get_va.restype = c_void_p
ok(nrt.ndl_get_va_placement(c_void_p(nrt.nrt_tensor_get_va(made)), *map(byref, where)))
host = c_void_p()
check(nrt.nrt_tensor_allocate(1, 0, c_size_t(8), None, byref(host)))
count, rids = c_uint32(64), (c_uint32 * 64)()
check(nrt.nrt_host_device_id_rid_map_get(byref(count), rids))
errors = [status(each) for each in (
    nrt.nrt_tensor_get_device_allocation_info(host, byref(Info())),
    nrt.nrt_tensor_get_device_allocation_info(made, None),
    nrt.nrt_get_hbm_mmap_va(1, 4, byref(va), byref(size)), nrt.nrt_get_hbm_mmap_va(16, 0, byref(va), byref(size)),
    nrt.nrt_host_device_id_rid_map_get(None, rids))]
print(json.dumps([[place(made).size, place(made).hbm, place(part).size, [each.value for each in where]],
                  list(rids[:count.value]), errors]))
"""
    )
    assert info == [128, 2, 88, [1, 2]] and devices == list(range(16))
    assert errors == ["NRT_INVALID", "NRT_INVALID", "NRT_INVALID_HANDLE", "NRT_INVALID", "NRT_INVALID"]


def test_threads_get_memory_of_their_own(run):
    (good,) = run(
        DRIVER
        + """
import threading
one, good = device(), []
def work(number):
    kept = []
    for i in range(60):
        size = 100 + 1000 * (i % 7)
        handle = alloc(one, size)
        assert get(handle, size) == bytes(size)
        put(handle, bytes([number]) * size)
        kept.append((handle, size))
        if i % 3 == 0:
            ok(nrt.ndl_memory_free(kept.pop(0)[0]))
    assert all(get(handle, size) == bytes([number]) * size for handle, size in kept)
    good.append(number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
for each in threads: each.start()
for each in threads: each.join()
print(json.dumps(sorted(good)))
"""
    )
    assert good == [1, 2, 3, 4]


def test_a_host_without_address_room_is_told(run):
    ((value, message),) = run(
        """
        import resource
        check(nrt.nrt_init(1, b"", b""))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        value = status(nrt.nrt_tensor_allocate(0, 0, c_size_t(64), None, byref(c_void_p())))
        print(json.dumps([value, last()]))
        """
    )
    assert value == "NRT_RESOURCE" and "ulimit -v" in message and "HBM 0 of device 0" in message


# -- cores


def test_semaphores_events_locks_and_states(run):
    ((found, errors),) = run(
        DRIVER
        + """
import threading
one = device()
value, found = c_uint32(), []
ok(nrt.ndl_nc_semaphore_write(one, 2, 255, 10))
ok(nrt.ndl_nc_semaphore_increment(one, 2, 255, 5))
ok(nrt.ndl_nc_semaphore_decrement(one, 2, 255, 16))
for core in (2, 3):
    ok(nrt.ndl_nc_semaphore_read(one, core, 255, byref(value)))
    found.append(value.value)
ok(nrt.ndl_nc_event_set(one, 0, 1, 1))
ok(nrt.ndl_nc_event_get(one, 0, 1, byref(value)))
found.append(value.value)
class Uuid(ctypes.Structure):
    _fields_ = [("value", c_uint8 * 32)]
a, b = Uuid((c_uint8 * 32)(1)), Uuid((c_uint8 * 32)(2))
errors = [code(nrt.ndl_crwl_reader_enter(one, 0, a))]
ok(nrt.ndl_crwl_writer_enter(one, 0, a))
errors += [code(nrt.ndl_crwl_writer_enter(one, 0, b)), code(nrt.ndl_crwl_reader_enter(one, 0, a))]
ok(nrt.ndl_crwl_writer_downgrade(one, 0, a))
ok(nrt.ndl_crwl_reader_enter(one, 0, a))
errors += [code(nrt.ndl_crwl_reader_enter(one, 0, b)), code(nrt.ndl_crwl_writer_enter(one, 0, b))]
ok(nrt.ndl_crwl_reader_exit(one, 0, a))
ok(nrt.ndl_crwl_reader_exit(one, 0, a))
errors.append(code(nrt.ndl_crwl_reader_exit(one, 0, a)))
ok(nrt.ndl_crwl_writer_enter(one, 0, b))
errors += [code(nrt.ndl_nc_semaphore_read(one, 8, 0, byref(value))),
           code(nrt.ndl_nc_semaphore_read(one, 0, 256, byref(value))),
           code(nrt.ndl_nc_event_get(one, -1, 0, byref(value))), code(nrt.ndl_nc_event_get(one, 0, 0, None)),
           code(nrt.ndl_nc_event_set(None, 0, 0, 0))]
states = {}
def start(name):
    state = c_uint32()
    ok(nrt.ndl_nc_init_set_state(one, 4, 1, byref(state)))
    states[name] = state.value
start("first")
second = threading.Thread(target=start, args=("second",))
second.start()
ok(nrt.ndl_nc_init_set_state(one, 4, 2, byref(value)))
second.join()
start("third")
buffers = [c_void_p(), c_void_p()]
for buffer in buffers: ok(nrt.ndl_get_copy_buf(one, 1, byref(buffer)))
handle, va = (c_uint64 * 2).from_address(buffers[0].value)
ctypes.memmove(va, b"copied", 6)
to = alloc(one, 6)
ok(nrt.ndl_memory_copy(c_uint64(handle), to, c_uint64(0), c_uint64(0), c_size_t(6)))
errors.append(code(nrt.ndl_memory_free(c_uint64(handle))))
print(json.dumps([found + [states[name] for name in ("first", "second", "third")] +
                  [buffers[0].value == buffers[1].value, get(to, 6).decode()], errors]))
"""
    )
    assert found == [2**32 - 1, 0, 1, 1, 2, 2, True, "copied"]
    assert errors == ["EINVAL", "EBUSY", "EBUSY", "EINVAL", "EBUSY", *["EINVAL"] * 7]


def test_an_initialisation_that_nobody_ends_is_not_waited_for(run):
    ((found),) = run(
        DRIVER
        + """
one, state = device(), c_uint32()
ok(nrt.ndl_nc_init_set_state(one, 0, 1, byref(state)))
print(json.dumps(code(nrt.ndl_nc_init_set_state(one, 0, 1, byref(state)))))
""",
        OPENTRN_PEER_TIMEOUT_S="0.1",
    )
    assert found == "ETIMEDOUT"


def test_cores_are_marked_between_processes(run):
    """What one process has marked the next passes over; the marks of a process end with it."""
    body = DRIVER + textwrap.dedent(
        """
        import os, subprocess
        def mark(count, begin=0, end=127):
            most, bits = c_uint32(), (c_uint64 * 2)()
            value = nrt.ndl_crwl_nc_range_mark(count, begin, end, byref(most), bits, c_size_t(16))
            cores = [i for i in range(128) if bits[i // 64] >> i % 64 & 1]
            return [cores[0], len(cores), most.value] if value == 0 else [code(value), most.value]
        if "SOURCE" not in os.environ:
            print(json.dumps([mark(8), mark(100), mark(8)]))
        else:
            mine, source = mark(20), os.environ.pop("SOURCE")
            other = subprocess.run([sys.executable, "-c", source, sys.argv[1]], capture_output=True, text=True)
            assert other.returncode == 0, other.stderr
            bits = (c_uint64 * 2)(0xff)
            ok(nrt.ndl_crwl_nc_range_unmark(bits, c_size_t(16)))
            again = code(nrt.ndl_crwl_nc_range_unmark(bits, c_size_t(16)))
            print(json.dumps([mine, json.loads(other.stdout), again, mark(8), mark(1, 5, 4), mark(1, 0, 128)]))
        """
    )
    ((mine, other, again, reused, *wrong),) = run(body, SOURCE=PRELUDE + body)
    assert mine == [0, 20, 128] and other == [[20, 8, 108], [28, 100, 100], ["EBUSY", 0]]
    assert again == "EINVAL" and reused == [0, 8, 108] and wrong == [["EINVAL", 0]] * 2


def test_processes_of_a_device(run, model):
    ((held, memory, loads, said),) = run(
        DRIVER
        + """
import os, tempfile
check(nrt.nrt_init(1, b"", b""))
kept = load(core=1)
two = device(2)
alloc(two, 4096)
class App(ctypes.Structure):
    _fields_ = [("pid", c_int32), ("map", c_uint8), ("uuid", c_uint8 * 32 * 4), ("host", c_size_t),
                ("device", c_size_t)]
apps, count = POINTER(App)(), c_size_t()
ok(nrt.ndl_get_all_apps_info(two, byref(apps), byref(count), 15))
assert count.value == 1 and apps[0].pid == os.getpid() and apps[0].host > 1 << 20
loads, none = c_uint64(), c_uint64()
ok(nrt.ndl_nc_model_started_count(two, 2, byref(loads)))
ok(nrt.ndl_nc_model_started_count(two, 0, byref(none)))
assert none.value == 0
with tempfile.TemporaryFile() as file:
    kept_error = os.dup(2)
    os.dup2(file.fileno(), 2)
    ok(nrt.ndl_dump_nc_pid_info(18, True, 5))
    ok(nrt.ndl_printk(b"a message", 10, 0))
    nrt.nec_ndl_printk(b"another", 8, 0)
    os.dup2(kept_error, 2)
    file.seek(0)
    said = file.read().decode()
wrong = [code(nrt.ndl_printk(b"x" * 10, 5, 0)), code(nrt.ndl_printk(b"x", 5000, 0)), code(nrt.ndl_printk(b"x", 2, 9))]
print(json.dumps([apps[0].map, apps[0].device, loads.value,
                  [str(os.getpid()) in said, "a message" in said, "another" in said, wrong]]))
""",
        model, NEURON_RT_VISIBLE_CORES="8,9",
    )  # fmt: skip
    assert held == 0b1111 and memory >= 4096 and loads == 1
    assert said == [True, True, True, ["EBADMSG", "EFAULT", "EINVAL"]]


# -- the store of data

COUNTING = DRIVER + textwrap.dedent(
    """
    import os, subprocess
    check(nrt.nrt_init(1, b"", b""))
    kept = load(core=1)
    x, n, y, m = (tensor(size, 1) for size in (16, 24, 16, 24))
    inputs, outputs = tensor_set(input0=x, input1=n), tensor_set(output0=y, output1=m)
    for _ in range(3): check(nrt.nrt_execute(kept, inputs, outputs))
    two = device(2)
    """
)


def test_another_process_reads_what_neuron_monitor_shows(run, model):
    """Counters that the device counts, those that the program writes, models, and who the process is."""
    child = PRELUDE + DRIVER + textwrap.dedent(
        """
        class Info(ctypes.Structure):
            _fields_ = [("id", c_uint32), ("node", c_uint32), ("name", c_char * 256), ("uuid", c_char * 16),
                        ("nc", c_uint8), ("sg", c_uint8)]
        nrt.nds_obj_handle_to_model_node_info.restype = POINTER(Info)
        nrt.nds_obj_handle_to_model_node_mem_usage.restype = POINTER(c_size_t)
        nrt.nds_obj_handle_to_process_info.restype = nrt.nds_read_process_info.restype = c_void_p
        nrt.nds_obj_handle_to_process_info_ext.restype = nrt.nds_read_process_info_ext.restype = c_void_p
        import os
        two, pid = device(2), int(os.environ["READ"])
        of = store(two, pid)
        version = c_uint64()
        ok(nrt.nds_get_nd_counter(of, 0, byref(version)))
        models, count = POINTER(c_void_p)(), c_size_t()
        ok(nrt.nds_read_all_model_nodes(of, byref(models), byref(count)))
        rows = []
        for i in range(count.value):
            info = nrt.nds_obj_handle_to_model_node_info(c_void_p(models[i])).contents
            usage = nrt.nds_obj_handle_to_model_node_mem_usage(c_void_p(models[i]))
            rows.append([info.name.decode(), info.nc, usage[2 * (12 + 2)]])
            ok(nrt.nds_obj_delete(c_void_p(models[i])))
        tag = c_void_p(nrt.nds_read_process_info(of))
        tag = ctypes.string_at(nrt.nds_obj_handle_to_process_info(tag) + 1).decode()
        wide = c_void_p(nrt.nds_read_process_info_ext(of))
        wide = ctypes.string_at(nrt.nds_obj_handle_to_process_info_ext(wide)).decode()
        one = c_uint64(1)
        errors = [code(nrt.nds_increment_nc_counter(of, 0, 0, one)), code(nrt.nds_set_nd_counter(of, 11, byref(one))),
                  code(nrt.nds_get_nc_counter(of, 8, 0, byref(one))),
                  code(nrt.nds_get_nc_counter(of, 0, 95, byref(one))),
                  code(nrt.nds_get_nd_counter(of, 31, byref(one))), code(nrt.nds_get_nd_counter(of, 0, None)),
                  store(two, 2**31 - 1), store(two, -4), store(None)]
        print(json.dumps([[counter(of, 2, i) for i in (1, 5, 27, 28, 23, 24)], counter(of, 3, 1), counter(of, 2, 40),
                          version.value, rows, tag, wide, errors]))
        ok(nrt.nds_close(of))
        assert code(nrt.nds_close(of)) == "EBADF"
        """
    )  # fmt: skip
    ((read, left),) = run(
        COUNTING
        + textwrap.dedent(
            """
            own = store(two)
            ok(nrt.nds_increment_nc_counter(own, 2, 1, c_uint64(100)))
            ok(nrt.nds_set_nc_counter(own, 2, 40, byref(c_uint64(7))))
            ok(nrt.nds_decrement_nc_counter(own, 2, 40, c_uint64(2)))
            class Info(ctypes.Structure):
                _fields_ = [("id", c_uint32), ("node", c_uint32), ("name", c_char * 256), ("uuid", c_char * 16),
                            ("nc", c_uint8), ("sg", c_uint8)]
            nrt.nds_obj_new.restype = c_void_p
            nrt.nds_obj_handle_to_model_node_info.restype = POINTER(Info)
            mine = c_void_p(nrt.nds_obj_new(own, 0))
            nrt.nds_obj_handle_to_model_node_info(mine).contents.name = b"told"
            ok(nrt.nds_obj_commit(mine))
            command = [sys.executable, "-c", os.environ["CHILD"], sys.argv[1]]
            def child():
                environment = os.environ | {"READ": str(os.getpid())}
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
                assert done.returncode == 0, done.stderr
                return json.loads(done.stdout)
            first = child()
            check(nrt.nrt_execute(kept, inputs, outputs))
            ok(nrt.nds_set_nc_counter(own, 2, 1, byref(c_uint64(5))))
            assert counter(own, 2, 1) == 5
            check(nrt.nrt_execute(kept, inputs, outputs))
            assert counter(own, 2, 1) == 6
            ok(nrt.nds_obj_delete(mine))
            ok(nrt.nds_close(own))
            print(json.dumps([first, child()]))
            """
        ),
        model, NEURON_RT_VISIBLE_CORES="8,9", NEURON_PROCESS_TAG="job-7", CHILD=child,
    )  # fmt: skip
    counters, second_core, written, version, rows, tag, wide, errors = read
    assert counters[:4] == [103, 0, 1, 3] and counters[4] == 80 and second_core == 0 and written == 5
    numbers = [int(part) for part in opentrn.__version__.split(".")[:3]]
    assert version == numbers[2] | numbers[1] << 32 | numbers[0] << 40
    assert [row[0] for row in rows][-1] == "told" and len(rows) == 2 and rows[0][1] == 2
    assert tag == wide == "job-7"
    assert errors == ["EACCES", "EACCES", *["EINVAL"] * 4, "ENOENT", "EINVAL", "EINVAL"]
    # Behind the close only the device's own counters are there.
    assert left[0][:4] == [5, 0, 1, 5] and left[2] == 0 and [row[0] for row in left[4]] == [rows[0][0]]


def test_counters_without_a_folder_are_the_process_own(run, model):
    ((found, errors),) = run(
        COUNTING
        + """
own = store(two)
ok(nrt.nds_increment_nc_counter(own, 0, 3, c_uint64(2)))
value = c_uint64()
ok(nrt.nds_or_nd_counter(own, 3, c_uint64(1)))
ok(nrt.nds_or_nd_counter(own, 3, c_uint64(1)))
ok(nrt.nds_or_nd_counter(own, 3, c_uint64(4)))
ok(nrt.nds_get_nd_counter(own, 3, byref(value)))
nrt.nds_obj_new.restype = c_void_p
objects = [c_void_p(nrt.nds_obj_new(own, 0)) for _ in range(65)]
codes = [code(nrt.nds_obj_commit(each)) for each in objects]
wrong = [code(nrt.nds_or_nd_counter(own, 3, c_uint64(64))), nrt.nds_obj_new(own, 3), nrt.nds_obj_new(None, 0),
         code(nrt.nds_obj_commit(None)), code(nrt.nds_obj_delete(c_void_p(77))), codes[64], set(codes[:64]) == {0}]
nrt.nds_obj_handle_to_process_info.restype = c_void_p
wrong.append(nrt.nds_obj_handle_to_process_info(objects[0]))
print(json.dumps([[counter(own, 0, 3), value.value, counter(own, 2, 1)], wrong]))
""",
        model, OPENTRN_RUN_DIR="off",
    )  # fmt: skip
    assert found == [2, 0b10010, 0]
    assert errors == ["EINVAL", None, None, "EINVAL", "EBADF", "ENOSPC", True, None]


# -- callbacks, prints


def test_callbacks_of_asynchronous_executions(run, model):
    body = """
        from ctypes import CFUNCTYPE
        seen = []
        callback = CFUNCTYPE(None, c_void_p, c_uint32, c_uint32, c_uint64, c_int)(
            lambda params, model, vnc, job, code: seen.append([params, vnc, job, status(code)]))
        check(nrt.nrt_init(1, b"", b""))
        assert status(nrt.nrt_register_async_exec_callback(None, None)) == "NRT_INVALID"
        check(nrt.nrt_register_async_exec_callback(callback, c_void_p(7)))
        model = load(core=2)
        x, n, y, m = (tensor(size, 2) for size in (16, 24, 16, 24))
        inputs, outputs = tensor_set(input0=x, input1=n), tensor_set(output0=y, output1=m)
        tracker, number = c_void_p(), c_uint64()
        check(nrt.nrta_error_tracker_create(0, byref(tracker)))
        check(nrt.nrta_execute_schedule(model, inputs, outputs, 0, tracker, byref(number)))
        check(nrt.nrt_execute(model, inputs, outputs))
        nrt.nrta_execute_schedule(model, tensor_set(), outputs, 0, tracker, byref(number))
        check(nrt.nrt_async_drain_queued_execs(2))
        assert status(nrt.nrt_async_drain_queued_execs(64)) == "NRT_INVALID"
        print(json.dumps(seen))
        """
    (found,) = run(body, model)
    assert found == [[7, 2, 1, "NRT_SUCCESS"], [7, 2, 2, "NRT_INVALID"]]
    (found,) = run(body, model, NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS="3")
    assert found == [[7, 2, 1, "NRT_SUCCESS"], [7, 2, 2, "NRT_SUCCESS"], [7, 2, 3, "NRT_INVALID"]]


def test_an_asynchronous_mode_that_is_none_is_named(run, model):
    ((code, message),) = run(
        """
        check(nrt.nrt_init(1, b"", b""))
        print(json.dumps([status(nrt.nrt_execute(load(), None, None)), last()]))
        """,
        model, NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS="many",
    )  # fmt: skip
    assert code == "NRT_INVALID" and "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS" in message and "many" in message


@nki.jit
def prints_and_doubles(x):
    tile = nl.ndarray(x.shape, x.dtype)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(tile, x)
    nl.device_print("x:", tile)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.dma_copy(out, tile)
    return out


@pytest.fixture(scope="module")
def printing(tmp_path_factory):
    """A container with a kernel that prints what it takes, 2 by 3."""
    folder = tmp_path_factory.mktemp("printing")
    call = kernel_call.trace(prints_and_doubles, ShapeOf((2, 3)), target="trn2")
    kind = "tensor<2x3xf32>"
    config = f'call_target_name = "{kernel_call.TARGET}", backend_config = "{call.payload}"'
    (folder / "m.mlir").write_text(
        f"func.func @main(%a: {kind}) -> ({kind}) {{\n"
        f'  %k = "stablehlo.custom_call"(%a) {{{config}}} : ({kind}) -> {kind}\n'
        f"  return %k : {kind}\n}}\n"
    )
    return opentrn.compile(folder / "m.mlir", target="trn2").save(folder / "m.neuron")


def test_what_kernels_print_is_read_from_the_stream(run, printing):
    ((events, found),) = run(
        DRIVER
        + """
import select, struct
check(nrt.nrt_init(1, b"", b""))
model = load(core=1)
x, y = tensor(24, 1), tensor(24, 1)
write(x, struct.pack("6f", *range(6)))
inputs, outputs = tensor_set(input0=x), tensor_set(output0=y)
check(nrt.nrt_execute(model, inputs, outputs))     # nobody listens: what it prints is dropped
stream, other = c_int(), c_int()
check(nrt.nrt_debug_client_connect(1, byref(stream)))
found = [status(nrt.nrt_debug_client_connect(1, byref(other))), status(nrt.nrt_debug_client_connect(64, byref(other))),
         status(nrt.nrt_debug_client_connect(0, None))]
header, payload = (c_uint64 * 8)(), c_void_p()
read_one = lambda of: nrt.nrt_debug_client_read_one_event(of, header, byref(payload))
found += [status(read_one(stream)), len(select.select([stream.value], [], [], 0)[0])]
for _ in range(4): check(nrt.nrt_execute(model, inputs, outputs))
found.append(len(select.select([stream.value], [], [], 0)[0]))
events = []
while read_one(stream) == 0:
    raw = ctypes.string_at(payload.value, header[0])
    events.append([header[1] & 0xffffffff, raw[:512].rstrip(b"\\0").decode(), *struct.unpack_from("2I", raw, 512),
                   raw[520:536].rstrip(b"\\0").decode(), struct.unpack_from("8Q", raw, 536),
                   struct.unpack_from("Q", raw, 600)[0], struct.unpack_from("6f", raw, len(raw) - 24)])
found += [len(select.select([stream.value], [], [], 0)[0])]
nrt.nrt_debug_client_connect_close(stream)
found += [status(read_one(stream)), struct.unpack("6f", read(y, 24))]
check(nrt.nrt_debug_client_connect(1, byref(stream)))
print(json.dumps([events, found]))
""",
        printing, NEURON_RT_DEBUG_STREAM_BUFFER_SIZE="3",
    )  # fmt: skip
    assert len(events) == 3 and events[0] == events[2]
    assert events[0][0] == 1 and events[0][1].startswith("x:") and events[0][2:5] == [1, 0, "float32"]
    assert events[0][5:] == [[2, 3, 0, 0, 0, 0, 0, 0], 24, [0, 1, 2, 3, 4, 5]]
    assert found[:3] == ["NRT_INVALID"] * 3 and found[3:7] == ["NRT_QUEUE_EMPTY", 0, 1, 0]
    assert found[7:] == ["NRT_INVALID_HANDLE", [0, 2, 4, 6, 8, 10]]


# -- anything with anything

FUZZ = DRIVER + textwrap.dedent(
    """
    import random
    names, rounds, seed = sys.argv[3].split(","), int(sys.argv[4]), int(sys.argv[5])
    rng = random.Random(seed)
    check(nrt.nrt_init(1, b"", b""))
    room = ctypes.create_string_buffer(1 << 16)      # what pointers of a call may point to
    zeros = ctypes.create_string_buffer(1 << 16)
    devices = [device(i) for i in range(2)]
    handles = [alloc(each, size).value for each in devices for size in (1, 64, 4096)]
    stores = [store(each) for each in devices]
    streams = c_int()
    check(nrt.nrt_debug_client_connect(0, byref(streams)))
    edges = [0, 1, 2, 3, 7, 8, 63, 64, 255, 256, 4096, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
    def pointer():
        return rng.choice([None, ctypes.addressof(room), ctypes.addressof(zeros) + 8 * rng.randrange(16)])
    def argument(kind):
        if kind == "device": return c_void_p(rng.choice([None, 0x10, *[each.value for each in devices]]))
        if kind == "store": return c_void_p(rng.choice([None, 0x10, *[each.value for each in stores]]))
        if kind == "handle": return c_uint64(rng.choice([0, 0x10, *handles]))
        if kind == "pointer": return c_void_p(pointer())
        if kind == "size": return c_uint64(rng.choice([0, 1, 64, 4096, 2**63, 2**64 - 1]))
        return c_uint64(rng.choice(edges))
    kinds = json.loads(open(sys.argv[6]).read())
    for _ in range(rounds):
        name = rng.choice(names)
        arguments = [argument(kind) for kind in kinds[name]]
        if name == "ndl_printk" or name == "nec_ndl_printk":
            arguments[1] = c_uint64(rng.choice([0, 1, 64, 5000]))
        if name in ("ndl_memory_buf_batch_copy", "ndl_open_device"):
            arguments[0 if name.endswith("copy") else 1] = c_void_p(ctypes.addressof(zeros))
            if name.endswith("copy"): arguments[1] = c_uint64(rng.randrange(3))
        function = getattr(nrt, name)
        function.restype = c_uint64
        ctypes.memset(zeros, 0, len(zeros))
        function(*arguments)
    for each in devices: assert nrt.ndl_nc_semaphore_write(each, 0, 0, 1) in (0, 2**64 - 1, 2**32 - 1)
    print(json.dumps("done"))
    """
)
# Parameters by type; everything else is a number. Left out are calls whose pointers C cannot check: a bitmap or map of
# the size that the caller says, and structures that hold pointers of the caller's.
KINDS = [
    (r"ndl_device_t *\*", "device"),
    (r"nds_instance_t *\*(?!\*)", "store"),
    (r"\*", "pointer"),
    (r"mem_handle|\baddr\b", "handle"),
    (r"size_t", "size"),
]
WITHOUT = {
    "ndl_close_device", "nds_close", "ndl_register_soft_incompat_callback", "nrt_debug_client_connect_close",
    "ndl_nc_init_set_state", "ndl_crwl_nc_range_mark", "ndl_crwl_nc_range_unmark", "ndl_get_logical_to_physical_nc_map",
    "ndl_get_host_device_id_to_rid_map", "ndl_available_devices", "nec_get_device_count", "nec_build_port_and_rid_map",
    "ndl_crwl_reader_enter", "ndl_crwl_reader_exit", "ndl_crwl_writer_enter", "ndl_crwl_writer_downgrade",
    "ndl_dump_device_allocation_info", "ndl_memory_copy_as",
}  # fmt: skip


def parameter_kinds():
    """Function -> the kinds of its parameters, of OpenTrn's own headers."""
    found = {}
    for header in ("ndl/ndl.h", "nrt/nds/neuron_ds.h", "nrt/nec.h", "nrt/ndebug_stream.h"):
        text = re.sub(r"/\*.*?\*/", "", (ROOT / "src/nrt/include" / header).read_text(), flags=re.DOTALL)
        for name, parameters in re.findall(r"\b((?:ndl|nds|nec|nrt)_\w+)\(([^;{}]*)\);", text):
            if name in WITHOUT:
                continue
            kinds = []
            for parameter in parameters.split(","):
                if parameter.strip() == "void":
                    continue
                kinds.append(next((kind for rule, kind in KINDS if re.search(rule, parameter)), "number"))
                if re.search(r"ndl_device_t *\*\*|nds_instance_t *\*\*", parameter):
                    kinds[-1] = "pointer"
            found[name] = kinds
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_random_calls_do_not_crash(run, model, tmp_path, seed):
    """Handles of all sorts, null pointers, sizes at the edges: a status, never a crash."""
    kinds = parameter_kinds()
    assert len(kinds) > 100
    (tmp_path / "kinds.json").write_text(json.dumps(kinds))
    done = run(FUZZ, model, ",".join(sorted(kinds)), os.environ.get("OPENTRN_CALLS", "4000"), str(seed),
               str(tmp_path / "kinds.json"), OPENTRN_PEER_TIMEOUT_S="0.1")  # fmt: skip
    assert done == ["done"]
