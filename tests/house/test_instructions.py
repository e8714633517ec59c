"""What is particular to an instruction stands in its family's files: no other code goes through opcodes one by one."""

import re
from collections.abc import Iterator

import pytest
from house import ROOT, relative, tracked

FAMILIES = ROOT / "src" / "isa" / "instructions"
# Files that may have a switch over opcodes, and why.
ALLOWED = {
    "src/compiler/lowering/emitter.cc": "five instructions count as work of an engine, the others do not",
}
_ALIAS = re.compile(r"\busing\s+(\w+)\s*=\s*(?:\w+::)*Opcode;")
_ENUM = re.compile(r"\busing\s+enum\s+(?:\w+::)*Opcode;")


def cases(text: str) -> Iterator[str]:
    """The labels of switches over opcodes, under whatever name a file has for the enumeration."""
    names = {"Opcode", *_ALIAS.findall(text)}
    yield from re.findall(rf"\bcase\s+(?:\w+::)*(?:{'|'.join(sorted(names))})::\w+", text)
    if _ENUM.search(text):
        yield from re.findall(r"\bcase\s+k[A-Z]\w*", text)


def test_nothing_but_the_families_has_a_switch_over_opcodes():
    found = {}
    for path in tracked("src/*.cc", "src/*.h"):
        if not path.is_relative_to(FAMILIES) and (labels := list(cases(path.read_text()))):
            found[relative(path)] = labels
    assert set(found) == set(ALLOWED), found  # a file that needs no exception any more loses it


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("switch (in.opcode) { case isa::Opcode::kMemset: return; }", 1),
        ("using O = isa::Opcode;\nswitch (o) { case O::kIota: case O::kRng: break; }", 2),
        ("using enum isa::Opcode;\nswitch (o) { case kIota: break; }", 1),
        ("switch (kind) { case OpKind::kIota: break; }", 0),
        ("if (in.opcode == Opcode::kMemset) return;", 0),
    ],
)
def test_a_switch_is_found(text: str, count: int):
    assert len(list(cases(text))) == count


def test_opcodes_are_numbered_without_gaps():
    numbers = {}
    for header in sorted(FAMILIES.glob("*.h")):
        for name, number in re.findall(r"\bX\(k\w+, (\w+), (\d+)\)", header.read_text()):
            assert numbers.setdefault(int(number), name) == name
    assert sorted(numbers) == list(range(len(numbers))) and len(numbers) >= 57


# Numbers are what files of programs hold.
@pytest.mark.parametrize(
    ("name", "number"),
    [("dma_copy", 0), ("nc_matmul", 12), ("topk", 39), ("custom_op", 47), ("device_print", 56)],
)
def test_numbers_of_opcodes_stay(name: str, number: int):
    texts = [header.read_text() for header in FAMILIES.glob("*.h")]
    assert any(re.search(rf"\bX\(k\w+, {name}, {number}\)", text) for text in texts)


# Instructions that neither the compiler nor the language functions issue: what names them defines them.
@pytest.mark.parametrize(
    "name",
    ["bn_aggr", "bn_stats", "rand2", "rand_get_state", "select_reduce"],
)
def test_an_instruction_is_in_five_files(name: str):
    """Header and source of its family, body, reference, row of costs; NKI 0.1's functions are another interface, and
    what Inf1's engines need for an element is stated of every instruction that they have."""
    naming = []
    for path in tracked("src/*.cc", "src/*.h", "src/*.toml", "python/opentrn/*.py"):
        if path.name.endswith("_test.cc") or "nki_legacy" in path.parts or path.name == "timing_v1.toml":
            continue
        if re.search(rf"\b{name}\b", re.sub(r"//.*", "", path.read_text())):
            naming.append(relative(path))
    assert len(naming) <= 5, naming
