"""nki.collectives between ranks: values against NumPy, and what ends a launch that could not go on."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import opentrn
import opentrn.nki.collectives as ncc
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl
from opentrn import nki
from opentrn.errors import InputError, NkiValidationError, NotModelled
from tests.ranks import LNC, add_up, copied, data, group_of, hbm, launched, returned

RANKS = [2, 4, 8]
REDUCTIONS = {
    "add": (nl.add, np.add),
    "minimum": (nl.minimum, np.minimum),
    "maximum": (nl.maximum, np.maximum),
}
DTYPES = [
    np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.int8, np.int16, np.int32,
    np.uint8, np.uint16, np.uint32,
]  # fmt: skip


# -- values


@LNC
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("buffer", [nl.shared_hbm, nl.sbuf], ids=["hbm", "sbuf"])
@pytest.mark.parametrize("op", REDUCTIONS)
def test_all_reduce(ranks, lnc, buffer, op):
    def kernel(x, group):
        src = copied(x, buffer)
        dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=buffer)
        ncc.all_reduce(srcs=[src], dsts=[dst], replica_group=group, op=REDUCTIONS[op][0])
        return returned(dst)

    x = data(ranks, 16, 12)
    outputs = launched(kernel, ranks, lnc, x, group_of(ranks))
    assert len(outputs) == ranks
    for output in outputs:
        assert np.array_equal(output, REDUCTIONS[op][1].reduce(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_element_types(dtype):
    def kernel(x, group):
        src, total, all_of_them = copied(x), hbm(x), hbm(x, (4 * x.shape[0], x.shape[1]))
        ncc.all_reduce([src], [total], group, nl.add)
        ncc.all_gather([src], [all_of_them], group, 0)
        return returned(total), returned(all_of_them)

    x = data(4, 4, 6, dtype=dtype)
    for total, gathered in launched(kernel, 4, 1, x, group_of(4)):
        assert np.array_equal(total.astype(np.float64), sum(part.astype(np.float64) for part in x))
        assert np.array_equal(gathered, np.concatenate(x))


def test_sums_of_narrow_integers_wrap():
    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        ncc.all_reduce([src], [dst], group, nl.add)
        return returned(dst)

    x = [np.full((1, 4), 200, np.uint8), np.full((1, 4), 100, np.uint8)]
    assert np.array_equal(launched(kernel, 2, 1, x, group_of(2))[1], np.full((1, 4), 44, np.uint8))


@LNC
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(
    ("buffer", "dim"), [(nl.shared_hbm, 0), (nl.sbuf, 0), (nl.sbuf, 1)], ids=["hbm", "sbuf0", "sbuf1"]
)
def test_all_gather(ranks, lnc, buffer, dim):
    def kernel(x, group):
        src = copied(x, buffer)
        shape = list(x.shape)
        shape[dim] *= ranks
        dst = nl.ndarray(tuple(shape), dtype=x.dtype, buffer=buffer)
        ncc.all_gather(srcs=[src], dsts=[dst], replica_group=group, collective_dim=dim)
        return returned(dst)

    x = data(ranks, 8, 6, dtype=ml_dtypes.bfloat16)
    for output in launched(kernel, ranks, lnc, x, group_of(ranks)):
        assert np.array_equal(output, np.concatenate(x, axis=dim))


@LNC
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("buffer", [nl.shared_hbm, nl.sbuf], ids=["hbm", "sbuf"])
def test_reduce_scatter(ranks, lnc, buffer):
    def kernel(x, group):
        src = copied(x, buffer)
        dst = nl.ndarray((x.shape[0] // ranks, x.shape[1]), dtype=x.dtype, buffer=buffer)
        ncc.reduce_scatter([src], [dst], group, 0, nl.add)
        return returned(dst)

    x = data(ranks, 2 * ranks, 5)
    for rank, output in enumerate(launched(kernel, ranks, lnc, x, group_of(ranks))):
        assert np.array_equal(output, sum(x)[2 * rank : 2 * rank + 2])


@LNC
@pytest.mark.parametrize("ranks", RANKS)
def test_all_to_all(ranks, lnc):
    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        ncc.all_to_all([src], [dst], group, 0)
        return returned(dst)

    x = data(ranks, 2 * ranks, 3)
    for rank, output in enumerate(launched(kernel, ranks, lnc, x, group_of(ranks))):
        assert np.array_equal(output, np.concatenate([part[2 * rank : 2 * rank + 2] for part in x]))


@LNC
@pytest.mark.parametrize("ranks", RANKS)
def test_collective_permute(ranks, lnc):
    """Rank 0 is the target of nobody: its destination keeps its value."""

    def kernel(x):
        src, dst = copied(x), hbm(x)
        nisa.dma_copy(dst=dst, src=x)
        ncc.collective_permute([src], [dst], [(i, i + 1) for i in range(ranks - 1)])
        return returned(dst)

    x = data(ranks, 3, 4)
    for rank, output in enumerate(launched(kernel, ranks, lnc, x)):
        assert np.array_equal(output, x[max(0, rank - 1)])


@LNC
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("buffer", [nl.shared_hbm, nl.sbuf], ids=["hbm", "sbuf"])
def test_a_ring_of_implicit_permutes_gathers(ranks, lnc, buffer):
    """In each iteration the rank whose data arrived is the one that the function names, on each channel."""

    def kernel(x, group):
        out = hbm(x, (2, ranks, *x.shape))
        held = [copied(x, buffer), copied(x, buffer)]
        for iteration in range(ranks):
            for channel in range(2):
                owner = ncc.collective_permute_implicit_current_processing_rank_id(iteration, group, channel)
                place = out.ap(
                    pattern=[[x.shape[1], x.shape[0]], [1, x.shape[1]]],
                    offset=channel * ranks * x.shape[0] * x.shape[1],
                    scalar_offset=owner,
                    indirect_dim=1,
                )
                nisa.dma_copy(dst=place, src=held[channel])
            arrived = [nl.ndarray(x.shape, dtype=x.dtype, buffer=buffer) for _ in held]
            ncc.collective_permute_implicit(
                [[t] for t in held], [[t] for t in arrived], group, channel_ids=[0, 1]
            )
            held = arrived
        return out

    x = data(ranks, 4, 3)
    for output in launched(kernel, ranks, lnc, x, group_of(ranks)):
        assert np.array_equal(output, np.stack([np.stack(x)] * 2))


@LNC
@pytest.mark.parametrize("ranks", RANKS)
def test_a_ring_of_reducing_permutes_adds(ranks, lnc):
    """Adding one's own part in every step gives the sum of all after as many steps as there are ranks before one."""

    def kernel(x, zero, group):
        held = copied(zero)
        for _ in range(ranks):
            own, arrived = copied(x), hbm(x)
            ncc.collective_permute_implicit_reduce([[held]], [[own]], [[arrived]], group, nl.add)
            held = arrived
        return returned(held)

    x = data(ranks, 4, 3)
    for output in launched(kernel, ranks, lnc, x, np.zeros_like(x[0]), group_of(ranks)):
        assert np.array_equal(output, sum(x))


@pytest.mark.parametrize("on_chip", [False, True], ids=["hbm", "sbuf"])
@pytest.mark.parametrize("known", [False, True])
def test_all_gather_v(on_chip, known):
    counts, offsets, ranks, slot = [3, 0, 5, 1], [1, 0, 0, 4], 4, 6

    def kernel(x, metadata, start, group):
        src, dst = copied(x), copied(start)
        table = copied(metadata.reshape((1, 3, ranks)), nl.sbuf) if on_chip else copied(metadata)
        ncc.all_gather_v([src], [dst], group, table, recv_counts_known=known)
        out = hbm(table)
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=out, src=table)
        return returned(dst), out

    x = data(ranks, 1, 8)
    metadata = [
        np.array([[counts[r]] + [9] * 3, [offsets[r]] + [9] * 3, [7] * 4], np.uint32) for r in range(ranks)
    ]
    start = np.full((1, ranks * slot), -1, np.float32)
    expected = start.reshape(ranks, slot).copy()
    for r in range(ranks):
        expected[r, : counts[r]] = x[r][0, offsets[r] : offsets[r] + counts[r]]
    for output, table in launched(kernel, ranks, 2, x, metadata, start, group_of(ranks)):
        assert np.array_equal(output.reshape(ranks, slot), expected)
        assert table.reshape(3, ranks)[2].tolist() == ([7] * 4 if known else counts)


def exchange_v(ranks, lnc, target, groups, displaced=False):
    """all_to_all_v of r * place + 1 elements from rank r to place; (outputs, expected)."""
    n = len(groups[0])
    room = 2 * n * n

    def kernel(x, metadata, start, group):
        src, dst, table = copied(x), copied(start), copied(metadata)
        ncc.all_to_all_v([src], [dst], group, table, has_rdispls=displaced)
        return returned(dst), returned(table)

    place = {rank: (group, i) for group in groups for i, rank in enumerate(group)}
    counts = [[(place[r][1] * to) % n for to in range(n)] for r in range(ranks)]
    begins = [np.concatenate([[0], np.cumsum(counts[r])[:-1]]).tolist() for r in range(ranks)]
    slots = [[(n - 1 - i) * (room // n) if displaced else i * (room // n) for i in range(n)]] * ranks
    rows = [[counts[r], begins[r], [0] * n] + ([slots[r]] if displaced else []) for r in range(ranks)]
    x = [np.arange(n * n, dtype=np.float32).reshape(1, -1) + 1000 * r for r in range(ranks)]
    start = np.full((1, room), -1, np.float32)
    expected = [start[0].copy() for _ in range(ranks)]
    for r in range(ranks):
        for i, sender in enumerate(place[r][0]):
            begin, count = begins[sender][place[r][1]], counts[sender][place[r][1]]
            expected[r][slots[r][i] : slots[r][i] + count] = x[sender][0, begin : begin + count]
    outputs = launched(
        kernel,
        ranks,
        lnc,
        x,
        [np.array(row, np.uint32) for row in rows],
        start,
        ncc.ReplicaGroup(groups),
        target=target,
    )
    for r, (output, table) in enumerate(outputs):
        assert np.array_equal(output[0], expected[r])
        assert table[2].tolist() == [counts[sender][place[r][1]] for sender in place[r][0]]


@pytest.mark.parametrize("displaced", [False, True])
def test_all_to_all_v_between_devices_of_a_switch(displaced):
    exchange_v(8, 2, "trn3", [list(range(8))], displaced)


def test_all_to_all_v_between_servers():
    """64 ranks fill two servers of 16 Trainium chips."""
    exchange_v(64, 1, "trn1", [[i, i + 32] for i in range(32)])


@pytest.mark.parametrize("lnc", [1, 2])
def test_several_tensors_in_one_call(lnc):
    def kernel(x, y, group):
        srcs = [copied(x), copied(y)]
        gathered = [hbm(t, (2 * t.shape[0], t.shape[1])) for t in (x, y)]
        parts = [hbm(t, (t.shape[0] // 2, t.shape[1])) for t in (x, y)]
        ncc.all_gather(srcs, gathered, group, 0)
        ncc.reduce_scatter(srcs, parts, group, 0, nl.maximum)
        return tuple(returned(t) for t in (*gathered, *parts))

    x, y = data(2, 4, 3), data(2, 2, 5)
    for rank, (a, b, c, d) in enumerate(launched(kernel, 2, lnc, x, y, group_of(2))):
        assert np.array_equal(a, np.concatenate(x)) and np.array_equal(b, np.concatenate(y))
        assert np.array_equal(c, np.maximum(*x)[2 * rank : 2 * rank + 2])
        assert np.array_equal(d, np.maximum(*y)[rank : rank + 1])


def test_groups_and_their_order():
    """The order of the ranks in a group is the order of their parts; groups do not see each other."""

    def kernel(x, group):
        src, dst = copied(x), hbm(x, (2 * x.shape[0], x.shape[1]))
        ncc.all_gather([src], [dst], group, 0)
        return returned(dst)

    x = data(4, 1, 3)
    outputs = launched(kernel, 4, 1, x, ncc.ReplicaGroup([[2, 0], [1, 3]]))
    for rank, (first, second) in enumerate([(2, 0), (1, 3), (2, 0), (1, 3)]):
        assert np.array_equal(outputs[rank], np.concatenate([x[first], x[second]]))


@LNC
def test_rank_id_as_an_index(lnc):
    def kernel(x):
        out = hbm(x, x.shape[1:])
        nisa.dma_copy(
            dst=out,
            src=x.ap(
                pattern=[[x.shape[2], x.shape[1]], [1, x.shape[2]]],
                scalar_offset=ncc.rank_id(),
                indirect_dim=0,
            ),
        )
        return out

    x = np.stack(data(4, 3, 5))
    assert np.array_equal(np.stack(launched(kernel, 4, lnc, x)), x)


def test_each_core_has_operands_of_its_own_in_sbuf():
    """Core i of each rank meets core i of the others; both have other data, and only one may call it."""

    def kernel(x, group):
        core = nl.program_id(0)
        out = hbm(x)
        mine, total = nl.ndarray((4, 6), x.dtype, buffer=nl.sbuf), nl.ndarray((4, 6), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=mine, src=x[4 * core : 4 * core + 4])
        if core == 1:
            ncc.all_reduce([mine], [total], group, nl.add)
            nisa.dma_copy(dst=out[4:8], src=total)
        else:
            nisa.dma_copy(dst=out[0:4], src=mine)
        return out

    x = data(2, 8, 6)
    for rank, output in enumerate(launched(kernel, 2, 2, x, group_of(2))):
        assert np.array_equal(output, np.concatenate([x[rank][:4], sum(x)[4:]]))


def test_both_cores_write_what_a_collective_in_hbm_reads():
    """It comes after everything that either core did before, and before what they do next."""

    def kernel(x, group):
        core = nl.program_id(0)
        half = nl.ds(4 * core, 4)
        src, dst, out = hbm(x), hbm(x), hbm(x)
        nisa.dma_copy(dst=src[half], src=x[half])
        ncc.all_reduce([src], [dst], group, nl.add)
        other = nl.ds(4 - 4 * core, 4)
        nisa.dma_copy(dst=out[other], src=dst[other])
        return out

    x = data(2, 8, 6)
    for output in launched(kernel, 2, 2, x, group_of(2)):
        assert np.array_equal(output, sum(x))


# -- launching


def test_arguments_by_rank():
    x = np.arange(8, dtype=np.float32).reshape(4, 2, 1)
    group = group_of(4)
    total = x.sum(axis=0)
    jitted = nki.jit(add_up)
    results = [
        jitted.on_ranks(4)(list(x), group),
        jitted.on_ranks(4)(group=group, x=list(x)),
        jitted.on_ranks(4, inputs=lambda rank: {"x": x[rank]})(group=group),
        opentrn.run(jitted, list(x), group, ranks=4, time=False).outputs,
        opentrn.run(
            add_up, ranks=4, rank_inputs=lambda rank: {"x": x[rank]}, group=group, time=False
        ).outputs,
    ]
    for outputs in results:
        assert len(outputs) == 4 and all(np.array_equal(output, total) for output in outputs)
    assert nki.last_launch().ranks == 4
    with pytest.raises(InputError, match="list of 3 values, and the launch has 4 ranks") as caught:
        jitted.on_ranks(4)(list(x[:3]), group)
    assert caught.value.label == "launch.ranks"
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(InputError, match="it is 1 or more"):
            jitted.on_ranks(wrong)
    with pytest.raises(ValueError, match="rank_inputs is of a run with ranks"):
        opentrn.run(add_up, rank_inputs=lambda rank: {}, time=False)


def test_one_rank_gives_a_list_too():
    x = np.ones((2, 2), np.float32)
    assert np.array_equal(nki.simulate(add_up, ranks=1)(x, ncc.ReplicaGroup([[0]])), [x])


def test_ranks_have_memories_of_their_own():
    """An array that all ranks are given is one array for each; the caller's is that of rank 0."""

    def kernel(x, own):
        nisa.dma_copy(dst=x, src=own)
        return returned(x)

    x = np.zeros((2, 2), np.float32)
    own = [np.full((2, 2), rank + 1.0, np.float32) for rank in range(3)]
    outputs = nki.simulate(kernel, ranks=3)(x, own)
    assert [output[0, 0] for output in outputs] == [1, 2, 3] and x[0, 0] == 1
    whole = np.zeros((6, 2), np.float32)
    nki.simulate(kernel, ranks=3)([whole[2 * rank : 2 * rank + 2] for rank in range(3)], own)
    assert whole[:, 0].tolist() == [1, 1, 2, 2, 3, 3]  # rows of one array are no shared memory
    columns = np.zeros((2, 6), np.float32)
    nki.simulate(kernel, ranks=3)([columns[:, 2 * rank : 2 * rank + 2] for rank in range(3)], own)
    assert columns[0].tolist() == [1, 1, 2, 2, 3, 3]
    overlapping = np.zeros((3, 2), np.float32)
    outputs = nki.simulate(kernel, ranks=2)([overlapping[:2], overlapping[1:]], own[:2])
    assert outputs[1][0, 0] == 2 and overlapping[:, 0].tolist() == [1, 1, 0]


def test_what_a_run_says_of_its_collectives():
    x = data(4, 8, 4)
    result = opentrn.run(add_up, x, ncc.ReplicaGroup([[0, 1], [2, 3]]), ranks=4)
    assert [sorted(c.group) for c in sorted(result.collectives, key=lambda c: c.group)] == [[0, 1], [2, 3]]
    for collective in result.collectives:
        assert collective.function == "all_reduce" and collective.bytes == 8 * 4 * 4
        assert collective.what == "all_reduce(add) of float32[8, 4] in HBM over [[0, 1], [2, 3]]"
        assert collective.file.endswith("tests/ranks.py") and collective.line > 0
        assert sorted(collective.places) == sorted(collective.group)
        for rank, (begin, met, end) in collective.places.items():
            lines = [line for line in result.program_text(rank).splitlines() if "dma_copy" in line]
            assert (begin, met, end) == (1, 2, 3) and len(lines) == 4
    assert len(result.timings) == 4 and result.time_us == max(t.total_ns for t in result.timings) / 1e3
    assert result.timing.total_ns == max(t.total_ns for t in result.timings)


def test_time_without_values():
    shape = opentrn.ShapeOf((128, 512), "float32")
    timed = opentrn.run(add_up, shape, group_of(4), ranks=4, execute=False)
    assert timed.time_us > 0 and timed.collectives[0].computed_by == ""
    values = opentrn.run(add_up, data(4, 128, 512), group_of(4), ranks=4)
    assert values.time_us == timed.time_us and values.collectives[0].computed_by


def test_programs_of_all_ranks_are_saved(tmp_path):
    result = opentrn.run(add_up, data(2, 8, 4), group_of(2), ranks=2, lnc=2)
    names = [path.name for path in result.save_program(tmp_path / "p.txt")]
    assert names == ["p.txt", "p.txt.core1", "p.txt.rank1", "p.txt.rank1.core1"]
    assert "dma_copy" in (tmp_path / "p.txt.rank1").read_text()


def test_eager_repeats_loops_that_hold_collectives():
    def kernel(x, group):
        total = copied(x)
        for _ in nl.dynamic_range(3):
            src = copied(total)
            ncc.all_reduce([src], [total], group, nl.add)
        return returned(total)

    x = data(2, 2, 3)
    for output in opentrn.run(kernel, x, group_of(2), ranks=2, eager=True, time=False).outputs:
        assert np.array_equal(output, 4 * sum(x))
    with pytest.raises(NotModelled, match="inside a device loop") as caught:
        opentrn.run(kernel, x, group_of(2), ranks=2, time=False)
    assert caught.value.label == "collectives.loop"


def test_unwritten_elements_stay_unwritten():
    def kernel(x, group, reduced):
        src = nl.ndarray((4, 4), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=src[0:4, 0:2], src=x)
        dst = nl.ndarray((4, 4 if reduced else 8), x.dtype, buffer=nl.sbuf)
        if reduced:
            ncc.all_reduce([src], [dst], group, nl.add)
        else:
            ncc.all_gather([src], [dst], group, 1)
        out = hbm(x)
        good = nl.ndarray((4, 2), x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=good, data=dst[0:4, 4:6], op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=good)
        if not reduced and x.shape[0] == 4 and int(ncc.rank_id()) == 1:
            nisa.tensor_scalar(dst=good, data=dst[0:4, 6:8], op0=nl.add, operand0=1.0)
        return out

    with pytest.raises(NkiValidationError) as caught:
        launched(kernel, 2, 1, data(2, 4, 2), group_of(2), False)
    assert caught.value.label == "sim.uninitialised_read" and "rank: 1 of 2" in str(caught.value)
    with pytest.raises(NkiValidationError, match="are reduced that nothing has written"):
        launched(kernel, 2, 1, data(2, 4, 2), group_of(2), True)
