"""nki.collectives: communication between ranks.

A launch simulates one rank (one logical NeuronCore), so `rank_id()` is 0 and a collective whose groups each
hold a single rank is the copy it degenerates to. Groups of several ranks are refused by name: their peers
do not exist in the launch. Source: nki/api/nki/collectives.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, NoReturn

from opentrn.errors import NotModelled, require
from opentrn.nki import _machine
from opentrn.nki import isa as nisa
from opentrn.nki._objects import NKIObject


@dataclass
class ReplicaGroup(NKIObject):
    """Lists of ranks that take part in one collective together; the lists may not overlap."""

    groups: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        ranks = [rank for group in self.groups for rank in group]
        require(len(ranks) == len(set(ranks)), f"ReplicaGroup: a rank appears in two groups of {self.groups}")


# NKIObject's __init__ takes whatever fields a class has.
ReplicaGroup.__signature__ = inspect.Signature(
    [inspect.Parameter("groups", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=[])]
)


def rank_id(name: str | None = None) -> Any:
    """A register with this rank's number: 0, the only rank of a simulated launch."""
    _machine.machine()
    return nisa.register_alloc(0)


def _groups(name: str, replica_group: Any) -> list[list[int]]:
    require(
        replica_group is not None,
        f"{name}: replica_group is None; it is a ReplicaGroup, the lists of ranks that take part together",
    )
    return list(getattr(replica_group, "groups", replica_group))


def _require_single_rank(name: str, replica_group: Any) -> None:
    widest = max((len(group) for group in _groups(name, replica_group)), default=1)
    if widest > 1:
        raise NotModelled(
            f"nki.collectives.{name} over groups of {widest} ranks: a launch simulates one rank and its "
            "peers do not exist. Run the kernel with single-rank groups, or wait for multi-rank launches"
        )


def _copy_all(name: str, srcs: Any, dsts: Any) -> None:
    srcs, dsts = list(srcs), list(dsts)
    require(len(srcs) == len(dsts), f"{name}: {len(srcs)} sources and {len(dsts)} destinations")
    for src, dst in zip(srcs, dsts):
        nisa.dma_copy(dst, src)


def all_reduce(srcs, dsts, replica_group, op, priority=None, name=None) -> None:
    """Each destination becomes the reduction of the sources of all ranks of the group."""
    _require_single_rank("all_reduce", replica_group)
    _copy_all("all_reduce", srcs, dsts)


def all_gather(srcs, dsts, replica_group, collective_dim, priority=None, name=None) -> None:
    """Each destination becomes the sources of all ranks, concatenated along `collective_dim`."""
    _require_single_rank("all_gather", replica_group)
    _copy_all("all_gather", srcs, dsts)


def reduce_scatter(srcs, dsts, replica_group, collective_dim, op, priority=None, name=None) -> None:
    """Each destination becomes this rank's part of the reduction along `collective_dim`."""
    _require_single_rank("reduce_scatter", replica_group)
    _copy_all("reduce_scatter", srcs, dsts)


def all_to_all(srcs, dsts, replica_group, collective_dim, priority=None, name=None) -> None:
    """Part r of each source goes to rank r."""
    _require_single_rank("all_to_all", replica_group)
    _copy_all("all_to_all", srcs, dsts)


def _refuse(name: str) -> NoReturn:
    raise NotModelled(
        f"nki.collectives.{name} needs several ranks; a launch simulates one rank, without peers"
    )


def all_gather_v(
    srcs,
    dsts,
    replica_group,
    metadata_tensor,
    recv_counts_known=False,
    has_rdispls=False,
    priority=None,
    name=None,
) -> None:
    """all_gather of a different length from every rank. Refused: needs several ranks."""
    _refuse("all_gather_v")


def all_to_all_v(
    srcs,
    dsts,
    replica_group,
    metadata_tensor,
    recv_counts_known=False,
    has_rdispls=False,
    priority=None,
    name=None,
) -> None:
    """all_to_all of a different length to every rank. Refused: needs several ranks."""
    _refuse("all_to_all_v")


def collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None) -> None:
    """The sources of a pair's first rank become the destinations of its second. Refused: needs several ranks."""
    _refuse("collective_permute")


def collective_permute_implicit(
    srcs_by_channel, dsts_by_channel, replica_group, channel_ids=(0,), priority=None, name=None
) -> None:
    """Every rank sends to the next of its ring, channel by channel. Refused: needs several ranks."""
    _refuse("collective_permute_implicit")


def collective_permute_implicit_reduce(
    srcs0_by_channel,
    srcs1_by_channel,
    dsts_by_channel,
    replica_group,
    op,
    channel_ids=(0,),
    priority=None,
    name=None,
) -> None:
    """Every rank sends the reduction of two sources to the next of its ring. Refused: needs several ranks."""
    _refuse("collective_permute_implicit_reduce")


def collective_permute_implicit_current_processing_rank_id(
    iteration_id, replica_group, channel_id=0, name=None
) -> Any:
    """The rank whose data an iteration of the ring holds. Refused: needs several ranks."""
    _refuse("collective_permute_implicit_current_processing_rank_id")


__all__ = [
    "ReplicaGroup", "all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v",
    "collective_permute", "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce", "rank_id", "reduce_scatter",
]  # fmt: skip
