"""`opentrn fabric export`: plans in other simulators' formats, read by readers made from the formats' definitions."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

RANKS = 8
# Chakra's schema (mlcommons/chakra, schema/protobuf/et_def.proto): numbers of fields and of NodeType.
ID, TYPE, DATA_DEPS, ATTRIBUTE = 1, 3, 5, 10
COMPUTE, SEND, RECEIVE = 4, 5, 6
ATTRIBUTE_NAME = 1
Operation = tuple[str, int, int, int, list[int]]  # kind, bytes, peer, tag, what it waits for


def export(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opentrn", "fabric", "export", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: numbers, or bytes of what has a length."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            yield key >> 3, data[at : at + value]
            at += value
        else:
            assert key & 7 == 0
            yield key >> 3, value


def chakra(path: Path) -> list[Operation]:
    data, at, messages = path.read_bytes(), 0, []
    while at < len(data):
        size, at = varint(data, at)
        messages.append(list(fields(data[at : at + size])))
        at += size
    assert dict(messages[0])[1] == b"0.0.4"
    operations: list[Operation] = []
    for number, message in enumerate(messages[1:]):
        node = dict(message)
        assert node.get(ID, 0) == number
        values = {}
        for key, value in message:
            if key == ATTRIBUTE:
                attribute = dict(fields(value))
                name = attribute.pop(ATTRIBUTE_NAME).decode()
                values[name] = next(iter(attribute.values()))
        after, place = [], 0
        while place < len(packed := node.get(DATA_DEPS, b"")):
            before, place = varint(packed, place)
            after.append(before)
        kind = {COMPUTE: "calc", SEND: "send", RECEIVE: "recv"}[node[TYPE]]
        peer = values.get("comm_dst" if kind == "send" else "comm_src", -1)
        operations.append((kind, values.get("comm_size", 0), peer, values.get("comm_tag", 0), after))
    return operations


def goal(path: Path) -> list[list[Operation]]:
    """GOAL, as LogGOPSim's txt2bin reads it."""
    text = path.read_text()
    header = re.match(r"num_ranks (\d+)\n", text)
    assert header
    ranks = []
    for number, body in re.findall(r"\nrank (\d+) \{\n(.*?)\}\n", text, re.S):
        assert int(number) == len(ranks)
        operations: list[Operation] = []
        for line in body.splitlines():
            if found := re.fullmatch(r"l(\d+): (send|recv) (\d+)b (?:to|from) (\d+) tag (\d+)", line):
                assert int(found[1]) == len(operations) + 1
                operations.append((found[2], int(found[3]), int(found[4]), int(found[5]), []))
            elif found := re.fullmatch(r"l(\d+): calc 0", line):
                operations.append(("calc", 0, -1, 0, []))
            else:
                found = re.fullmatch(r"l(\d+) requires l(\d+)", line)
                assert found, line
                operations[int(found[1]) - 1][4].append(int(found[2]) - 1)
        ranks.append(operations)
    assert int(header[1]) == len(ranks)
    return ranks


def run(ranks: list[list[Operation]]) -> int:
    """Sends and receives until nothing moves; the bytes that travelled. Fails where something is left."""
    done = [[False] * len(operations) for operations in ranks]
    flying: dict[tuple[int, int, int], int] = {}
    waiting = deque((rank, i) for rank, operations in enumerate(ranks) for i in range(len(operations)))
    sent = idle = 0
    while waiting and idle < len(waiting):
        rank, i = waiting.popleft()
        kind, size, peer, tag, after = ranks[rank][i]
        if not all(done[rank][k] for k in after) or (kind == "recv" and (peer, rank, tag) not in flying):
            waiting.append((rank, i))
            idle += 1
            continue
        if kind == "send":
            flying[rank, peer, tag] = size
            sent += size if size > 1 else 0
        if kind == "recv":
            assert flying.pop((peer, rank, tag)) == size
        done[rank][i], idle = True, 0
    assert not waiting and not flying
    return sent


@pytest.mark.parametrize(
    ("operation", "algorithm", "sent"),
    [
        ("all_reduce", "ring", 2 * (RANKS - 1) * 65536),
        ("all_gather", "mesh", (RANKS - 1) * 65536),
        ("alltoall", "all_to_all", (RANKS - 1) * 65536),
    ],
)
def test_messages_end_and_move_the_bytes_of_the_closed_form(tmp_path, operation, algorithm, sent):
    words = (operation, "--instance", "trn1n.32xlarge", "-r", str(RANKS), "--bytes", "64kb", "--algorithm", algorithm)
    said = export(*words, "--format", "goal", "-o", str(tmp_path / "plan.goal"))
    assert f"over {RANKS} ranks by {algorithm}" in said.stdout
    export(*words, "--format", "chakra", "-o", str(tmp_path / "plan"))
    from_goal = goal(tmp_path / "plan.goal")
    from_chakra = [chakra(tmp_path / f"plan.{rank}.et") for rank in range(RANKS)]
    assert from_goal == from_chakra
    assert run(from_goal) == sent


def verify(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opentrn", "fabric", "verify", "--msccl", str(path), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_program_of_msccl_is_read_back_and_proved(tmp_path):
    path = tmp_path / "ring.xml"
    words = ("all_gather", "--instance", "trn1n.32xlarge", "-r", str(RANKS), "--bytes", "64kb", "--algorithm", "ring")
    assert "chunks of" in export(*words, "--format", "msccl", "-o", str(path)).stdout
    done = verify(path)
    assert done.returncode == 0 and f"all_gather over {RANKS} ranks" in done.stdout and "proved" in done.stdout
    # One copy less: its target is never written.
    lines = path.read_text().splitlines(keepends=True)
    copy = max(i for i, line in enumerate(lines) if 'type="r"' in line)
    lines[copy] = lines[copy].replace('type="r"', 'type="nop"')
    path.write_text("".join(lines))
    done = verify(path)
    assert done.returncode == 2 and "[collectives.msccl]" in done.stderr
    path.write_text("<algo")
    assert "[collectives.msccl]" in verify(path).stderr
    assert "[fabric.file]" in verify(tmp_path / "none.xml").stderr
    assert "--instance" in verify(path, "--instance", "trn1.32xlarge").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("permute", "-r", "2", "--format", "goal", "-o", "x"), "[collectives.kind]"),
        (("all_reduce", "-r", "2", "--format", "goal", "-o", "/nowhere/x"), "[fabric.file]"),
        (("all_reduce", "-r", "2", "--format", "nsys", "-o", "x"), "--format"),
    ],
)
def test_what_is_wrong_is_said(words, said):
    assert said in export(*words, code=2).stderr
