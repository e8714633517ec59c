"""A command of the program is two files: itself, and its row in src/cli/commands.def (decision 0101)."""

from __future__ import annotations

import ast
import ctypes
import re
import subprocess
import sys

import pytest
from house import ROOT, relative, tracked

from opentrn import _core
from opentrn.cli import dispatch

TABLE = "src/cli/commands.def"
CPP = re.findall(r"^OPENTRN_CPP_COMMAND\((\w+), \"([\w-]+)\"", (ROOT / TABLE).read_text(), re.M)


def _sources() -> dict[str, str]:
    """Text of what the program is built from, without its tests: x_test.cc beside x.cc."""
    cpp = ("src/cli/*.cc", "src/cli/*.h", "src/cli/CMakeLists.txt", "src/python/*.cc")
    paths = tracked(*cpp, "python/opentrn/cli/*.py")
    tests = {path.with_name(f"{path.stem}_test.cc") for path in paths}
    return {relative(path): path.read_text() for path in paths if path not in tests}


@pytest.mark.parametrize(("stem", "name"), CPP)
def test_a_command_of_cpp_is_its_file_and_its_row(stem: str, name: str) -> None:
    texts = _sources()
    naming = {path for path, text in texts.items() if re.search(rf"\badd_{stem}\(|\b{stem}\.cc\b", text)}
    assert naming == {f"src/cli/{stem}.cc"}  # and the table, which has the stem alone
    assert f'add_subcommand("{name}"' in re.sub(r"\(\s+", "(", texts[f"src/cli/{stem}.cc"])


def _added_in_python() -> dict[str, set[str]]:
    """Command -> the modules that add a parser for it."""
    found: dict[str, set[str]] = {}
    for path in tracked("python/opentrn/cli/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "commands.add_parser":
                continue
            if isinstance(node.args[0], ast.Constant):
                found.setdefault(node.args[0].value, set()).add(relative(path))
    return found


def test_a_command_of_python_is_its_module_and_its_row() -> None:
    rows = {row.name: row for row in dispatch.table().values() if row.entry and not row.passed_on}
    module = {name: row.entry.partition(":")[0].replace(".", "/") + ".py" for name, row in rows.items()}
    assert _added_in_python() == {name: {f"python/{path}"} for name, path in module.items()}


def test_every_row_has_its_function() -> None:
    assert [name for _, name in CPP] == [row.name for row in dispatch.table().values() if not row.entry]
    for row in dispatch.table().values():
        assert not row.entry or callable(row.function()), row


def test_no_second_program_has_the_name() -> None:
    for path in tracked("*CMakeLists.txt"):
        assert not re.search(r"add_executable\(\s*opentrn\s", path.read_text()), path


def test_a_command_of_cpp_imports_nothing_that_it_does_not_need() -> None:
    """`opentrn._cli` is the library of `opentrn._core` with its commands alone, whose types take long to register."""
    asked = "import sys; from opentrn.cli import main; code = main(['describe', 'trn2']); print(*sys.modules)"
    command = [sys.executable, "-c", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT / "python")
    modules = done.stdout.splitlines()[-1].split()
    assert "opentrn._cli" in modules
    unneeded = {
        "opentrn._core",
        "numpy",
        "argparse",
        "signal",
        "enum",
        "threading",
        "typing",
        "re",
        "opentrn.cli.commands",
    }
    assert not unneeded & set(modules)


def test_both_modules_of_the_library_work_in_one_process() -> None:
    """A command of C++ first, then the whole core; and a refusal is an exception of Python in both."""
    asked = """
from opentrn.cli import core, dispatch
cli = core.module()
assert cli.__name__ == "opentrn._cli" and core.module() is cli
assert dispatch.main(["describe", "trn2"]) == 0
from opentrn import _core
from opentrn.errors import InputError
assert core.module() is _core and cli.cli_commands() == _core.cli_commands()
for module in (cli, _core):
    try:
        module.ask_cli(["ls", "--bad"])
    except InputError:
        print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT / "python"
    )
    assert done.stdout.splitlines()[-2:] == ["refused", "refused"]


def test_the_loader_binds_no_function_of_the_core_by_name() -> None:
    library = ctypes.PyDLL(_core.__file__)
    assert hasattr(library, "PyInit__core") and hasattr(library, "PyInit__cli")
    # It would look for thousands at every start.
    assert not hasattr(library, "_ZN7opentrn4arch14default_tablesEv")
