"""docs/status.md: what there is, read off the code's own tables. `./dev status` writes it, a test holds it to them.

Nothing is run: a row says that the table has an entry, and the tests of the entry say that it is right.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator

from devtool.paths import ROOT

PAGE = ROOT / "docs" / "status.md"
_HEAD = """\
# Status

This page lists operators by route, instructions by generation, models and commands. `./dev status` generates it from
the tables of the sources, with which a test compares it: to change it, change those. The [roadmap](roadmap.md) says
what is missing, and [conformance](../conformance/models/README.md) how OpenTrn is tested against other projects.
"""


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _texts(pattern: str) -> str:
    files = sorted(path for path in ROOT.glob(pattern) if not path.stem.endswith("_test"))
    return re.sub(r"//.*", "", "\n".join(path.read_text(encoding="utf-8") for path in files))


# ---- ops of graphs


def ops() -> list[str]:
    """The enumerators of graph::OpKind without their last `_`: abs, chlo_acos, call."""
    text = _text("src/graph/op_kind.h")
    found = []
    for dialect, prefix in (("STABLEHLO", ""), ("CHLO", "chlo_")):
        body = re.search(rf"#define OPENTRN_GRAPH_{dialect}_OPS\(X\)(.*?)(?:\n\n|\n#)", text, re.DOTALL)
        assert body is not None
        found += [prefix + name for name in re.findall(r"X\([\s\\]*(\w+)\s*\)", body[1])]
    return found


def _named(text: str) -> set[str]:
    return set(re.findall(r"OpKind::(\w+)_\b", text))


def op_rows() -> list[tuple[str, str, str]]:
    """(op, evaluator, device): how each has it; empty where it has not."""
    evaluator = _named(_texts("src/graph/eval/*.cc"))
    kernels, tables = _named(_texts("src/compiler/lowering/*.cc")), _rows_of_expansions()
    early = _named(_texts("src/compiler/canonicalise/*.cc")) | _named(_texts("src/compiler/expand/*.cc"))
    definitions = _text("src/graph/op_definitions.cc")
    evaluator |= set(re.findall(r"OpKind::(\w+)_,\s*OpClass::kBroadcasting", definitions))
    between = set(re.findall(r"OpKind::(\w+)_,\s*OpClass::kCollective", definitions))
    rows = []
    for op in ops():
        device = "kernel" if op in kernels else ""
        if op in tables:
            device = "kernel, or expanded" if op in kernels else "expanded"
        elif op in between:
            device = "between devices"
        elif not device and op in early:
            device = "rewritten"
        if not device and op in evaluator:
            device = "host"
        name = op.replace("chlo_", "chlo.", 1) if op.startswith("chlo_") else op
        rows.append((name, "yes" if op in evaluator else "", device))
    return rows


def _rows_of_expansions() -> set[str]:
    text = _texts("src/compiler/expand/*.cc")
    return set(re.findall(r"\{\s*OpKind::(\w+)_,\s*\w+,\s*[\w<>:]+\}", text))


# ---- ONNX


def onnx_rows() -> tuple[list[str], dict[str, list[str]]]:
    """(operators that are imported, refused ones by reason)"""
    text = _text("src/import/onnx/op_table.cc")
    reasons = dict(re.findall(r'constexpr std::string_view (k\w+) =\s*"([^"]+)";', text))
    taken: set[str] = set()
    refused = defaultdict(list)
    for domain, name, function, reason in re.findall(r'\{"([^"]*)", "(\w+)", \d+, (\w+), (\{\}|k\w+|"[^"]*")\}', text):
        shown = f"{domain}.{name}" if domain else name
        if function == "nullptr":
            refused[reasons.get(reason, reason.strip('"'))].append(shown)
        else:
            taken.add(shown)
    return sorted(taken), dict(refused)


# ---- ATen


def _written_in_cpp(text: str) -> set[str]:
    """Names of a file's rows, `{{"add.Tensor", "prims.add"}, rule}`."""
    rows = re.findall(r"\{\{([^{}]*)\},", text)
    return {name for row in rows for name in re.findall(r'"([^"]+)"', row)}


def _written_in_python(text: str) -> set[str]:
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    marks = [call for call in calls if ast.unparse(call.func) == "emits"]
    return {each.value for mark in marks for each in mark.args if isinstance(each, ast.Constant)}


def aten_rules() -> dict[str, list[str]]:
    """By family (file of src/import/aten or python/opentrn/torch/ops): ops that have a rule, without overloads."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "src/import/aten").glob("*.cc"):
        found[path.stem] = _written_in_cpp(path.read_text())
    for path in (ROOT / "python/opentrn/torch/ops").glob("*.py"):
        found[path.stem] = found.get(path.stem, set()) | _written_in_python(path.read_text())
    return {
        family: sorted({name if name.startswith("prims.") else re.sub(r"\.\w+$", "", name) for name in names})
        for family, names in sorted(found.items())
        if names
    }


# ---- instructions


def _time_of(name: str, engines: str, tables: str, reasons: dict[str, str]) -> str:
    """Where the time of an instruction comes from."""
    rows = re.findall(rf"^\[instruction\.{name}(?:\.\w+)*\]\n(.*?)(?=^\[|\Z)", tables, re.MULTILINE | re.DOTALL)
    if any('"unknown"' in row for row in rows):
        return "no source: the user states it"
    if rows:
        return "a row of the tables"
    return reasons.get(name, "" if engines == "any" else "no source")


def instructions() -> list[tuple[str, str, int, str]]:
    """(name, engines, first generation, where its time comes from) by name."""
    tables = "\n".join(_text(f"src/arch/tables/timing_v{version}.toml") for version in (1, 2, 3, 4))
    reasons = dict(re.findall(r'\{"(\w+)", "([^"]+)"\},', _text("src/sim/timing/cost_rows_test.cc")))
    found = []
    for path in sorted((ROOT / "src/isa/instructions").glob("*.cc")):
        text = path.read_text()
        for body in re.findall(r"constexpr InstructionDefinition \w+ = \{(.*?)\n\};", text, re.DOTALL):
            name = re.search(r'\.name = "(\w+)"', body)
            engines = re.search(r"\.engines = ([^,]+),", body)
            first = re.search(r"\.first_generation = Generation::kV(\d)", body)
            assert name and engines and first, path
            shown = ", ".join(re.findall(r"kOn(\w+)", engines[1])).replace("Dma", "DMA") or "any"
            found.append((name[1], shown, int(first[1]), _time_of(name[1], shown, tables, reasons)))
    return sorted(found)


# ---- commands and models


def commands() -> dict[str, str]:
    """Name -> its line of help."""
    rows = re.findall(
        r'^OPENTRN_\w+_COMMAND\((?:\w+, )?"([\w-]+)",(?:\s*"[\w.:]+",)?\s*"([^"]+)"\)',
        _text("src/cli/commands.def"),
        re.M,
    )
    return dict(sorted(rows))


def models() -> list[tuple[str, str]]:
    """(name, form) of the architectures of conformance/models."""
    found = []
    for node in ast.walk(ast.parse(_text("conformance/models/catalogue.py"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Entry":
            form = next((ast.literal_eval(each.value) for each in node.keywords if each.arg == "form"), "torch")
            found.append((ast.literal_eval(node.args[0]), form))
    return found


# ---- the page


def _table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _list(names: list[str]) -> str:
    return textwrap.fill(", ".join(f"`{name}`" for name in names), 118, break_on_hyphens=False) + "\n"


def _graph_ops() -> str:
    rows = op_rows()
    evaluated = sum(bool(row[1]) for row in rows)
    compiled = sum(row[2] not in ("", "host") for row in rows)
    text = (
        f"\n## StableHLO and CHLO\n\nOf {len(rows)} ops the evaluator computes {evaluated} and {compiled} are compiled"
        " for the device. Text and bytecode of StableHLO have all of them; HLO's opcodes, ONNX's operators and ATen's"
        ' ops become these. The column "device" says whether a kernel computes the op, the op is expanded into others'
        " or rewritten before kernels are chosen, devices exchange data for it, or the host computes it, which"
        " `--strict` refuses. Whether a kernel takes an op also depends on its types; `opentrn coverage` reports it for"
        " a model.\n"
    )
    return _filled(text) + "\n" + _table(("op", "evaluator", "device"), [(f"`{row[0]}`", *row[1:]) for row in rows])


def _filled(text: str) -> str:
    """Paragraphs in lines of at most 120 columns; headings stay."""
    parts = text.split("\n\n")
    return (
        "\n\n".join(
            part if part.lstrip().startswith("#") else textwrap.fill(part, 120, break_on_hyphens=False)
            for part in parts
        )
        + "\n"
    )


def _onnx() -> str:
    taken, refused = onnx_rows()
    text = f"\n## ONNX\n\nOpenTrn imports {len(taken)} operators:\n\n{_list(taken)}\nIt refuses these:\n\n"
    return text + _table(("reason", "operators"), [(why, ", ".join(f"`{n}`" for n in names))
                                                for why, names in sorted(refused.items())])  # fmt: skip


def _aten() -> str:
    families = aten_rules()
    total = len({name for names in families.values() for name in names})
    text = (
        f"\n## PyTorch\n\n{total} ops of ATen and prims have a rule that translates them for the device; torch"
        " decomposes many others into these. [Conformance](../conformance/torch/README.md) says how many of torch's"
        " own samples pass.\n"
    )
    rows = [(f"`{family}`", ", ".join(f"`{name}`" for name in names)) for family, names in families.items()]
    return _filled(text) + "\n" + _table(("family", "ops"), rows)


def _instructions() -> str:
    rows = instructions()
    text = (
        f"\n## NKI instructions\n\nThere are {len(rows)} instructions: those of `nki.isa`, and those that loops consist"
        " of. Values are computed on every generation from an instruction's first on.\n"
    )
    marks = [
        (f"`{name}`", engines, *("yes" if generation >= first else "" for generation in (1, 2, 3, 4)), time)
        for name, engines, first, time in rows
    ]
    heads = ("instruction", "engines", "v1 Inf1", "v2 Trn1, Inf2", "v3 Trn2", "v4 Trn3", "time")
    return _filled(text) + "\n" + _table(heads, marks)


def page() -> str:
    """The text of PAGE."""
    shown = [(f"`{name}`", "ONNX, `torch.export`" if form == "torch" else "StableHLO of JAX")
             for name, form in models()]  # fmt: skip
    parts = [
        _HEAD, _graph_ops(), _onnx(), _aten(), _instructions(),
        "\n## Models\n\n`./dev conformance models` compares these with other runtimes:\n\n",
        _table(("architecture", "as"), shown),
        "\n## Commands\n\n",
        _table(("command", "what it does"), [(f"`opentrn {name}`", text) for name, text in commands().items()]),
    ]  # fmt: skip
    return "".join(parts)


def write() -> int:
    """Writes PAGE."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0
