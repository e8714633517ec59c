"""Rules about the documents: commands run, links lead somewhere, decision records are complete."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from house import ROOT, relative, tracked

from opentrn import _core

_CONSOLE_BLOCK = re.compile(r"^```console (run|fails)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A program, the package it needs beside those of every test, and what it prints where that is shown right behind.
_PYTHON_BLOCK = re.compile(
    r"^```python run(?: (\w+))?\n(.*?)^```(?:\n+```text output\n(.*?)^```)?", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
_DECISION_FIELDS = ("Status", "Date", "Question", "Decision", "Why", "Instead of", "Cost")
_COMMAND_LIMIT_S = 240
_COLUMNS = 120
_TIME_TOLERANCE = 0.25  # of numbers with a decimal point that a document shows


def documents() -> list[Path]:
    return tracked(
        "README.md", "docs/*.md", "examples/*.md", "fidelity/*.md", "conformance/*.md", "benchmarks/*.md"
    )


@dataclass(frozen=True)
class Command:
    """A command that a document shows, the lines it shows of its output, and whether it is one that fails."""

    document: str
    text: str
    output: tuple[str, ...] = ()
    fails: bool = False


def commands() -> list[Command]:
    """Of every fenced block tagged `console run` or `console fails`: lines that start with `$ `, output below them."""
    found = []
    for path in documents():
        for tag, block in _CONSOLE_BLOCK.findall(path.read_text()):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                text, *output = part.rstrip("\n").split("\n")
                found.append(Command(relative(path), text, tuple(output), tag == "fails"))
    return found


def python_blocks() -> list[tuple[str, str, str, str]]:
    """(document, package, program, output) of every fenced block tagged `python run`, or `python run PACKAGE`."""
    return [
        (relative(path), package, program, output)
        for path in documents()
        for package, program, output in _PYTHON_BLOCK.findall(path.read_text())
    ]


def not_shown(expected: Sequence[str], output: str) -> list[str]:
    """Lines of a document that the output does not have, in this order.

    Blanks count as one, and `...` at the end of a line stands for the rest of it. Numbers with a decimal point are
    times and shares, which a better timing model changes: they may be off by _TIME_TOLERANCE. Others are exact.
    """
    lines = output.replace(f"{ROOT}/", "").splitlines()
    missing = []
    for wanted in expected:
        if wanted.strip() in ("", "..."):
            continue
        place = next((i for i, line in enumerate(lines) if _is_shown(wanted, line)), None)
        if place is None:
            missing.append(wanted)
        else:
            lines = lines[place + 1 :]
    return missing


def _is_shown(wanted: str, line: str) -> bool:
    number = re.compile(r"(?<![\w.])(-?\d+\.\d+(?:e[-+]?\d+)?)")
    is_cut = wanted.endswith("...")
    parts = [number.split(" ".join(text.split())) for text in (wanted.removesuffix("..."), line)]
    words, shown = ([part[i] for i in range(0, len(part), 2)] for part in parts)
    figures, found = ([float(part[i]) for i in range(1, len(part), 2)] for part in parts)
    if is_cut:
        shown = [*shown[: len(words) - 1], "".join(shown[len(words) - 1 : len(words)])[: len(words[-1])]]
        found = found[: len(figures)]
    close = all(abs(a - b) <= _TIME_TOLERANCE * max(abs(a), abs(b)) for a, b in zip(figures, found))
    return words == shown and len(figures) == len(found) and close


def environment(folder: Path) -> dict[str, str]:
    """`python` and `opentrn` are this checkout's; python/ is importable."""
    programs = folder / "bin"
    programs.mkdir()
    for name, start in (("python", ""), ("opentrn", "-m opentrn")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {start} "$@"\n')
        (programs / name).chmod(0o755)
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    python_path = str(ROOT / "python")
    cache = str(folder / "cache")
    # What other tests have set for themselves is not what a reader has.
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAX_", "NEURON_", "OPENTRN_"))
    }
    # Processes of other tests hold simulated cores too, and neuron-ls would list them.
    return dict(
        clean, PATH=path, PYTHONPATH=python_path, OPENTRN_CACHE=cache, OPENTRN_RUN_DIR=str(folder / "run")
    )


def checkout(folder: Path) -> Path:
    """A folder that has what the checkout has and may be written to: what commands write stays out of that."""
    copy = folder / "checkout"
    copy.mkdir()
    for name in {relative(path).partition("/")[0] for path in tracked()}:
        (copy / name).symlink_to(ROOT / name)
    return copy


@pytest.mark.parametrize("command", commands(), ids=lambda c: f"{c.document}: {c.text}")
def test_documented_command_runs(command: Command, tmp_path: Path):
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.text],
        cwd=checkout(tmp_path), env=environment(tmp_path), capture_output=True, text=True, timeout=_COMMAND_LIMIT_S,
    )  # fmt: skip
    said = f"{command.document}: {command.text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert (done.returncode != 0) == command.fails, said
    # What goes to stderr stands before what goes to stdout, as in a terminal: results are printed last.
    assert not_shown(command.output, done.stderr + done.stdout) == [], said


def commands_of_readme_table() -> list[str]:
    """Those of "What to run" that name no file or folder of the reader's and end by themselves."""
    section = (ROOT / "README.md").read_text().partition("## What to run\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    named = [text for row in rows for text in re.findall(r"`(opentrn [^`]+)`", row)]
    endless = re.compile(r"^opentrn (serve|generate|kubernetes device-plugin)\b")
    of_reader = re.compile(r"\b[\w*.]+\.(py|onnx|csv|json|mlir|html)\b|\bDIR\b")
    return [text for text in named if not endless.match(text) and not of_reader.search(text)]


def test_the_table_of_the_readme_has_commands() -> None:
    assert len(commands_of_readme_table()) >= 8


@pytest.mark.parametrize("text", commands_of_readme_table())
def test_commands_in_the_table_of_the_readme_run(text: str, tmp_path: Path):
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=_COMMAND_LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize(("document", "package", "program", "output"), python_blocks())
def test_documented_program_runs(document: str, package: str, program: str, output: str, tmp_path: Path):
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    file = tmp_path / "program.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=checkout(tmp_path), env=environment(tmp_path), capture_output=True, text=True, timeout=_COMMAND_LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{document}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert not_shown(output.splitlines(), done.stdout) == [], f"{document}\n{done.stdout[-2000:]}"


@pytest.mark.parametrize(
    ("wanted", "line", "is_shown"),
    [
        ("predicted: 7.64 us on trn2", "predicted: 8.10 us on trn2", True),
        ("predicted: 7.64 us on trn2", "predicted: 17.64 us on trn2", False),
        ("at kernel.py:12 in k", "at kernel.py:13 in k", False),
        ("  a   b", "a b", True),
        ("output 0: float32 ...", "output 0: float32 [2, 2]  min 1.5", True),
        ("time 1.5 us, bound ...", "time 1.6 us, bound by DMA", True),
        ("time 1.5 us, bound ...", "time 9.6 us, bound by DMA", False),
        ("time 1.5 us", "time 1.5 us, bound by DMA", False),
    ],
)
def test_output_is_compared_with_what_documents_show(wanted: str, line: str, is_shown: bool):
    assert (not_shown([wanted], f"first\n{line}\n") == []) is is_shown


def test_every_shown_output_belongs_to_a_program():
    """A block of output that follows no program would be compared with nothing."""
    for path in documents():
        text = path.read_text()
        shown = sum(1 for *_, output in _PYTHON_BLOCK.findall(text) if output)
        assert text.count("```text output") == shown, relative(path)


def test_lines_of_documents_are_short():
    """Tables and links cannot be broken; nor is what a program prints."""
    long = []
    for path in tracked("*.md"):
        in_block = False
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            in_block ^= line.startswith("```")
            cannot = in_block or line.startswith("|") or re.fullmatch(r"\S*\s*\S{80,}", line)
            if len(line) > _COLUMNS and not cannot:
                long.append(f"{relative(path)}:{number}")
    assert long == []


def test_documented_commands_need_nothing_that_the_documents_do_not_define():
    """A reader copies them: `set -u` of the runs above knows the variables of CI, the reader's shell does not."""
    named = [f"{each.document}: {each.text}" for each in commands() if re.search(r"\$\w|\$\{", each.text)]
    assert named == []


def test_readme_puts_the_commands_on_the_path_first():
    text = (ROOT / "README.md").read_text()
    activate, first = text.find("$ . .venv/bin/activate"), text.find("```console run")
    assert 0 <= activate < first


def test_every_documented_opentrn_command_is_run():
    """A block that shows `opentrn ...` is tagged `console run`, or `console fails` where it fails on purpose."""
    untested = []
    for path in documents():
        for tag, block in re.findall(r"^```([^\n]*)\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL):
            shown = [line for line in block.splitlines() if re.match(r"(\$ )?opentrn ", line)]
            if shown and tag not in ("console run", "console fails"):
                untested.append(f"{relative(path)}: {shown[0]}")
    assert untested == []


def test_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text()
    assert "./dev demo" in text
    assert "./dev test" in text


def test_documented_dev_commands_exist():
    """Every `./dev <command>` of the documents is one that ./dev knows."""
    done = subprocess.run([str(ROOT / "dev"), "--help"], capture_output=True, text=True, check=True)
    known = set(re.findall(r"^    ([a-z]+)", done.stdout, re.MULTILINE))
    used = {
        word
        for path in documents()
        for word in re.findall(r"(?<![\w`/])\./dev ([a-z]+)|`\./dev ([a-z]+)", path.read_text())
        for word in word
        if word
    }
    assert used - known == set()


def test_the_page_of_assumptions_is_that_of_the_sources():
    from devtool import assumptions

    assert assumptions.PAGE.read_text() == assumptions.page(), "run ./dev assumptions"
    assert sum(map(len, assumptions.found().values())) > 20


def test_the_page_of_what_there_is_is_that_of_the_sources():
    from devtool import status

    assert status.PAGE.read_text() == status.page(), "run ./dev status"


def test_the_page_of_what_there_is_misses_nothing():
    """It reads tables with regular expressions: each is compared with a count that another one gives."""
    from devtool import status

    defined = (ROOT / "src/graph/op_definitions.cc").read_text().count("{OpKind::")
    assert len(status.ops()) == defined - 1  # without func.call
    headers = "".join(path.read_text() for path in (ROOT / "src/isa/instructions").glob("*.h"))
    assert len(status.instructions()) == len(re.findall(r"\bX\(k\w+, \w+, \d+\)", headers))
    taken, refused = status.onnx_rows()
    rows = re.findall(r'^    \{"([^"]*)", "(\w+)"', (ROOT / "src/import/onnx/op_table.cc").read_text(), re.MULTILINE)
    assert len(taken) + sum(map(len, refused.values())) == len(set(rows))
    assert {"run", "ls", "replay", "serve"} <= set(status.commands()) and ("llama", "torch") in status.models()
    assert "sort" in status.aten_rules()["scans"]
    written = {name for names in status.aten_rules().values() for name in names}
    named = {name if name.startswith("prims.") else name.partition(".")[0] for name in _core.aten.rules()}
    assert named <= written


def test_relative_links_lead_to_files():
    broken = []
    for path in documents():
        for target in _LINK.findall(path.read_text()):
            if (
                "://" not in target
                and not target.startswith("mailto:")
                and not (path.parent / target).exists()
            ):
                broken.append(f"{relative(path)}: {target}")
    assert broken == []


def anchors(text: str) -> set[str]:
    """What links into a document may name, as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).lower() for heading in headings]
    made = {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}
    return made | set(re.findall(r'<a id="([^"]+)"', text))


def test_links_into_documents_lead_to_headings():
    broken = []
    for path in documents():
        for target, anchor in re.findall(r"\[[^\]]*\]\(([^)#\s]*)#([^)]+)\)", path.read_text()):
            other = path.parent / target if target else path
            if other.suffix == ".md" and "://" not in target and anchor not in anchors(other.read_text()):
                broken.append(f"{relative(path)}: {target}#{anchor}")
    assert broken == []


def test_every_variable_of_the_environment_is_documented():
    """What the code reads under a quoted name, of OpenTrn's variables and AWS's."""
    name = re.compile(r'"((?:OPENTRN|NEURON|NKI)_[A-Z0-9_]+)"')
    sources = [
        path for path in tracked("src/*.cc", "src/*.h", "python/opentrn/*.py") if "_test." not in path.name
    ]
    read = {each for path in sources for each in name.findall(path.read_text())}
    told = "".join(path.read_text() for path in documents())
    assert len(read) > 20 and sorted(each for each in read if not re.search(rf"`\$?{each}", told)) == []


def test_every_documented_variable_is_read():
    """A variable of OpenTrn's that a page names is read by code; what changed (CHANGELOG) may be gone."""
    every = tracked(
        "src/*.cc", "src/*.h", "python/opentrn/*.py", "tools/*.py", "tests/*.py", "conformance/*.py"
    )
    sources = [path for path in every if "_test." not in path.name]
    named = re.compile(r'(?:"|#define )(OPENTRN_[A-Z0-9_]+)')  # pages name macros of custom operators, too
    read = {each for path in sources for each in named.findall(path.read_text())}
    told = {
        each for path in documents() if path.name != "CHANGELOG.md"
        for each in re.findall(r"`[^`]*?\b(OPENTRN_[A-Z0-9_]+)", path.read_text())
    }  # fmt: skip
    assert len(told) > 20 and sorted(told - read) == []


def test_the_tests_that_findings_name_exist():
    """`T/path.py::name` (a name alone is of the file before it), and `src/x_test.cc` with Suite.Name behind it."""
    text, found, file = (ROOT / "docs" / "findings.md").read_text(), 0, ""
    missing = []
    for path, name in re.findall(r"`((?:T|src)/[\w/.*]+)?(?:::(\w+))?`", text):
        file = path.replace("T/", "tests/", 1) if path.startswith("T/") else path or file
        matches = list(ROOT.glob(file))
        if not matches or (name and not re.search(rf"(?:def|class) {name}\b", matches[0].read_text())):
            missing.append(f"{file}::{name}")
        found += 1
    native = "".join(path.read_text() for path in tracked("src/*_test.cc"))
    for suite, name in re.findall(r"\b([A-Z]\w+)\.([A-Z]\w{5,}|\*)", re.sub(r"`[^`]*`|\([^)]*\)", "", text)):
        if not re.search(rf"TEST(?:_F|_P)?\({suite}, {name.replace('*', '.+')}\)", native):
            missing.append(f"{suite}.{name}")
        found += 1
    assert found > 60 and missing == []


def test_paths_named_in_the_guide_exist():
    """The reading guide and the recipes name files; each must be there."""
    missing = []
    for path in tracked("docs/reading_guide.md", "docs/recipes/*.md"):
        for name in re.findall(
            r"`((?:src|python|tests|tools|docs|examples|cmake|conformance|fidelity|benchmarks)/[\w./-]+)`",
            path.read_text(),
        ):
            if not (ROOT / name).exists():
                missing.append(f"{relative(path)}: {name}")
    assert missing == []


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ('{"nc_matmul.C3",', ("errors.md", "recipes/add_a_constraint.md", "recipes/add_an_instruction.md")),
        ("Parameter kDmaCopyParameters[]", ("recipes/add_an_instruction.md",)),
    ],
    ids=["labels", "signatures"],
)
def test_documents_name_the_table_that_holds(text: str, documents: tuple[str, ...]):
    sources = [path for path in tracked("src/*.cc") if not path.stem.endswith("_test")]
    (table,) = [relative(path) for path in sources if text in path.read_text()]
    folder = table.rpartition("/")[0]  # of the families' files, in which every instruction has its rows
    assert [name for name in documents if f"`{folder}" not in (ROOT / "docs" / name).read_text()] == []


def test_the_guide_names_every_folder_of_sources():
    text = (ROOT / "docs" / "reading_guide.md").read_text()
    folders = [relative(path.parent) for path in tracked("src/*/CMakeLists.txt", "src/CMakeLists.txt")]
    assert [folder for folder in folders if f"`{folder}`" not in text] == []


@pytest.mark.parametrize("path", tracked("docs/decisions/[0-9]*.md"), ids=lambda p: p.stem)
def test_decision_record_has_all_fields(path: Path):
    assert re.match(r"\d{4}-[a-z0-9-]+$", path.stem), "name it NNNN-short-title.md"
    text = path.read_text()
    assert text.startswith(f"# {path.stem[:4]} ")
    assert [field for field in _DECISION_FIELDS if f"**{field}:**" not in text] == []


def test_decision_numbers_are_unique():
    numbers = [path.stem[:4] for path in tracked("docs/decisions/[0-9]*.md")]
    assert sorted(numbers) == sorted(set(numbers))


def test_the_keys_of_a_profile_are_documented(tmp_path: Path):
    profile = tmp_path / "profile.json"
    command = f"opentrn profile examples/04_attention.py --no-execute --json {profile}"
    subprocess.run(command.split(), cwd=ROOT, env=environment(tmp_path), check=True, capture_output=True)
    data = json.loads(profile.read_text())
    text = (ROOT / "docs" / "profiling.md").read_text()
    wanted = set(data)
    for table in ("engines", "stalls", "lines", "waits", "opcodes"):
        wanted |= set(data[table][0])
    assert sorted(key for key in wanted if not re.search(rf"`{key}[`.\[]", text)) == []
