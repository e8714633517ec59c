"""Functional collectives of exported programs as StableHLO's, between the devices of a mesh.

Such a program is that of one rank. Its groups have to be those along some axes of the mesh, ranks counted with the
last axis fastest, as DeviceMesh counts them: every rank then runs the same program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from opentrn import _core
from opentrn.errors import InputError
from opentrn.torch.registry import NoDeviceForm, Rule, require
from opentrn.torch.text import Body, Spec, Value
from opentrn.torch.types import is_float

# torch's name of a reduction: StableHLO's.
_REDUCTIONS = {
    "sum": "add", "avg": "add", "product": "multiply", "min": "minimum", "max": "maximum", "band": "and",
    "bor": "or", "bxor": "xor",
}  # fmt: skip
_DEFAULT_GROUP = "0"  # torch's name of the group of all ranks, the first that a process makes


def rules_of(mesh: str | None) -> Mapping[str, Rule]:
    """By the name of an op. mesh: in words, "dp=2,tp=4"; None: there is none, and the rules say what to do."""
    return _Rules(mesh).by_name()


def _ranks(group: str, devices: int) -> list[int]:
    """The ranks of a group of this process's, or of all where it is the default group."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        try:
            found = distributed.distributed_c10d._resolve_process_group(group)
        except (RuntimeError, ValueError):  # of another process, which saved the program
            found = None
        if found is not None:
            return list(distributed.get_process_group_ranks(found))
    if group == _DEFAULT_GROUP:
        return list(range(devices))
    raise InputError(
        f"the program has collectives of the group {group!r}, and this process has no such group",
        label="torch.group", hint="hand over the program in the process that made its groups and exported it",
    )  # fmt: skip


class _Rules:
    def __init__(self, mesh: str | None) -> None:
        self.mesh = mesh
        self.channels = 0

    def by_name(self) -> dict[str, Rule]:
        functional: dict[str, Rule] = {
            "all_reduce": self.all_reduce,
            "all_reduce_coalesced": self.each_of(self.all_reduce),
            "all_gather_into_tensor": self.all_gather,
            "all_gather_into_tensor_coalesced": self.each_of(self.all_gather),
            "reduce_scatter_tensor": self.reduce_scatter,
            "reduce_scatter_tensor_coalesced": self.each_of(self.reduce_scatter),
            "all_to_all_single": self.all_to_all,
            "broadcast": self.broadcast,
            "wait_tensor": lambda body, out, value: value,
        }
        found = {f"_c10d_functional::{name}": rule for name, rule in functional.items()}
        for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
            found[f"_c10d_functional_autograd::{name}"] = functional[name]
        found["_dtensor::shard_dim_alltoall"] = self.shard_dim
        return found

    @staticmethod
    def each_of(rule: Rule) -> Rule:
        def rule_of_many(body: Body, out: Sequence[Spec], values: Sequence[Value], *rest: Any) -> tuple[Value, ...]:
            return tuple(rule(body, each, value, *rest) for each, value in zip(out, values, strict=True))

        return rule_of_many

    # ---- groups -----------------------------------------------------------------------------------------------

    def groups(self, group: Any, size: int | None = None) -> list[list[int]]:
        """Of all ranks, those that do what this one does: its group is one of them. size: of it, as the op says."""
        if self.mesh is None:
            raise NoDeviceForm(
                "is a collective between ranks, and the program was given one NeuronCore", label="torch.collective",
                hint='a mesh of as many devices as it has ranks: mesh="rank=2", --mesh rank=2',
            )  # fmt: skip
        name = getattr(group, "group_name", group)
        devices = _core.devices_of_mesh(self.mesh)
        ranks = _ranks(str(name), devices)
        if max(ranks) >= devices or (size is not None and size != len(ranks)):
            raise InputError(
                f"the program's group {name!r} has {len(ranks) if size is None else size} ranks, up to rank "
                f"{max(ranks)}; the mesh {self.mesh} has {devices} devices",
                label="torch.group", hint="a mesh of as many devices as the program has ranks",
            )  # fmt: skip
        return _core.groups_of_mesh(self.mesh, ranks)

    def attributes(self, groups: Sequence[Sequence[int]], *, reduces: bool) -> str:
        self.channels += 1
        text = (
            f"channel_handle = #stablehlo.channel_handle<handle = {self.channels}, type = 1>, replica_groups = "
            f"dense<{[list(group) for group in groups]}> : tensor<{len(groups)}x{len(groups[0])}xi64>"
        )
        return f"{text}, use_global_device_ids" if reduces else text

    # ---- rules ------------------------------------------------------------------------------------------------

    @staticmethod
    def combine(body: Body, reduction: str, value: Value) -> str:
        require(reduction in _REDUCTIONS, f"reduces by {reduction!r}")
        require(reduction != "avg" or is_float(value.dtype), f"takes the mean of {value.dtype}")
        return body.region([value.dtype] * 2, lambda inner, a, b: [_combined(inner, reduction, a, b)])

    @staticmethod
    def mean(body: Body, reduction: str, value: Value, count: int) -> Value:
        return body.divide(value, body.like(count, value)) if reduction == "avg" else value

    def all_reduce(self, body: Body, out: Spec, value: Value, reduction: str, group: Any) -> Value:
        groups = self.groups(group)
        region = self.combine(body, reduction, value)
        text = self.attributes(groups, reduces=True)
        made = body.op("all_reduce", [value], value.shape, value.dtype, text, f" {region}")
        return self.mean(body, reduction, made, len(groups[0]))

    def all_gather(self, body: Body, out: Spec, value: Value, size: int, group: Any) -> Value:
        text = f"all_gather_dim = 0 : i64, {self.attributes(self.groups(group, size), reduces=True)}"
        rows = value if value.rank else body.reshape(value, (1,))
        return body.op("all_gather", [rows], out.shape, value.dtype, text)

    def reduce_scatter(
        self, body: Body, out: Spec, value: Value, reduction: str, size: int, group: Any
    ) -> Value:
        groups = self.groups(group, size)
        region = self.combine(body, reduction, value)
        text = f"scatter_dimension = 0 : i64, {self.attributes(groups, reduces=True)}"
        made = body.op("reduce_scatter", [value], out.shape, value.dtype, text, f" {region}")
        return self.mean(body, reduction, made, size)

    def all_to_all(
        self, body: Body, out: Spec, value: Value, received: Sequence[int], sent: Sequence[int], group: Any
    ) -> Value:
        splits = {*received, *sent}
        require(
            len(splits) <= 1,
            f"sends {list(sent)} rows and receives {list(received)}: every rank then has a program of its own",
        )
        return self.exchange(body, out, value, 0, 0, self.groups(group, len(sent) or None))

    def shard_dim(self, body: Body, out: Spec, value: Value, gather: int, shard: int, group: Any) -> Value:
        return self.exchange(body, out, value, shard % value.rank, gather % value.rank, self.groups(group))

    def exchange(
        self, body: Body, out: Spec, value: Value, split: int, join: int, groups: Sequence[Sequence[int]]
    ) -> Value:
        text = (
            f"split_dimension = {split} : i64, concat_dimension = {join} : i64, split_count = {len(groups[0])} : i64, "
            f"{self.attributes(groups, reduces=False)}"
        )
        return body.op("all_to_all", [value], out.shape, value.dtype, text)

    def broadcast(self, body: Body, out: Spec, value: Value, source: int, group: Any) -> Value:
        """source: a member's number in its group."""
        first = [[each[source], *each[:source], *each[source + 1 :]] for each in self.groups(group)]
        text = self.attributes(first, reduces=False)
        return body.op("collective_broadcast", [value], value.shape, value.dtype, text)


def _combined(body: Body, reduction: str, left: Value, right: Value) -> Value:
    if reduction in ("sum", "avg"):
        return body.add(left, right)
    return body.multiply(left, right) if reduction == "product" else body.binary(_REDUCTIONS[reduction], left, right)
