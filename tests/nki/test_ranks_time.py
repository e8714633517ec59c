"""Times of several ranks: collectives on the fabric, beside compute, and ranks that come late."""

from __future__ import annotations

import json

import numpy as np
import pytest

import opentrn
import opentrn.nki.collectives as ncc
import opentrn.nki.isa as nisa
import opentrn.nki.language as nl
from opentrn import _core
from tests.ranks import LNC, copied, group_of, hbm, returned

ROWS, COLUMNS = 512, 1024


def worked(x, times):
    """A tile of `x` that the Vector engine has worked on."""
    tile = nl.ndarray((128, COLUMNS), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:128, 0:COLUMNS])
    for _ in range(times):
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
    return tile


def kernel(x, group, before, beside):
    """All-reduce of `x`, with `before` operations before and `beside` operations that do not need it."""
    src, dst = copied(x), hbm(x)
    nisa.dma_copy(dst=src[0:128, 0:COLUMNS], src=worked(x, before))
    ncc.all_reduce([src], [dst], group, nl.add)
    aside = hbm(x, (128, COLUMNS))
    nisa.dma_copy(dst=aside, src=worked(x, beside))
    return returned(dst), aside


def only_a_sum(x, group):
    """All-reduce of `x`, with nothing beside it."""
    src, dst = copied(x), hbm(x)
    ncc.all_reduce([src], [dst], group, nl.add)
    return returned(dst)


def timed(ranks, before, beside=0, lnc=1, target="trn2.48xlarge", **options):
    x = opentrn.ShapeOf((ROWS, COLUMNS), "float32")
    before = [before] * ranks if isinstance(before, int) else before
    return opentrn.run(
        kernel, x, group_of(ranks), before, beside, ranks=ranks, lnc=lnc, target=target, execute=False, **options
    )


def traffic(result):
    return json.loads(result.traffic.json())


def test_alone_it_takes_what_the_fabric_predicts(capsys):
    """As `opentrn fabric predict`, which knows nothing of kernels."""
    x = opentrn.ShapeOf((ROWS, COLUMNS), "float32")
    alone = opentrn.run(only_a_sum, x, group_of(4), ranks=4, lnc=1, target="trn2.48xlarge", execute=False)
    one = traffic(alone)["collectives"][0]
    assert one["algorithm"] == "rdh"
    size = ["-r", "4", "--bytes", str(ROWS * COLUMNS * 4), "--datatype", "fp32", "--lnc", "1", "--json"]
    assert _core.run_cli(["fabric", "predict", "all_reduce", "--instance", "trn2.48xlarge", *size]) == 0
    predicted = json.loads(capsys.readouterr().out)
    us = predicted["times"][0]["us"]
    assert one["end_ns"] - one["start_ns"] == pytest.approx(us * 1e3, rel=1e-6)
    assert traffic(timed(4, 0))["collectives"][0]["arrival_spread_ns"] < 2_000


def test_compute_hides_a_collective_and_a_late_rank_does_not():
    alone, beside = timed(4, 0), timed(4, 0, beside=60)
    assert traffic(beside)["exposed_ns"] < 0.5 * traffic(alone)["exposed_ns"]
    late = timed(4, [0, 0, 0, 60])
    told = traffic(late)
    assert told["collectives"][0]["slowest_rank"] == 3
    assert told["collectives"][0]["arrival_spread_ns"] > 20_000
    assert told["ranks"][0]["waiting_ns"] > 10_000 > told["ranks"][3]["waiting_ns"]
    assert late.timings[0].bound_by == "collectives"
    assert min(timing.total_ns for timing in late.timings) > alone.timing.total_ns


@LNC
def test_critical_times_and_the_track_of_collectives(lnc):
    result = timed(4, 3, lnc=lnc)
    for timing in result.timings:
        shares = timing.profile()["bound_by"]["shares"]
        assert sum(share["ns"] for share in shares) == pytest.approx(timing.total_ns)
        assert any(share["resource"] == "collectives" and share["ns"] > 0 for share in shares)
        kinds = [track["kind"] for track in timing.tracks()]
        events = timing.events()
        drawn = events[[kinds[track] == "cc_cores" for track in events["track"]]]
        assert [timing.strings()[name] for name in drawn["name"]] == ["all_reduce (rdh)"]


def test_collectives_of_two_groups_share_a_link():
    def permuted(x, pair):
        if pair is None:
            return copied(x)
        src, dst = copied(x), hbm(x)
        ncc.collective_permute(srcs=[src], dsts=[dst], source_target_pairs=[pair])
        return returned(dst) if pair[1] >= 8 else src

    def lengths(*pairs):
        x = opentrn.ShapeOf((2048, 1024), "float32")
        of_rank = [next((pair for pair in pairs if rank in pair), None) for rank in range(16)]
        result = opentrn.run(permuted, x, of_rank, ranks=16, target="trn2.48xlarge", execute=False)
        return [one["end_ns"] - one["start_ns"] for one in traffic(result)["collectives"]]

    # Ranks 0 and 1 are the cores of one pair, which has one way to the next chip; rank 4 has another.
    (alone,) = lengths((0, 8))
    shared = lengths((0, 8), (1, 9))
    assert min(shared) > 1.5 * alone
    assert len(shared) == 2


def test_an_implicit_permute_takes_one_round_of_its_ring():
    def rotated(x, group):
        src, dst = copied(x), hbm(x)
        ncc.collective_permute_implicit([[src]], [[dst]], group, channel_ids=[0])
        return returned(dst)

    x = opentrn.ShapeOf((ROWS, COLUMNS), "float32")
    result = opentrn.run(rotated, x, group_of(4), ranks=4, target="trn2", execute=False)
    one = traffic(result)["collectives"][0]
    assert one["algorithm"] == "permute" and one["bytes"] == ROWS * COLUMNS * 4
    assert one["bus_gb_s"] == pytest.approx(one["bytes"] / (one["end_ns"] - one["start_ns"]))


@LNC
@pytest.mark.parametrize("look_ahead", [0, 16])
def test_a_collective_that_comes_late_does_not_stop_what_triggers_it(lnc, look_ahead):
    """The second all-reduce and the store of its sum need nothing of the first, which comes after 60 operations."""

    def two_sums(x, group):
        late, late_sum = hbm(x), hbm(x)
        nisa.dma_copy(dst=late[0:128, 0:COLUMNS], src=worked(x, 60))
        ncc.all_reduce([late], [late_sum], group, nl.add)
        early, early_sum = copied(x), hbm(x)
        ncc.all_reduce([early], [early_sum], group, nl.add)
        return returned(early_sum), returned(late_sum)

    x = opentrn.ShapeOf((ROWS, COLUMNS), "float32")
    result = opentrn.run(
        two_sums,
        x,
        group_of(2),
        ranks=2,
        lnc=lnc,
        target="trn2.48xlarge",
        execute=False,
        look_ahead=look_ahead,
    )
    first, second = traffic(result)["collectives"]
    assert second["start_ns"] >= first["end_ns"] > first["start_ns"]


def test_values_do_not_change_the_time():
    x = [np.full((ROWS, COLUMNS), rank, np.float32) for rank in range(4)]
    executed = opentrn.run(kernel, x, group_of(4), [1] * 4, 2, ranks=4, target="trn2.48xlarge")
    assert executed.time_us == timed(4, 1, 2).time_us
    assert [row.computed_by for row in executed.collectives] == ["rdh"]


def test_one_rank_has_no_traffic_and_a_machine_that_is_too_small_is_refused():
    assert timed(1, 0).traffic is None
    with pytest.raises(opentrn.errors.Refusal, match="ranks") as refused:
        timed(64, 0, target="trn2.3xlarge")
    assert refused.value.label == "collectives.ranks"


def bare(x, group):
    """An all-reduce of a copy of `x` into the result, and nothing else."""
    src, dst = hbm(x), hbm(x)
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], group, nl.add)
    return dst


def test_a_kernel_of_one_collective_has_a_time():
    x = [np.full((128, 64), rank, np.float32) for rank in range(2)]
    result = opentrn.run(bare, x, group_of(2), ranks=2, target="trn2")
    assert all((output == 1).all() for output in result.outputs)
    assert result.time_us > 0
    path = result.timing.critical_path()
    assert (path["end_ns"] >= path["start_ns"]).all() and path["start_ns"].min() == 0
