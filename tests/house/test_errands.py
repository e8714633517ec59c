"""What a newcomer touches to add something, counted: the more files name a thing, the more places forget it.

An instruction is counted in test_instructions.py and a command in test_commands.py. That code asks what a
generation can do, and not which it is, test_generations.py counts.
"""

import re

import pytest
from house import ROOT, relative, tracked

COMMENT = re.compile(r"//.*|\"\"\"[\s\S]*?\"\"\"")


def naming(word: str, *patterns: str) -> list[str]:
    """The files of code that name the word outside of comments; tests are counted apart."""
    pattern = re.compile(word)
    return [
        relative(path)
        for path in tracked(*patterns)
        if not path.stem.endswith("_test") and pattern.search(COMMENT.sub("", path.read_text()))
    ]


# Ops of elements that nothing but their own row asks for by name. Routes that spell them otherwise are other errands.
@pytest.mark.parametrize("name", ["erf_inv", "next_after", "zeta"])
def test_an_op_is_in_six_files(name: str):
    """Its name, its definition, its shape, its value, its expansion, and its spelling where that is another."""
    files = naming(rf"\b(?:chlo_)?{name}_?\b", "src/graph/*", "src/compiler/*", "src/import/vhlo/*", "src/spmd/*")
    assert len(files) <= 6, files
    assert {"src/graph/op_kind.h", "src/graph/op_definitions.cc", "src/graph/shape_rules.cc"} < set(files)


TABLE = "src/collectives/algorithms.def"
STEMS = re.findall(r"^OPENTRN_(\w+)\((\w+)\)$", (ROOT / TABLE).read_text(), re.MULTILINE)
# Algorithms that others are made of, or that the choice by size falls back to.
NAMED_BY_OTHERS = {"mesh", "kangaring", "ring", "rdh", "hierarchical"}


@pytest.mark.parametrize(("kind", "stem"), STEMS)
def test_a_collective_algorithm_is_its_file_and_its_row(kind: str, stem: str):
    function = stem if kind == "ALGORITHM" else f"{stem}_exchange"
    definition = rf"^(?:Algorithm|const ExchangeAlgorithm&) {function}\("
    sources = "src/collectives/*.cc"
    defining = [relative(path) for path in tracked(sources) if re.search(definition, path.read_text(), re.MULTILINE)]
    assert defining == [f"src/collectives/{stem}.cc"]
    assert not naming(rf"\b{stem}\.cc\b", "src/collectives/CMakeLists.txt")  # which takes it from the row
    if stem in NAMED_BY_OTHERS:
        return
    # Its row has the stem alone; "reduce" and the like are words of the language too.
    calling = naming(rf"(?<![\w.:>]){function}\(\)", sources, "src/collectives/*.h")
    assert calling == defining, calling


def test_every_algorithm_has_its_row():
    pattern = re.compile(r"^(?:Algorithm|const ExchangeAlgorithm&) (\w+)\(\) \{", re.MULTILINE)
    made = {name.removesuffix("_exchange") for path in tracked("src/collectives/*.cc")
            for name in pattern.findall(path.read_text())}  # fmt: skip
    parts = {"cube", "instances"}  # of rdh and of hierarchical, in their files
    assert made - parts == {stem for _, stem in STEMS}
