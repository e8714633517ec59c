"""nki.collectives: communication between ranks.

A launch simulates one rank (one logical NeuronCore), so `rank_id()` is 0 and a collective whose groups each
hold a single rank is the copy it degenerates to. Groups of several ranks are refused by name: their peers
do not exist in the launch. Source: nki/api/nki/collectives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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


def rank_id(name: str | None = None) -> Any:
    """A register with this rank's number: 0, the only rank of a simulated launch."""
    _machine.machine()
    return nisa.register_alloc(0)


def _groups(replica_group: Any) -> list[list[int]]:
    return list(getattr(replica_group, "groups", replica_group))


def _require_single_rank(name: str, replica_group: Any) -> None:
    widest = max((len(group) for group in _groups(replica_group)), default=1)
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


def _refusing(name: str):
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotModelled(
            f"nki.collectives.{name} needs several ranks; a launch simulates one rank, without peers"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Refused: needs several ranks."
    return refuse


all_gather_v = _refusing("all_gather_v")
all_to_all_v = _refusing("all_to_all_v")
collective_permute = _refusing("collective_permute")
collective_permute_implicit = _refusing("collective_permute_implicit")
collective_permute_implicit_reduce = _refusing("collective_permute_implicit_reduce")
collective_permute_implicit_current_processing_rank_id = _refusing(
    "collective_permute_implicit_current_processing_rank_id"
)

__all__ = [
    "ReplicaGroup", "all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v",
    "collective_permute", "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce", "rank_id", "reduce_scatter",
]  # fmt: skip
