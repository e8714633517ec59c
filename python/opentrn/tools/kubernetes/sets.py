"""Which devices and cores one container may have, by AWS's page of the scheduler extension.

On rings (Inf1, Inf2) any number of neighbours in a row; on tori (Trn1, Trn2) 1, 4, 8 or all 16, and of 4 and 8 those
that the page draws: rows, and pairs of rows. One and all are always possible. For Trn2 the page of the DRA driver has
the same groups. What the page does not say is ours: numbers of cores below a device's own are of one device, in a row;
larger ones are whole devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentrn.errors import InputError


def device_counts(machine: dict[str, Any]) -> list[int]:
    """The numbers of devices that a container may ask for."""
    total = len(machine["devices"])
    if machine["is_torus"]:
        return sorted(
            {1, *(count for count in (machine["columns"], 2 * machine["columns"]) if count < total), total}
        )
    return list(range(1, total + 1))


def words_of_refused(machine: dict[str, Any], kind: str, count: int) -> str:
    """The extension's words for a number that it never gives; `kind`: "device" or "core"."""
    return (
        f"Instance type {machine['instance_type']} does not support requests for {kind}: {count}. "
        "Please request a different number of devices."
    )


def device_sets(machine: dict[str, Any], count: int) -> list[list[int]]:
    """All sets of so many devices, best first. Raises InputError "tools.kubernetes" for a number never given."""
    total = len(machine["devices"])
    if count not in device_counts(machine):
        raise InputError(
            words_of_refused(machine, "device", count),
            label="tools.kubernetes",
            hint=f"ask for {', '.join(str(number) for number in device_counts(machine))}",
        )
    if count == total:
        return [list(range(total))]
    if count == 1:
        return [[index] for index in range(total)]
    if machine["is_torus"]:
        return [list(range(begin, begin + count)) for begin in range(0, total, count)]
    ends = total if machine["is_ring"] else total - count + 1
    return [[(begin + i) % total for i in range(count)] for begin in range(ends)]


def core_sets(machine: dict[str, Any], count: int) -> list[list[int]]:
    """All sets of so many logical cores, best first. Raises InputError "tools.kubernetes"."""
    devices = machine["devices"]
    each = len(devices[0]["cores"])
    if 1 <= count < each:
        return [
            device["cores"][begin : begin + count]
            for device in devices
            for begin in range(0, each - count + 1, count)
        ]
    if count < 1 or count % each or count // each not in device_counts(machine):
        below = ", ".join(str(number) for number in range(1, each))
        raise InputError(
            words_of_refused(machine, "core", count),
            label="tools.kubernetes",
            hint=f"ask for {below}{', ' if below else ''}or {each} times {_list(device_counts(machine))}",
        )
    return [
        [core for index in chosen for core in devices[index]["cores"]]
        for chosen in device_sets(machine, count // each)
    ]


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def choose(sets: Sequence[Sequence[int]], free: set[int], must: Sequence[int] = ()) -> list[int] | None:
    """The first set that is free and holds `must`; None where there is none."""
    needed = set(must)
    return next((list(each) for each in sets if needed <= set(each) <= free), None)


def ranges_text(numbers: list[int]) -> str:
    """[0, 1, 2, 5]: "0-2,5", as NEURON_RT_VISIBLE_CORES has it."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
