"""Every refusal has a label, and docs/labels.md is the table of labels: nothing is in one of the two only."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import ROOT, relative, tracked

PACKAGE = ROOT / "python" / "opentrn"
TABLE = ROOT / "docs" / "labels.md"
EXCEPTIONS = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
}
LABELLED = {"StrictRefusal", "ApiError"}  # classes whose errors all have one label
# A file, or all (""), and a class that it may raise although it is no refusal: why.
ALLOWED = {
    ("", "AssertionError"): "an invariant of OpenTrn's own",
    ("__init__.py", "AttributeError"): "what Python expects of a module's __getattr__",
    ("model/__init__.py", "AttributeError"): "what Python expects of a module's __getattr__",
    ("nki/__init__.py", "AttributeError"): "what Python expects of a module's __getattr__",
    ("nki/_missing_name.py", "AttributeError"): "what Python expects of a module's __getattr__",
    ("nki_legacy/index.py", "AttributeError"): "what Python expects of an attribute",
    ("compat/standins/torch_neuronx/__init__.py", "AttributeError"): "what Python expects of a module's __getattr__",
    ("base/files.py", "OSError"): "the error of the operating system, with the name of the file",
    ("model/compiled.py", "_NeedsStages"): "caught by compile(), which takes the model in stages",
    ("model/stages.py", "KeyError"): "caught where it is raised",
    ("torch/ranges.py", "_Unchecked"): "caught where the check begins",
    ("cli/interrupts.py", "Terminated"): "SIGTERM, not an error",
    ("cli/interrupts.py", "DeadlineExceeded"): "the deadline, not an error",
    ("cli/", "argparse.ArgumentTypeError"): "argparse makes the message of it",
    ("jax/shardy.py", "ValueError"): "a process of its own without the package, whose text becomes the fault `shardy`",
    ("jax/shardy.py", "PartsOfAxes"): "the same",
}


@functools.cache
def sources() -> dict[str, ast.Module]:
    """The modules that users meet, by their paths in the package; the oracle is for tests."""
    paths = [path for path in PACKAGE.rglob("*.py") if "oracle" not in path.parts]
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(paths)}


def name_of(node: ast.AST) -> str:
    """`errors.InputError` of that expression, or of a call of it."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def classes_of(modules: dict[str, ast.Module]) -> tuple[set[str], set[str]]:
    """(refusals, other exceptions) that the package defines; those that label themselves are neither."""
    bases = {
        node.name: [name_of(base).rpartition(".")[2] for base in node.bases]
        for module in modules.values() for node in ast.walk(module) if isinstance(node, ast.ClassDef)
    }  # fmt: skip

    def ancestors(name: str) -> set[str]:
        return {name}.union(*(ancestors(base) for base in bases.get(name, ()) if base != name))

    refusals = {name for name in bases if "Refusal" in ancestors(name)} - LABELLED
    others = {name for name in bases if ancestors(name) & EXCEPTIONS} - refusals - LABELLED
    return refusals, others


def label_of(call: ast.Call) -> ast.expr | None:
    """What a call gives as the label: by name, or behind the condition and the message of require()."""
    for keyword in call.keywords:
        if keyword.arg == "label":
            return keyword.value
    third = name_of(call) in ("require", "errors.require", "refusal") and len(call.args) > 2
    return call.args[2] if third else None


def findings(modules: dict[str, ast.Module]) -> Iterator[str]:
    """Refusals without a label, and raised exceptions that are none."""
    refusals, others = classes_of(modules)
    for path, module in modules.items():
        for node in ast.walk(module):
            if isinstance(node, ast.Raise) and node.exc is not None:
                name = name_of(node.exc)
                is_ours = name.rpartition(".")[2] in refusals
                is_plain = name in EXCEPTIONS | others or name == "argparse.ArgumentTypeError"
                allowed = any(path.startswith(file) and name == kind for file, kind in ALLOWED)
                if is_plain and not is_ours and not allowed:
                    yield f"{path}:{node.lineno}: raises {name}, which has no label: use a class of opentrn.errors"
            if isinstance(node, ast.Call):
                name = name_of(node).rpartition(".")[2]
                # That of torch's rules has the label of all of them.
                requires = name == "require" and not path.startswith("torch/")
                if (name in refusals or requires) and label_of(node) is None:
                    yield f"{path}:{node.lineno}: {name} without a label"


def test_every_refusal_of_python_has_a_label():
    assert list(findings(sources())) == []


def test_every_exception_to_the_rule_is_needed():
    raised = {
        (path, name_of(node.exc))
        for path, module in sources().items()
        for node in ast.walk(module) if isinstance(node, ast.Raise) and node.exc is not None
    }  # fmt: skip
    needless = [
        row for row in ALLOWED if not any(path.startswith(row[0]) and name == row[1] for path, name in raised)
    ]
    assert needless == []


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ('raise ValueError("no")', "raises ValueError"),
        ("raise KeyError", "raises KeyError"),
        ('raise errors.InputError("no")', "InputError without a label"),
        ('error = Refused("no")', "Refused without a label"),
        ('raise Plain("no")', "raises Plain"),
        ('require(x, "no")', "require without a label"),
        ('raise Refused("no", label="a.b")', ""),
        ('require(x, "no", "a.b")', ""),
        ('raise AssertionError("no")', ""),
        ("raise", ""),
        ("raise error from None", ""),
    ],
)
def test_a_refusal_without_a_label_is_found(line: str, finding: str):
    errors = "class Refusal(Exception): ...\nclass InputError(Refusal, ValueError): ...\n"
    own = f"class Refused(InputError): ...\nclass Plain(RuntimeError): ...\n{line}\n"
    found = list(findings({"errors.py": ast.parse(errors), "model/a.py": ast.parse(own)}))
    assert [finding in each for each in found] == ([True] if finding else [])


@functools.cache
def python_labels() -> dict[str, str]:
    """Label -> a place of it. A label that is made of a name stands with <> in that name's place."""
    found = {}
    for path, module in sources().items():
        for node in ast.walk(module):
            label = label_of(node) if isinstance(node, ast.Call) else None
            place = f"python/opentrn/{path}:{node.lineno}" if label is not None else ""
            if isinstance(label, ast.Constant):
                found[label.value] = place
            elif isinstance(label, ast.JoinedStr):
                found["".join(each.value if isinstance(each, ast.Constant) else "<>" for each in label.values)] = place
            elif label is not None and name_of(label).rpartition(".")[2] != "label":
                found[f"{name_of(label)}, which is not a label that is written out"] = place
    return found


@functools.cache
def cpp_sources() -> dict[str, str]:
    tests = re.compile(r"_test\.cc$|/test_kernel\.h$")
    return {relative(path): path.read_text() for path in tracked("src/*.cc", "src/*.h") if not tests.search(str(path))}


_FAULT = re.compile(r'(?:\bFault|\bfail)\(\s*(?:opentrn::)?FaultKind::k(\w+),\s*"([\w.]*)"(?! \+)')
_CONSTANT = re.compile(r'constexpr [\w: ]*\*? ?k\w*Label = "([\w.]+)"')


def cpp_labels() -> dict[str, str]:
    """Those that stand where a fault is made; helpers and tables hold more."""
    found = {}
    for path, text in cpp_sources().items():
        for kind, label in _FAULT.findall(text):
            if label or kind != "Internal":
                found[label] = path
        found |= dict.fromkeys(_CONSTANT.findall(text), path)
    return found


def rows(text: str) -> list[str]:
    """The labels of the table, in order."""
    heads = re.findall(r"^\| (`[^|]+`) \|", text, re.MULTILINE)
    return [label for head in heads for label in re.findall(r"`([^`]+)`", head)]


def constraints() -> set[str]:
    families = sorted((ROOT / "src/isa").glob("**/*.cc"))
    return {label for file in families for label in re.findall(r'\{"(\w+\.C\d+)"', file.read_text())}


def is_in_table(label: str, table: list[str]) -> bool:
    families = [row.partition("<")[0] for row in table if "<" in row]
    return label in table or any(prefix and label.startswith(prefix) for prefix in families)


def test_every_label_is_in_the_table():
    table, numbered = rows(TABLE.read_text()), constraints()
    used = cpp_labels() | python_labels()
    assert len(table) > 200 and len(python_labels()) > 70 and len(cpp_labels()) > 120
    missing = {label: place for label, place in used.items() if label not in numbered and not is_in_table(label, table)}
    assert missing == {}, "add a row to docs/labels.md, or use a label that says the same"


def is_used(label: str, written: set[str], cpp: dict[str, str]) -> bool:
    """Whether C++ or Python has the label, C++ also in two parts that a function of the same file joins."""
    if label in written or any(f'"{label}"' in text for text in cpp.values()):
        return True
    area, _, rest = label.rpartition(".")
    joins = re.compile(rf'"({re.escape(area)}|\{{\}})\.(\{{\}})?"')
    return any(f'"{rest}"' in text and joins.search(text) is not None for text in cpp.values())


def test_every_row_of_the_table_is_used():
    table, cpp, written = rows(TABLE.read_text()), cpp_sources(), set(python_labels())
    assert [row for row in table if "<" not in row and not is_used(row, written, cpp)] == []
    assert not is_used("model.nothing", written, cpp) and not is_used("loop.depth", written, cpp)


def test_the_table_names_each_label_once_and_in_order():
    text = TABLE.read_text()
    table = rows(text)
    assert sorted(set(table)) == sorted(table)
    for section in text.split("\n## ")[2:]:
        assert rows(section) == sorted(rows(section)), section.partition("\n")[0]


def test_files_that_the_table_names_exist():
    named = re.findall(r"`((?:src|python)/[\w./]+)`", TABLE.read_text())
    assert named and [name for name in named if not Path(ROOT, name).exists()] == []
