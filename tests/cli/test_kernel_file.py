"""Kernel files that are not what they should be: the user's fault, with the place, and never a bug of OpenTrn's."""

from __future__ import annotations

from pathlib import Path

import pytest

from opentrn.cli import commands as cli
from opentrn.cli import kernel_file

COPY = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out
"""


def run(capsys, *words: object) -> tuple[int, str, str]:
    code = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_file_that_does_not_parse_is_shown_as_python_shows_it(capsys, tmp_path):
    (tmp_path / "unparsed.py").write_text("import nki\n\ndef f(x)\n    return x\n")
    code, _, err = run(capsys, "run", tmp_path / "unparsed.py")
    assert code == cli.PROGRAM
    assert f"at {tmp_path / 'unparsed.py'}:3\n" in err and "def f(x)\n" in err and "    ^\n" in err
    assert "Traceback" not in err and "bug" not in err


def test_the_same_of_a_file_that_it_imports(capsys, tmp_path):
    (tmp_path / "unparsed_helper.py").write_text("x = (\n")
    (tmp_path / "imports_unparsed.py").write_text("import unparsed_helper\n")
    code, _, err = run(capsys, "run", tmp_path / "imports_unparsed.py")
    assert code == cli.PROGRAM and "unparsed_helper.py:1" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (".", "", ". is a folder\n    try: a kernel is FILE.py:NAME; files of models end in .onnx"),
        ("", "", "'' is neither a .py file nor an importable module"),
        ("README.md", "", "language models (.gguf, folders with config.json) are for `opentrn generate`"),
        ("{file}:nl", "", "is a module, not a kernel\n    try: its kernels: copy"),
        ("{file}", "INPUTS = [1, 2]", "INPUTS of the kernel's file is a list"),
        ("{file}", "INPUTS = {'copy': '4x4'}", "INPUTS['copy'] of the kernel's file is a str"),
        ("{file}", "def example_inputs(name): return [1]", "example_inputs('copy') of the kernel's file is"),
    ],
)
def test_what_is_no_kernel_or_no_inputs_is_named(capsys, tmp_path, name, text, message):
    file = tmp_path / "not_so.py"
    file.write_text(COPY + text + "\n")
    code, _, err = run(capsys, "run", name.format(file=file))
    assert code == cli.INPUT and message in err and "Traceback" not in err


@pytest.mark.parametrize("name", ["json.py", "statistics.py"])
def test_a_file_may_be_named_as_a_module_of_pythons(capsys, tmp_path: Path, name):
    (tmp_path / name).write_text(COPY)
    code, _, err = run(capsys, "run", tmp_path / name, "-i", "x=4x4", "--json")
    assert code == 0, err
    import json
    import statistics

    assert json.loads("1") == 1 and statistics.mean([1, 3]) == 2
    kernel, _ = kernel_file.load_kernel(f"{tmp_path / name}:copy")
    assert kernel.__name__ == "copy"
