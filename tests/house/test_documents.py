"""Rules about the documents: commands run, links lead somewhere, decision records are complete."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from house import ROOT, relative, tracked

_RUN_BLOCK = re.compile(r"^```console run\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PYTHON_BLOCK = re.compile(r"^```python run\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
_DECISION_FIELDS = ("Status", "Date", "Question", "Decision", "Why", "Instead of", "Cost")
_COMMAND_LIMIT_S = 240


def documents() -> list[Path]:
    return tracked("README.md", "docs/*.md", "examples/*.md")


def commands() -> list[tuple[str, str]]:
    """(document, command) of every fenced block tagged `console run`: lines that start with `$ `."""
    found = []
    for path in documents():
        for block in _RUN_BLOCK.findall(path.read_text()):
            found += [(relative(path), line[2:]) for line in block.splitlines() if line.startswith("$ ")]
    return found


def python_blocks() -> list[tuple[str, str]]:
    """(document, program) of every fenced block tagged `python run`."""
    return [
        (relative(path), block) for path in documents() for block in _PYTHON_BLOCK.findall(path.read_text())
    ]


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
    return dict(os.environ, PATH=path, PYTHONPATH=python_path, OPENTRN_CACHE=cache)


def checkout(folder: Path) -> Path:
    """A folder that has what the checkout has and may be written to: what commands write stays out of that."""
    copy = folder / "checkout"
    copy.mkdir()
    for name in {relative(path).partition("/")[0] for path in tracked()}:
        (copy / name).symlink_to(ROOT / name)
    return copy


@pytest.mark.parametrize(("document", "command"), commands())
def test_documented_command_runs(document: str, command: str, tmp_path: Path):
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=checkout(tmp_path), env=environment(tmp_path), capture_output=True, text=True, timeout=_COMMAND_LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{document}: {command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize(("document", "program"), python_blocks())
def test_documented_program_runs(document: str, program: str, tmp_path: Path):
    file = tmp_path / "program.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, timeout=_COMMAND_LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{document}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_documented_commands_need_nothing_that_the_documents_do_not_define():
    """A reader copies them: `set -u` of the runs above knows the variables of CI, the reader's shell does not."""
    named = [f"{document}: {command}" for document, command in commands() if re.search(r"\$\w|\$\{", command)]
    assert named == []


def test_readme_puts_the_commands_on_the_path_first():
    text = (ROOT / "README.md").read_text()
    activate, first = text.find("$ . .venv/bin/activate"), text.find("```console run")
    assert 0 <= activate < first


def test_every_documented_opentrn_command_is_run():
    """A block that shows `opentrn ...` is tagged `console run`; `text` is for output that fails on purpose."""
    untested = []
    for path in documents():
        for tag, block in re.findall(r"^```([^\n]*)\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL):
            shown = [line for line in block.splitlines() if re.match(r"(\$ )?opentrn ", line)]
            if shown and tag not in ("console run", "text"):
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
        ("Parameter kDmaCopy[]", ("recipes/add_an_instruction.md",)),
    ],
    ids=["labels", "signatures"],
)
def test_documents_name_the_table_that_holds(text: str, documents: tuple[str, ...]):
    sources = [path for path in tracked("src/*.cc") if not path.stem.endswith("_test")]
    (table,) = [relative(path) for path in sources if text in path.read_text()]
    assert [name for name in documents if f"`{table}`" not in (ROOT / "docs" / name).read_text()] == []


def test_the_guide_names_every_folder_of_sources():
    text = (ROOT / "docs" / "reading_guide.md").read_text()
    folders = [relative(path.parent) for path in tracked("src/*/CMakeLists.txt", "src/CMakeLists.txt")]
    assert [folder for folder in folders if f"`{folder}`" not in text] == []


@pytest.mark.parametrize("path", tracked("docs/decisions/*.md"), ids=lambda p: p.stem)
def test_decision_record_has_all_fields(path: Path):
    assert re.match(r"\d{4}-[a-z0-9-]+$", path.stem), "name it NNNN-short-title.md"
    text = path.read_text()
    assert text.startswith(f"# {path.stem[:4]} ")
    assert [field for field in _DECISION_FIELDS if f"**{field}:**" not in text] == []


def test_decision_numbers_are_unique():
    numbers = [path.stem[:4] for path in tracked("docs/decisions/*.md")]
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
