"""nrt_async_sendrecv_*: tensors between cores of one process, of two, and of nobody."""

import random
import socket
import textwrap
from concurrent import futures

import pytest

from tests.tools.test_libnrt import prefix, run  # noqa: F401 (fixtures)

# Calls that wait end with the library's own time limits, so that no loop here needs one of its own.
CALLS = textwrap.dedent(
    """
    import threading, time
    from ctypes import c_bool
    check(nrt.nrt_init(1, b"", b""))
    call = lambda name, *arguments: status(getattr(nrt, "nrt_async_sendrecv_" + name)(*arguments))
    def init(core): assert call("init", core) == "NRT_SUCCESS", last()
    def make(how, peer, core, ip=b"127.0.0.1"):
        made = c_void_p()
        code = call(how, ip, peer, core, byref(made))
        assert code == "NRT_SUCCESS", (code, last())
        return made
    def met(comm):
        done = c_bool()
        while (code := call("test_comm", comm, byref(done))) == "NRT_SUCCESS" and not done.value: time.sleep(0.001)
        return code
    def post(how, of, comm, length, offset=0):
        request = c_void_p()
        code = call(how + "_tensor", of, c_size_t(offset), c_size_t(length), comm, byref(request))
        return request if code == "NRT_SUCCESS" else code
    def wait(request):
        done, size = c_bool(), c_size_t()
        while (code := call("test_request", request, byref(done), byref(size))) == "NRT_SUCCESS":
            if done.value: return size.value
            time.sleep(0.001)
        return code
    def both(*functions):
        threads = [threading.Thread(target=each) for each in functions]
        for each in threads: each.start()
        for each in threads: each.join()
    def pair(receiver=0, sender=1):
        "Of one process: (that receives, that sends), connected."
        for core in (receiver, sender): init(core)
        take, give = make("accept", sender, receiver), make("connect", receiver, sender)
        assert [met(take), met(give)] == ["NRT_SUCCESS"] * 2, last()
        return take, give
    def content(number, size):
        import random
        return random.Random(number).randbytes(size)
    """
)
MANY = 3 << 20  # bytes; more than a socket buffers


def free_ports(count):
    """The first of so many that follow each other, below those that the system gives to clients meanwhile."""
    for _ in range(100):
        held = []
        first = random.randrange(10_240, 32_000)
        try:
            held += [socket.create_server(("127.0.0.1", first + i)) for i in range(count)]
            return first
        except OSError:
            continue
        finally:
            for each in held:
                each.close()
    raise AssertionError("no free ports")


@pytest.fixture
def calls(run):  # noqa: F811
    def call(body, *arguments, **variables):
        places = {"NEURON_RT_ROOT_COMM_ID": f"127.0.0.1:{free_ports(4)}"} | variables
        return run(CALLS + textwrap.dedent(body), "/dev/null", *arguments, **places)

    return call


# Sends 3 messages to the other core and receives 3, all under way at once. Tensors are of visible core 0.
EXCHANGE = f"""
core, other, size = int(sys.argv[3]), int(sys.argv[4]), {MANY}
init(core)
take, give = make("accept", other, core), make("connect", other, core)
assert [met(take), met(give)] == ["NRT_SUCCESS"] * 2, last()
mine, theirs = tensor(3 * size), tensor(3 * size)
write(mine, b"".join(content(10 * core + i, size) for i in range(3)))
gives = [post("send", mine, give, size - i, i * size) for i in range(3)]
takes = [post("recv", theirs, take, size, i * size) for i in range(3)]
assert [wait(each) for each in takes] == [wait(each) for each in gives] == [size, size - 1, size - 2], last()
assert call("flush", core) == "NRT_SUCCESS"
expected = b"".join(content(10 * other + i, size)[: size - i] + bytes(i) for i in range(3))
print(json.dumps([read(theirs, 3 * size) == expected, wait(takes[0]), call("close", core), call("init", core)]))
"""


@pytest.mark.parametrize("variable", ["NEURON_RT_ROOT_COMM_ID", "NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT"])
def test_two_processes_exchange_tensors(calls, variable):
    """Bit for bit, both ways at once. A core is named by its number on the host, whatever is visible."""
    port = free_ports(4)
    place = {"NEURON_RT_ROOT_COMM_ID": ""} | {variable: f"127.0.0.1:{port}" if "ROOT" in variable else str(port)}
    with futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(calls, EXCHANGE, "0", "2", NEURON_RT_VISIBLE_CORES="0", **place)
        second = pool.submit(calls, EXCHANGE, "2", "0", NEURON_RT_VISIBLE_CORES="2-3", **place)
        for each in (first, second):
            assert each.result() == [[True, "NRT_INVALID_HANDLE", "NRT_SUCCESS", "NRT_SUCCESS"]]


def test_two_threads_exchange_tensors(calls):
    (found,) = calls(
        f"""
        def one(core, other):
            init(core)
            take, give = make("accept", other, core), make("connect", other, core)
            assert [met(take), met(give)] == ["NRT_SUCCESS"] * 2, last()
            mine, theirs = tensor({MANY}, core), tensor({MANY}, core)
            write(mine, content(core, {MANY}))
            takes, gives = post("recv", theirs, take, {MANY}), post("send", mine, give, {MANY})
            rows[core] = [wait(takes), wait(gives), read(theirs, {MANY}) == content(other, {MANY}),
                          call("close", core)]
        rows = {{}}
        both(lambda: one(0, 1), lambda: one(1, 0))
        print(json.dumps([rows[0], rows[1]]))
        """
    )
    assert found == [[MANY, MANY, True, "NRT_SUCCESS"]] * 2


def test_a_message_that_is_too_long_is_refused_on_both_sides_and_the_next_goes_on(calls):
    (found,) = calls(
        """
        take, give = pair()
        one, two = tensor(8), tensor(8)
        write(one, b"abcdefgh")
        rows = []
        for sent, room in ((8, 4), (0, 4), (4, 8)):
            takes, gives = post("recv", two, take, room), post("send", one, give, sent)
            rows.append([wait(takes), wait(gives)])
        print(json.dumps(rows + [read(two, 8).hex(), call("close", 0), call("close", 1)]))
        """
    )
    assert found == [["NRT_FAILURE"] * 2, [0, 0], [4, 4], b"abcd\0\0\0\0".hex(), "NRT_SUCCESS", "NRT_SUCCESS"]


def test_a_peer_that_never_comes_ends_in_a_timeout(calls):
    """Nobody listens; somebody listens and never accepts; nobody calls; connected and nothing is moved."""
    (found,) = calls(
        """
        init(0)
        comms = [make("connect", 3, 0), make("connect", 0, 0), make("accept", 3, 0), make("accept", 0, 0, b"127.0.0.9")]
        rows = [met(each) for each in comms]
        rows += [post("send", tensor(4), comms[0], 4), call("close", 0), call("init", 0)]
        take, give = pair(2, 1)
        rows += [wait(post("recv", tensor(4), take, 4)), post("recv", tensor(4), take, 4)]
        rows += [wait(post("send", tensor(4), give, 4)), call("close", 1), call("close", 2)]
        print(json.dumps(rows))
        """,
        OPENTRN_PEER_TIMEOUT_S="3",
    )
    late, failed, fine = "NRT_TIMEOUT", "NRT_FAILURE", "NRT_SUCCESS"
    assert found == [late, late, late, late, failed, failed, failed, late, failed, failed, fine, fine]


def test_a_request_that_nobody_answers_ends_in_a_timeout(calls):
    (found,) = calls(
        """
        take, give = pair()
        rows = [wait(post("send", tensor(4), give, 4)), wait(post("recv", tensor(4), take, 4))]
        print(json.dumps(rows))
        """,
        OPENTRN_PEER_TIMEOUT_S="3",
    )
    assert found == ["NRT_TIMEOUT", "NRT_FAILURE"]


def test_a_process_that_ends_is_noticed(calls):
    port = {"NEURON_RT_ROOT_COMM_ID": f"127.0.0.1:{free_ports(4)}"}
    with futures.ThreadPoolExecutor(2) as pool:
        stays = pool.submit(
            calls,
            """
            init(0)
            take = make("accept", 1, 0)
            print(json.dumps([met(take), wait(post("recv", tensor(4), take, 4)), last()]))
            """,
            **port,
        )
        goes = pool.submit(calls, 'init(1); print(json.dumps(met(make("connect", 0, 1))))', **port)
        assert goes.result() == ["NRT_SUCCESS"]
        ((met, received, message),) = stays.result()
    assert [met, received] == ["NRT_SUCCESS", "NRT_FAILURE"] and "went away" in message


def test_closing_while_a_request_is_under_way_is_a_failure_and_does_not_wait(calls):
    (found,) = calls(
        """
        take, give = pair()
        request = post("recv", tensor(4), take, 4)
        begin = time.monotonic()
        rows = [call("close", 0), wait(request), call("init", 0), call("close", 1), call("close", 1)]
        init(2)
        make("accept", 1, 2)
        nrt.nrt_close()  # without a close of core 2, whose communicator still waits
        assert time.monotonic() - begin < 20
        rows.append(call("init", 2))
        check(nrt.nrt_init(1, b"", b""))
        print(json.dumps(rows + [call("init", 0), call("init", 2)]))
        """
    )
    bad, good = "NRT_FAILURE", "NRT_SUCCESS"
    assert found == [bad, "NRT_INVALID_HANDLE", bad, good, bad, bad, good, good]


def test_limits_and_handles(calls):
    (found,) = calls(
        """
        comms, requests = c_int(), c_int()
        assert call("get_max_num_communicators_per_lnc", byref(comms)) == "NRT_SUCCESS"
        assert call("get_max_num_pending_request", byref(requests)) == "NRT_SUCCESS"
        take, give = pair()
        some = tensor(4)
        rows = [post("send", some, give, 4) for _ in range(requests.value)]
        assert not any(isinstance(each, str) for each in rows), rows
        rows = [post("send", some, give, 4), post("send", some, take, 4), post("recv", some, give, 4)]
        takes = [post("recv", some, take, 4) for _ in range(requests.value)]
        assert {wait(each) for each in takes} == {4}
        rows += [post("recv", some, take, 4, 1), post("recv", c_void_p(), take, 4), post("recv", some, some, 4)]
        for _ in range(comms.value - 1): make("accept", 1, 0)
        rows += [call("accept", b"127.0.0.1", 1, 0, byref(c_void_p())), call("accept", b"h", 1, 0, byref(c_void_p()))]
        done = c_bool()
        rows += [call("accept", b"127.0.0.1", 1, 2, byref(c_void_p())), call("test_comm", some, byref(done))]
        rows += [call("test_request", some, byref(done), None), call("flush", 2), call("init", 64), call("init", 0)]
        print(json.dumps(rows))
        """
    )
    full, handle, failed = "NRT_RESOURCE", "NRT_INVALID_HANDLE", "NRT_FAILURE"
    assert found == [full, handle, handle, failed, failed, handle, full, failed, failed, handle, handle] + [failed] * 3


def test_calls_before_the_runtime_is_open_fail(run):  # noqa: F811
    ((code, message),) = run("print(json.dumps([status(nrt.nrt_async_sendrecv_init(0)), last()]))")
    assert code == "NRT_FAILURE" and "nrt_init" in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NEURON_RT_ROOT_COMM_ID", ""),
        ("NEURON_RT_ROOT_COMM_ID", "127.0.0.1"),
        ("NEURON_RT_ROOT_COMM_ID", "127.0.0.1:65535"),
        ("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT", "x"),
        ("OPENTRN_PEER_TIMEOUT_S", "soon"),
    ],
)
def test_a_variable_that_is_wrong_is_named(calls, name, value):
    ((code, message),) = calls('print(json.dumps([call("init", 0), last()]))', **{name: value})
    assert code == "NRT_FAILURE" and name in message


def test_a_stranger_at_the_door_is_hung_up_on(calls):
    port = free_ports(4)
    (found,) = calls(
        """
        import socket
        init(0); init(1)
        with socket.create_connection(("127.0.0.1", int(sys.argv[3]) + 1)) as stranger:
            stranger.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
            take, give = make("accept", 1, 0), make("connect", 0, 1)
            print(json.dumps([met(take), met(give)]))
        """,
        str(port),
        NEURON_RT_ROOT_COMM_ID=f"127.0.0.1:{port}",
    )
    assert found == ["NRT_SUCCESS", "NRT_SUCCESS"]
