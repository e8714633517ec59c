"""nki.collectives: communication between ranks.

A rank is a logical NeuronCore with memory of its own. `nki.simulate(kernel, ranks=4)`, `kernel.on_ranks(4)` and
`opentrn.run(kernel, ..., ranks=4)` launch several, which meet at these functions; in a launch without `ranks`
there is one, whose `rank_id()` is 0. A group of a single rank is the copy that a collective then is.
Source: nki/api/nki/collectives. Rules and values: src/nki/collective.h.
"""

from __future__ import annotations

import inspect
import operator
from dataclasses import dataclass, field
from typing import Any

from opentrn.base.notices import tell_once
from opentrn.errors import NkiValidationError, NotModelled, require
from opentrn.nki import _machine
from opentrn.nki import _missing_name as missing_name
from opentrn.nki import isa as nisa
from opentrn.nki._objects import NKIObject


@dataclass
class ReplicaGroup(NKIObject):
    """Lists of ranks that take part in one collective together; the lists may not overlap."""

    groups: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            self.groups = [[operator.index(rank) for rank in group] for group in self.groups]
        except TypeError as error:
            raise NkiValidationError(
                f"ReplicaGroup: groups is {self.groups!r}; it is a list of lists of ranks, as in [[0, 1], [2, 3]]",
                label="collectives.groups",
            ) from error
        ranks = [rank for group in self.groups for rank in group]
        require(
            len(ranks) == len(set(ranks)),
            f"ReplicaGroup: a rank appears in two groups of {self.groups}",
            label="nki.collective",
        )


# NKIObject's __init__ takes whatever fields a class has.
_GROUPS = inspect.Parameter("groups", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=[])
ReplicaGroup.__signature__ = inspect.Signature([_GROUPS])  # type: ignore[attr-defined]  # for inspect


def rank_id(name: str | None = None) -> Any:
    """A register with the number of the rank that runs the program; 0 where a launch has one.

    `name` has no effect, as a register has none; given, it is told so.
    """
    _tell_name("rank_id", name)
    return nisa.register_alloc(getattr(_machine.machine(), "rank", 0))


def _tell_name(function: str, name: str | None) -> None:
    if name:
        tell_once(f"nki.collectives.{function}(name=) has no effect: its result is a register, which has no name")


def _groups(function: str, replica_group: Any) -> Any:
    if replica_group is None:
        raise NkiValidationError(
            f"{function}: replica_group is None; it is a ReplicaGroup, the lists of ranks that take part together",
            label="collectives.groups",
        )
    return getattr(replica_group, "groups", replica_group)


def _issue(function: str, srcs: Any, dsts: Any, replica_group: Any, **options: Any) -> None:
    groups = () if "pairs" in options else _groups(function, replica_group)
    _machine.machine()
    collective = _machine.backend().collective
    if collective is not None:
        collective(function, srcs, dsts, groups, options)
    else:
        _copy_alone(function, srcs, dsts, groups, "pairs" in options)


def _copy_alone(function: str, srcs: Any, dsts: Any, groups: Any, permutes: bool) -> None:
    """What a collective is in a backend with one rank."""
    if permutes or any(len(group) > 1 for group in groups):
        raise NotModelled(
            f"nki.collectives.{function} between several ranks: this backend runs one",
            label="collectives.ranks",
            hint="use the C++ machine: OPENTRN_NKI_BACKEND=core",
        )
    require(
        len(srcs) == len(dsts),
        f"{function}: {len(srcs)} sources and {len(dsts)} destinations",
        label="nki.collective",
    )
    for src, dst in zip(srcs, dsts):
        nisa.dma_copy(dst, src)


def all_reduce(srcs, dsts, replica_group, op, priority=None, name=None) -> None:
    """Each destination becomes the reduction of the sources of all ranks of the group.

    `srcs`, `dsts`: lists of tensors, all in HBM, or one each in SBUF; of one type and shape. `op`: nl.add, nl.minimum
    or nl.maximum. `priority`: 0 to 3, from NeuronCore-v4 on. Raises NkiValidationError, "collectives.*".
    """
    _issue("all_reduce", srcs, dsts, replica_group, op=op, priority=priority, name=name)


def all_gather(srcs, dsts, replica_group, collective_dim, priority=None, name=None) -> None:
    """Each destination becomes the sources of all ranks of the group, concatenated along `collective_dim`.

    `collective_dim`: 0; of tensors in SBUF, which have two dimensions, 0 or 1. Else as all_reduce().
    """
    _issue("all_gather", srcs, dsts, replica_group, dim=collective_dim, priority=priority, name=name)


def reduce_scatter(srcs, dsts, replica_group, collective_dim, op, priority=None, name=None) -> None:
    """Each destination becomes this rank's part, along `collective_dim` 0, of the reduction of all sources.

    The rank at place i of the group gets part i. Else as all_reduce().
    """
    _issue("reduce_scatter", srcs, dsts, replica_group, dim=collective_dim, op=op, priority=priority, name=name)


def all_to_all(srcs, dsts, replica_group, collective_dim, priority=None, name=None) -> None:
    """Part i of each source, along `collective_dim` 0, goes to the rank at place i of the group.

    A destination has the parts in the order of the ranks that they come from. Tensors are in HBM.
    """
    _issue("all_to_all", srcs, dsts, replica_group, dim=collective_dim, priority=priority, name=name)


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
    """all_gather of a length that each rank says when it runs.

    `metadata_tensor`: uint32, (3, ranks) in HBM or (1, 3, ranks) in SBUF. Row 0 has the number of elements that this
    rank sends, row 1 where they begin, both in column 0; row 2 gets the numbers received, unless `recv_counts_known`.
    What rank i of the group sent lies in slot i of the destination's equal slots. Logical cores of two, groups of
    4 ranks, one tensor in HBM.
    """
    _issue_v("all_gather_v", srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority, name)


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
    """all_to_all of lengths that each rank says when it runs.

    `metadata_tensor`: as all_gather_v(), with a number and a beginning for each rank in rows 0 and 1; with
    `has_rdispls` a row 3 says where in the destination each rank's elements go. Between servers, of ranks with one
    place in each; on a NeuronSwitch between all ranks of two or more devices.
    """
    _issue_v("all_to_all_v", srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, priority, name)


def _issue_v(function, srcs, dsts, groups, metadata, recv_counts_known, has_rdispls, priority, name) -> None:
    _issue(
        function, srcs, dsts, groups, metadata=metadata, recv_counts_known=recv_counts_known, has_rdispls=has_rdispls,
        priority=priority, name=name,
    )  # fmt: skip


def collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None) -> None:
    """The source of the first rank of each pair becomes the destination of the second.

    One tensor in HBM. A rank is the first of one pair at most, and the second of one; the destination of a rank that
    is the second of none keeps its value.
    """
    _issue("collective_permute", srcs, dsts, None, pairs=source_target_pairs, priority=priority, name=name)


def collective_permute_implicit(
    srcs_by_channel, dsts_by_channel, replica_group, channel_ids=(0,), priority=None, name=None
) -> None:
    """Every rank sends to the next of its ring, channel by channel.

    `srcs_by_channel`, `dsts_by_channel`: for each channel a list of one tensor. `channel_ids`: 0, 1, ...: up to 4 for
    groups of all devices of a server, else 2. Which rank is next is not for the kernel to know:
    collective_permute_implicit_current_processing_rank_id() says whose data arrived.
    """
    _issue(
        "collective_permute_implicit", srcs_by_channel, dsts_by_channel, replica_group, channels=channel_ids,
        priority=priority, name=name,
    )  # fmt: skip


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
    """Every rank sends op(source 0, source 1) to the next of its ring; else as collective_permute_implicit()."""
    _issue(
        "collective_permute_implicit_reduce", srcs0_by_channel, dsts_by_channel, replica_group, srcs1=srcs1_by_channel,
        op=op, channels=channel_ids, priority=priority, name=name,
    )  # fmt: skip


def collective_permute_implicit_current_processing_rank_id(
    iteration_id, replica_group, channel_id=0, name=None
) -> Any:
    """A register with the rank whose data this rank holds in iteration `iteration_id` of the ring of `channel_id`.

    That is its own number in iteration 0, and then of the ranks before it in the ring. `name` is as in `rank_id`.
    """
    function = "collective_permute_implicit_current_processing_rank_id"
    _tell_name(function, name)
    groups = _groups(function, replica_group)
    _machine.machine()
    processing_rank = _machine.backend().processing_rank
    if processing_rank is None:
        raise NotModelled(
            f"nki.collectives.{function}: this backend runs one rank",
            label="collectives.ranks",
            hint="use the C++ machine: OPENTRN_NKI_BACKEND=core",
        )
    try:
        iteration, channel = int(iteration_id), int(channel_id)
    except (TypeError, ValueError) as error:
        raise NkiValidationError(
            f"{function}: iteration_id is {iteration_id!r} and channel_id {channel_id!r}; both are whole numbers",
            label="nki.arguments",
        ) from error
    return nisa.register_alloc(processing_rank(iteration, groups, channel))


__getattr__ = missing_name.refuses("nki.collectives", globals())

__all__ = [
    "ReplicaGroup", "all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v",
    "collective_permute", "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce", "rank_id", "reduce_scatter",
]  # fmt: skip
