"""Rules about src/arch/tables: every value is computed with, or is marked as information and cannot be overridden."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from house import ROOT

from opentrn import _core  # noqa: E402

# Names that the code puts together, and members of maps that are read as a whole.
BUILT = re.compile(
    r"(tensor|vector|scalar|gpsimd|sync)_(clock_ghz|result_latency_ns)|\w+_gb_s_per_rank"
    r"|(value|name|engine|engines|elements|when|share|low|high|commit|coverage|rows|runs)"
)
MAPS = re.compile(r"\.(peak_tflops|links|topology|chip_tflops)\.|^(fabric_)?target\.|^planner\.uncertainty\.")
# Where tables become structures: a member that stands nowhere else is read by nobody.
READERS = (
    "src/arch/tables.cc",
    "src/arch/specs.h",
    "src/arch/fact_table.cc",
    "src/arch/fact.cc",
    "src/arch/fact.h",
)


def tables() -> set[str]:
    """The first parts of all keys."""
    names: set[str] = set()
    for path in (ROOT / "src/arch/tables").glob("*.toml"):
        text = path.read_text()
        prefix = re.search(r'^prefix = "(\w+)', text, re.MULTILINE)
        names |= {prefix[1]} if prefix else set(re.findall(r"^\[(\w+)", text, re.MULTILINE))
    return names - {"source", "evidence"}  # what the bands are made of is written by ./dev fidelity


def facts() -> list[dict]:
    found = []
    for table in sorted(tables()):
        printed = io.StringIO()
        with redirect_stdout(printed):
            assert _core.run_cli(["describe", table, "--json"]) == 0, table
        found += json.loads(printed.getvalue())["facts"]
    return found


def sources() -> str:
    texts = []
    for pattern in ("src/**/*.cc", "src/**/*.h", "python/**/*.py"):
        for path in ROOT.glob(pattern):
            if not path.stem.endswith("_test") and str(path.relative_to(ROOT)) not in READERS:
                texts.append(re.sub(r"//.*", "", path.read_text()))
    return "\n".join(texts)


def is_read(key: str, text: str) -> bool:
    name = key.rpartition(".")[2]
    if BUILT.fullmatch(name) or MAPS.search(key):
        return True
    return re.search(rf'[".>]{re.escape(name)}\b', text) is not None


def test_every_value_is_computed_with_or_marked_as_information():
    text = sources()
    unread = sorted({f["key"] for f in facts() if not f["information"] and not is_read(f["key"], text)})
    assert unread == []


def test_what_is_computed_with_is_not_marked_as_information():
    text = sources()
    quoted = [
        f["key"] for f in facts()
        if f["information"] and f["key"].startswith(("timing.", "neuron_core."))
        and f'"{f["key"].rpartition(".")[2]}"' in text
    ]  # fmt: skip
    assert quoted == []


def test_overriding_information_is_refused_with_a_reason():
    with pytest.raises((RuntimeError, ValueError), match="nothing computes with this value"):
        _core.check_settings(["timing.v3.constant.dma_32kib_engine_ns=2000"])


# Rows of instructions are read by src/cost; constants of time also by the timing model, for its queues and latencies,
# and what is printed of both by `opentrn describe`.
ROWS = re.compile(r"\bCostMode\b|\barch::InstructionCost\b|\.cost\(\"|\.costs\(\)|\bhas_cost\(")
CONSTANTS = re.compile(r"\.constant(_fact)?\(\"|\bclock_ghz\b|_clock_ghz\b|\"timing\.v")
# A number that is a time or a count of cycles: kStartNs = 4000, issue_cycles{64}.
NUMBERS = re.compile(
    r"\b((?!\w*(?:_per_|Per))(?:\w+_(?:ns|us|cycles|ghz)|k\w+(?:Ns|Us|Cycles|Ghz|GHz)))\s*"
    r"(?:=|\{)\s*-?(?!0\b|1\b|0\.0\b)[\d.]"
)
READ_ROWS = ("src/arch/", "src/cost/", "src/cli/describe")
READ_CONSTANTS = (*READ_ROWS, "src/cli/ls.cc", "src/sim/timing/")
# How finely a simulation cuts time, and how long something is remembered, are choices of ours and no facts.
RESOLUTIONS = {
    "src/backend/order.cc": {"kSliceNs"},
    "src/sim/timing/dma_engines.h": {"kSliceNs"},
    "src/compiler/lowering/emitter.cc": {"kLeadMaxNs"},
}


def code_of(path: Path) -> str:
    return re.sub(r"//.*", "", path.read_text())


def readers(source: Path) -> list[str]:
    """Files that read timing tables, or hold times, and should ask src/cost."""
    found = []
    for path in sorted(p for pattern in ("*.cc", "*.h") for p in source.rglob(pattern)):
        name = f"src/{path.relative_to(source).as_posix()}"
        if path.stem.endswith("_test"):
            continue
        code = code_of(path)
        if ROWS.search(code) and not name.startswith(READ_ROWS):
            found.append(f"{name}: reads rows of instructions")
        if name.startswith(("src/backend/", "src/compiler/", "src/cost/", "src/sim/", "src/nki/")):
            if CONSTANTS.search(code) and not name.startswith(READ_CONSTANTS):
                found.append(f"{name}: reads constants of the timing tables")
            named = {match[1] for match in NUMBERS.finditer(code)} - RESOLUTIONS.get(name, set())
            found += [f"{name}: {number} is a number that belongs in a table" for number in sorted(named)]
    return found


def test_only_the_cost_model_reads_the_rows_of_instructions():
    assert readers(ROOT / "src") == []


@pytest.mark.parametrize(
    ("path", "line", "finding"),
    [
        ("compiler/a.cc", 'timing.cost("nc_matmul").mode("fp32");', "reads rows of instructions"),
        ("sim/timing/a.cc", "for (const arch::CostMode& mode : modes) add(mode);", "reads rows of instructions"),
        ("compiler/a.cc", 'timing.constant("vector_issue_cycles")', "reads constants"),
        ("backend/a.h", "double ns = cycles / core.vector_clock_ghz;", "reads constants"),
        ("backend/a.cc", "constexpr double kIssueNs = 45.7;", "kIssueNs is a number"),
        ("compiler/a.cc", "const int issue_cycles = 64;", "issue_cycles is a number"),
    ],
)
def test_a_reader_of_rows_is_found(tmp_path: Path, path: str, line: str, finding: str):
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(f"{line}\n")
    assert [finding in found for found in readers(tmp_path)] == [True]
