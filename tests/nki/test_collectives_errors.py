"""What ends a launch on several ranks: errors of the kernel, waits without an end, documented limits."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

import opentrn
import opentrn.nki.collectives as ncc
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl
from opentrn import nki
from opentrn.errors import InputError, NkiValidationError, NotModelled
from tests.ranks import LNC, add_up, copied, data, group_of, hbm, launched, returned

# -- what ends a launch


def refused(label, kernel, ranks, lnc, *args, target="trn2", match=None, kind=NkiValidationError):
    began = time.monotonic()
    with pytest.raises(kind, match=match) as caught:
        launched(kernel, ranks, lnc, *args, target=target)
    assert caught.value.label == label, caught.value
    assert time.monotonic() - began < 20
    return str(caught.value)


@LNC
def test_different_collectives(lnc):
    def kernel(x, group):
        src, dst, large = copied(x), hbm(x), hbm(x, (2 * x.shape[0], x.shape[1]))
        if int(ncc.rank_id()) == 1:
            ncc.all_gather([src], [large], group, 0)
        else:
            ncc.all_reduce([src], [dst], group, nl.add)
        return returned(dst)

    text = refused("collectives.mismatch", kernel, 2, lnc, data(2, 2, 2), group_of(2))
    for part in (
        "rank 0",
        "rank 1",
        "all_reduce(add) of float32[2, 2] in HBM",
        "all_gather of float32[2, 2]",
    ):
        assert part in text
    assert text.count("test_collectives_errors.py:") >= 2


@pytest.mark.parametrize("change", ["shape", "dtype", "groups", "op", "dim"])
def test_collectives_that_differ(change):
    def kernel(x, groups):
        odd = int(ncc.rank_id()) == 1
        dtype = nl.int32 if odd and change == "dtype" else x.dtype
        rows = 2 if odd and change == "shape" else 4
        src = nl.ndarray((rows, 4), dtype, buffer=nl.sbuf)
        nisa.memset(src, 1)
        group = ncc.ReplicaGroup(groups[1 if odd and change == "groups" else 0])
        if change == "dim":
            dst = nl.ndarray((4, 8) if odd else (8, 4), dtype, buffer=nl.sbuf)
            ncc.all_gather([src], [dst], group, 1 if odd else 0)
        else:
            dst = nl.ndarray((rows, 4), dtype, buffer=nl.sbuf)
            ncc.all_reduce([src], [dst], group, nl.maximum if odd and change == "op" else nl.add)

    groups = ([[0, 1]], [[1, 0]])
    refused("collectives.mismatch", kernel, 2, 1, np.zeros((4, 4), np.float32), groups)


@LNC
@pytest.mark.parametrize("ranks", [2, 8])
def test_a_rank_that_returns(lnc, ranks):
    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        if int(ncc.rank_id()) != ranks - 1:
            ncc.all_reduce([src], [dst], group, nl.add)
        return returned(src)

    text = refused("collectives.absent", kernel, ranks, lnc, data(ranks, 2, 2), group_of(ranks))
    assert f"rank {ranks - 1}" in text and "returned without coming to it" in text and "all_reduce" in text


@LNC
def test_a_rank_that_raises_ends_the_launch(lnc):
    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        if int(ncc.rank_id()) == 2:
            raise LookupError("of rank 2")
        ncc.all_reduce([src], [dst], group, nl.add)
        return returned(dst)

    with pytest.raises(LookupError, match="of rank 2"):
        launched(kernel, 4, lnc, data(4, 2, 2), group_of(4))


def test_an_error_of_one_rank_names_it():
    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        if int(ncc.rank_id()) == 1:
            nisa.dma_copy(dst=dst, src=hbm(x))
        ncc.all_reduce([src], [dst], group, nl.add)
        return returned(dst)

    with pytest.raises(NkiValidationError) as caught:
        launched(kernel, 2, 1, data(2, 2, 2), group_of(2))
    assert caught.value.label == "sim.uninitialised_read" and "rank: 1 of 2" in str(caught.value)


def test_overlapping_groups_that_wait_in_a_circle():
    """No two of them wait for each other, and no one can go on."""

    def kernel(x):
        src, dst = copied(x), hbm(x)
        rank = int(ncc.rank_id())
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[rank, (rank + 1) % 3]]), nl.add)
        return returned(dst)

    text = refused("collectives.deadlock", kernel, 3, 1, data(3, 2, 2))
    for rank in range(3):
        assert f"rank {rank}: in all_reduce" in text


def test_overlapping_groups_of_one_call():
    def kernel(x, groups):
        src, dst = copied(x), hbm(x)
        ncc.all_reduce([src], [dst], groups, nl.add)

    refused("collectives.groups", kernel, 3, 1, data(3, 2, 2), ((0, 1), (1, 2)), match="twice")
    with pytest.raises(NkiValidationError, match="a rank appears in two groups"):
        ncc.ReplicaGroup([[0, 1], [1, 2]])


def test_one_core_of_a_rank_alone():
    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        if nl.program_id(0) == 0:
            ncc.all_reduce([src], [dst], group, nl.add)
        return returned(src)

    text = refused("collectives.absent", kernel, 2, 2, data(2, 2, 2), group_of(2))
    assert "core 1 returned without coming to it" in text


def test_one_core_at_a_barrier():
    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        if nl.program_id(0) == 0:
            ncc.all_reduce([src], [dst], group, nl.add)
        else:
            nisa.core_barrier(data=src, cores=(0, 1))
        return returned(src)

    text = refused("collectives.deadlock", kernel, 2, 2, data(2, 2, 2), group_of(2))
    assert "at core_barrier" in text and "in all_reduce" in text


def test_parts_by_program_are_refused():
    """It counts once for both cores: parts would leave half of the tensor as it was."""

    def kernel(x, group):
        half = nl.ds(nl.program_id(0) * 2, 2)
        src, dst = copied(x), hbm(x)
        ncc.all_reduce([src[half]], [dst[half]], group, nl.add)
        return returned(dst)

    refused("collectives.programs", kernel, 2, 2, data(2, 4, 2), group_of(2), match="counts once for both")


@LNC
def test_an_interrupt_ends_all_ranks(lnc):
    """Ctrl-C while one rank computes and the others wait for it."""

    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        if int(ncc.rank_id()) == 0:
            tile = nl.ndarray((128, 2048), nl.float32, buffer=nl.sbuf)
            nisa.memset(tile, 0.0)
            for _ in nl.dynamic_range(1 << 22):
                nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.dma_copy(dst=hbm(tile), src=tile)
        ncc.all_reduce([src], [dst], group, nl.add)
        return returned(dst)

    main = threading.main_thread().ident
    timer = threading.Timer(1.0, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            launched(kernel, 4, lnc, data(4, 2, 2), group_of(4))
    finally:
        timer.cancel()
    assert time.monotonic() - began < 1.0 + 2.0  # about 0.2 s where nothing else runs


# -- documented limits


def test_limits():
    def call(function, *args, **kwargs):
        def kernel(*tensors):
            function(*tensors)

        return lambda label, match, ranks=2, lnc=1, target="trn2": refused(
            label, kernel, ranks, lnc, *args, target=target, match=match, **kwargs
        )

    x, group = np.ones((4, 4), np.float32), group_of(2)
    reduce = ncc.all_reduce
    sbuf = lambda shape=(4, 4), dtype=nl.float32: copied_tile(shape, dtype)  # noqa: E731

    def copied_tile(shape, dtype):
        tile = nl.ndarray(shape, dtype, buffer=nl.sbuf)
        nisa.memset(tile, 1)
        return tile

    cases = [
        ("memory", "all operands are in HBM, or all in SBUF", lambda x: reduce([copied(x)], [sbuf()], group, nl.add)),
        ("memory", "operands are in HBM or SBUF",
         lambda x: reduce([nl.ndarray((4, 4), nl.float32, buffer=nl.psum)], [sbuf()], group, nl.add)),
        ("memory", "operands are in HBM", lambda x: ncc.all_to_all([sbuf()], [sbuf()], group, 0)),
        ("memory", "operands are in HBM", lambda x: ncc.collective_permute([sbuf()], [sbuf()], [(0, 1)])),
        ("coalesced", "2 tensors in SBUF", lambda x: reduce([sbuf(), sbuf()], [sbuf(), sbuf()], group, nl.add)),
        ("coalesced", "it takes one", lambda x: ncc.collective_permute([copied(x)] * 2, [hbm(x)] * 2, [(0, 1)])),
        ("coalesced", "2 tensors for a channel",
         lambda x: ncc.collective_permute_implicit([[copied(x)] * 2], [[hbm(x)] * 2], group)),
        ("operands", "1 sources and 2 destinations", lambda x: reduce([copied(x)], [hbm(x), hbm(x)], group, nl.add)),
        ("operands", "dsts is empty", lambda x: reduce([], [], group, nl.add)),
        ("dtype", "converts nothing",
         lambda x: reduce([copied(x)], [nl.ndarray((4, 4), nl.bfloat16, buffer=nl.shared_hbm)], group, nl.add)),
        ("dtype", "one call reduces",
         lambda x: reduce([copied(x), nl.ndarray((2, 2), nl.int32, buffer=nl.shared_hbm)],
                          [hbm(x), nl.ndarray((2, 2), nl.int32, buffer=nl.shared_hbm)], group, nl.add)),
        ("op", "nl.add, nl.minimum and nl.maximum", lambda x: reduce([copied(x)], [hbm(x)], group, nl.multiply)),
        ("shape", "the destination has the shape", lambda x: reduce([copied(x)], [hbm(x, (4, 2))], group, nl.add)),
        ("shape", "the destination has the shape", lambda x: ncc.all_gather([copied(x)], [hbm(x)], group, 0)),
        ("shape", "does not divide by 2 ranks",
         lambda x: ncc.reduce_scatter([copied(x[0:3])], [hbm(x, (1, 4))], group, 0, nl.add)),
        ("shape", "in SBUF it has two",
         lambda x: reduce([sbuf((2, 2, 4))], [sbuf((2, 2, 4))], group, nl.add)),
        ("dim", "0 for tensors in HBM", lambda x: ncc.all_gather([copied(x)], [hbm(x, (4, 8))], group, 1)),
        ("dim", "it is 0", lambda x: ncc.reduce_scatter([sbuf()], [sbuf((4, 2))], group, 1, nl.add)),
        ("dim", "it is 0", lambda x: ncc.all_to_all([copied(x)], [hbm(x)], group, -1)),
        ("priority", "for NeuronCore-v4", lambda x: reduce([copied(x)], [hbm(x)], group, nl.add, priority=0)),
        ("priority", "it is 0 to 3", lambda x: reduce([copied(x)], [hbm(x)], group, nl.add, priority=4)),
        ("priority", "it is 0 to 3", lambda x: reduce([copied(x)], [hbm(x)], group, nl.add, priority=-1)),
        ("groups", "replica_group is None", lambda x: reduce([copied(x)], [hbm(x)], None, nl.add)),
        ("groups", "in none of the groups",
         lambda x: reduce([copied(x)], [hbm(x)], ncc.ReplicaGroup([[1]]), nl.add)),
        ("groups", "groups of 2 and 1 ranks",
         lambda x: reduce([copied(x)], [hbm(x)], ncc.ReplicaGroup([[0, 1], [2]]), nl.add)),
        ("groups", "there is no rank -1", lambda x: reduce([copied(x)], [hbm(x)], ncc.ReplicaGroup([[0, -1]]), nl.add)),
        ("ranks", "rank 2 takes part, and the launch has 2 ranks",
         lambda x: reduce([copied(x)], [hbm(x)], ncc.ReplicaGroup([[0, 1, 2]]), nl.add)),
        ("pairs", "is empty", lambda x: ncc.collective_permute([copied(x)], [hbm(x)], [])),
        ("pairs", "is not the only pair", lambda x: ncc.collective_permute([copied(x)], [hbm(x)], [(0, 1), (1, 1)])),
        ("channels", "0, 1, ... in order",
         lambda x: ncc.collective_permute_implicit([[copied(x)]], [[hbm(x)]], group, channel_ids=[1])),
        ("channels", "2 channels and 1 destinations",
         lambda x: ncc.collective_permute_implicit([[copied(x)]], [[hbm(x)]], group, channel_ids=[0, 1])),
        ("channels", "have 2 channels",
         lambda x: ncc.collective_permute_implicit(
             [[copied(x)]] * 3, [[hbm(x)]] * 3, group, channel_ids=[0, 1, 2])),
        ("channels", "channel 2",
         lambda x: ncc.collective_permute_implicit_current_processing_rank_id(0, group, channel_id=2)),
        ("argument", "is an argument of the kernel", lambda x: reduce([x], [hbm(x)], group, nl.add)),
        ("lnc", "two physical ones", lambda x: ncc.all_gather_v([copied(x)], [hbm(x)], group, copied(x))),
        ("groups", "same rank of different servers",
         lambda x: ncc.all_to_all_v([copied(x)], [hbm(x)], group, copied(x))),
    ]  # fmt: skip
    for rule, match, function in cases:
        text = call(function, x)(f"collectives.{rule}", match)
        assert "test_collectives_errors.py:" in text, text


@pytest.mark.parametrize(
    "label, match, call",
    [
        ("collectives.operands", "1 destinations", lambda x, g: ncc.all_reduce(None, [hbm(x)], g, nl.add)),
        ("collectives.operands", "dsts is empty", lambda x, g: ncc.all_reduce([copied(x)], None, g, nl.add)),
        ("nki.arguments", "op is .*NoneType", lambda x, g: ncc.all_reduce([copied(x)], [hbm(x)], g, None)),
        ("nki.arguments", "collective_dim is", lambda x, g: ncc.all_gather([copied(x)], [hbm(x, (8, 4))], g, "0")),
        ("nki.arguments", "collective_dim is", lambda x, g: ncc.all_gather([copied(x)], [hbm(x, (8, 4))], g, None)),
        ("nki.arguments", "priority is", lambda x, g: ncc.all_reduce([copied(x)], [hbm(x)], g, nl.add, priority=0.0)),
        ("nki.arguments", "source_target_pairs", lambda x, g: ncc.collective_permute([copied(x)], [hbm(x)], 5)),
        ("nki.arguments", "source_target_pairs",
         lambda x, g: ncc.collective_permute([copied(x)], [hbm(x)], [("a", 1)])),
        ("nki.arguments", "channel_ids is",
         lambda x, g: ncc.collective_permute_implicit([[copied(x)]], [[hbm(x)]], g, channel_ids="0")),
        ("nki.arguments", "iteration_id is None",
         lambda x, g: ncc.collective_permute_implicit_current_processing_rank_id(None, g)),
        ("collectives.groups", "list of lists of ranks", lambda x, g: ncc.ReplicaGroup({0: 1})),
        ("collectives.groups", "list of lists of ranks", lambda x, g: ncc.ReplicaGroup([[0.5, 1]])),
        ("collectives.groups", "list of lists of ranks", lambda x, g: ncc.ReplicaGroup([[[0, 1]]])),
    ],
)  # fmt: skip
def test_arguments_of_other_types(label, match, call):
    def kernel(x, group):
        call(x, group)

    refused(label, kernel, 2, 1, np.ones((4, 4), np.float32), group_of(2), match=match)


def test_more_ranks_than_any_machine_has_cores():
    with pytest.raises(InputError, match="the largest machine has") as caught:
        nki.simulate(lambda: None, ranks=10**7)
    assert caught.value.label == "launch.ranks"


@pytest.mark.parametrize("given", [None, [1], {0: 1}])
def test_inputs_of_a_rank_that_are_no_arguments(given):
    with pytest.raises(InputError, match=r"rank_inputs gave .* for rank 0") as caught:
        opentrn.run(lambda x: x, np.ones((2, 2), np.float32), ranks=2, rank_inputs=lambda rank: given)
    assert caught.value.label == "launch.ranks"


def test_more_calls_on_one_rank():
    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        for _ in range(1 + int(ncc.rank_id())):
            ncc.all_reduce([src], [dst], group, nl.add)
        return returned(dst)

    text = refused("collectives.absent", kernel, 2, 1, data(2, 2, 2), group_of(2))
    assert "rank 1 is in all_reduce" in text and "rank 0 returned without coming to it" in text


def test_pairs_and_shapes_that_differ_by_rank():
    def permute(x):
        src, dst = copied(x), hbm(x)
        ncc.collective_permute([src], [dst], [(0, 1)] if int(ncc.rank_id()) == 0 else [(1, 0)])
        return returned(src)

    text = refused("collectives.mismatch", permute, 2, 1, data(2, 2, 2))
    assert "by the pairs [(0, 1)]" in text and "by the pairs [(1, 0)]" in text
    text = refused(
        "collectives.mismatch", add_up, 2, 1, [np.ones((2, 2), np.float32), np.ones((4, 2), np.float32)], group_of(2)
    )
    assert "float32[2, 2]" in text and "float32[4, 2]" in text


def test_limits_of_two_cores_and_other_targets():
    def private(x, group):
        src = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(dst=src, src=x)
        ncc.all_reduce([src], [hbm(x)], group, nl.add)

    x, metadata = data(4, 4, 4), np.zeros((3, 4), np.uint32)
    refused("collectives.memory", private, 4, 2, x, group_of(4), match="tensors that both have")

    def gather_v(x, metadata, group, displaced):
        ncc.all_gather_v([copied(x)], [hbm(x)], group, copied(metadata), has_rdispls=displaced)

    refused("collectives.has_rdispls", gather_v, 4, 2, x, metadata, group_of(4), True, match="not supported")
    pairs = ncc.ReplicaGroup([[0, 1], [2, 3]])
    refused(
        "collectives.groups", gather_v, 4, 2, x, metadata, pairs, False, match="groups of 2 ranks; they have 4"
    )
    wrong = np.zeros((4, 4), np.uint32)
    refused("collectives.metadata", gather_v, 4, 2, x, wrong, group_of(4), False, match="it is uint32")
    too_many = np.array([[5] * 4, [0] * 4, [0] * 4], np.uint32)
    refused(
        "collectives.metadata", gather_v, 4, 2, x, too_many, group_of(4), False, match="which has room for 4"
    )
    outside = np.array([[4] * 4, [14] * 4, [0] * 4], np.uint32)
    refused("collectives.metadata", gather_v, 4, 2, x, outside, group_of(4), False, match="of a source of 16")

    def to_all_v(x, metadata, group, displaced=False):
        ncc.all_to_all_v([copied(x)], [hbm(x)], group, copied(metadata), has_rdispls=displaced)

    eight = data(8, 4, 4)
    for groups in ([[0, 1, 2, 3]], [[1, 2, 3, 0, 4, 5, 6, 7]], [[0, 1, 2, 3, 4, 5, 6]]):
        others = [[r] for r in range(8) if r not in groups[0]] if len(groups[0]) < 8 else []
        ranks = 8 if not others else len(groups[0])
        refused(
            "collectives.groups",
            to_all_v,
            ranks,
            2,
            eight[:ranks],
            metadata,
            ncc.ReplicaGroup(groups),
            target="trn3",
            match="not a sequence of all ranks of two or more devices",
        )
    refused(
        "collectives.lnc", to_all_v, 8, 1, eight, metadata, group_of(8), target="trn3", match="two physical"
    )
    refused("collectives.has_rdispls", to_all_v, 4, 2, x, metadata, group_of(4), True, match="NeuronSwitch")


def test_priority_and_four_channels_where_they_are():
    def kernel(x, group):
        src, dst = copied(x), hbm(x)
        ncc.all_reduce([src], [dst], group, nl.add, priority=3)
        arrived = [hbm(x) for _ in range(4)]
        ncc.collective_permute_implicit([[src]] * 4, [[t] for t in arrived], group, channel_ids=[0, 1, 2, 3])
        return returned(dst), *(returned(t) for t in arrived)

    x = data(16, 2, 2)
    for rank, (total, *arrived) in enumerate(launched(kernel, 16, 2, x, group_of(16), target="trn3")):
        assert np.array_equal(total, sum(x))
        for channel, part in enumerate(arrived):
            assert np.array_equal(part, x[(rank - 1 if channel % 2 == 0 else rank + 1) % 16])


def test_a_launch_without_ranks_has_one():
    def kernel(x):
        ncc.all_gather([copied(x)], [hbm(x, (8, 4))], group_of(2), 0)

    with pytest.raises(NkiValidationError, match="the launch has 1 rank") as caught:
        nki.simulate(kernel)(np.ones((4, 4), np.float32))
    assert caught.value.label == "collectives.ranks" and "ranks=2" in caught.value.hint


def test_the_oracle_has_one_rank():
    bound = nki.simulate(add_up, backend="oracle", ranks=2)
    with pytest.raises(NotModelled, match="runs one rank") as caught:
        bound(np.ones((2, 2), np.float32), group_of(2))
    assert caught.value.label == "launch.ranks"


def test_a_kernel_in_a_model_has_one_rank():
    from opentrn.kernel import trace

    with pytest.raises(NotModelled, match="on 2 ranks in a model") as caught:
        trace.trace(nki.jit(add_up).on_ranks(2), np.ones((2, 2), np.float32), group_of(2))
    assert caught.value.label == "launch.ranks"
